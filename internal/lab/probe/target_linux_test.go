package probe

import (
	"fmt"
	"testing"
)

// A worker that was seen is not a program which ends at once.
func TestWhatEndsBeforeItIsSeenIsToldApart(t *testing.T) {
	f := newFakeProc(t)
	ended := func(s *Sampler) float64 { return s.Sample(0).Values["target.cpu.ended_seconds"] }
	f.process(process{pid: 20, parent: 1, name: "master", user: 100, start: 100})
	f.process(process{pid: 21, parent: 20, name: "worker", user: 200, cuser: 30, start: 110})
	s := New(Options{Root: f.root, PID: 20})
	if got := ended(s); got != .3 {
		t.Errorf("the worker has started programs of %v s, want 0.3", got)
	}
	f.remove(21)
	f.process(process{pid: 20, parent: 1, name: "master", user: 100, cuser: 230, start: 100})
	if got := ended(s); got < .3-1e-9 || got > .3+1e-9 {
		t.Errorf("the worker has ended: %v s, want 0.3", got)
	}
	if got := s.Sample(0).Values["target.processes.ended.worker"]; got != 1 {
		t.Errorf("a worker has ended, and %v were seen to", got)
	}
	f.process(process{pid: 20, parent: 1, name: "master", user: 100, cuser: 250, start: 100})
	if got := ended(s); got < .5-1e-9 || got > .5+1e-9 {
		t.Errorf("the master has started some: %v s, want 0.5", got)
	}
}

// Nobody has the time of a process that was not waited for, and nobody that of its children.
func TestWhatNobodyWaitedForDoesNotTakeTimeAway(t *testing.T) {
	f := newFakeProc(t)
	ended := func(s *Sampler) float64 { return s.Sample(0).Values["target.cpu.ended_seconds"] }
	f.process(process{pid: 20, parent: 1, name: "master", user: 100, cuser: 40, start: 100})
	f.process(process{pid: 21, parent: 20, name: "worker", user: 200, cuser: 30, start: 110})
	s := New(Options{Root: f.root, PID: 20})
	before := ended(s)
	f.remove(21)
	if got := ended(s); before != .7 || got < before-1e-9 || got > before+1e-9 {
		t.Errorf("programs of %v s, and of %v s when a worker was gone, want 0.7 both times",
			before, got)
	}
	f.process(process{pid: 20, parent: 1, name: "master", user: 100, cuser: 60, start: 100})
	if got := ended(s); got < .9-1e-9 || got > .9+1e-9 {
		t.Errorf("programs of %v s when more had ended, want 0.9", got)
	}
}

func TestTheProcessorsOfTheWorkersCountAndNotThoseOfAnIdleMaster(t *testing.T) {
	f := newFakeProc(t)
	master := process{pid: 20, parent: 1, name: "nginx", user: 1, start: 100}
	one := process{pid: 21, parent: 20, name: "nginx", user: 300, start: 110}
	two := process{pid: 22, parent: 20, name: "nginx", user: 200, start: 110}
	may := func(p process, mask string) {
		f.process(p)
		f.write(fmt.Sprint(p.pid, "/status"), "Name:\tx\nCpus_allowed:\t"+mask+"\n")
	}
	for name, c := range map[string]struct {
		one, two string
		want     float64
	}{
		"both on the same one": {"00000000,00000002", "00000000,00000002", 1},
		"each on its own":      {"00000000,00000002", "00000001,00000000", 2},
		"unknown":              {"none", "none", 0},
	} {
		may(master, "0000000f,ffffffff")
		may(one, c.one)
		may(two, c.two)
		s := New(Options{Root: f.root, PID: 20})
		var allowed float64
		for range treeEvery + 1 { // who is busy is known at the next lookup
			allowed = s.Sample(0).Values["target.cores_allowed"]
		}
		if allowed != c.want {
			t.Errorf("%s: %v processors, want %v", name, allowed, c.want)
		}
	}
}
