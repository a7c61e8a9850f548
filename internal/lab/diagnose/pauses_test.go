package diagnose

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

// stop is a collection in a JVM's performance data file, between sample at of a stage and the
// sample before.
type stop struct {
	stage, collector string
	at               int
	seconds          float64
}

// stoppedBy is the diagnosis of a JVM with these collections, whose processors have room.
func stoppedBy(t *testing.T, slo string, lines []string, stops ...stop) *Diagnosis {
	t.Helper()
	run := newFixture(t, slices.Concat(strings.Split(base, "\n"), idleService, lines)...).open(t)
	run.Manifest.Machine.TargetRuntime, run.Manifest.Machine.TargetPID = measure.RuntimeJVM, 77
	run.Manifest.SLO = slo
	for i := range run.Steps {
		for j := range run.Steps[i].Samples {
			values := run.Steps[i].Samples[j].Values
			for _, collector := range []string{"Copy", "MarkSweepCompact"} {
				n, seconds := 7.0, 1.5 // before the step
				for _, s := range stops {
					if s.stage == stages[i].name && s.collector == collector && j >= s.at {
						n, seconds = n+1, seconds+s.seconds
					}
				}
				values[measure.TargetCollections+collector] = n
				values[measure.TargetCollecting+collector] = seconds
			}
		}
	}
	return Run(run)
}

// twice returns two collections of the same length.
func twice(stage, collector string, seconds float64) []stop {
	return []stop{{stage, collector, 5, seconds}, {stage, collector, 9, seconds}}
}

const objective = "p99<50ms,errors<0.1%"

func TestAPauseThatBreaksTheObjectiveIsTheCollectorsAndNoCrowdOfRequests(t *testing.T) {
	// Requests take longer near the line, and threads wait in futexes, as they do at a limit.
	queued := []string{
		"at-line service 20ms", "over service 80ms", "over goodput 1010",
		"half target.threads.at.pool;futex;futex;futex_wait = 1",
		"at-line target.threads.at.pool;futex;futex;futex_wait = 9",
		"over target.threads.at.pool;futex;futex;futex_wait = 30",
	}
	if d := stoppedBy(t, objective, queued); len(d.Findings) == 0 || d.found("gc-pauses") != nil ||
		d.Findings[0].Rank != Binding {
		t.Fatalf("without a pause: %v", names(d))
	}
	d := stoppedBy(t, objective, queued, append(twice("at-line", "MarkSweepCompact", .2),
		stop{"at-line", "Copy", 3, .004}, stop{"at-line", "Copy", 12, .006})...)
	f := d.found("gc-pauses")
	if f == nil || f != &d.Findings[0] || d.First.What != "gc-pauses" || f.Rank != Binding {
		t.Fatalf("found %v, held back %+v, first %+v", names(d), d.HeldBack, d.First)
	}
	for _, words := range []string{
		"collector", `"MarkSweepCompact"`, "200 ms", "p99<50ms", "UseG1GC", "-Xmx",
		"humongous", "jstat -gccause 77",
	} {
		if !f.says(words) {
			t.Errorf("%q is not said: %+v", words, f)
		}
	}
	if !strings.Contains(f.Evidence[2].What, `"Copy"`) || f.says("goroutines") || f.Gain.Factor <= 1 ||
		f.Evidence[0].Threshold == "" {
		t.Errorf("%+v", f)
	}
	if d.found("concurrency-limited") != nil || d.found("slow-dependency") != nil {
		t.Errorf("found %v", names(d))
	}
}

func TestPausesThatTheObjectiveAllowsAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		slo   string
		stops []stop
	}{
		"shorter than its limit":      {"p99<500ms", twice("at-line", "Copy", .2)},
		"fewer than it allows":        {"p80<50ms", twice("at-line", "Copy", .2)},
		"several short ones":          {"p99<50ms", slices.Repeat(twice("at-line", "Copy", .03), 3)},
		"one, which may be by chance": {"p99<50ms", []stop{{"at-line", "Copy", 9, .2}}},
		"far below the line":          {"p99<50ms", twice("half", "Copy", .2)},
		"under overload":              {"p99<50ms", twice("over", "Copy", .2)},
		"no objective of a time":      {"errors<1%", twice("at-line", "Copy", .2)},
		"none":                        {"p99<50ms", nil},
		"before the step was judged":  {"p99<50ms", slices.Repeat([]stop{{"at-line", "Copy", 0, .2}}, 2)},
	} {
		if d := stoppedBy(t, c.slo, nil, c.stops...); d.found("gc-pauses") != nil {
			t.Errorf("%s: %s", name, d.found("gc-pauses").Claim)
		}
	}
}

func TestACollectionThatIsCountedBeforeItEndsIsOne(t *testing.T) {
	m := &Moment{Step: &measure.Step{Plan: measure.StepPlan{Length: 4e9}}}
	m.Step.Totals.Length = 4e9
	for i, v := range []struct{ n, seconds float64 }{{3, 1}, {4, 1}, {4, 1.2}, {6, 1.25}, {6, 1.5}} {
		m.Step.Samples = append(m.Step.Samples, measure.Sample{
			At: int64(i) * 250e6,
			Values: map[string]float64{
				measure.TargetCollections + "Copy": v.n, measure.TargetCollecting + "Copy": v.seconds,
			},
		})
	}
	p := pauses{collector: "Copy"}
	if seconds := p.add(m, .1); seconds != 1 || p.count != 4 || !near(p.longest, .25, 1.001) ||
		!near(p.long, .45, 1.001) || p.longs != 2 {
		t.Errorf("%v seconds: %+v", seconds, p)
	}
}

func TestACollectorThatStopsTheServiceForMuchOfTheTimeIsHeavy(t *testing.T) {
	var stops []stop
	for at := 1; at < 16; at++ {
		stops = append(stops, stop{"at-line", "MarkSweepCompact", at, .08})
	}
	d := stoppedBy(t, objective, []string{"at-line" + usedBy + "VM Thread += .01"}, stops...)
	f := d.found("gc-heavy")
	if f == nil || d.found("gc-pauses") != nil || f.Rank != Binding || !f.says("of the time") {
		t.Errorf("found %v: %+v", names(d), f)
	}
}
