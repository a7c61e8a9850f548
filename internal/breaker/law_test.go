//go:build !race

package breaker_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	. "plimsoll/internal/breaker"
)

// serve makes the calls of one window of the adaptive mode, 100 of them, and ends the window with
// the first call of the next.
func (r *rig) serve(failures int, latency time.Duration, saturation float64) {
	for i := range 100 {
		out := Success
		if i < failures {
			out = Failure
		}
		r.Done(r.now, r.Allow(r.now, always), out, int64(latency), saturation)
	}
	r.pass(500 * time.Millisecond)
	r.Done(r.now, r.Allow(r.now, always), Success, int64(latency), saturation)
}

// heal goes through half-open and the ramp with a service that is well.
func (r *rig) heal() {
	r.Helper()
	for range 200 {
		if r.Breaker.State(r.now).State == Closed {
			return
		}
		r.pass(time.Second)
		if t := r.Allow(r.now, always); t.Kind != Refused {
			r.done(t, Success)
		}
	}
	r.Fatalf("not closed after 200 s: %+v", r.Breaker.State(r.now))
}

func (r *rig) near(what string, got, want, by float64) {
	r.Helper()
	if math.Abs(got-want) > by {
		r.Errorf("%s is %.4f, want %.4f", what, got, want)
	}
}

func TestTheScore(t *testing.T) {
	for _, c := range []struct {
		name                        string
		failures                    int
		latency                     time.Duration
		saturation                  float64
		lat, errors, satured, score float64
	}{
		{"healthy", 0, 100 * time.Millisecond, 0.5, 0, 0, 0, 0},
		{"slow", 0, 1000 * time.Millisecond, 0, 0.5, 0, 0, 1 - math.Pow(0.5, 0.3)},
		{"failing", 25, time.Millisecond, 0, 0, 0.5, 0, 1 - math.Pow(0.5, 0.2)},
		{"saturated", 0, time.Millisecond, 0.85, 0, 0, 0.5, 1 - math.Pow(0.5, 0.5)},
		{"all of it", 25, 1000 * time.Millisecond, 0.85, 0.5, 0.5, 0.5, 0.5},
		{"down", 60, time.Millisecond, 0, 0, 1, 0, 1},
		{"no number", 0, time.Millisecond, math.NaN(), 0, 0, 0, 0},
		{"more than all", 0, time.Millisecond, 7, 0, 0, 1, 1},
		{"time went backwards", 0, -time.Second, -1, 0, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Options{Adaptive: &Adaptive{Smoothing: 1, Threshold: 0.9, ThresholdMax: 0.9}})
			r.serve(c.failures, c.latency, c.saturation)
			s := r.Breaker.State(r.now)
			if s.State == Open {
				s = r.last(Closed, Open, Score).Status
			}
			r.near("latency", s.Latency, c.lat, 0.04)
			r.near("errors", s.Errors, c.errors, 0.001)
			r.near("saturation", s.Saturation, c.satured, 0.001)
			r.near("the score", s.Score, c.score, 0.02)
		})
	}
}

func TestOneWindowMovesASignalByTheSmoothing(t *testing.T) {
	r := newRig(t, Options{Adaptive: &Adaptive{}})
	r.serve(100, time.Millisecond, 0)
	r.near("errors after one window of failures", r.Breaker.State(r.now).Errors, 0.5, 0.01)
	r.is(Closed)
	r.serve(0, time.Millisecond, 0)
	r.near("errors after a good one", r.Breaker.State(r.now).Errors, 0.25, 0.01)
	r.serve(0, time.Millisecond, 0) // what the first window has counted is gone
	r.near("errors after another", r.Breaker.State(r.now).Errors, 0.125, 0.01)
}

func TestASingleCallSetsNoP99(t *testing.T) {
	r := newRig(t, Options{Adaptive: &Adaptive{Smoothing: 1, MinRequests: 10}})
	for i := range 10 {
		latency := ms
		if i == 3 {
			latency = 30 * second
		}
		r.Done(r.now, r.admit(Normal), Success, latency, 0)
	}
	r.pass(500 * time.Millisecond)
	r.calls(1, Normal, Success)
	if s := r.Breaker.State(r.now); s.State != Closed || s.Latency != 0 {
		t.Errorf("one call of ten made the latency signal %v, want 0", s.Latency)
	}
}

