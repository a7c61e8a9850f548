package breaker_test

import (
	"testing"
	"time"

	. "plimsoll/internal/breaker"
)

func TestOpensAfterFailuresInARow(t *testing.T) {
	r := newRig(t, Options{ConsecutiveFailures: 3})
	r.calls(2, Normal, Failure)
	r.calls(1, Normal, Success)
	r.calls(2, Normal, Failure)
	r.calls(5, Normal, Cancelled)
	r.is(Closed)
	r.pass(time.Hour) // a row has no time
	r.calls(1, Normal, Failure)
	tr := r.last(Closed, Open, ConsecutiveFailures)
	if tr.Consecutive != 3 || tr.After != 3600*second || len(r.reported) != 1 {
		t.Errorf("reported %+v in %d reports, want 3 failures after an hour, once", tr, len(r.reported))
	}
	r.admit(Refused)
}

func TestOpensByTheShareOfFailures(t *testing.T) {
	r := newRig(t, Options{FailureRatio: 0.4}) // 20 calls, in 5 s, open for 20 s
	r.calls(8, Normal, Failure)
	r.calls(11, Normal, Success)
	r.is(Closed) // 8 of 19 are too few calls
	r.calls(1, Normal, Success)
	r.is(Closed) // 8 of 20 is 40 % and not more
	r.calls(1, Normal, Failure)
	tr := r.last(Closed, Open, FailureRatio)
	if tr.Requests != 21 || tr.Failures != 9 || tr.Ratio != 9.0/21 {
		t.Errorf("reported %d of %d, want 9 of 21", tr.Failures, tr.Requests)
	}
	r.pass(20*time.Second - 1)
	r.admit(Refused)
	if got := r.RetryAfter(r.now); got != 1 {
		t.Errorf("RetryAfter is %d, want 1", got)
	}
	r.pass(1)
	r.admit(Trial)
	r.last(Open, HalfOpen, OpenTimeOver)
}

func TestTheTwentiethCallDecidesEvenWhenItSucceeds(t *testing.T) {
	r := newRig(t, Options{FailureRatio: 0.4, MinRequests: 20})
	r.calls(19, Normal, Failure)
	r.is(Closed)
	r.calls(1, Normal, Success)
	r.last(Closed, Open, FailureRatio)
}

func TestTheWindowSlides(t *testing.T) {
	r := newRig(t, Options{FailureRatio: 0.5, MinRequests: 10, Window: 10 * time.Second})
	r.calls(9, Normal, Failure)
	r.pass(10*time.Second - 1)
	if s := r.Breaker.State(r.now); s.Failures != 9 {
		t.Errorf("just before the window's end %d failures are in it, want 9", s.Failures)
	}
	r.pass(1)
	if s := r.Breaker.State(r.now); s.Failures != 0 {
		t.Errorf("at the window's end %d failures are in it, want none", s.Failures)
	}
	r.calls(9, Normal, Failure)
	r.is(Closed)
	r.calls(1, Normal, Failure)
	r.is(Open)
}

func TestOpensByTheShareOfSlowCalls(t *testing.T) {
	r := newRig(t, Options{SlowRatio: 0.5, SlowOver: time.Second, MinRequests: 4, Trials: 1})
	for _, latency := range []int64{second, second + 1, second + 1} {
		r.Done(r.now, r.admit(Normal), Success, latency, 0)
	}
	r.is(Closed)
	r.Done(r.now, r.admit(Normal), Success, 9*second, 0)
	tr := r.last(Closed, Open, SlowRatio)
	if tr.Slow != 3 || tr.Requests != 4 || tr.SlowRatio != 0.75 {
		t.Errorf("reported %d slow of %d, want 3 of 4", tr.Slow, tr.Requests)
	}
	r.pass(20 * time.Second)
	r.Done(r.now, r.admit(Trial), Success, second+1, 0)
	r.last(HalfOpen, Open, TrialFailed)
}

func TestHalfOpenGivesOnlySoManyTrials(t *testing.T) {
	r := newRig(t, Options{ConsecutiveFailures: 1, Trials: 2, Successes: 3})
	r.calls(1, Normal, Failure)
	r.pass(20 * time.Second)
	first, second := r.admit(Trial), r.admit(Trial)
	r.admit(Refused)
	r.done(first, Success)
	r.done(first, Success) // given back twice: counts once
	third := r.admit(Trial)
	r.admit(Refused)
	r.done(second, Success)
	r.is(HalfOpen)
	r.done(third, Success)
	if tr := r.last(HalfOpen, Closed, TrialsSucceeded); tr.TrialsSucceeded != 3 {
		t.Errorf("reported %d trials, want 3", tr.TrialsSucceeded)
	}
}

func TestACancelledCallLeavesNoTrace(t *testing.T) {
	r := newRig(t, Options{ConsecutiveFailures: 2, FailureRatio: 0.5, MinRequests: 2, Trials: 1})
	r.calls(1, Normal, Failure)
	before := r.Breaker.State(r.now)
	r.calls(100, Normal, Cancelled)
	if after := r.Breaker.State(r.now); after != before {
		t.Errorf("cancelled calls made %+v of %+v", after, before)
	}
	r.calls(1, Normal, Failure)
	r.pass(20 * time.Second)
	r.calls(10, Trial, Cancelled) // one slot, free again each time
	if s := r.Breaker.State(r.now); s.State != HalfOpen || s.TrialsUnderWay != 0 || s.TrialsSucceeded != 0 {
		t.Errorf("cancelled trials left %+v", s)
	}
	r.calls(1, Trial, Success)
	r.is(Closed)
}

