package diagnose

import (
	"slices"
	"testing"

	"plimsoll/internal/lab/measure"
)

// A service that keeps connections to a database, and has one request at a time work for 8 ms in
// between. Threads show nothing of it, as those of an event loop or of Go do not.
var limited = slices.Concat(stuck, []string{
	"all service 9ms", "half service 9ms", "at-line service 20ms", "over service 200ms",
	"all goodput 100", "half goodput 120", "at-line goodput 240", "over goodput 250",
	"all target.outgoing.established = 10", "all target.outgoing.to.192.0.2.7:5432 = 10",
	"all target.outgoing.waiting.192.0.2.7:5432 = .4",
})

func TestConnectionsOnWhichNothingIsAskedAreNotWhatRequestsWaitFor(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		first string
	}{
		"idle":  {nil, "concurrency-limited"},
		"asked": {[]string{"over target.outgoing.waiting.192.0.2.7:5432 = 7"}, "slow-dependency"},
		"one of two is asked": {[]string{
			"all target.outgoing.to.192.0.2.8:80 = 4", "all target.outgoing.waiting.192.0.2.8:80 = 1 to 4",
		}, "slow-dependency"},
		"it is not known of one": {[]string{"all target.outgoing.to.unix:/run/shop = 4"}, "slow-dependency"},
		"it carries many at once": {[]string{
			"all target.processes = 10", "all target.outgoing.waiting.192.0.2.7:5432 = 1 to 6",
		}, "slow-dependency"},
		"it could carry many at once": {[]string{"all target.processes = 10"}, "concurrency-limited"},
	} {
		d := diagnosed(t, slices.Concat(limited, c.lines)...)
		if len(d.Findings) == 0 || d.Findings[0].Rule != c.first {
			t.Errorf("%s: found %v, held back %+v", name, names(d), d.HeldBack)
		}
	}
}

func TestAnswersThatComeAsQuicklyAsEverAreNotWhatRequestsWaitFor(t *testing.T) {
	// A request computes for 3.5 ms, and awaits an answer for 5.5 ms, beyond the line as below it.
	awaited := slices.Concat(limited, []string{
		"all goodput 50", "half goodput 100", "at-line goodput 200", "over goodput 210",
		"all target.cpu.seconds += .175", "half target.cpu.seconds += .35",
		"at-line target.cpu.seconds += .7", "over target.cpu.seconds += .73",
		"all target.outgoing.waiting.192.0.2.7:5432 = .27",
		"half target.outgoing.waiting.192.0.2.7:5432 = .55",
		"at-line target.outgoing.waiting.192.0.2.7:5432 = 1.1",
		"over target.outgoing.waiting.192.0.2.7:5432 = 1.15",
	})
	// It awaits 2.4 ms on the only connection of its process.
	one := []string{
		"all target.processes = 1", "all target.outgoing.to.192.0.2.7:5432 = 1",
		"all target.outgoing.established = 1", "before service 5900us", "half service 5900us",
		"all target.outgoing.waiting.192.0.2.7:5432 = .12",
		"half target.outgoing.waiting.192.0.2.7:5432 = .24",
		"at-line target.outgoing.waiting.192.0.2.7:5432 = .48",
		"over target.outgoing.waiting.192.0.2.7:5432 = .5",
	}
	for name, c := range map[string]struct {
		lines []string
		first string
	}{
		"as quickly":            {nil, "concurrency-limited"},
		"later beyond the line": {[]string{"over target.outgoing.waiting.192.0.2.7:5432 = 6"}, "slow-dependency"},
		"what else takes time is not known": {
			[]string{"before service 11500us", "half service 11500us"}, "slow-dependency",
		},
		"on one connection": {one, "slow-dependency"},
		"on one connection, and a thread waits for it": {
			append(standingIn("python;socket_read;recvfrom;", ".24", ".48", ".5"), one...),
			"concurrency-limited",
		},
	} {
		d := diagnosed(t, slices.Concat(awaited, c.lines)...)
		if len(d.Findings) == 0 || d.Findings[0].Rule != c.first {
			t.Errorf("%s: found %v, held back %+v", name, names(d), d.HeldBack)
		}
	}
}

