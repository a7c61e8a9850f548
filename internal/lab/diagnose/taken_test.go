package diagnose

import (
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

var late = []string{"no line", "over generator the send lag was 3 ms", "all target.cpu.seconds += .3"}

func TestWhoTookTheProcessorsIsToldApart(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		rule  string
	}{
		"others":                    {[]string{"over loops 1 .5"}, "processors-taken"},
		"the generator's loop":      {[]string{"over loops 1 .9"}, "generator-limit"},
		"nobody":                    {[]string{"over host.cpu.busy_seconds += 1"}, "generator-limit"},
		"what the service asks":     {[]string{"over " + postgres + " += 1.3"}, "generator-limit"},
		"the network in the kernel": {[]string{"over loops 2 1.3"}, "generator-limit"},
		"another guest": {
			[]string{"over loops 1 .5", "over host.cpu.steal_seconds += .9"}, "processors-taken",
		},
	} {
		d := diagnosed(t, append(late, c.lines...)...)
		if len(d.Findings) != 1 || d.Findings[0].Rule != c.rule ||
			!strings.Contains(d.Findings[0].Claim, "at 1,400 requests a second") {
			t.Errorf("%s: found %v, want %s", name, names(d), c.rule)
		}
		f := d.found("processors-taken")
		if f != nil && f.told("steal", "0.90") != strings.Contains(name, "guest") {
			t.Errorf("%s: %+v", name, f.Evidence)
		}
	}
}

func TestOthersOnAnotherGeneratorsMachineAreToldFromIt(t *testing.T) {
	run := newFixture(t, append(strings.Split(base, "\n"), late...)...).open(t)
	for busy, rule := range map[float64]string{.95: "processors-taken", .3: "generator-limit"} {
		run.Steps[3].Totals.Generator.Remote = []measure.Remote{{
			Name: "ann@west", Cores: 4, Loops: 4, CPU: run.Steps[3].Totals.Length, HostBusy: busy,
			Invalid: "late",
		}}
		d := Run(run)
		if len(d.Findings) != 1 || d.Findings[0].Rule != rule {
			t.Errorf("%v busy: found %v, want %s", busy, names(d), rule)
		}
		if f := d.found("processors-taken"); f != nil && !f.says("2.80 of the 4.00 processors of "+
			"the machine of the generator ann@west") {
			t.Errorf("%s", f.Claim)
		}
	}
}

func TestAGeneratorThatKeptUpWhenItTriedAgainWasNotTheLimit(t *testing.T) {
	run := newFixture(t, append(strings.Split(base, "\n"), late...)...).open(t)
	if d := Run(run); d.found("generator-limit") == nil && d.found("processors-taken") == nil {
		t.Fatalf("found %v", names(d))
	}
	run.Result.Judgements = append(run.Result.Judgements, record.Judgement{
		Step: 6, Rate: run.Steps[3].Plan.Rate, Verdict: record.Pass,
	})
	if d := Run(run); len(d.Findings) != 0 {
		t.Errorf("found %v", names(d))
	}
}

func TestOthersThatTookTheMachineAreNamed(t *testing.T) {
	d := diagnosed(t, "all host.cpu.busy_seconds += 1.95", "all target.cpu.seconds += .9",
		"all host.others.cpu_seconds.ffmpeg += .9")
	if !strings.Contains(d.First.Why, "other processes used 1.05 (ffmpeg 0.90)") {
		t.Errorf("%+v", d.First)
	}
}

// A short step may have one sample before its judged part, and one in it.
func TestOthersAreNamedByTwoLooks(t *testing.T) {
	f := newFixture(t, append(strings.Split(base, "\n"), append(late, "over loops 1 .5",
		"over host.others.cpu_seconds.compile += .8")...)...)
	f.steps["over"].Plan.Settle = 2e9
	run := f.open(t)
	for i := range run.Steps[3].Samples {
		if i != 1 && i != 12 {
			delete(run.Steps[3].Samples[i].Values, measure.OthersCPU+"compile")
		}
	}
	if d := Run(run).found("processors-taken"); d == nil || !d.says("compile 0.80") {
		t.Errorf("%+v", d)
	}
}
