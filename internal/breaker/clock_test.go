//go:build !race

package breaker_test

import (
	"math"
	"testing"
	"time"

	. "plimsoll/internal/breaker"
)

// leaps are how far a clock is set, backwards and forwards.
var leaps = []time.Duration{
	-time.Millisecond, -time.Second, -time.Second - 1, -time.Minute, -1000 * time.Second,
	-300 * 24 * time.Hour,
	math.MinInt64 / 2, time.Minute, time.Hour, 300 * 24 * time.Hour, math.MaxInt64 / 2,
}

func TestAClockThatLeapsLocksNobodyOut(t *testing.T) {
	for _, leap := range leaps {
		r := newRig(t, Options{ConsecutiveFailures: 1, Trials: 1, TrialFor: 5 * time.Second})
		r.calls(1, Normal, Failure)
		r.pass(leap)
		r.Allow(r.now, never)
		r.pass(21 * time.Second)
		lost := r.Allow(r.now, never)
		if lost.Kind != Trial && r.Breaker.State(r.now).TrialsUnderWay == 0 {
			t.Errorf("%v: no trial 21 s after the leap", leap)
		}
		r.pass(leap)
		r.Allow(r.now, never)
		r.pass(6 * time.Second)
		trial := r.Allow(r.now, never)
		if trial.Kind != Trial && r.Breaker.State(r.now).TrialsUnderWay != 1 {
			t.Errorf("%v: no trial 6 s after the second leap", leap)
		}
		if trial.Kind != Trial {
			r.pass(5 * time.Second)
			trial = r.admit(Trial)
		}
		r.done(trial, Success)
		r.is(Closed)
	}
}

func TestAClockThatLeapsOpensNoGates(t *testing.T) {
	for _, leap := range leaps {
		r := newRig(t, Options{ConsecutiveFailures: 1, Trials: 2})
		r.calls(1, Normal, Failure)
		r.pass(leap)
		admitted := 0
		for range 100 {
			if r.Allow(r.now, always).Kind != Refused {
				admitted++
			}
		}
		if want := 2; leap > 0 && admitted != want || leap < 0 && admitted != 0 {
			t.Errorf("%v: an open breaker admits %d calls of 100", leap, admitted)
		}
	}
}

func TestARampClimbsOneStepALeap(t *testing.T) {
	for _, leap := range leaps {
		r := ramped(t, Options{ConsecutiveFailures: 5})
		r.calls(1, Normal, Success)
		r.pass(leap)
		for range 100 {
			r.Allow(r.now, never)
		}
		if s := r.Breaker.State(r.now); s.State != Ramping || s.Share > 0.2 {
			t.Errorf("%v: the state is %v with a share of %v, want at most one step more than 0.1",
				leap, s.State, s.Share)
		}
		for range 25 {
			r.pass(time.Second)
			if ticket := r.Allow(r.now, never); ticket.Kind == Normal {
				r.done(ticket, Success)
			}
		}
		r.is(Closed)
	}
}

// TestAWindowOutlivesALeap: the rules go on to work, whatever the clock did.
func TestAWindowOutlivesALeap(t *testing.T) {
	for _, leap := range leaps {
		for name, o := range map[string]Options{"ratio": {FailureRatio: 0.4}, "adaptive": {Adaptive: &Adaptive{}}} {
			r := newRig(t, o)
			r.calls(10_000, Normal, Success)
			r.pass(leap)
			r.calls(10, Normal, Success)
			for range 7 {
				r.pass(time.Second)
				for range 20 {
					r.done(r.Allow(r.now, never), Failure)
				}
			}
			if s := r.Breaker.State(r.now); s.State != Open {
				t.Errorf("%s, %v: after seven bad seconds the state is %v", name, leap, s.State)
			}
		}
	}
}
