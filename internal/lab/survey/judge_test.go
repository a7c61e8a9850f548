package survey

import (
	"math/rand/v2"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

// made returns a step of windows with each requests, of which the last slow ones are slow, and a
// queue that grows by grows per window.
func made(windows int, each, slow, grows uint64) *measure.Step {
	s := &measure.Step{
		Plan: measure.StepPlan{Rate: float64(4 * each), Length: int64(windows) * simWindow},
	}
	r := rand.New(rand.NewPCG(1, 1))
	for i := range windows {
		var h measure.Histogram
		for j := range each {
			if j < slow {
				h.Record(100 * ms)
			} else {
				h.Record(5*ms + r.Int64N(ms))
			}
		}
		w := measure.Window{
			Start:    int64(i) * simWindow,
			Length:   simWindow,
			Due:      each + grows,
			InFlight: i * int(grows),
			Response: h.Sparse(),
			Service:  h.Sparse(),
		}
		w.Ended[measure.OK] = each
		s.Windows = append(s.Windows, w)
	}
	return s
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		what    string
		step    *measure.Step
		verdict record.SLOVerdict
		why     string
	}{
		{"all fast", made(20, 500, 0, 0), record.Pass, "every objective"},
		{"half of them slow", made(20, 500, 250, 0), record.Fail, "p99<50ms"},
		{
			"too few to tell", made(20, 10, 0, 0), record.Undecided,
			"0 of 200 requests were slower than 50ms or failed; " +
				"about 370 are needed to prove p99<50ms",
		},
		{"fast, but fewer leave than come", made(20, 500, 0, 15), record.Fail, "does not keep up"},
		{"slow at a share just allowed", made(20, 100, 1, 0), record.Undecided, "p99<50ms"},
	} {
		v, _ := viewOf(c.step)
		verdict, shares, why := judge(&v, parsed(t, "p99<50ms"), rand.New(rand.NewPCG(1, 2)))
		if verdict != c.verdict || !strings.Contains(why, c.why) || len(shares) != 1 {
			t.Errorf("%s: %s, %s, %+v", c.what, verdict, why, shares)
		}
	}
}

func TestOneBrokenObjectiveIsEnough(t *testing.T) {
	s := made(20, 500, 0, 0)
	for i := range s.Windows {
		s.Windows[i].Ended[measure.BadStatus] = 50
	}
	v, _ := viewOf(s)
	verdict, shares, why := judge(&v, parsed(t, "p50<50ms,errors<1%"), rand.New(rand.NewPCG(1, 2)))
	if verdict != record.Fail || !strings.Contains(why, "errors<1%") || shares[0].Share.High > .5 {
		t.Errorf("%s, %s, %+v", verdict, why, shares)
	}
}

// 10 of 2,000 were slow, where 20 are allowed, but far too few were seen to prove it. One failed,
// where 0.04 % are allowed.
func TestTheReasonIsTheObjectiveThatWasNotMet(t *testing.T) {
	s := made(20, 100, 0, 0)
	s.Windows[0] = made(1, 100, 10, 0).Windows[0]
	s.Windows[0].Ended[measure.BadStatus] = 1
	v, _ := viewOf(s)
	verdict, shares, why := judge(&v, parsed(t, "p99<50ms,errors<0.04%"),
		rand.New(rand.NewPCG(1, 2)))
	held := shares[0].Share.Estimate <= shares[0].Allowed &&
		shares[1].Share.Estimate > shares[1].Allowed
	if verdict != record.Undecided || !held || !strings.Contains(why, "errors<0.04% allows") {
		t.Errorf("%s, %s, %+v", verdict, why, shares)
	}
}

func TestSettlingIsNotJudged(t *testing.T) {
	s := made(20, 500, 0, 0)
	slow := made(4, 500, 500, 0)
	copy(s.Windows, slow.Windows)
	s.Plan.Settle = second
	v, _ := viewOf(s)
	if verdict, _, why := judge(&v, parsed(t, "p99<50ms"), rand.New(rand.NewPCG(1, 2))); verdict !=
		record.Pass {
		t.Errorf("%s, %s", verdict, why)
	}
}

