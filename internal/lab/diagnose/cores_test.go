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
			"at-line goodput 112", "at-line target.cpu.seconds += .45",
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

// turns is one process whose threads use one of two processors together, and mostly wait.
var turns = strings.Split(`
	all host.cpu.busy_seconds += .6
	at-line host.cpu.busy_seconds += 1.2
	over host.cpu.busy_seconds += 1.3
	all target.processes = 1
	all target.cpu.seconds += .4
	at-line target.cpu.user_seconds += .8
	all target.outgoing.established = 0
	at-line target.threads.at.python;futex;futex;futex_do_wait = 6
	over target.threads.at.python;futex;futex;futex_do_wait = 20
	half target.cpu.seconds += .5
	at-line target.cpu.seconds += .93
	over target.cpu.seconds += .98
	all target.threads.full = 0
	all target.threads.hottest_share = .15`, "\n")

func TestThreadsThatTakeTurnsWithALockOfTheLanguageUseOneProcessor(t *testing.T) {
	for _, runtime := range []string{measure.RuntimeCPython, measure.RuntimeRuby} {
		if f := ofRuntime(t, runtime, "", turns...).found("single-threaded"); f == nil {
			t.Errorf("%s: not found", runtime)
		}
	}
	if f := ofRuntime(t, measure.RuntimeC, "", turns...).found("single-threaded"); f != nil {
		t.Errorf("C: found %+v", f)
	}
	started := append(turns, "all target.processes = 2")
	if ofRuntime(t, measure.RuntimeCPython, "gunicorn", started...).found("single-threaded") == nil {
		t.Error("gunicorn and its worker: not found")
	}
	// Each thread keeps a connection, and lone requests would take most of them, or all.
	for open, full := range map[string]bool{"9": false, "7": true} {
		d := ofRuntime(t, measure.RuntimeCPython, "", append(turns, "over goodput 1200",
			"all target.outgoing.established = "+open, "all target.outgoing.to.192.0.2.7:80 = "+open)...)
		if f := d.found("single-threaded"); (f == nil) != full {
			t.Errorf("%s connections: found %v", open, names(d))
		}
	}
	// What the kernel does for them, of which each third is, takes no turn.
	kernel := append(turns, "at-line host.cpu.busy_seconds += 1.4", "over host.cpu.busy_seconds += 1.6",
		"at-line target.cpu.seconds += 1.1", "over target.cpu.seconds += 1.3",
		"at-line target.cpu.user_seconds += .8", "over target.cpu.user_seconds += .92")
	if ofRuntime(t, measure.RuntimeCPython, "", kernel...).found("single-threaded") == nil {
		t.Error("a third of it in the kernel: not found")
	}
	// The threads of a pool stand in one place while they have nothing to do, and while they wait.
	pool := append(turns, "all target.threads = 9",
		"all target.threads.at.python;futex;futex;futex_do_wait = 7")
	if ofRuntime(t, measure.RuntimeCPython, "", pool...).found("single-threaded") == nil {
		t.Error("a pool of eight: not found")
	}
	for what, line := range map[string]string{
		"few of a pool's threads wait":  "all target.threads = 60",
		"two processes share the work":  "all target.threads.hottest_share = .5",
		"there are several processes":   "all target.processes = 2",
		"it works in the kernel":        "at-line target.cpu.user_seconds += .4",
		"no thread waits for its turn":  "over target.threads.at.python;futex;futex;futex_do_wait = 0",
		"it uses more beyond the line":  "over target.cpu.seconds += 1.5",
		"few requests are inside there": "over service 2ms",
	} {
		lines := turns
		if strings.Contains(line, "target.threads = ") {
			lines = pool
		}
		d := ofRuntime(t, measure.RuntimeCPython, "", append(lines, line)...)
		if f := d.found("single-threaded"); f != nil {
			t.Errorf("%s: found %+v", what, f)
		}
	}
}

func TestThreadsThatShareTheWorkUseAWholeProcessorByChance(t *testing.T) {
	lines := []string{
		"all host.cpu.busy_seconds += .5", "at-line host.cpu.busy_seconds += 1",
		"over host.cpu.busy_seconds += 1.2", "half target.cpu.seconds += .45",
		"at-line target.cpu.seconds += .8", "over target.cpu.seconds += .98",
		"all service 800us", "half service 800us", "at-line service 1ms", "over goodput 1100",
		"over service 60ms", "all target.threads.full = 0",
	}
	for hottest, found := range map[string]bool{".06": false, ".8": true} {
		d := ofRuntime(t, measure.RuntimeJVM, "",
			append(lines, "all target.threads.hottest_share = "+hottest)...)
		if f := d.found("single-threaded"); (f != nil) != found {
			t.Errorf("%s: found %v, held back %+v", hottest, names(d), d.HeldBack)
		}
	}
}

// Of two looks at a thread, the first is also about the time before the step.
func TestTheLaterLooksTellWhetherAThreadIsFull(t *testing.T) {
	for _, c := range []struct {
		looks []float64
		want  float64
	}{
		{[]float64{0, 1}, 1}, {[]float64{1, 0}, 0}, {[]float64{1}, 1}, {[]float64{0, 1, 1, 0}, 1}, {nil, 0},
	} {
		m := &Moment{Step: &measure.Step{}}
		for i, n := range c.looks {
			m.Step.Samples = append(m.Step.Samples, measure.Sample{
				At: int64(i), Values: map[string]float64{measure.TargetThreadsFull: n},
			})
		}
		e := &Evidence{AtLine: m, Over: m}
		if got := e.fullThreads(); got != c.want {
			t.Errorf("%v: %v threads are full, want %v", c.looks, got, c.want)
		}
	}
}

