package diagnose

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
)

// asks returns a fixture's line: the number of exchanges per second with a PostgreSQL.
func asks(stage, times string) string {
	return stage + " target.outgoing.exchanges.192.0.2.7:5432 += " + times
}

func TestOneWhoAsksAgainAndAgainForARequestIsTold(t *testing.T) {
	often := []string{asks("before", "8000"), asks("half", "10000"), asks("at-line", "20000")}
	f := diagnosed(t, often...).found("slow-dependency")
	if f == nil || f.Rank != Cost || f.Gain.Factor <= 1 ||
		!f.says("20.0 small segments with data go to 192.0.2.7:5432 (usually PostgreSQL)") ||
		!f.says("N+1") {
		t.Errorf("%+v", f)
	}
	few := []string{asks("before", "1600"), asks("half", "2000"), asks("at-line", "4000")}
	if d := diagnosed(t, few...); d.found("slow-dependency") != nil {
		t.Errorf("four questions for each request are a finding: %v", names(d))
	}
	begun := append(often, "all host.tcp.opened_active += 950",
		"all target.outgoing.time_wait = 5800", "all target.outgoing.established = 5")
	if d := diagnosed(t, begun...); d.found("slow-dependency") != nil {
		t.Errorf("connections that are begun again and again are questions: %v", names(d))
	}
	if d := diagnosed(t, asks("all", "9000")); d.found("slow-dependency") != nil {
		t.Errorf("what has nothing to do with the load is a finding: %v", names(d))
	}
	// Traffic that goes on without requests does not count: five exchanges per request, and 6,000 a
	// second besides.
	besides := []string{asks("before", "8000"), asks("half", "8500"), asks("at-line", "11000")}
	if d := diagnosed(t, besides...); d.found("slow-dependency") != nil {
		t.Errorf("five for each request, beside what goes on without any: %v", names(d))
	}
	for _, load := range []string{"half", "at-line"} {
		if d := diagnosed(t, asks(load, "20000")); d.found("slow-dependency") != nil {
			t.Errorf("only %s was seen: %v", load, names(d))
		}
	}
}

func TestAThreadThatIsBusyAskingIsNotTheCause(t *testing.T) {
	one := []string{
		"all host.cores = 4", "all service 4ms", "at-line service 9ms", "over service 90ms",
		"all target.cpu.seconds += .35", "half target.cpu.seconds += .45",
		"at-line target.cpu.seconds += .93", "over target.cpu.seconds += .97",
		"over target.threads.full = 1", "over goodput 1010",
		"half target.threads.hottest_share = .45", "at-line target.threads.hottest_share = .9",
	}
	d := ofRuntime(t, measure.RuntimeNode, "", one...)
	if d.found("single-threaded") == nil {
		t.Fatalf("found %v, held back %+v", names(d), d.HeldBack)
	}
	often := append(one, asks("before", "8000"), asks("half", "10000"), asks("at-line", "20000"))
	d = ofRuntime(t, measure.RuntimeNode, "", often...)
	if len(d.Findings) < 2 || d.Findings[0].Rule != "slow-dependency" ||
		d.Findings[0].Rank != Binding {
		t.Errorf("found %v: %+v", names(d), d.Findings)
	}
}

// warmedUp is the diagnosis of a fixture whose survey ended after two steps of its warm-up, which
// got the verdicts first and last.
func warmedUp(t *testing.T, first, last record.Judgement, lines ...string) *Diagnosis {
	t.Helper()
	run := newFixture(t, slices.Concat(strings.Split(base, "\n"), lines)...).open(t)
	run.Steps = run.Steps[:2]
	for i := range run.Steps {
		run.Steps[i].Plan.Phase, run.Steps[i].Plan.Rate = measure.PhaseWarmUp, 0
	}
	first.Step, last.Step = 1, 2
	run.Result = &record.Result{Judgements: []record.Judgement{first, last}}
	return Run(run)
}

// broke is the verdict on a step that broke an objective by a share of the requests.
func broke(objective string, share float64) record.Judgement {
	return record.Judgement{Verdict: record.Fail, Objectives: []record.ObjectiveShare{{
		Objective: objective, Share: model.Interval{Estimate: share}, Allowed: .01,
	}}}
}

// alone is the diagnosis of a fixture whose survey ended after the warm-up, because no request was
// quick.
func alone(t *testing.T, lines ...string) *Diagnosis {
	t.Helper()
	return warmedUp(t, broke("p99<50ms", .9), broke("p99<50ms", .9), lines...)
}

func TestLoneRequestsAreTooSlowOnlyWhereThatWasJudged(t *testing.T) {
	slow := broke("p99<50ms", .9)
	good := record.Judgement{Verdict: record.Undecided}
	lines := []string{"all service 90ms", "all target.cpu.seconds += 1"}
	failing := []string{"all failed bad_status .02"}
	for name, c := range map[string]struct {
		first, last record.Judgement
		lines       []string
	}{
		"stopped after a good warm-up":       {good, good, nil},
		"cold at first, and fine later":      {slow, good, nil},
		"only errors":                        {good, broke("errors<1%", .02), nil},
		"as many fail as break the latency":  {good, broke("p99<50ms", .02), failing},
		"it broke, and nothing was too slow": {good, record.Judgement{Verdict: record.Fail}, nil},
	} {
		d := warmedUp(t, c.first, c.last, append(lines, c.lines...)...)
		if d.found("slow-dependency") != nil || d.First.What != "unknown" {
			t.Errorf("%s: found %v, first %+v", name, names(d), d.First)
		}
		d = warmedUp(t, c.first, c.last, append(c.lines, "all service 90ms",
			"all target.cpu.seconds += 40")...)
		if d.First.What == "the time that a request computes" {
			t.Errorf("%s, of one that computes: first %+v", name, d.First)
		}
	}
	if d := warmedUp(t, good, slow, lines...); d.found("slow-dependency") == nil {
		t.Errorf("the last one is too slow: found %v", names(d))
	}
}