// A request takes one of two connections to a database for 4 ms, and awaits a service for 9 ms.
func TestOneOfTwoThatAreAskedMayHaveFewConnections(t *testing.T) {
	lines := slices.Concat(stuck, []string{
		"all service 14ms", "half service 15ms", "at-line service 25ms", "over service 150ms",
		"all goodput 100", "half goodput 200", "at-line goodput 420", "over goodput 480",
		"all target.cpu.seconds += .1", "half target.cpu.seconds += .2",
		"at-line target.cpu.seconds += .4", "over target.cpu.seconds += .45",
		"all target.outgoing.established = 14",
		"all target.outgoing.to.192.0.2.7:5432 = 2", "all target.outgoing.to.192.0.2.8:80 = 12",
		"all target.outgoing.waiting.192.0.2.7:5432 = .4", "all target.outgoing.waiting.192.0.2.8:80 = .9",
		"half target.outgoing.waiting.192.0.2.7:5432 = .8", "half target.outgoing.waiting.192.0.2.8:80 = 1.8",
		"at-line target.outgoing.waiting.192.0.2.7:5432 = 1.7",
		"at-line target.outgoing.waiting.192.0.2.8:80 = 3.8",
		"over target.outgoing.waiting.192.0.2.7:5432 = 1.95",
		"over target.outgoing.waiting.192.0.2.8:80 = 4.3",
	})
	f := diagnosed(t, lines...).found("concurrency-limited")
	if f == nil || !f.says("2 connections to 192.0.2.7:5432") {
		t.Errorf("found %+v", f)
	}
	// Its answers take longer beyond the line: more connections would not help.
	f = diagnosed(t, append(lines, "at-line goodput 250", "over goodput 260",
		"over target.outgoing.waiting.192.0.2.8:80 = 2.4")...).found("concurrency-limited")
	if f != nil && f.says("2 connections") {
		t.Errorf("longer answers: %+v", f)
	}
}