// A thread that tries again and again while a crowd waits is full because of the crowd.
func TestAThreadThatIsFullOnlyBecauseOfTheCrowdIsNotTheLimit(t *testing.T) {
	lines := []string{
		"all host.cpu.busy_seconds += .4", "over host.cpu.busy_seconds += 1.2",
		"all goodput 80", "at-line goodput 170", "over goodput 170",
		"all target.cpu.seconds += .08", "at-line target.cpu.seconds += .17",
		"over target.cpu.seconds += .95", "all service 5ms", "at-line service 20ms",
		"over service 300ms", "all target.threads.full = 0", "over target.threads.full = 1",
		"all target.threads.hottest_share = .08", "at-line target.threads.hottest_share = .17",
		"over target.threads.hottest_share = .93",
	}
	for name, c := range map[string]struct {
		line string
		want bool
	}{
		"five times as much for each":  {"all target.outgoing.established = 0", false},
		"its thread was busy before":   {"at-line target.threads.hottest_share = .5", true},
		"a request does little else":   {"all target.cpu.seconds += .3", true},
		"as much for each as it costs": {"over goodput 800", true},
	} {
		d := ofRuntime(t, measure.RuntimeNode, "", append(lines, c.line)...)
		if f := d.found("single-threaded"); (f != nil) != c.want {
			t.Errorf("%s: found %v, held back %+v", name, names(d), d.HeldBack)
		}
	}
}

// A line that was found too low, by chance, is not that of a service which cannot use more.
func TestAServiceThatAnswersAsQuicklyAsEverIsNotAtTheEndOfAProcessor(t *testing.T) {
	lines := []string{
		"all host.cpu.busy_seconds += .5", "at-line host.cpu.busy_seconds += 1",
		"over host.cpu.busy_seconds += 1.1", "half target.cpu.seconds += .45",
		"at-line target.cpu.seconds += .8", "over target.cpu.seconds += .88",
		"all service 800us", "half service 800us", "at-line service 1ms", "over goodput 1100",
	}
	for took, found := range map[string]bool{"1ms": false, "60ms": true} {
		d := ofRuntime(t, measure.RuntimeGo, "", append(lines, "over service "+took)...)
		if f := d.found("single-threaded"); (f != nil) != found {
			t.Errorf("%s: found %v, held back %+v", took, names(d), d.HeldBack)
		}
	}
}

func TestThreadsThatWaitForALockAreNotOneThread(t *testing.T) {
	whole := strings.Split(`
		all host.cpu.busy_seconds += .8
		at-line host.cpu.busy_seconds += 1.2
		over host.cpu.busy_seconds += 1.2
		at-line target.cpu.seconds += .95
		over target.cpu.seconds += .98
		all target.cpu.seconds += .9
		all target.outgoing.established = 0
		all service 1200us
		at-line service 12ms
		over service 60ms`, "\n")
	lock := standingIn("http-nio;futex;futex;futex_do_wait", "0", "9", "50")
	d := ofRuntime(t, measure.RuntimeJVM, "", whole...)
	if d.found("single-threaded") == nil {
		t.Fatalf("without those that wait: found %v, held back %+v", names(d), d.HeldBack)
	}
	d = ofRuntime(t, measure.RuntimeJVM, "", append(whole, lock...)...)
	if f := d.found("single-threaded"); f != nil {
		t.Errorf("found %+v", f)
	}
	// Those that wait for the one thread which does the work wait for no other lock.
	d = ofRuntime(t, measure.RuntimeJVM, "", append(oneThread, lock...)...)
	if d.found("single-threaded") == nil {
		t.Errorf("one thread: found %v, held back %+v", names(d), d.HeldBack)
	}
	// Threads of Python wait for its own lock, which is why one processor is used.
	d = ofRuntime(t, measure.RuntimeCPython, "", append(whole, lock...)...)
	if d.found("single-threaded") == nil {
		t.Errorf("Python: found %v, held back %+v", names(d), d.HeldBack)
	}
}

func TestAQuotaSetsTheLineWhereFewPeriodsAreThrottledYet(t *testing.T) {
	quota := []string{
		"all target.cgroup.cpu_quota_cores = .5", "all target.cpu.seconds += .2",
		"at-line target.cpu.seconds += .35", "over target.cpu.seconds += .48",
		"all target.cgroup.periods += 10", "at-line target.cgroup.throttled_periods += .4",
		"over target.cgroup.throttled_periods += 7",
	}
	if f := diagnosed(t, quota...).found("cgroup-throttled"); f == nil {
		t.Error("not found")
	}
	for what, line := range map[string]string{
		"none at the line":       "at-line target.cgroup.throttled_periods += 0",
		"few beyond it":          "over target.cgroup.throttled_periods += 2",
		"little of it is in use": "over target.cpu.seconds += .3",
		"less at the line":       "at-line target.cpu.seconds += .2",
	} {
		if f := diagnosed(t, append(quota, line)...).found("cgroup-throttled"); f != nil {
			t.Errorf("%s: found %+v", what, f)
		}
	}
}
