package plainfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"plimsoll/internal/plainfile"
)

func TestARegularFileIsReadUpToWhatIsTaken(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	for _, size := range []int{0, 1, 999, 1000} {
		text := strings.Repeat("x", size)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := plainfile.Read(name, 1000); err != nil || string(got) != text {
			t.Errorf("of %d bytes: %d bytes, %v", size, len(got), err)
		}
	}
	if err := os.Truncate(name, 1<<40); err != nil { // it has holes, and takes no room
		t.Fatal(err)
	}
	if got, err := plainfile.Read(name, 1000); got != nil || !errors.Is(err, plainfile.ErrSize) {
		t.Errorf("of a file that is too large: %d bytes, %v", len(got), err)
	}
}

func TestWhatIsNotARegularFileIsRefusedAtOnce(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, pipe, "/dev/zero"} {
		_, err := plainfile.Read(name, 1000)
		path, ok := errors.AsType[*fs.PathError](err)
		if !ok || path.Path != name || !errors.Is(err, plainfile.ErrKind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := plainfile.Read(filepath.Join(dir, "none"), 1000); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