func TestWhatTheGeneratorDidIsNotTheServicesFault(t *testing.T) {
	late := func(slow uint64, ns int64) *measure.Step {
		s := made(20, 500, slow, 0)
		var h measure.Histogram
		for range 10_000 {
			h.Record(ns)
		}
		s.Totals.Lag = h.Sparse()
		s.Totals.Due, s.Totals.Sent = 10_000, 10_000
		s.Totals.Generator.Invalid = "its busiest loop was at work 99 % of the time"
		return s
	}
	unsent := late(0, 40*ms)
	unsent.Totals.Sent--
	queued := late(250, 24*ms)
	for i := range queued.Windows {
		queued.Windows[i].Service = made(1, 500, 0, 0).Windows[0].Service
	}
	failing := late(250, 24*ms)
	failing.Windows[0].Ended[measure.ConnectFailed]++
	// Some requests were 40 ms late, and the others 10 ms.
	rarely := func(slow uint64, later int) *measure.Step {
		s := late(slow, 10*ms)
		var h measure.Histogram
		for i := range 10_000 {
			if i < later {
				h.Record(40 * ms)
			} else {
				h.Record(10 * ms)
			}
		}
		s.Totals.Lag = h.Sparse()
		return s
	}
	hardlyTimed := rarely(250, 20)
	hardlyTimed.Totals.Due, hardlyTimed.Totals.Sent = 12_000, 12_000
	untimed := func(slow uint64) *measure.Step {
		s := late(slow, 24*ms)
		s.Totals.Due, s.Totals.Sent = 200_000, 200_000
		return s
	}
	for _, c := range []struct {
		what    string
		step    *measure.Step
		verdict record.SLOVerdict
	}{
		{"late by about the limit: the slow ones may be its own", late(250, 40*ms), record.Invalid},
		{"late by a fiftieth of the limit", late(250, 1*ms), record.Fail},
		// The slow ones took 100 ms, where 50 ms are allowed.
		{"slower by more than twice its lateness", late(250, 24*ms), record.Fail},
		{"slower by less than twice its lateness", late(250, 26*ms), record.Invalid},
		{"slower by more than twice its usual lateness", rarely(250, 20), record.Fail},
		{"more late requests than one in a hundred", rarely(250, 120), record.Invalid},
		{"fewer slow requests than may have been late", rarely(12, 20), record.Invalid},
		{"usual lateness known of five in six", hardlyTimed, record.Invalid},
		{"late, and all answers in time nevertheless", late(0, 40*ms), record.Pass},
		{"late by more than the limit", late(0, 60*ms), record.Invalid},
		{"a request was not sent", unsent, record.Invalid},
		{"slow only because it queued them", queued, record.Invalid},
		{"a connection could not be made", failing, record.Invalid},
		{"nearly all of the slow waited for a connection", untimed(250), record.Invalid},
		{"nearly all of the fast waited for a connection", untimed(0), record.Invalid},
		{"the limit in another way", func() *measure.Step {
			s := made(20, 500, 0, 0)
			s.Totals.Due, s.Totals.Sent = 10_000, 10_000
			s.Totals.Generator.Invalid = "it was the limit"
			return s
		}(), record.Invalid},
	} {
		s := newSurveyor(t.Context(), nil, Options{SLO: parsed(t, "p99<50ms")})
		tr := &trial{step: *c.step, rate: 2000}
		tr.view, tr.left = viewOf(c.step)
		s.trials = append(s.trials, tr)
		if s.judge(tr); tr.judgement.Verdict != c.verdict {
			t.Errorf("%s: want %s: %+v", c.what, c.verdict, tr.judgement)
		}
	}
}

func TestABrokenTargetIsNotKickedOn(t *testing.T) {
	window := func(ok, failed, unconnected uint64, inside int) *measure.Window {
		w := &measure.Window{Length: simWindow, InFlight: inside}
		w.Ended[measure.OK] = ok
		w.Ended[measure.Timeout] = failed
		w.Ended[measure.ConnectFailed] = unconnected
		return w
	}
	for _, c := range []struct {
		what    string
		windows []*measure.Window // the first ones; the last is repeated
		after   int               // windows until it stops; 0 is never
	}{
		{"all is well", []*measure.Window{window(100, 10, 0, 5)}, 0},
		{"most time out", []*measure.Window{window(40, 60, 0, 5)}, 8},
		{"nobody listens", []*measure.Window{window(0, 0, 100, 5)}, 4},
		{"nothing comes back", []*measure.Window{window(0, 0, 0, 50)}, 12},
		{"nothing was asked", []*measure.Window{window(0, 0, 0, 0)}, 0},
		{"a short burst of failures", []*measure.Window{window(1, 99, 0, 5), window(1, 99, 0, 5), window(100, 0, 0, 5)}, 0},
		{"a few requests that fail", []*measure.Window{window(0, 1, 0, 1)}, 20},
	} {
		b := breaker{long: silentFor}
		stopped := 0
		for i := 1; i <= 40 && stopped == 0; i++ {
			if b.see(c.windows[min(i, len(c.windows))-1]) != "" {
				stopped = i
			}
		}
		if stopped != c.after {
			t.Errorf("%s: stopped after %d windows, want %d", c.what, stopped, c.after)
		}
	}
}
