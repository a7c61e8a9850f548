package diagnose

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

func TestAFewConnectionsThatGrowWithTheRequestsAreALeak(t *testing.T) {
	few := []string{
		"all target.memory.rss_bytes = 50000000", "before target.outgoing.established = 10",
		"half target.outgoing.established = 25 to 40", "at-line target.outgoing.established = 40 to 70",
		"over target.outgoing.established = 70 to 110",
	}
	f := diagnosed(t, append(few, "after target.outgoing.established = 110 to 122")...).found("leak")
	if f == nil || !f.says("122 after the survey where there were 10") || f.Rank != Risk {
		t.Errorf("found %+v", f)
	}
	// A pool that grew with the load, and stays as large.
	d := diagnosed(t, "all target.memory.rss_bytes = 50000000",
		"before target.outgoing.established = 10", "half target.outgoing.established = 12",
		"at-line target.outgoing.established = 60", "over target.outgoing.established = 120",
		"after target.outgoing.established = 60 to 75")
	if d.found("leak") != nil {
		t.Errorf("found %v", names(d))
	}
}

// leaking is a service whose memory grows with each request.
var leaking = []string{
	"before target.memory.rss_bytes = 100000000 to 110000000",
	"half target.memory.rss_bytes = 110000000 to 130000000",
	"at-line target.memory.rss_bytes = 130000000 to 170000000",
	"over target.memory.rss_bytes = 170000000 to 230000000",
	"after target.memory.rss_bytes = 230000000 to 240000000",
}

func TestAHeapThatGrowsInJumpsIsNotALeak(t *testing.T) {
	jumps := []string{
		"before target.memory.rss_bytes = 100000000 to 150000000",
		"half target.memory.rss_bytes = 110000000 to 150000000",
		"at-line target.memory.rss_bytes = 124000000 to 128000000",
		"over target.memory.rss_bytes = 150000000 to 200000000",
		"after target.memory.rss_bytes = 225000000 to 240000000",
	}
	if d := diagnosed(t, jumps...); d.found("leak") != nil {
		t.Errorf("found %v", names(d))
	}
	steady := append(jumps, "at-line target.memory.rss_bytes = 150000000 to 180000000")
	if d := diagnosed(t, steady...); d.found("leak") == nil {
		t.Errorf("without a rest: found %v, held back %+v", names(d), d.HeldBack)
	}
}