func TestALimitOnTheRateHasHardlyAnyRequestsInside(t *testing.T) {
	quick := slices.Concat(stuck, []string{
		"all service 1ms", "half service 1ms", "at-line service 5ms", "over service 300ms",
		"all goodput 100", "half goodput 120", "at-line goodput 240", "over goodput 250",
		"all target.cpu.seconds += .02",
	})
	d := diagnosed(t, append(quick, "all target.outgoing.established = 0")...)
	if d.found("concurrency-limited") == nil {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
	// A few requests that take long are a tail.
	d = diagnosed(t, append(quick, "all target.outgoing.established = 0", "over service 3ms")...)
	if d.found("concurrency-limited") != nil {
		t.Errorf("a tail: found %v", names(d))
	}
}

// A lone request computes for most of its time, but that is not what the others wait for.
func TestRequestsThatComputeMayWaitForALockOrALimitOnTheRate(t *testing.T) {
	alone := []string{
		"all target.outgoing.established = 0", "all service 1800us", "half service 1800us",
		"at-line service 6ms", "over service 90ms", "all goodput 140", "half goodput 280",
		"at-line goodput 555", "over goodput 580", "all target.threads.full = 0",
		"all host.cpu.busy_seconds += .5", "at-line host.cpu.busy_seconds += 1.1",
		"over host.cpu.busy_seconds += 1.15", "all target.cpu.seconds += .23",
		"half target.cpu.seconds += .46", "at-line target.cpu.seconds += .91",
		"over target.cpu.seconds += .95", "all target.threads.hottest_share = .06",
	}
	slow := []string{"at-line target.cpu.seconds += .3", "over target.cpu.seconds += .32",
		"half target.cpu.seconds += .15", "all target.cpu.seconds += .08", "all goodput 50",
		"half goodput 90", "at-line goodput 185", "over goodput 195", "all target.processes = 1"}
	for name, c := range map[string]struct {
		runtime string
		lines   []string
		found   bool
	}{
		"a lock in many threads":      {measure.RuntimeJVM, nil, true},
		"one thread":                  {measure.RuntimeJVM, []string{"all target.threads.hottest_share = .85"}, false},
		"few wait":                    {measure.RuntimeJVM, []string{"over service 6ms"}, false},
		"they compute less of it":     {measure.RuntimeJVM, []string{"before target.cpu.seconds += .176"}, false},
		"a limit on the rate":         {measure.RuntimeNode, slow, true},
		"it uses most of a processor": {measure.RuntimeNode, append(slow, "over target.cpu.seconds += .7"), false},
		"more of them end beyond it":  {measure.RuntimeNode, append(slow, "over goodput 310"), false},
		"it spaces them":              {measure.RuntimeNode, append(slow, "over goodput 260"), true},
		"so does a processor": {measure.RuntimeNode, append(slow, "over goodput 260",
			"over target.cpu.seconds += .65"), false},
	} {
		d := ofRuntime(t, c.runtime, "", slices.Concat(stuck, alone, c.lines)...)
		if f := d.found("concurrency-limited"); (f != nil) != c.found {
			t.Errorf("%s: found %v, held back %+v", name, names(d), d.HeldBack)
		}
	}
}

// handed is a handler that waits for a goroutine of its own, as one with a time-out does.
const handed = "runtime.gopark < runtime.selectgo < " +
	"github.com/gin-contrib/timeout.New.func1 < main.handle < net/http.(*conn).serve"

func TestWhatHandlersWaitForIsSoughtInTheGoroutinesThatTheyStart(t *testing.T) {
	lines := slices.Concat(stuck, []string{
		"at-line profile goroutine count 2 " + handed,
		"over profile goroutine count 60 " + handed,
		"over profile goroutine count 59 runtime.gopark < runtime.semacquire1 < " +
			"internal/sync.(*Mutex).lockSlow < sync.(*Mutex).Lock < main.sell < main.handle.func1",
		"over profile goroutine count 1 runtime.gopark < internal/poll.(*FD).Read < main.sell < " +
			"main.handle.func1",
	})
	f := diagnosed(t, lines...).found("lock-contention")
	if f == nil || !f.says("main.sell") || !f.says("59.0 of them") {
		t.Errorf("found %+v", f)
	}
	// Goroutines that stand there whatever the load is are not the queue.
	idle := "half profile goroutine count 59 runtime.gopark < runtime.semacquire1 < " +
		"internal/sync.(*Mutex).lockSlow < sync.(*Mutex).Lock < main.sell < main.handle.func1"
	d := diagnosed(t, append(lines, idle)...)
	if f := d.found("concurrency-limited"); d.found("lock-contention") != nil || f == nil ||
		!f.says("main.handle") && !f.says("timeout") {
		t.Errorf("idle: found %v: %+v", names(d), f)
	}
}

func TestASemaphoreBeforeWhatIsSlowIsNotTheLimit(t *testing.T) {
	lines := slices.Concat(stuck, []string{
		"all service 6ms", "half service 6ms", "at-line service 20ms", "over service 200ms",
		"all goodput 100", "half goodput 120", "at-line goodput 240", "over goodput 250",
		"over profile goroutine count 100 runtime.gopark < runtime.chansend < main.handle < " +
			"net/http.(*conn).serve",
	})
	waits := "over profile goroutine count 16 runtime.gopark < internal/poll.(*FD).Read < main.ask" +
		servesHTTP
	d := diagnosed(t, append(lines, waits)...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "slow-dependency" {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
	// As many as Little's law has inside: each is as quick as when it is alone.
	d = diagnosed(t, append(lines, "over profile goroutine count 2 runtime.gopark < "+
		"internal/poll.(*FD).Read < main.ask"+servesHTTP)...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "concurrency-limited" {
		t.Errorf("few: found %v, held back %+v", names(d), d.HeldBack)
	}
	// They do something else inside.
	d = diagnosed(t, append(lines, "over profile goroutine count 16 runtime.gopark < "+
		"time.Sleep < main.pace"+servesHTTP)...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "concurrency-limited" {
		t.Errorf("sleeping: found %v, held back %+v", names(d), d.HeldBack)
	}
}

func TestALowGOGCIsSeenOfAServiceThatShowsNothing(t *testing.T) {
	lines := []string{"all target.memory.rss_bytes = 90000000", "all target.threads.cpu_seconds.shop += 1"}
	for name, c := range map[string]struct {
		knob  string
		lines []string
		want  bool
	}{
		"low":               {"GOGC=10", nil, true},
		"rather low":        {"GOGC=50", nil, false},
		"off":               {"GOGC=off", nil, false},
		"hardly any memory": {"GOGC=10", []string{"all target.memory.rss_bytes = 9000000"}, false},
		"processors have room": {"GOGC=10", []string{
			"all host.cpu.busy_seconds += .4", "all target.cpu.seconds += .2",
		}, false},
	} {
		d := started(t, measure.RuntimeGo, []string{c.knob}, slices.Concat(lines, c.lines)...)
		f := d.found("gc-heavy")
		if (f != nil) != c.want {
			t.Errorf("%s: found %v, not judged %+v", name, names(d), d.NotJudged)
		}
		if f != nil && (!f.says("estimated 52.6 %") || f.Gain.Factor < 1.2) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// A client of gRPC has one connection, on which it asks for all requests at once.
func TestManyQuestionsOnOneConnectionMayWaitForAServiceWithFewWorkers(t *testing.T) {
	const to = " target.outgoing.exchanges.127.0.0.1:9090 += "
	lines := slices.Concat(stuck, []string{
		"all service 8400us", "half service 9ms", "at-line service 20ms", "over service 150ms",
		"all goodput 120", "half goodput 200", "at-line goodput 400", "over goodput 480",
		"all target.processes = 1", "all target.outgoing.established = 1",
		"all target.outgoing.to.127.0.0.1:9090 = 1", "all behind.cpu_seconds.127.0.0.1:9090/rater += .05",
		"before" + to + "120", "half" + to + "200", "at-line" + to + "390", "over" + to + "460",
	})
	d := ofRuntime(t, measure.RuntimeNode, "", lines...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "slow-dependency" {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
	d = ofRuntime(t, measure.RuntimeNode, "", append(lines, "at-line"+to+"20")...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "concurrency-limited" {
		t.Errorf("it is hardly asked: found %v, held back %+v", names(d), d.HeldBack)
	}
}

// Node lets one request at a time ask a service, on the connection that it keeps.
func TestOneConnectionThatIsMostlyIdleIsNotWhatRequestsWaitFor(t *testing.T) {
	const waiting = " target.outgoing.waiting.127.0.0.1:9000 = "
	lines := slices.Concat(stuck, []string{
		"all service 2300us", "half service 3ms", "at-line service 9ms", "over service 200ms",
		"all goodput 60", "half goodput 120", "at-line goodput 240", "over goodput 250",
		"all target.processes = 1", "all target.outgoing.established = 1",
		"all target.outgoing.to.127.0.0.1:9000 = 1", "all behind.cpu_seconds.127.0.0.1:9000/shop += .05",
		"before" + waiting + "0 to .18", "half" + waiting + "0 to .36", "at-line" + waiting + "0 to .72",
		"over" + waiting + "0 to .75", "all target.cpu.seconds += .03", "half target.cpu.seconds += .06",
		"at-line target.cpu.seconds += .12", "over target.cpu.seconds += .13",
	})
	d := ofRuntime(t, measure.RuntimeNode, "", lines...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "concurrency-limited" {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
	d = ofRuntime(t, measure.RuntimeNode, "", append(lines, "all behind.cpu_seconds.127.0.0.1:9000/shop += .5")...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "slow-dependency" {
		t.Errorf("who is asked is busy: found %v, held back %+v", names(d), d.HeldBack)
	}
}

// A goroutine, or a lock, lets one request at a time ask a service. A request that is alone also does
// other things for most of its time.
func TestQuestionsThatFollowOneAnotherOnAConnectionAreWhatRequestsWaitFor(t *testing.T) {
	const waiting, to, ahead = " target.outgoing.waiting.127.0.0.1:9000 = ",
		" target.outgoing.exchanges.127.0.0.1:9000 += ", " target.outgoing.ahead.127.0.0.1:9000 = "
	lines := slices.Concat(stuck, []string{
		"all service 5500us", "at-line service 14ms", "over service 100ms",
		"all goodput 120", "half goodput 170", "at-line goodput 340", "over goodput 350",
		"all target.processes = 1", "all target.outgoing.established = 1",
		"all target.outgoing.to.127.0.0.1:9000 = 1", "all" + ahead + "0 to 1",
		"before" + waiting + "0 to .5", "half" + waiting + "0 to .72", "at-line" + waiting + ".6 to 1",
		"over" + waiting + ".8 to 1", "before" + to + "120", "half" + to + "170", "at-line" + to + "340",
		"over" + to + "350", "all target.cpu.seconds += .26", "half target.cpu.seconds += .37",
		"at-line target.cpu.seconds += .74", "over target.cpu.seconds += .75",
		"all host.cpu.busy_seconds += .9",
	})
	for name, c := range map[string]struct {
		more []string
		want string
	}{
		"one after the other": {nil, "concurrency-limited"},
		"many at once":        {[]string{"over" + ahead + "0 to 20"}, "slow-dependency"},
		"answered later": {[]string{
			"before" + waiting + "0 to .2", "half" + waiting + "0 to .3",
		}, "slow-dependency"},
	} {
		d := ofRuntime(t, measure.RuntimeGo, "", append(slices.Clone(lines), c.more...)...)
		if got := names(d); len(got) == 0 || got[0] != c.want || !d.Findings[0].says("127.0.0.1:9000") {
			t.Errorf("%s: found %v, held back %+v", name, got, d.HeldBack)
		}
	}
}
