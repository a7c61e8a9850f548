package diagnose

import (
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

// oneThread is a service whose requests take 4 ms of processor time each, on one thread. They wait
// for it although it is idle for a third of the time.
var oneThread = strings.Split(`
	station 1
	all host.cpu.busy_seconds += .7
	over host.cpu.busy_seconds += .9
	before goodput 60
	half goodput 75
	at-line goodput 150
	over goodput 190
	before target.cpu.seconds += .24
	half target.cpu.seconds += .3
	at-line target.cpu.seconds += .6
	over target.cpu.seconds += .76
	all target.threads.hottest_share = .3
	at-line target.threads.hottest_share = .59
	over target.threads.hottest_share = .75
	all service 5ms
	at-line service 15ms
	over service 40ms`, "\n")

func TestOneThreadThatDoesAllOfTheWorkIsSeenBeforeItIsFull(t *testing.T) {
	const claim = "One thread does the work of all requests"
	f := ofRuntime(t, measure.RuntimeC, "nginx", oneThread...).found("single-threaded")
	if f == nil || !f.says(claim) || !f.says("worker_processes") {
		t.Errorf("found %+v", f)
	}
	for what, lines := range map[string][]string{
		"others work too": {"at-line target.threads.hottest_share = .4"},
		"it is mostly idle": {
			"at-line target.threads.hottest_share = .45", "over target.threads.hottest_share = .45",
		},
		"no processor is idle":                  {"all host.cpu.busy_seconds += 1.7", "over host.cpu.busy_seconds += 1.7"},
		"requests mostly wait":                  {"all service 20ms", "half service 20ms", "at-line service 30ms"},
		"several are served":                    {"station 2"},
		"it has one processor":                  {"all host.cores = 1"},
		"they delay each other by another time": {"at-line goodput 300"},
	} {
		d := ofRuntime(t, measure.RuntimeC, "nginx", append(oneThread, lines...)...)
		if f := d.found("single-threaded"); f != nil && f.says(claim) {
			t.Errorf("%s: found %+v", what, f)
		}
	}
	// One event loop is how such a service is made.
	d := ofRuntime(t, measure.RuntimeNode, "", oneThread...)
	if f := d.found("single-threaded"); f != nil && f.says(claim) {
		t.Errorf("found %+v", f)
	}
}