func TestWhatAnOverloadHoldsHidesNoLeak(t *testing.T) {
	d := diagnosed(t,
		"before target.memory.rss_bytes = 100000000 to 110000000",
		"half target.memory.rss_bytes = 110000000 to 130000000",
		"at-line target.memory.rss_bytes = 130000000 to 170000000",
		"over target.memory.rss_bytes = 290000000 to 350000000",
		"after target.memory.rss_bytes = 230000000 to 240000000")
	if d.found("leak") == nil {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
}

func TestALeakSetsTheLineWhereWhatWasServedBeforeFailsLater(t *testing.T) {
	run := newFixture(t, append(strings.Split(base, "\n"), leaking...)...).open(t)
	if f := Run(run).found("leak"); f == nil || f.Rank != Risk {
		t.Fatalf("while the line holds: %+v", f)
	}
	run.Result.Line.Interval.Estimate = 400
	for i := range run.Result.Judgements {
		j := &run.Result.Judgements[i]
		switch j.Rate {
		case 1000:
			j.Step = 0
			j.Verdict = record.Undecided
			j.Goodput.Estimate = 990
		case 400:
			j.Verdict = record.Fail
		}
	}
	d := Run(run)
	if f := d.found("leak"); f == nil || f.Rank != Binding || !f.says("the line has fallen to 400") ||
		d.First.What != "leak" {
		t.Errorf("found %+v, and the bottleneck is %+v", f, d.First)
	}
}

func TestMemoryThatGrewAllAlongIsALeakWhereASurveyEndsWithoutAGentleLoad(t *testing.T) {
	cut := func(lines ...string) *record.Run {
		run := newFixture(t, append(strings.Split(base, "\n"), lines...)...).open(t)
		run.Steps = run.Steps[:len(run.Steps)-1]
		first := run.Steps[0] // five steps are looked at
		first.Plan.Number = 0
		run.Steps = append([]measure.Step{first}, run.Steps...)
		return run
	}
	f := Run(cut(leaking...)).found("leak")
	if f == nil || !f.says("200 MB after the survey where there were 105 MB at its beginning") {
		t.Errorf("found %+v", f)
	}
	once := Run(cut("before target.memory.rss_bytes = 100000000",
		"half target.memory.rss_bytes = 230000000", "at-line target.memory.rss_bytes = 230000000", "over target.memory.rss_bytes = 230000000"))
	if once.found("leak") != nil {
		t.Errorf("a heap that has grown once: found %v", names(once))
	}
}

func TestMemoryThatComesAndGoesIsJudgedByWhereItIsOnItsWay(t *testing.T) {
	for _, c := range []struct {
		values []float64
		least  float64
		most   float64
	}{
		{[]float64{10, 14, 12, 16, 14, 18, 16, 20, 12}, 4, 8},
		{[]float64{10, 14, 10, 14, 10, 14, 10, 14, 10}, -.1, .1},
		{[]float64{10}, 0, 0},
	} {
		if got := climb(c.values); got < c.least || got > c.most {
			t.Errorf("%v climb by %v, want %v to %v", c.values, got, c.least, c.most)
		}
	}
}

func TestMemoryThatCollectionsLeaveInTheOldGenerationIsALeakOfAJVM(t *testing.T) {
	most := "268435456"
	lines := func(old ...string) (all []string) {
		for i, stage := range []string{"before", "half", "at-line", "over", "after"} {
			all = append(all, stage+" target.gc.old_bytes = "+old[i])
		}
		return append(all, "all target.memory.rss_bytes = 700000000",
			"all target.gc.old_most_bytes = "+most,
			"all host.memory.available_bytes = 16000000000")
	}
	f := runsOn(t, measure.RuntimeJVM, lines("20000000 to 30000000", "30000000 to 50000000",
		"50000000 to 90000000", "90000000 to 146000000", "146000000 to 150000000")...).found("leak")
	if f == nil || !f.says("old generation") || !namesPlace(f, "for each request") ||
		!namesPlace(f, "GC.class_histogram") {
		t.Errorf("found %+v", f)
	}
	d := runsOn(t, measure.RuntimeJVM, lines("20000000 to 30000000", "30000000 to 50000000",
		"50000000 to 90000000", "90000000 to 146000000", "25000000")...)
	if d.found("leak") != nil {
		t.Errorf("garbage that grew old and was collected: found %v", names(d))
	}
	most = "4000000000"
	d = runsOn(t, measure.RuntimeJVM, lines("20000000 to 30000000", "30000000 to 50000000",
		"50000000 to 90000000", "90000000 to 146000000", "146000000 to 150000000")...)
	if d.found("leak") != nil {
		t.Errorf("an old generation that nobody has looked through yet: found %v", names(d))
	}
}

func TestALittleMemoryIsALeakWhereItFollowsTheRequestsInAStraightLine(t *testing.T) {
	f := diagnosed(t, "before target.memory.rss_bytes = 30000000 to 31200000",
		"half target.memory.rss_bytes = 31200000 to 33200000",
		"at-line target.memory.rss_bytes = 33200000 to 37200000",
		"over target.memory.rss_bytes = 37200000 to 42800000",
		"after target.memory.rss_bytes = 42800000 to 44000000").found("leak")
	if f == nil || !namesPlace(f, "for each request") {
		t.Errorf("found %+v", f)
	}
	d := diagnosed(t, "before target.memory.rss_bytes = 30000000 to 31200000",
		"half target.memory.rss_bytes = 31200000 to 33200000",
		"at-line target.memory.rss_bytes = 43200000 to 44000000",
		"over target.memory.rss_bytes = 44000000 to 44100000",
		"after target.memory.rss_bytes = 44000000 to 44100000")
	if d.found("leak") != nil {
		t.Errorf("a heap that has grown once: found %v", names(d))
	}
}

func TestAFewGoroutinesThatStayBehindAreALeakWhereTheyGoOnGrowing(t *testing.T) {
	stack := " profile goroutine count "
	lines := func(over, after string) []string {
		return []string{
			"all target.memory.rss_bytes = 50000000",
			"half" + stack + "20 runtime.gopark < main.watch < main.(*desk).follow",
			"over" + stack + over + " runtime.gopark < main.watch < main.(*desk).follow",
			"after" + stack + after + " runtime.gopark < main.watch < main.(*desk).follow",
		}
	}
	f := diagnosed(t, lines("130", "142")...).found("leak")
	if f == nil || !f.says("Goroutines stay behind") || !f.says("main.watch") {
		t.Errorf("found %+v", f)
	}
	if d := diagnosed(t, lines("142", "142")...); d.found("leak") != nil {
		t.Errorf("a pool that has grown under the overload: found %v", names(d))
	}
}

func TestProcessesThatNobodyWaitsForAreALeak(t *testing.T) {
	f := diagnosed(t, "all target.memory.rss_bytes = 50000000", "before target.processes = 3",
		"half target.processes = 8 to 12", "at-line target.processes = 12 to 30",
		"over target.processes = 30 to 52", "after target.processes = 52 to 58").found("leak")
	if f == nil || !f.says("58.0 after the survey where there were 3.00") || !namesPlace(f, "zombie") {
		t.Errorf("found %+v", f)
	}
}

func TestRequestsThatBecomeMoreExpensiveAreALeak(t *testing.T) {
	grows := []string{
		"all target.memory.rss_bytes = 50000000", "before target.cpu.seconds += .1",
		"half target.cpu.seconds += .2", "at-line target.cpu.seconds += .7",
		"over target.cpu.seconds += 1.6",
	}
	f := diagnosed(t, append(grows, "after target.cpu.seconds += .5")...).found("leak")
	if f == nil || !f.says("0.50 processors after the survey where it used 0.10 before") {
		t.Errorf("found %+v", f)
	}
	d := diagnosed(t, append(grows, "after target.cpu.seconds += .15")...)
	if d.found("leak") != nil {
		t.Errorf("little more: found %v", names(d))
	}
}

// What takes the last descriptor leaves no more behind.
func TestALeakOfDescriptorsThatHasReachedTheirLimitIsTheCause(t *testing.T) {
	lines := []string{
		"all target.memory.rss_bytes = 50000000", "before target.descriptors = 60 to 150",
		"half target.descriptors = 150 to 400", "at-line target.descriptors = 400 to 900",
		"over target.descriptors = 900 to 1024", "after target.descriptors = 1023 to 1024",
		"before target.descriptors_most = 150", "at-line target.descriptors_most = 900", "over target.descriptors_most = 1024",
		"after target.descriptors_most = 1024",
	}
	for limit, want := range map[string][]string{
		"1024": {"leak", "descriptors-near-limit"}, "4096": nil,
	} {
		d := diagnosed(t, append(slices.Clone(lines), "all target.descriptors_limit = "+limit)...)
		if got := names(d); !slices.Equal(got, want) {
			t.Errorf("a limit of %s: found %v, held back %+v", limit, got, d.HeldBack)
		}
	}
}
