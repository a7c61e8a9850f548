package record

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"plimsoll/internal/lab/disk"
	"plimsoll/internal/lab/measure"
)

// tight is a disk with room for so many bytes.
type tight struct {
	disk.Disk
	room *int
}

type tightFile struct {
	disk.File
	room *int
}

func (d tight) Create(name string) (disk.File, error) {
	if *d.room == 0 {
		return nil, syscall.ENOSPC
	}
	f, err := d.Disk.Create(name)
	return tightFile{f, d.room}, err
}

func (f tightFile) Write(p []byte) (int, error) {
	n := min(len(p), *f.room)
	*f.room -= n
	n, err := f.File.Write(p[:n])
	if err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

// What is written need not outlive the test.
func (tightFile) Sync() error       { return nil }
func (tight) Sync(dir string) error { return nil }

func aStep(number int) *measure.Step {
	var h measure.Histogram
	for i := range 5 {
		h.Record(int64(i * i * 1e6))
	}
	w := measure.Window{Length: 250e6, Response: h.Sparse(), Service: h.Sparse(), Lag: h.Sparse()}
	return &measure.Step{
		Plan:    measure.StepPlan{Number: number},
		Windows: []measure.Window{w},
		Samples: []measure.Sample{{At: 1, Values: map[string]float64{"host.cores": 2}}},
		Totals:  measure.Totals{Response: w.Response},
	}
}

// The disk becomes full at every place a run can be at, byte by byte, in strides that no file's
// length is a multiple of.
func TestADiskThatIsFullLeavesTheRunWholeUpToTheStepBefore(t *testing.T) {
	left := 1 << 20
	stepAt := func(room int) (whole int) {
		dir := filepath.Join(t.TempDir(), "run")
		d, err := disk.Claim(dir, "run directory", "name another")
		if err != nil {
			t.Fatal(err)
		}
		left = room
		w, err := create(tight{d, &left}, Manifest{Kind: "survey"})
		if err != nil {
			checkFull(t, err, room, "no run is begun")
			return -1
		}
		defer w.Close()
		for whole < 3 {
			if err := w.Step(aStep(whole + 1)); err != nil {
				checkFull(t, err, room, "whole up to step", "has no step yet")
				if again := w.Step(aStep(9)); again != err {
					t.Errorf("room %d: after a full disk a step was tried: %v", room, again)
				}
				break
			}
			whole++
		}
		left = max(left, 0)
		if err := w.Result(&Result{}); err != nil {
			checkFull(t, err, room, "result.json.tmp cannot be written")
		}
		r, err := Open(dir)
		if err != nil {
			t.Fatalf("room %d: %v", room, err)
		}
		if len(r.Steps) != whole {
			t.Errorf("room %d: %d steps were written and %d are read", room, whole, len(r.Steps))
		}
		if d := fmt.Sprint(r.Notes); strings.Contains(d, "while a step was written") {
			t.Errorf("room %d: something of a step is left: %s", room, d)
		}
		return whole
	}
	seen := make(map[int]bool)
	for room := 0; ; room += 331 {
		whole := stepAt(room)
		seen[whole] = true
		if whole == 3 && left > 4096 {
			break
		}
	}
	for whole := -1; whole <= 3; whole++ {
		if !seen[whole] {
			t.Errorf("the disk was never full after %d steps", whole)
		}
	}
}

func checkFull(t *testing.T, err error, room int, oneOf ...string) {
	t.Helper()
	text := err.Error()
	if !strings.Contains(text, "no space left on device") ||
		!strings.Contains(text, "cannot be written") || strings.Contains(text, "\n") {
		t.Errorf("room %d: %q", room, text)
	}
	for _, want := range oneOf {
		if strings.Contains(text, want) {
			return
		}
	}
	t.Errorf("room %d: %q says none of %q", room, text, oneOf)
}
