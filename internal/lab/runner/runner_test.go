package runner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
)

// target is a generator and the probes of a target that does not exist: it says what they would.
type target struct {
	t           *testing.T
	connections int
	descriptors float64
	unknown     bool // the probes cannot tell the descriptors
	light       int64
	failing     bool
	gone        error
	slow        time.Duration // it takes to say that it is gone
	drain       time.Duration
	runs        []load.Options
	back        func(f *target) // takes it back to rest at backAt
	backAt      time.Time
}

// pass has happen what is due by now.
func (f *target) pass() {
	if f.back != nil && !time.Now().Before(f.backAt) {
		f.back(f)
	}
}

const opening = 7 * time.Millisecond // connections take a while before the clock starts

// run is load.Run in virtual time: a light one ends at once, others give their windows.
func (f *target) run(ctx context.Context, o load.Options) (*measure.Totals, error) {
	f.runs = append(f.runs, o)
	f.pass()
	if f.gone != nil {
		select {
		case <-time.After(f.slow):
			return nil, f.gone
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	t := new(measure.Totals)
	if o.Observe == nil {
		var h measure.Histogram
		for range 3 {
			h.Record(f.light)
		}
		t.Response = h.Sparse()
		t.Ended[measure.OK] = 3
		if f.failing {
			t.Ended[measure.BadStatus] = 1
			t.Examples = map[string]string{"bad_status": "HTTP/1.1 503"}
		}
		return t, nil
	}
	<-time.After(opening)
	o.Began(time.Now())
	const windows = 8
	for i := range windows {
		w := &measure.Window{Start: int64(i) * int64(o.Window), Length: int64(o.Window)}
		if i == windows-1 {
			w.Length += int64(f.drain)
		}
		select {
		case <-time.After(time.Duration(w.Length)):
		case <-ctx.Done():
			t.Ended[measure.Unfinished] = 5
			return t, nil
		}
		t.Length = w.End()
		o.Observe(w)
	}
	return t, nil
}

// runner is one on this target; it is used inside a bubble of virtual time.
func (f *target) runner() *Runner {
	r := New(Options{Script: load.Static("GET", []byte("GET / HTTP/1.1\r\n\r\n"), false), Seed: 100, Loops: 2, Timeout: time.Second})
	r.run = f.run
	r.connections = func(context.Context) (int, error) {
		f.pass()
		return f.connections, nil
	}
	r.sample = func(at int64) measure.Sample {
		values := map[string]float64{"host.cores": 2}
		if !f.unknown {
			values["target.descriptors"] = f.descriptors
		}
		return measure.Sample{At: at, Values: values}
	}
	return r
}

var plan = measure.StepPlan{Number: 3, Rate: 1000, Arrivals: "constant", Length: 2e9, Connections: 9}

func (f *target) step(r *Runner) *measure.Step {
	f.t.Helper()
	s, stopped, err := r.Step(f.t.Context(), plan, nil)
	if err != nil || stopped != "" {
		f.t.Fatal(stopped, err)
	}
	return s
}

func TestAStepIsWhatItsPlanSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &target{t: t}
		s := f.step(f.runner())
		o := f.runs[len(f.runs)-1]
		if o.Connections != 9 || o.Loops != 2 || o.Timeout != time.Second || o.Seed != 103 ||
			o.Window != 250*time.Millisecond || o.Duration != 0 {
			t.Errorf("%+v", o)
		}
		count, last := 0, int64(0)
		for loop := range 2 {
			schedule := o.Offered.Schedule(loop, 2)
			for due, ok := schedule.Next(); ok; due, ok = schedule.Next() {
				count, last = count+1, max(last, due)
			}
		}
		if count != 2000 || last >= 2e9 || last < 1.9e9 {
			t.Errorf("%d arrivals, the last after %d ns", count, last)
		}
		if s.Plan != plan || len(s.Windows) != 8 || s.Totals.Length != 2e9 {
			t.Errorf("%+v, %d windows, %d ns", s.Plan, len(s.Windows), s.Totals.Length)
		}
	})
}