func TestAWindowWithFewCallsGoesOn(t *testing.T) {
	r := newRig(t, Options{Adaptive: &Adaptive{Smoothing: 1, MinRequests: 20}})
	r.calls(7, Normal, Failure)
	r.pass(time.Second)
	r.calls(7, Normal, Failure)
	r.pass(time.Second)
	r.calls(6, Normal, Failure)
	r.is(Closed)
	r.pass(500 * time.Millisecond)
	r.calls(1, Normal, Success)
	r.last(Closed, Open, Score)

	for _, leap := range leaps {
		r = newRig(t, Options{Adaptive: &Adaptive{Smoothing: 1, MinRequests: 20}})
		r.calls(2, Normal, Failure)
		r.pass(leap)
		for range 60 { // a call in 5 s: nothing is known
			r.calls(1, Normal, Failure)
			r.pass(5 * time.Second)
		}
		r.is(Closed)
	}
}

func TestATrialIsJudgedByTheLaw(t *testing.T) {
	for latency, want := range map[time.Duration]State{time.Second: Closed, 3 * time.Second: Open} {
		r := newRig(t, Options{Adaptive: &Adaptive{}, Trials: 1})
		r.Force(ForceOpen, r.now)
		r.Force(Automatic, r.now)
		r.Done(r.now, r.admit(Trial), Success, int64(latency), 0)
		if s := r.Breaker.State(r.now); s.State != want {
			t.Errorf("after a trial of %v the state is %v, want %v", latency, s.State, want)
		}
	}
}

// TestBothWindowsTurnApart: the ratios' slices and the adaptive window have ends of their own.
func TestBothWindowsTurnApart(t *testing.T) {
	r := newRig(t, Options{FailureRatio: 0.9, Window: 20 * time.Second, MinRequests: 1000, Adaptive: &Adaptive{}})
	for range 3 {
		r.calls(10, Normal, Success)
		r.pass(500 * time.Millisecond)
	}
	r.calls(1, Normal, Success)
	if s := r.Breaker.State(r.now); s.Requests != 31 {
		t.Errorf("the window holds %d calls, want 31", s.Requests)
	}
	r.calls(969, Normal, Failure)
	if tr := r.last(Closed, Open, FailureRatio); tr.Requests != 1000 {
		t.Errorf("opened with %d calls, want 1000", tr.Requests)
	}
}

func TestCallsOfTheRampCountWhenItIsOver(t *testing.T) {
	r := ramped(t, Options{ConsecutiveFailures: 1})
	under := r.admit(Normal)
	for r.Breaker.State(r.now).State != Closed {
		r.done(r.Allow(r.now, always), Success)
		r.pass(time.Second)
		r.Allow(r.now, never)
	}
	r.done(under, Failure)
	r.last(Closed, Open, ConsecutiveFailures)
}

// opens serves bad windows until the breaker opens, and gives their number.
func (r *rig) opens(failures int, latency time.Duration, saturation float64) int {
	for n := 1; n <= 20; n++ {
		r.serve(failures, latency, saturation)
		if r.Breaker.State(r.now).State == Open {
			return n
		}
	}
	return 0
}

func TestTheThresholdLearnsFromVerdicts(t *testing.T) {
	o := Options{Adaptive: &Adaptive{}, Trials: 1, OpenFor: time.Second, Ramp: time.Second}
	const latency, saturation = 2 * time.Second, 0.8 // a score of 0.46 when it lasts

	r := newRig(t, o)
	r.opens(0, latency, saturation)
	score := r.last(Closed, Open, Score).Score
	r.heal()
	r.near("the threshold after a wrong opening", r.last(Ramping, Closed, RampOver).Threshold,
		0.3+0.2*(0.6-0.3)*0.3/score, 1e-4)

	r = newRig(t, o)
	r.opens(0, latency, saturation)
	score = r.last(Closed, Open, Score).Score
	for range 5 { // one verdict, however often the trials fail
		r.pass(time.Second)
		r.calls(1, Trial, Failure)
	}
	want := 0.3 - 0.2*(0.3-0.2)*0.3/score
	r.near("the threshold after a right opening", r.Breaker.State(r.now).Threshold, want, 1e-4)
	r.heal()
	r.near("the threshold after the end of that outage", r.last(Ramping, Closed, RampOver).Threshold, want, 1e-3)
}

func TestOnlyWhatTheScoreOpenedIsJudged(t *testing.T) {
	o := Options{
		Adaptive: &Adaptive{}, ConsecutiveFailures: 5,
		Trials: 1, OpenFor: time.Second, Ramp: 10 * time.Second,
	}
	for name, scene := range map[string]func(r *rig){
		"failures in a row": func(r *rig) {
			r.calls(5, Normal, Failure)
			r.last(Closed, Open, ConsecutiveFailures)
		},
		"a ramp that the score broke off": func(r *rig) {
			r.calls(5, Normal, Failure)
			r.pass(time.Second)
			r.calls(1, Trial, Success)
			r.opens(0, 2*time.Second, 0.9)
			r.last(Ramping, Open, Score)
		},
		"the operator came between": func(r *rig) {
			r.opens(0, 2*time.Second, 0.9)
			r.last(Closed, Open, Score)
			r.Force(ForceOpen, r.now)
			r.Force(Automatic, r.now)
		},
	} {
		r := newRig(t, o)
		scene(r)
		r.heal()
		r.near("the threshold after "+name, r.last(Ramping, Closed, RampOver).Threshold, 0.3, 1e-9)
	}
}

