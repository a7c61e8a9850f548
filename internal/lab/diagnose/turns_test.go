package diagnose

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

// What threads waste that take turns with the lock of their language is saved for all of them.
func TestWhatThreadsWasteThatTakeTurnsStandsBeforeFurtherProcesses(t *testing.T) {
	waste := slices.Concat(turns, []string{
		"all service 9ms", "half service 9ms", "at-line service 25ms", "over service 90ms",
		"over goodput 1100",
		"at-line profile cpu nanoseconds 4000000000 deepcopy@python3.11/copy.py < page@shop/app.py",
		"at-line profile cpu nanoseconds 4000000000 page@shop/app.py",
	})
	d := ofRuntime(t, measure.RuntimeCPython, "", waste...)
	if len(d.Findings) < 2 || d.Findings[0].Rule != "cpu-hot-function" ||
		d.found("single-threaded") == nil || d.Findings[0].Gain.Factor < 2 ||
		!strings.Contains(d.Findings[0].Gain.Why, sharedLock) {
		t.Errorf("found %v: %+v", names(d), d.Findings)
	}
}

// Requests of different sizes wait for the lock long before it is always taken.
func TestThreadsTakeTurnsThoughTheLineIsWellBeforeTheLockIsFull(t *testing.T) {
	early := append(turns, "at-line target.cpu.seconds += .6", "at-line target.cpu.user_seconds += .56",
		"over target.cpu.seconds += .99", "over target.cpu.user_seconds += .95", "over goodput 1500")
	d := ofRuntime(t, measure.RuntimeCPython, "", early...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "single-threaded" {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
	d = ofRuntime(t, measure.RuntimeCPython, "", append(early, "over target.cpu.user_seconds += .8",
		"over target.cpu.seconds += .84")...)
	if d.found("single-threaded") != nil {
		t.Errorf("it is never full: found %v", names(d))
	}
}

// locked is a service of Java in whose many threads one request at a time computes under a lock. All
// of them stand in a futex at every load.
var locked = []string{
	"all target.outgoing.established = 0", "all service 4200us", "half service 5ms",
	"at-line service 9ms", "over service 90ms", "all goodput 60", "half goodput 95",
	"at-line goodput 190", "over goodput 240", "all target.threads.full = 0",
	"all host.cpu.busy_seconds += .3", "half host.cpu.busy_seconds += .5",
	"at-line host.cpu.busy_seconds += .95", "over host.cpu.busy_seconds += 1.3",
	"all target.cpu.seconds += .25", "half target.cpu.seconds += .4",
	"at-line target.cpu.seconds += .8", "over target.cpu.seconds += 1.04",
	"all target.threads.hottest_share = .06",
}

func TestALockUnderWhichRequestsComputeIsSeenBeforeItIsAlwaysTaken(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		found bool
	}{
		"the line is at four fifths of it": {nil, true},
		"others compute besides": {[]string{"at-line target.cpu.seconds += .98",
			"over target.cpu.seconds += 1.22", "at-line host.cpu.busy_seconds += 1.3"}, true},
		"the threads use more than one": {[]string{"at-line target.cpu.seconds += 1.3",
			"over target.cpu.seconds += 1.5"}, false},
		"no processor is idle": {[]string{"all host.cpu.busy_seconds += 1.6"}, false},
	} {
		d := ofRuntime(t, measure.RuntimeJVM, "", slices.Concat(locked, c.lines)...)
		if f := d.found("concurrency-limited"); (f != nil) != c.found {
			t.Errorf("%s: found %v, held back %+v", name, names(d), d.HeldBack)
		}
	}
	// Most of what it computes there is a waste.
	d := ofRuntime(t, measure.RuntimeJVM, "", append(locked,
		"at-line profile cpu nanoseconds 6000000000 java.util.regex.Pattern.compile < shop.Main.page",
		"at-line profile cpu nanoseconds 2000000000 shop.Main.page")...)
	if len(d.Findings) < 2 || d.Findings[0].Rule != "cpu-hot-function" ||
		d.found("concurrency-limited") == nil || d.found("concurrency-limited").Gain.Factor < 1.3 {
		t.Errorf("found %v: %+v", names(d), d.Findings)
	}
}

// Threads stand in a futex until an asynchronous client has the answer that they wait for.
func TestThreadsThatWaitForAnAsynchronousClientDoNotWaitForALock(t *testing.T) {
	const service = "target.outgoing.waiting.192.0.2.8:80 = "
	lines := slices.Concat(stuck, standingIn("java;futex;futex;futex_do_wait", "2", "6", "50"), []string{
		"all service 15ms", "half service 16ms", "at-line service 40ms", "over service 200ms",
		"all goodput 60", "half goodput 120", "at-line goodput 240", "over goodput 260",
		"all target.outgoing.established = 60", "all target.outgoing.to.192.0.2.8:80 = 60",
		"all " + service + "1", "half " + service + "1.9", "at-line " + service + "6", "over " + service + "45",
	})
	d := ofRuntime(t, measure.RuntimeJVM, "", lines...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "slow-dependency" {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
	d = ofRuntime(t, measure.RuntimeJVM, "", append(lines, "over "+service+"4")...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "concurrency-limited" {
		t.Errorf("few ask: found %v, held back %+v", names(d), d.HeldBack)
	}
}
