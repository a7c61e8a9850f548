package probe

import "testing"

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
	f.process(process{pid: 20, parent: 1, name: "master", user: 100, cuser: 250, start: 100})
	if got := ended(s); got < .5-1e-9 || got > .5+1e-9 {
		t.Errorf("the master has started some: %v s, want 0.5", got)
	}
}