// TestTheLawDoesNotChaseNoise: bursts that are over before a trial can see them open once or twice,
// and then the threshold is above them.
func TestTheLawDoesNotChaseNoise(t *testing.T) {
	openings := func(gain float64) (n int, threshold float64) {
		r := newRig(t, Options{Adaptive: &Adaptive{Gain: gain}, OpenFor: 5 * time.Second, Ramp: 5 * time.Second})
		luck := rand.New(rand.NewPCG(1, 2))
		for range 60 { // a burst a minute for an hour
			r.burst(4, time.Duration(1400+luck.IntN(300))*time.Millisecond, 0.75)
			r.heal()
			for range 80 {
				r.serve(0, time.Duration(luck.IntN(400))*time.Millisecond, 0.5*luck.Float64())
			}
		}
		for _, tr := range r.reported {
			if tr.Why == Score {
				n++
			}
			if tr.Threshold < 0.2 || tr.Threshold > 0.6 {
				t.Fatalf("the threshold is %v, out of its bounds", tr.Threshold)
			}
		}
		return n, r.Breaker.State(r.now).Threshold
	}
	deaf, _ := openings(1e-9)
	learns, threshold := openings(0.2)
	t.Logf("%d openings in an hour without learning, %d with it; the threshold ends at %.3f",
		deaf, learns, threshold)
	if deaf < 30 || learns > deaf/3 {
		t.Errorf("%d openings with learning and %d without, want at most a third", learns, deaf)
	}
}

// burst serves n windows, whatever comes of them.
func (r *rig) burst(n int, latency time.Duration, saturation float64) {
	for range n {
		r.serve(0, latency, saturation)
	}
}

func TestTheLawDoesNotStick(t *testing.T) {
	r := newRig(t, Options{Adaptive: &Adaptive{}, Trials: 1, OpenFor: time.Second, Ramp: time.Second})
	for range 100 { // outages that are over before a trial: all verdicts say "wrong"
		r.opens(60, 10*time.Second, 1)
		r.heal()
	}
	high := r.Breaker.State(r.now).Threshold
	if high < 0.45 || high > 0.6 {
		t.Errorf("after 100 wrong openings the threshold is %v, want near its bound of 0.6", high)
	}
	if n := r.opens(100, time.Millisecond, 0); n == 0 || n > 8 {
		t.Errorf("with a threshold of %v a service that is down opens after %d windows, want 8 at most",
			high, n)
	}
	r.heal()
	for range 60 * 120 { // an hour
		r.serve(0, time.Millisecond, 0)
	}
	r.near("the threshold after an hour without openings", r.Breaker.State(r.now).Threshold, 0.3, 0.001)

	for range 100 { // outages that trials confirm
		r.opens(60, 10*time.Second, 1)
		r.pass(time.Second)
		r.calls(1, Trial, Failure)
		r.heal()
	}
	low := r.Breaker.State(r.now).Threshold
	if low < 0.2 || low > 0.29 {
		t.Errorf("after 100 right openings the threshold is %v, want between 0.2 and 0.29", low)
	}
	for range 200 { // and noise below the lower bound never opens
		r.serve(3, 600*time.Millisecond, 0.7)
	}
	r.is(Closed)
}

// TestTheThresholdConverges: verdicts that are right with a probability let it rest where they
// balance, with a spread that the gain bounds.
func TestTheThresholdConverges(t *testing.T) {
	luck := rand.New(rand.NewPCG(3, 4))
	r := newRig(t, Options{
		Adaptive: &Adaptive{Forget: 24 * time.Hour},
		Trials:   1, OpenFor: time.Second, Ramp: time.Second,
	})
	var sum, squares float64
	const rounds = 400
	for i := range rounds + 50 {
		r.opens(20, 2*time.Second, 0.9)
		r.is(Open)
		if luck.IntN(2) == 0 {
			r.pass(time.Second)
			r.calls(1, Trial, Failure)
		}
		r.heal()
		if x := r.Breaker.State(r.now).Threshold; i >= 50 {
			sum, squares = sum+x, squares+x*x
		}
	}
	mean := sum / rounds
	spread := math.Sqrt(squares/rounds - mean*mean)
	t.Logf("the threshold rests at %.3f with a standard deviation of %.3f", mean, spread)
	r.near("the mean threshold", mean, 0.4, 0.04) // the middle of 0.2 and 0.6
	if spread > 0.06 {
		t.Errorf("the threshold's standard deviation is %.3f, want at most 0.06", spread)
	}
}
