package survey

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

// slowed gives a step a sample just after each window's end, by which the processors were slowed down in some
// of the windows.
func slowed(s *measure.Step, in ...int) *measure.Step {
	total := 0.0
	sample := func(at int64) {
		s.Samples = append(s.Samples, measure.Sample{
			At: at, Values: map[string]float64{measure.HostCPUSlowed: total},
		})
	}
	sample(0)
	for i := range s.Windows {
		if slices.Contains(in, i) {
			total += .1
		}
		sample(s.Windows[i].End() + 2*ms)
	}
	return s
}

func TestWhatIsLateBecauseTheMachineIsSlowIsNotJudged(t *testing.T) {
	// Every fifth window has late requests, and the one after it those that were left over.
	late := func() *measure.Step {
		s := made(20, 500, 0, 0)
		for i := 3; i < 20; i += 5 {
			s.Windows[i] = made(i+1, 500, 100, 0).Windows[i]
			s.Windows[i+1] = made(i+2, 500, 50, 0).Windows[i+1]
		}
		return s
	}
	for name, c := range map[string]struct {
		step    *measure.Step
		verdict record.SLOVerdict
		left    int
	}{
		"the machine was slow then":          {slowed(late(), 3, 8, 13, 18), record.Pass, 8},
		"it was slow at other times":         {slowed(late(), 1), record.Undecided, 2},
		"it was not slow":                    {slowed(late()), record.Undecided, 0},
		"it is not known":                    {late(), record.Undecided, 0},
		"it was slow most of the time":       {slowed(late(), 1, 3, 5, 7, 9, 11, 13, 15, 17), record.Undecided, 0},
		"what was slow did not matter":       {slowed(made(20, 500, 0, 0), 3, 8), record.Pass, 4},
		"the service itself was slow":        {slowed(made(20, 500, 250, 0), 3, 8), record.Fail, 4},
		"and what came did not leave":        {slowed(made(20, 500, 0, 15), 3), record.Fail, 2},
		"it was slow when the step was over": {slowed(made(20, 500, 0, 0), 19), record.Pass, 1},
	} {
		v, left := viewOf(c.step)
		verdict, _, why := judge(&v, parsed(t, "p99<50ms"), rand.New(rand.NewPCG(1, 2)))
		if verdict != c.verdict || left != c.left {
			t.Errorf("%s: %s (%s), %d windows left out; want %s, %d", name, verdict, why, left,
				c.verdict, c.left)
		}
		if len(v.windows) < len(v.net) || len(v.windows)+left != 20 {
			t.Errorf("%s: %d windows, %d growths", name, len(v.windows), len(v.net))
		}
	}
}

func TestAMachineThatIsSlowAtTimesIsTold(t *testing.T) {
	steady := func(steps ...*measure.Step) (record.Validity, bool) {
		s := &surveyor{}
		for _, step := range steps {
			tr := &trial{step: *step}
			tr.view, tr.left = viewOf(step)
			s.trials = append(s.trials, tr)
		}
		return s.steady()
	}
	v, known := steady(slowed(made(20, 500, 0, 0), 3, 8), slowed(made(20, 500, 0, 0)))
	if !known || v.OK || !strings.Contains(v.Why, "for 2.00 % of the time") ||
		!strings.Contains(v.Why, "4 of 40 windows") {
		t.Errorf("%+v", v)
	}
	if v, known = steady(slowed(made(20, 500, 0, 0))); !known || !v.OK {
		t.Errorf("as quick as ever: %+v", v)
	}
	if v, known = steady(made(20, 500, 0, 0)); known {
		t.Errorf("not measured: %+v", v)
	}
}