// A closed loop is there to see one request alone.
func TestAStepWithoutARateHasOneStream(t *testing.T) {
	for streams, alone := range map[int]int{0: 0, 10: 1} {
		r := New(Options{Script: load.Static("get", nil, false), Streams: streams})
		closed := plan
		closed.Rate = 0
		if o, c := r.loadOptions(plan), r.loadOptions(closed); o.Streams != streams || c.Streams != alone {
			t.Errorf("%d streams with a rate and %d without, want %d and %d", o.Streams, c.Streams, streams, alone)
		}
	}
}

func TestAStepWaitsForItsProfiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &target{t: t}
		r := f.runner()
		r.options.Profile = func(ctx context.Context, p measure.StepPlan) map[string][]byte {
			<-time.After(time.Duration(p.Length) + time.Second)
			return map[string][]byte{"cpu": []byte(p.Phase)}
		}
		began := time.Now()
		s, _, err := r.Step(t.Context(), measure.StepPlan{Number: 1, Phase: "overload", Rate: 10, Length: 2e9, Connections: 1}, nil)
		if err != nil || string(s.Profiles["cpu"]) != "overload" {
			t.Errorf("%v %v", s, err)
		}
		if took := time.Since(began); took < 3*time.Second {
			t.Errorf("the step took %v, and its profile 3s", took)
		}
	})
}

func TestARateOfZeroIsAClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &target{t: t}
		if _, _, err := f.runner().Step(t.Context(), measure.StepPlan{Length: 2e9, Connections: 1}, nil); err != nil {
			t.Fatal(err)
		}
		if o := f.runs[len(f.runs)-1]; o.Arrivals != nil || o.Duration != 2*time.Second {
			t.Errorf("%+v", o)
		}
	})
}

func TestSamplesAreTakenAtTheWindowsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &target{t: t, drain: 600 * time.Millisecond}
		began := time.Now()
		s := f.step(f.runner())
		var at []int64
		for _, sample := range s.Samples {
			at = append(at, sample.At/1e6)
			if sample.Values["host.cores"] != 2 {
				t.Error(sample)
			}
		}
		want := []int64{250, 500, 750, 1000, 1250, 1500, 1750, 2000, 2250, 2500, 2600}
		if len(at) != len(want) {
			t.Fatalf("samples after %v ms, want %v", at, want)
		}
		for i := range want {
			if at[i] != want[i] {
				t.Errorf("samples after %v ms, want %v", at, want)
			}
		}
		if d := s.Began.Sub(began); d != opening {
			t.Errorf("the step is said to begin after %v, and its connections were open after %v", d, opening)
		}
	})
}

func TestAStepIsStoppedWithAReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &target{t: t}
		seen := 0
		s, stopped, err := f.runner().Step(t.Context(), plan, func(w *measure.Window) string {
			if seen++; seen == 3 {
				return "half of the requests fail"
			}
			return ""
		})
		if err != nil || stopped != "half of the requests fail" || seen != 3 ||
			len(s.Windows) != 3 || s.Totals.Ended[measure.Unfinished] != 5 {
			t.Errorf("%v, %q, %d windows shown", err, stopped, seen)
		}
	})
}

func TestAStepThatTheUserEndsIsReturnedWithWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &target{t: t}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s, stopped, err := f.runner().Step(ctx, plan, nil)
		if err != nil || stopped != "" || len(s.Windows) != 3 {
			t.Errorf("%q, %v, %+v", stopped, err, s)
		}
	})
}

func TestATargetThatRefusesIsAnErrorAndNoStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &target{t: t, gone: errors.New("connection refused")}
		if s, _, err := f.runner().Step(t.Context(), plan, nil); err == nil || s != nil {
			t.Error(s, err)
		}
	})
}

// settle has a target at rest, then in a state, from which change takes it back after some time.
func settle(t *testing.T, rest target, disturb func(f *target), after time.Duration, back func(f *target)) (took time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &rest
		f.t = t
		r := f.runner()
		f.step(r)
		disturb(f)
		f.back, f.backAt = back, time.Now().Add(after)
		took, err = r.Settle(t.Context())
	})
	return took, err
}

func nothing(*target) {}

