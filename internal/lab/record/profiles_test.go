package record_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"plimsoll/internal/lab/record"
)

func TestProfilesLieBesideTheirStep(t *testing.T) {
	s := step(3, 1)
	s.Profiles = map[string][]byte{"cpu": []byte("profile")}
	dir := written(t, s)
	content, err := os.ReadFile(filepath.Join(dir, "steps", "0003", "cpu.pb.gz"))
	if err != nil || string(content) != "profile" {
		t.Errorf("%q, %v", content, err)
	}
	line, err := os.ReadFile(filepath.Join(dir, "steps.jsonl"))
	if err != nil || !bytes.Contains(line, []byte(`"cpu.pb.gz"`)) {
		t.Errorf("the step's line does not name its profile: %s %v", line, err)
	}
	r := open(t, dir)
	if content, err := r.Profile(3, "cpu"); err != nil || string(content) != "profile" {
		t.Errorf("%q, %v", content, err)
	}
	for _, none := range []struct {
		step int
		kind string
	}{{3, "heap"}, {4, "cpu"}} {
		if _, err := r.Profile(none.step, none.kind); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("there is no %s profile of step %d: %v", none.kind, none.step, err)
		}
	}
}

func TestAProfileThatARunDirectoryCannotHoldIsRefused(t *testing.T) {
	dir := written(t, step(1, 1))
	r := open(t, dir)
	for _, kind := range []string{"", "../../run", "cpu.pb", "CPU", strings.Repeat("a", 40)} {
		_, err := r.Profile(1, kind)
		wantError(t, err, "a name of small letters")
	}
	for _, number := range []int{-1, 10_000} {
		_, err := r.Profile(number, "cpu")
		wantError(t, err, "number is 0 to 9999")
	}
	w, err := record.Create(filepath.Join(t.TempDir(), "run"), manifest())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s := step(1, 1)
	s.Profiles = map[string][]byte{"cpu/../../x": []byte("profile")}
	wantError(t, w.Step(s), "small letters")
	s.Profiles = map[string][]byte{"cpu": make([]byte, 32<<20+1)}
	wantError(t, w.Step(s), "a run directory takes 33554432")
	s.Profiles = nil
	if err := w.Step(s); err != nil {
		t.Error("the writer gave up after a step that was refused:", err)
	}
}

func TestAProfilesFileIsReadWithinBounds(t *testing.T) {
	dir := written(t, step(1, 1))
	r := open(t, dir)
	name := filepath.Join(dir, "steps", "0001", "cpu.pb.gz")
	for what, c := range map[string]struct {
		make func() error
		want string
	}{
		"too large": {
			func() error {
				return errors.Join(os.WriteFile(name, nil, 0o644), os.Truncate(name, 1<<40))
			},
			"larger than 32 MiB",
		},
		"a named pipe":      {func() error { return syscall.Mkfifo(name, 0o644) }, "cannot be read"},
		"a link to outside": {func() error { return os.Symlink("/etc/passwd", name) }, "cannot be read"},
	} {
		if err := c.make(); err != nil {
			t.Fatal(err)
		}
		content, err := r.Profile(1, "cpu")
		if len(content) > 0 || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d bytes, %v", what, len(content), err)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}