func TestARequestThatIsSlowWhenItIsAloneIsToldWhereItWaits(t *testing.T) {
	slow := []string{"all service 90ms", "all target.cpu.seconds += 1"}
	for says, lines := range map[string][]string{
		"22.2 small segments with data go to 192.0.2.7:5432": {asks("all", "10000")},
		"TCP_NODELAY":                                        {asks("all", "950")},
		"sleep for a time":                                   standingIn("py;sleep;nap;hr", "1", "1", "1"),
		"waits for what it asks (192.0.2.8:6379":             {"all target.outgoing.to.192.0.2.8:6379 = 3"},
		"it asks nobody, so it sleeps, or waits for a timer": nil,
	} {
		d := alone(t, append(lines, slow...)...)
		f := d.found("slow-dependency")
		if f == nil || len(d.Findings) != 1 || !f.says(says) && !strings.Contains(f.Claim, says) ||
			d.First.What != f.Rule {
			t.Errorf("%s: found %v: %+v", says, names(d), f)
		}
	}
	d := alone(t, "all service 90ms", "all target.cpu.seconds += 40")
	if len(d.Findings) != 0 || d.First.What != "the time that a request computes" {
		t.Errorf("one that computes: found %v, %+v", names(d), d.First)
	}
}

func TestADelayedAcknowledgementIsSeenAmongQuickQuestionsToo(t *testing.T) {
	for service, hint := range map[string]string{
		"41ms": "for all of them", // 40 ms and 1 ms
		"84ms": "for each",
		"60ms": "",
		"20ms": "",
	} {
		f := alone(t, "all service "+service, "all target.cpu.seconds += .1", asks("all", "900")).
			found("slow-dependency")
		if f == nil || f.says("TCP_NODELAY") != (hint != "") || !f.says(hint) {
			t.Errorf("two questions in %s: %+v", service, f)
		}
	}
}

// What requests ask at the same time on one connection shares segments, so that fewer go to and fro.
func TestQuestionsThatShareAConnectionAreCountedWhereFewRequestsAre(t *testing.T) {
	const to = " target.outgoing.exchanges.127.0.0.1:7000 += "
	lines := []string{
		"all target.outgoing.to.127.0.0.1:7000 = 1", "all target.outgoing.established = 1",
		"all target.processes = 1", "all " + redis + " += .2", "all target.threads.hottest_share = .4",
		"at-line target.threads.hottest_share = .9", "at-line target.cpu.seconds += .95",
		"before" + to + "7600", "half" + to + "9000", "at-line" + to + "5000",
	}
	f := ofRuntime(t, measure.RuntimeNode, "", lines...).found("slow-dependency")
	if f == nil || !f.says("14.0 small segments with data go to redis-server at 127.0.0.1:7000") {
		t.Errorf("found %+v", f)
	}
	d := ofRuntime(t, measure.RuntimeNode, "", append(lines, "half"+to+"8000")...)
	if d.found("slow-dependency") != nil {
		t.Errorf("as much at each rate: found %v", names(d))
	}
}

// The clients of Node for HTTP compute longer for a question than those of databases.
func TestAThreadThatIsBusyAskingOverHTTPIsNotTheCause(t *testing.T) {
	const to, behind = " target.outgoing.exchanges.127.0.0.1:9000 += ", "behind.cpu_seconds.127.0.0.1:9000/"
	lines := []string{
		"all host.cores = 4", "all service 12ms", "at-line service 20ms", "over service 90ms",
		"all goodput 36", "half goodput 45", "at-line goodput 110", "over goodput 115",
		"all target.cpu.seconds += .3", "half target.cpu.seconds += .4",
		"at-line target.cpu.seconds += .93", "over target.cpu.seconds += .97",
		"over target.threads.full = 1", "half target.threads.hottest_share = .4",
		"at-line target.threads.hottest_share = .9", "all target.processes = 1",
		"all target.outgoing.to.127.0.0.1:9000 = 6", "all target.outgoing.established = 6",
		"before" + to + "470", "half" + to + "600", "at-line" + to + "1400",
	}
	first := func(runtime, program string) string {
		d := ofRuntime(t, runtime, "", append(lines, "all "+behind+program+" += .3")...)
		if len(d.Findings) == 0 {
			return ""
		}
		return d.Findings[0].Rule
	}
	if got := first(measure.RuntimeNode, "shop"); got != "slow-dependency" {
		t.Errorf("over HTTP: found %q", got)
	}
	if got := first(measure.RuntimeNode, "postgres"); got != "single-threaded" {
		t.Errorf("a database: found %q", got)
	}
	if got := first(measure.RuntimeJVM, "shop"); got != "single-threaded" {
		t.Errorf("Java: found %q", got)
	}
}