func TestALateEndCountsForNothing(t *testing.T) {
	r := newRig(t, Options{ConsecutiveFailures: 1, Trials: 2, OpenFor: time.Second})
	old := r.admit(Normal)
	r.calls(1, Normal, Failure)
	r.pass(time.Second)
	late, fails := r.admit(Trial), r.admit(Trial)
	r.done(fails, Failure)
	r.last(HalfOpen, Open, TrialFailed)
	r.done(late, Success)
	r.pass(time.Second)
	r.calls(1, Trial, Success)
	r.done(late, Failure)
	r.done(old, Failure)
	r.is(HalfOpen)
	r.calls(1, Trial, Success)
	r.is(Closed)
	r.done(late, Failure)
	r.done(old, Failure)
	r.is(Closed)
}

func TestALostTrialLosesItsSlot(t *testing.T) {
	r := newRig(t, Options{ConsecutiveFailures: 1, Trials: 1, TrialFor: 5 * time.Second})
	r.calls(1, Normal, Failure)
	r.pass(20 * time.Second)
	lost := r.admit(Trial)
	r.pass(5*time.Second - 1)
	r.admit(Refused)
	if got := r.RetryAfter(r.now); got != 1 {
		t.Errorf("RetryAfter is %d, want 1", got)
	}
	r.pass(1)
	found := r.admit(Trial)
	r.done(lost, Failure)
	r.is(HalfOpen)
	r.admit(Refused) // the lost one's end has not freed the other's slot
	r.done(found, Success)
	r.is(Closed)
}

func TestTheRampAdmitsARisingShare(t *testing.T) {
	r := ramped(t, Options{ConsecutiveFailures: 5})
	share := func(percent float64) uint64 { return uint64(percent/100*(1<<53)) << 11 }
	for step := range 10 {
		r.calls(1, Normal, Success) // one a step whatever the share
		r.admit(Refused)
		want := 10 + 9*float64(step)
		if r.Allow(r.now, share(want-0.01)).Kind != Normal || r.Allow(r.now, share(want+0.01)).Kind != Refused {
			t.Fatalf("in step %d the share is %v, want %v %%", step, r.Breaker.State(r.now).Share, want)
		}
		r.pass(time.Second - 1)
		r.admit(Refused)
		r.is(Ramping)
		r.pass(1)
	}
	r.admit(Normal)
	if tr := r.last(Ramping, Closed, RampOver); tr.After != 10*second {
		t.Errorf("the ramp took %v, want 10 s", time.Duration(tr.After))
	}
	r.admit(Normal)
}

func TestTheRampWaitsForASuccess(t *testing.T) {
	r := ramped(t, Options{ConsecutiveFailures: 5})
	for range 4 { // calls that hang, or fail
		r.done(r.admit(Normal), Failure)
		r.admit(Refused)
		r.pass(time.Second)
	}
	if s := r.Breaker.State(r.now); s.Share != 0.1 {
		t.Errorf("without a success the share is %v, want 0.1", s.Share)
	}
	r.calls(1, Normal, Success)
	if s := r.Breaker.State(r.now); s.Share < 0.18 || s.Share > 0.2 {
		t.Errorf("after the first success the share is %v, want 0.19", s.Share)
	}
}

func TestFewerCallsJudgeARamp(t *testing.T) {
	o := Options{FailureRatio: 0.4, MinRequests: 30, Trials: 3, Ramp: 10 * time.Second}
	r := newRig(t, o)
	r.Force(ForceOpen, r.now)
	r.Force(Automatic, r.now)
	r.calls(3, Trial, Success)
	for _, out := range []Outcome{Success, Failure} {
		r.done(r.Allow(r.now, always), out)
	}
	r.is(Ramping)
	r.done(r.Allow(r.now, always), Failure)
	r.last(Ramping, Open, FailureRatio)
}

func TestTheOperatorDecides(t *testing.T) {
	r := newRig(t, Options{ConsecutiveFailures: 1})
	r.Force(ForceClosed, r.now)
	r.last(Closed, ForcedClosed, Operator)
	r.calls(10, Normal, Failure)
	r.is(ForcedClosed)
	r.Force(ForceOpen, r.now)
	r.Force(ForceOpen, r.now)
	r.last(ForcedClosed, ForcedOpen, Operator)
	r.pass(time.Hour)
	r.admit(Refused)
	if got := r.RetryAfter(r.now); got != 20*second {
		t.Errorf("RetryAfter is %v, want the open time", time.Duration(got))
	}
	r.Force(Automatic, r.now)
	r.last(ForcedOpen, HalfOpen, Operator)
	r.calls(3, Trial, Success)
	r.Force(Automatic, r.now)
	r.last(HalfOpen, Closed, TrialsSucceeded)
	r.Force(ForceClosed, r.now)
	r.Force(Automatic, r.now)
	r.last(ForcedClosed, Closed, Operator)
	if len(r.reported) != 6 {
		t.Errorf("%d transitions were reported, want 6: what changes nothing is not one", len(r.reported))
	}
}

func TestInheritTakesOverEverything(t *testing.T) {
	o := Options{ConsecutiveFailures: 1, Trials: 1}
	old := newRig(t, o)
	old.calls(1, Normal, Failure)
	old.pass(20 * time.Second)
	trial := old.admit(Trial)

	heir := newRig(t, o)
	heir.now = old.now
	heir.Inherit(old.Breaker)
	heir.admit(Refused)
	heir.done(trial, Success)
	heir.last(HalfOpen, Closed, TrialsSucceeded)
	old.is(Closed)

	o.ConsecutiveFailures = 2
	stranger := newRig(t, o)
	heir.calls(1, Normal, Failure)
	stranger.Inherit(heir.Breaker)
	stranger.is(Closed)
}
