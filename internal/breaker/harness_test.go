package breaker_test

import (
	"math"
	"testing"
	"time"

	. "plimsoll/internal/breaker"
)

const (
	ms     = int64(time.Millisecond)
	second = int64(time.Second)
	never  = math.MaxUint64 // a random number that is admitted by no share below 1
	always = 0
)

// rig is a breaker with a clock and what it has reported.
type rig struct {
	*testing.T
	*Breaker
	now      int64
	reported []Transition
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	r := &rig{T: t, now: 1000 * second}
	o.OnTransition = func(tr Transition) { r.reported = append(r.reported, tr) }
	b, err := New(o, r.now)
	if err != nil {
		t.Fatal(err)
	}
	r.Breaker = b
	return r
}

func (r *rig) pass(d time.Duration) { r.now += int64(d) }

// admit asks for a ticket and requires it to be of that kind.
func (r *rig) admit(want Kind) Ticket {
	r.Helper()
	t := r.Allow(r.now, never)
	if t.Kind != want {
		r.Fatalf("at %v: Allow gives kind %d, want %d (%+v)",
			time.Duration(r.now), t.Kind, want, r.State(r.now))
	}
	return t
}

func (r *rig) done(t Ticket, o Outcome) { r.Done(r.now, t, o, ms, 0) }

// calls makes n calls that are admitted as kind and end as o.
func (r *rig) calls(n int, kind Kind, o Outcome) {
	r.Helper()
	for range n {
		r.done(r.admit(kind), o)
	}
}

func (r *rig) is(want State) {
	r.Helper()
	if s := r.Breaker.State(r.now); s.State != want {
		r.Fatalf("at %v the state is %v, want %v", time.Duration(r.now), s.State, want)
	}
}

// last requires the last report to be that transition.
func (r *rig) last(from, to State, why Reason) Transition {
	r.Helper()
	if len(r.reported) == 0 {
		r.Fatalf("nothing was reported, want %v to %v", from, to)
	}
	tr := r.reported[len(r.reported)-1]
	if tr.From != from || tr.To != to || tr.Why != why || tr.At != r.now {
		r.Fatalf("reported %v to %v because of %v at %d, want %v to %v because of %v at %d",
			tr.From, tr.To, tr.Why, tr.At, from, to, why, r.now)
	}
	return tr
}

// ramped is a rig at the beginning of a ramp of ten steps of a second, from 10 %.
func ramped(t *testing.T, o Options) *rig {
	o.Trials, o.Ramp = 1, 10*time.Second
	r := newRig(t, o)
	r.calls(1, Normal, Success) // which proves nothing for the ramp
	r.Force(ForceOpen, r.now)
	r.Force(Automatic, r.now)
	r.calls(1, Trial, Success)
	r.last(HalfOpen, Ramping, TrialsSucceeded)
	return r
}
