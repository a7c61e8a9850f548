package report_test

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/report"
)

// figure finds one by the beginning of its name.
func figure(t *testing.T, c *report.Comparison, name string) report.Difference {
	t.Helper()
	for _, d := range c.Figures {
		if strings.HasPrefix(d.Figure, name) {
			return d
		}
	}
	t.Fatalf("no figure %s in %+v", name, c.Figures)
	return report.Difference{}
}

func TestTwoRunsOfOneServiceShowNoChange(t *testing.T) {
	again := plain()
	again.seed = 99
	c := report.Differences(plain().survey(), again.survey())
	for _, d := range c.Figures {
		if d.Real {
			t.Errorf("%s is said to have changed by %v (%v to %v)",
				d.Figure, d.Change, d.Low, d.High)
		}
	}
	if len(c.Figures) < 10 || len(c.Changed) != 0 ||
		!strings.Contains(c.Sentence, "No real change") {
		t.Errorf("%d figures; changed %v; %s", len(c.Figures), c.Changed, c.Sentence)
	}
}

func TestAFasterServiceIsReallyBetter(t *testing.T) {
	a, b := plain().survey(), faster().survey()
	b.Manifest.Settings["runs"] = "7"
	b.Manifest.Machine.CPU = "another"
	c := report.Differences(a, b)
	line := figure(t, c, "Load line")
	if !line.Real || line.Change < .09 || line.Change > .11 || line.Low <= 0 {
		t.Errorf("the line: %+v", line)
	}
	if d := figure(t, c, "p50 at 1,400"); !d.Real || d.Change > -.12 || d.High >= 0 {
		t.Errorf("p50 under a good load: %+v", d)
	}
	if d := figure(t, c, "Demand on workers"); !d.Real || d.Change > -.08 {
		t.Errorf("demand: %+v", d)
	}
	if !strings.HasPrefix(c.Sentence, "The load line rose by 10.0 %") {
		t.Error(c.Sentence)
	}
	if len(c.Changed) != 2 || c.Changed[0].What != "machine" ||
		c.Changed[1] != (report.Change{What: "runs", A: "5", B: "7"}) {
		t.Errorf("%+v", c.Changed)
	}
	back := report.Differences(b, a)
	if !strings.HasPrefix(back.Sentence, "The load line fell by 9.10 %") {
		t.Error(back.Sentence)
	}
}

// A gentle step of a survey is mostly UNDECIDED: a few hundred requests prove no tenth of a
// percent. It is compared all the same, and one that failed is not.
func TestStepsBelowTheLineAreComparedThoughTheyProveNothing(t *testing.T) {
	for verdict, want := range map[record.SLOVerdict]bool{
		record.Undecided: true,
		record.Fail:      false,
	} {
		a, b := plain().survey(), faster().survey()
		for _, run := range []*record.Run{a, b} {
			for i := range run.Result.Judgements {
				run.Result.Judgements[i].Verdict = verdict
			}
		}
		compared := slices.ContainsFunc(report.Differences(a, b).Figures,
			func(d report.Difference) bool { return strings.HasPrefix(d.Figure, "p50 at ") })
		if compared != want {
			t.Errorf("steps that are all %s: compared %v", verdict, compared)
		}
	}
}

func TestAChangeWithinTheNoiseFloorIsNotReal(t *testing.T) {
	a, b := plain().survey(), faster().survey()
	b.Result.Noise.Goodput = .2
	d := figure(t, report.Differences(a, b), "Load line")
	if d.Real || !strings.Contains(d.Why, "noise floor of 20.0 %") {
		t.Errorf("%+v", d)
	}
}

func TestRunsThatCannotBeComparedSayWhy(t *testing.T) {
	a, b := plain().survey(), plain().survey()
	b.Manifest.SLO, b.Manifest.Mix = "p99<80ms", "GET / only"
	b.Result.Line = record.Line{}
	b.Result.Noise = record.Noise{}
	b.Result.Early = "the target went away"
	c := report.Differences(a, b)
	all := c.Sentence + strings.Join(c.Cautions, " ")
	for _, want := range []string{
		"cannot be compared", "differ in their SLO", "differ in their mix",
		"Run B ended early, or is still", "noise floor",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("nobody says %q: %s", want, all)
		}
	}
	empty := report.Differences(&record.Run{}, &record.Run{})
	if len(empty.Figures) != 0 {
		t.Errorf("%+v", empty.Figures)
	}
}

// What was measured once has no spread, which is not a reason to be sure of it.
func TestAFigureThatWasMeasuredOnceIsNotCalledReal(t *testing.T) {
	a, b := plain().survey(), plain().survey()
	for i, run := range []*record.Run{a, b} {
		v := float64(i+1) * 1e-5
		run.Result.Model.Demands = []model.Demand{{
			Resource: "generator cpu",
			Unit:     "s",
			Capacity: 1,
			Per:      model.Interval{Low: v, Estimate: v, High: v, Confidence: .95},
		}}
	}
	if d := figure(t, report.Differences(a, b), "Demand on generator cpu"); d.Real ||
		!strings.Contains(d.Why, "measured once") {
		t.Errorf("a change from 10 to 20 µs, each measured once: %+v", d)
	}
}

func TestLoadsHaveNoLineAndOneThatIsInvalidSaysWhyItIsNotCompared(t *testing.T) {
	a, b := plain().survey(), plain().survey()
	for _, run := range []*record.Run{a, b} {
		run.Manifest.Kind, run.Steps = "load", run.Steps[4:5:5]
		run.Result.Line, run.Result.Judgements = record.Line{}, nil
	}
	if d := figure(t, report.Differences(a, b), "p99 at "); d.Real {
		t.Errorf("two loads of one service: %+v", d)
	}
	late := b.Steps[0]
	late.Totals.Generator.Invalid = "it was late"
	b.Steps = []measure.Step{late}
	c := report.Differences(a, b)
	if !strings.Contains(c.Sentence, "these were loads") ||
		!slices.ContainsFunc(c.Cautions, func(s string) bool {
			return strings.HasPrefix(s, "Run B is INVALID")
		}) {
		t.Errorf("%s %q", c.Sentence, c.Cautions)
	}
}
