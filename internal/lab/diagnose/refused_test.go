package diagnose

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/record"
)

func TestALimitThatRefusesRequestsIsTold(t *testing.T) {
	lines := append([]string{
		"all service 5ms", "at-line service 5ms", "over service 5ms", "over failed bad_status .28",
	}, idleService...)
	lines = append(lines, "over goodput 1010", "all service 300us", "at-line service 300us",
		"over service 310us")
	f := diagnosed(t, lines...).found("concurrency-limited")
	if f == nil || !f.says("limit_req") || !f.says("a limit on the rate") {
		t.Errorf("%+v", f)
	}
	places := append(lines, "all service 9ms", "at-line service 9ms", "over service 9ms")
	if f := diagnosed(t, places...).found("concurrency-limited"); f == nil ||
		!f.says("how many may be inside") {
		t.Errorf("%+v", f)
	}
	// A bounded queue before the limit makes those wait that are let in.
	queued := append(lines, "all service 2ms", "at-line service 8ms", "over service 38ms",
		"all target.outgoing.established = 0")
	if f := diagnosed(t, queued...).found("concurrency-limited"); f == nil ||
		!f.says("wait for their turn first (38.0 ms in all") {
		t.Errorf("a queue: %+v", f)
	}
	// If answers of others are awaited meanwhile, they may be what takes long, and what refuses.
	asking := append(queued, "all target.outgoing.established = 8",
		"all target.outgoing.to.192.0.2.7:80 = 8", "all target.outgoing.waiting.192.0.2.7:80 = 7")
	if f := diagnosed(t, asking...).found("concurrency-limited"); f != nil && f.says("refuses") {
		t.Errorf("what is asked is slow: %+v", f)
	}
	// A service whose processors are busy refuses because of that.
	busy := append(lines, "at-line host.cpu.busy_seconds += 1.9",
		"at-line target.cpu.seconds += 1.8")
	if d := diagnosed(t, busy...); len(d.Findings) != 0 {
		t.Errorf("with processors busy: found %v", names(d))
	}
	// Streams that are refused get no answer.
	streams := append(lines, "over failed bad_status 0", "over failed refused .28")
	f = diagnosed(t, streams...).found("concurrency-limited")
	if f == nil || !f.says("refused before they begin") || f.says("answered with an error") ||
		f.says("limit_req") || !f.says("MaxConcurrentStreams") {
		t.Errorf("refused streams: %+v", f)
	}
	both := append(lines, "over failed refused .1")
	if f := diagnosed(t, both...).found("concurrency-limited"); f == nil ||
		!f.says("are answered with an error, and 6.72 %") || !f.says("limit_req") {
		t.Errorf("both: %+v", f)
	}
}

// A limit on how many may be inside, far above their mean number, refuses a few when many come at once.
func TestALimitThatRefusesAFewRequestsAtOnceIsTold(t *testing.T) {
	lines := slices.Concat(idleService, []string{
		"all service 10ms", "half service 10ms", "at-line service 10ms", "over service 10ms",
		"all goodput 130", "half goodput 190", "at-line goodput 380", "over goodput 483",
		"over failed bad_status .0096",
	})
	diagnosedWith := func(allowed float64, more ...string) *Diagnosis {
		run := newFixture(t, slices.Concat(strings.Split(base, "\n"), lines, more)...).open(t)
		for i := range run.Result.Judgements {
			run.Result.Judgements[i].Objectives = []record.ObjectiveShare{
				{Objective: "p99<50ms", Allowed: .01}, {Objective: "errors<0.1%", Allowed: allowed},
			}
		}
		return Run(run)
	}
	f := diagnosedWith(.001).found("concurrency-limited")
	if f == nil || !f.says("when many come at once") || !f.says("limit_conn") || f.Rank != Binding {
		t.Errorf("found %+v", f)
	}
	// How many come at once is chance, so more may be refused in a step near the line than in one beyond it.
	if f := diagnosedWith(.001, "at-line failed bad_status .006").found("concurrency-limited"); f == nil ||
		!f.says("when many come at once") {
		t.Errorf("with more of them near the line: found %+v", f)
	}
	// Twenty are not by chance.
	for share, found := range map[string]bool{".002": true, ".0012": false} {
		f := diagnosedWith(.001, "over goodput 5000", "over failed bad_status "+share).found("concurrency-limited")
		if is := f != nil && f.says("when many come at once"); is != found {
			t.Errorf("%s of many: found %+v", share, f)
		}
	}
	if d := diagnosedWith(.01); d.found("concurrency-limited") != nil {
		t.Errorf("the objectives allow as many: found %v", names(d))
	}
	for what, line := range map[string]string{
		"some fail at any rate":   "all failed bad_status .0096",
		"the others take longer":  "over service 40ms",
		"the processors are busy": "at-line host.cpu.busy_seconds += 1.5",
		"hardly any fail":         "over failed bad_status .002",
		"some fail at half of it": "half failed bad_status .01",
	} {
		d := diagnosedWith(.001, line)
		if f := d.found("concurrency-limited"); f != nil && f.says("when many come at once") {
			t.Errorf("%s: found %+v", what, f)
		}
	}
}

// nginx's 444, or a limit on connections, closes them in the place of an answer.
func TestALimitThatClosesConnectionsIsTold(t *testing.T) {
	lines := slices.Concat(idleService, []string{
		"all service 300us", "at-line service 300us", "over service 310us", "over goodput 1010",
		"over failed connection_lost .3", "all target.processes = 2",
	})
	f := diagnosed(t, lines...).found("concurrency-limited")
	if f == nil || !f.says("lose their connection and get no answer") || !f.says("444") {
		t.Errorf("found %+v", f)
	}
	for what, line := range map[string]string{
		"some are lost at half of it": "half failed connection_lost .01",
		"a worker has ended":          "over target.processes = 1",
	} {
		if f := diagnosed(t, append(lines, line)...).found("concurrency-limited"); f != nil &&
			f.says("lose their connection") {
			t.Errorf("%s: found %+v", what, f)
		}
	}
}
