package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/lab/measure"
)

// took returns the processor times of other processes in a sample, by name.
func took(values map[string]float64) map[string]float64 {
	all := map[string]float64{}
	for name, seconds := range values {
		if of, is := strings.CutPrefix(name, measure.OthersCPU); is {
			all[of] = seconds
		}
	}
	return all
}

func TestOtherProcessesAreToldByWhatTheyUse(t *testing.T) {
	f := asking(t) // the target is 20 and its child 21; what it asks is 30 and 31
	s := New(Options{Root: f.root, PID: 20})
	o := othersOf(t, s)
	o.self = 50
	clock := time.Unix(1000, 0)
	o.now = func() time.Time { return clock }
	look := func() map[string]float64 {
		o.next = time.Time{}
		clock = clock.Add(time.Second)
		return took(s.Sample(0).Values)
	}
	put := func(ticks int) {
		for pid, name := range map[int]string{50: "plimsoll", 60: "compile", 70: "sleeper"} {
			used := ticks
			if name == "sleeper" {
				used = 5
			}
			f.process(process{pid: pid, parent: 1, name: name, user: used, system: used, start: 7})
		}
		f.process(process{pid: 51, parent: 50, name: "perf", user: ticks, start: 8})
		f.process(process{pid: 20, parent: 1, name: "shop", user: ticks, start: 5})
		f.process(process{pid: 21, parent: 20, name: "helper", user: ticks, start: 6})
	}
	put(100)
	if first := look(); len(first) != 0 {
		t.Errorf("one look does not tell what was used in between: %v", first)
	}
	put(150)
	f.process(process{pid: 80, parent: 60, name: "compile2", user: 30, start: 90})
	f.process(process{pid: 90, parent: 2, name: "kworker/0:1H-kblockd", system: 20, start: 91})
	f.process(process{pid: 91, parent: 2, name: "kworker/u8:2", system: 20, start: 92})
	if got := look(); fmt.Sprint(got) != "map[compile:1.3 kworker:0.4]" {
		t.Errorf("others used %v", got)
	}
	// A process with a reused number counts with all that it has used.
	f.process(process{pid: 80, parent: 1, name: "link", user: 10, start: 95})
	if got := look(); fmt.Sprint(got) != "map[compile:1.3 kworker:0.4 link:0.1]" {
		t.Errorf("others used %v", got)
	}
}

// A process that one look could not read counts as 0.
func TestAProcessThatOneLookHasMissedIsNotNew(t *testing.T) {
	f := asking(t)
	s := New(Options{Root: f.root, PID: 20})
	o := othersOf(t, s)
	look := func() map[string]float64 {
		o.next = time.Time{}
		return took(s.Sample(0).Values)
	}
	old := process{pid: 60, parent: 1, name: "old", user: 360_000, start: 7}
	f.process(old)
	f.process(process{pid: 70, parent: 1, name: "young", user: 1, start: 8})
	look()
	stat := filepath.Join(f.root, "60", "stat")
	if err := os.Remove(stat); err != nil {
		t.Fatal(err)
	}
	look()
	f.process(old)
	if got := look(); len(got) != 0 {
		t.Errorf("others used %v", got)
	}
	old.user += 100
	f.process(old)
	if got := look(); fmt.Sprint(got) != "map[old:1]" {
		t.Errorf("others used %v", got)
	}
	root := o.root
	o.root = filepath.Join(root, "none")
	look()
	o.root = root
	if got := look(); fmt.Sprint(got) != "map[old:1]" {
		t.Errorf("after a look that failed others used %v", got)
	}
}

func othersOf(t *testing.T, s *Sampler) *others {
	t.Helper()
	for _, source := range s.sources {
		if o, is := source.(*others); is {
			return o
		}
	}
	t.Fatal("others are not looked at")
	return nil
}