func TestSettleWaitsForWhatTheStepLeftBehind(t *testing.T) {
	rest := target{connections: 2, descriptors: 50, light: 2e6}
	for name, c := range map[string]struct{ disturb, back func(f *target) }{
		"connections":       {func(f *target) { f.connections = 60 }, func(f *target) { f.connections = 3 }},
		"descriptors":       {func(f *target) { f.descriptors = 80 }, func(f *target) { f.descriptors = 58 }},
		"slow answers":      {func(f *target) { f.light = 300e6 }, func(f *target) { f.light = 3e6 }},
		"errors":            {func(f *target) { f.failing = true }, func(f *target) { f.failing = false }},
		"a moment of death": {func(f *target) { f.gone = errors.New("connection refused") }, func(f *target) { f.gone = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			took, err := settle(t, rest, c.disturb, 1950*time.Millisecond, c.back)
			if err != nil || took != 2*time.Second {
				t.Errorf("%v, %v", took, err)
			}
		})
	}
}

func TestSettleIsOverAtOnceWhenAllIsAsItWas(t *testing.T) {
	if took, err := settle(t, target{connections: 2, descriptors: 50, light: 2e6}, nothing, time.Hour, nothing); took != 0 || err != nil {
		t.Error(took, err)
	}
	f := &target{t: t}
	if took, err := f.runner().Settle(t.Context()); took != 0 || err != nil || len(f.runs) != 0 {
		t.Error("before the first step:", took, err, len(f.runs))
	}
}

func TestSettleSaysWhatDidNotComeBack(t *testing.T) {
	rest := target{connections: 2, descriptors: 50, light: 2e6}
	for want, disturb := range map[string]func(f *target){
		"60 connections to the target are not closed, and there were 2": func(f *target) { f.connections = 60 },
		"a light request takes 300":                                     func(f *target) { f.light = 300e6 },
		"1 of 4 light requests fail (HTTP/1.1 503), and none did":       func(f *target) { f.failing = true },
	} {
		took, err := settle(t, rest, disturb, time.Hour, nothing)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(),
			"after 30s") || took < 30*time.Second || took > 31*time.Second {
			t.Errorf("after %v: %v; it should say %q", took, err, want)
		}
	}
	for slow, want := range map[time.Duration]string{
		1100 * time.Millisecond: "after 30s the target cannot be reached: connection refused",
		time.Hour:               "after 30s the target cannot be reached: it does not answer",
	} {
		_, err := settle(t, rest, func(f *target) {
			f.gone, f.slow = errors.New("connection refused"), slow
		}, time.Hour, nothing)
		if err == nil || err.Error() != want {
			t.Errorf("a target that takes %v to refuse: %v; it should say %q", slow, err, want)
		}
	}
	took, err := settle(t, rest, func(f *target) { f.gone = errors.New("connection refused") }, time.Hour, nothing)
	if err == nil || err.Error() != "the target is gone: connection refused" || took > 4*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
}

func TestDescriptorsThatStayAreTheServicesOwn(t *testing.T) {
	rest := target{descriptors: 50, light: 2e6}
	took, err := settle(t, rest, func(f *target) { f.descriptors = 90 }, time.Hour, nothing)
	if err != nil || took < 2*time.Second || took > 4*time.Second {
		t.Errorf("a pool that stays open: %v, %v", took, err)
	}
	rest.unknown = true
	if took, err := settle(t, rest, func(f *target) { f.descriptors = 90 }, time.Hour, nothing); took != 0 || err != nil {
		t.Errorf("descriptors that nobody can read: %v, %v", took, err)
	}
}

func TestATargetThatAlwaysFailedNeedNotStop(t *testing.T) {
	if took, err := settle(t, target{failing: true}, nothing, time.Hour, nothing); took != 0 || err != nil {
		t.Error(took, err)
	}
}

func TestSettleEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &target{t: t, light: 2e6}
		r := f.runner()
		f.step(r)
		f.connections = 60
		ctx, cancel := context.WithTimeout(t.Context(), 550*time.Millisecond)
		defer cancel()
		if took, err := r.Settle(ctx); took != 550*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(took, err)
		}
	})
}
