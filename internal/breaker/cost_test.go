package breaker_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "plimsoll/internal/breaker"
)

// everyMode has all modes on and none that a test's calls break, unless they fail.
func everyMode() Options {
	return Options{
		ConsecutiveFailures: 5, FailureRatio: 0.4, SlowRatio: 0.5, SlowOver: time.Second,
		Adaptive: &Adaptive{}, OpenFor: time.Second, Ramp: time.Second, TrialFor: time.Second,
	}
}

func TestNoMethodAllocates(t *testing.T) {
	for name, o := range map[string]Options{"in a row": {ConsecutiveFailures: 5}, "every mode": everyMode()} {
		reports := 0
		o.OnTransition = func(Transition) { reports++ }
		b, err := New(o, 0)
		if err != nil {
			t.Fatal(err)
		}
		now := int64(0)
		// A run opens, tries, ramps and closes again, turns windows and obeys the operator.
		got := testing.AllocsPerRun(100, func() {
			for i := range 400 {
				now += 20 * ms
				out := Success
				if i < 5 {
					out = Failure
				}
				b.Done(now, b.Allow(now, uint64(i)<<58), out, 5*ms, 0.5)
				b.RetryAfter(now)
				b.State(now)
			}
			b.Force(ForceOpen, now)
			b.Force(Automatic, now)
		})
		if got != 0 {
			t.Errorf("%s: %v allocations a run, want none", name, got)
		}
		if reports < 300 {
			t.Errorf("%s: only %d transitions in 101 runs: the test does not reach them", name, reports)
		}
	}
}

// TestSeveralLoopsAtOnce is for the race detector, and checks what holds in any order: transitions
// follow from each other, each reported once, and no more trials are under way than may be.
func TestSeveralLoopsAtOnce(t *testing.T) {
	const trials = 3
	o := everyMode()
	o.Trials = trials
	o.OpenFor, o.Ramp = 5*time.Millisecond, 20*time.Millisecond
	var clock atomic.Int64
	var from State
	var generation uint32 = 1
	reports := 0
	o.OnTransition = func(tr Transition) { // one at a time: the race detector watches these variables
		if tr.From != from || tr.Generation < generation {
			t.Errorf("%v to %v in generation %d was reported after the state %v of generation %d",
				tr.From, tr.To, tr.Generation, from, generation)
		}
		from, generation = tr.To, tr.Generation
		reports++
	}
	b, err := New(o, 0)
	if err != nil {
		t.Fatal(err)
	}
	var loops sync.WaitGroup
	for loop := range 4 {
		loops.Go(func() {
			random := uint64(loop+1) * 0x9e3779b97f4a7c15
			for i := range 20_000 {
				now := clock.Add(20_000)
				random ^= random << 13
				random ^= random >> 7
				random ^= random << 17
				ticket := b.Allow(now, random)
				out := Success
				if i/1000%2 == 0 && random%4 != 0 {
					out = Outcome(random % 3)
				}
				if i%512 != 511 { // some are lost
					b.Done(now+int64(random%1000), ticket, out, int64(random%2_000_000_000), 0.3)
				}
				if s := b.State(now); s.TrialsUnderWay > trials {
					t.Errorf("%d trials are under way, more than %d", s.TrialsUnderWay, trials)
				}
				if i%4096 == 4095 {
					b.Force(Command(random%3), now)
				}
			}
		})
	}
	loops.Wait()
	b.Force(Automatic, clock.Load())
	if s := b.State(clock.Load()); s.State != from || s.Generation != generation {
		t.Errorf("the state is %v of generation %d, but %v of %d was reported last",
			s.State, s.Generation, from, generation)
	}
	if reports < 20 {
		t.Errorf("only %d transitions: the test does not reach them", reports)
	}
}

func BenchmarkCall(b *testing.B) {
	adaptive := Options{Adaptive: &Adaptive{}}
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"consecutive", Options{ConsecutiveFailures: 5}},
		{"ratio", Options{FailureRatio: 0.4}},
		{"adaptive", adaptive},
		{"every", everyMode()},
	} {
		br, err := New(c.o, 0)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name+"/allow", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				br.Allow(int64(i)*1000, uint64(i))
			}
		})
		b.Run(c.name+"/done", func(b *testing.B) {
			t := br.Allow(0, 0)
			for i := 0; b.Loop(); i++ {
				br.Done(int64(i)*1000, t, Success, 5*ms, 0.3)
			}
		})
	}
	br, err := New(everyMode(), 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("one atomic addition", func(b *testing.B) {
		var n atomic.Uint64
		for b.Loop() {
			n.Add(1)
		}
	})
	b.Run("every/open", func(b *testing.B) {
		br.Force(ForceOpen, 0)
		for b.Loop() {
			br.Allow(0, 0)
		}
	})
	b.Run("every/parallel", func(b *testing.B) {
		br.Force(ForceClosed, 0)
		br.Force(Automatic, 0)
		b.RunParallel(func(p *testing.PB) {
			for i := int64(0); p.Next(); i++ {
				br.Done(i*1000, br.Allow(i*1000, 0), Success, 5*ms, 0.3)
			}
		})
	})
}
