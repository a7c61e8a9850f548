package diagnose

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

func TestALeakStandsBeforeTheLimitThatItReaches(t *testing.T) {
	lines := append(idleService, "all target.memory.rss_bytes = 50000000",
		"all target.descriptors_limit = 1024", "before target.descriptors = 40",
		"half target.descriptors = 40 to 250", "at-line target.descriptors = 250 to 600",
		"over target.descriptors = 600 to 1000", "after target.descriptors = 900 to 1000",
		"half target.descriptors_most = 250", "at-line target.descriptors_most = 1000",
		"over target.descriptors_most = 1000")
	d := diagnosed(t, lines...)
	if found := names(d); !slices.Equal(found, []string{"leak", "descriptors-near-limit"}) ||
		d.Findings[0].Rank != d.Findings[1].Rank || d.First.What != "leak" {
		t.Errorf("found %v, and the bottleneck is %+v", found, d.First)
	}
}

func TestAConsequenceStandsBehindItsCauseAndOthersStay(t *testing.T) {
	e := newEvidence(newFixture(t, "all listener.queue_limit = 128").open(t))
	findings := []Finding{
		{Rule: "retransmits", Rank: Binding}, {Rule: "accept-queue-overflow", Rank: Binding},
		{Rule: "json-hot", Rank: Cost}, {Rule: "client-connections-closed", Rank: Cost},
	}
	e.causesFirst(findings)
	var got []string
	for _, f := range findings {
		got = append(got, f.Rule)
	}
	if !slices.Equal(got, []string{
		"retransmits", "client-connections-closed", "accept-queue-overflow", "json-hot",
	}) || findings[1].Rank != Binding {
		t.Errorf("the order is %v: %+v", got, findings)
	}
	// A backlog that is too short overflows without another cause.
	e = newEvidence(newFixture(t, "all listener.queue_limit = 2").open(t))
	findings = findings[2:]
	slices.Reverse(findings)
	findings[1].Rule, findings[0].Rule = "client-connections-closed", "accept-queue-overflow"
	if e.causesFirst(findings); findings[0].Rule != "accept-queue-overflow" {
		t.Errorf("the first is %s", findings[0].Rule)
	}
}

// A further process would waste as much. If most of what a single thread does is waste, the waste
// is what to change first.
func TestWhatASingleThreadWastesStandsBeforeTheThread(t *testing.T) {
	for json, want := range map[string][]string{
		"8000000000": {"json-hot", "single-threaded"},
		"2000000000": {"single-threaded", "json-hot"},
	} {
		lines := append(strings.Split(base, "\n"), "all service 1.3ms", "at-line service 12ms",
			"over service 60ms", "all host.cpu.busy_seconds += 1.02",
			"half target.cpu.seconds += .5", "at-line target.cpu.seconds += .96",
			"over target.cpu.seconds += .99", "all target.threads.hottest_share = 0.93",
			"half target.threads.hottest_share = 0.5",
			"at-line profile cpu nanoseconds "+json+
				" x < encoding/json.Marshal < main.handle < net/http.(*conn).serve",
			"at-line profile cpu nanoseconds 2000000000 main.handle < net/http.(*conn).serve",
			"at-line profile cpu nanoseconds 2000000000 main.page < net/http.(*conn).serve",
		)
		run := newFixture(t, lines...).open(t)
		run.Manifest.Machine.TargetRuntime = measure.RuntimeNode
		d := Run(run)
		if found := names(d); !slices.Equal(found, want) || d.First.What != want[0] {
			t.Errorf("found %v, and the bottleneck is %+v", found, d.First)
		}
	}
}

// A waste that takes two fifths of a single thread comes first, though a further thread gains as much: it
// would waste as much of its time.
func TestAWasteOfTwoFifthsOfAThreadStandsBeforeFurtherThreads(t *testing.T) {
	lines := []string{
		"all service 1.3ms", "at-line service 12ms", "over service 60ms",
		"all host.cpu.busy_seconds += 1.02", "half target.cpu.seconds += .5",
		"at-line target.cpu.seconds += .92", "over target.cpu.seconds += .99",
		"all target.threads.hottest_share = 0.9", "half target.threads.hottest_share = 0.5",
		"at-line profile cpu nanoseconds 2600000000 x < regexp.MustCompile < main.handle < net/http.(*conn).serve",
		"at-line profile cpu nanoseconds 1800000000 main.handle < net/http.(*conn).serve",
		"at-line profile cpu nanoseconds 1600000000 main.page < net/http.(*conn).serve",
	}
	d := ofRuntime(t, measure.RuntimeNode, "", lines...)
	if !slices.Equal(names(d), []string{"cpu-hot-function", "single-threaded"}) ||
		d.Findings[0].Gain.Factor < muchWasted || worth(&d.Findings[0]) > worth(&d.Findings[1]) {
		t.Errorf("found %v: %+v", names(d), d.Findings)
	}
}

// A client of java.net.http leaves a thread behind until it is collected.
func TestClientsThatAreMadeForEachRequestComeBeforeTheThreadsThatTheyLeave(t *testing.T) {
	lines := []string{
		"all host.tcp.opened_active += 900", "all target.outgoing.time_wait = 100",
		"all target.memory.rss_bytes = 50000000", "before target.outgoing.established = 10",
		"half target.outgoing.established = 25 to 4000", "at-line target.outgoing.established = 4000 to 13000",
		"over target.outgoing.established = 13000 to 20000",
		"after target.outgoing.established = 20000 to 24000",
	}
	for thread, want := range map[string]string{
		"HttpClient-17-S": "upstream-connections-not-reused", "http-nio-8080-e": "leak",
	} {
		d := ofRuntime(t, measure.RuntimeJVM, "", append(lines, "all target.threads.cpu_seconds."+thread+" += .1")...)
		if d.found("leak") == nil || d.found("upstream-connections-not-reused") == nil || names(d)[0] != want {
			t.Errorf("%s: found %v, held back %+v", thread, names(d), d.HeldBack)
		}
	}
}
