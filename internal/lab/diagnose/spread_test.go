package diagnose

import (
	"slices"
	"testing"
)

// A query for which each request connects, and a login that is little of it.
func TestLoginsThatAreLittleOfAQueryDoNotHideIt(t *testing.T) {
	const mysql = "behind.cpu_seconds.127.0.0.1:3306/mysqld"
	lines := []string{
		"all goodput 95", "half goodput 190", "at-line goodput 380", "over goodput 390",
		"all " + mysql + " += .38", "half " + mysql + " += .75", "at-line " + mysql + " += 1.5",
		"over " + mysql + " += 1.55", "at-line target.cpu.seconds += .25",
		"over target.cpu.seconds += .26", "all host.tcp.opened_active += 400",
		"all target.outgoing.established = 5", "all target.outgoing.time_wait = 2000",
		"all target.outgoing.to.127.0.0.1:3306 = 5",
	}
	d := diagnosed(t, lines...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "slow-dependency" ||
		!d.Findings[0].says("mysqld at 127.0.0.1:3306") ||
		d.found("upstream-connections-not-reused") == nil {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
}

// A seventh of the requests connects, and PostgreSQL does little else.
func TestFewLoginsThatKeepADatabaseBusyAreTold(t *testing.T) {
	d := diagnosed(t, "all goodput 300", "half goodput 630", "at-line goodput 1270", "over goodput 1290",
		"all "+postgres+" += .3", "half "+postgres+" += .6", "at-line "+postgres+" += 1.3",
		"over "+postgres+" += 1.35", "at-line target.cpu.seconds += .26", "over target.cpu.seconds += .27",
		"all host.tcp.opened_active += 190", "all target.outgoing.established = 5",
		"all target.outgoing.time_wait = 2000", "all target.outgoing.to.127.0.0.1:5432 = 5")
	if len(d.Findings) == 0 || d.Findings[0].Rule != "upstream-connections-not-reused" {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
}

// Goroutines stand in line for a lock under which requests compute, on all of one processor.
func TestALockThatGoroutinesShowIsNotASingleThread(t *testing.T) {
	lines := []string{
		"all service 3ms", "half service 3ms", "at-line service 12ms", "over service 90ms", "over goodput 1050",
		"all host.cpu.busy_seconds += .6", "at-line host.cpu.busy_seconds += 1.2",
		"over host.cpu.busy_seconds += 1.35", "half target.cpu.seconds += .5",
		"at-line target.cpu.seconds += .95", "over target.cpu.seconds += 1.05",
		"over target.threads.full = 1",
	}
	if d := diagnosed(t, lines...); d.found("single-threaded") == nil {
		t.Fatalf("found %v, held back %+v", names(d), d.HeldBack)
	}
	const locked = " profile goroutine count 80 runtime.gopark < runtime.semacquire1 < " +
		"internal/sync.(*Mutex).lockSlow < sync.(*Mutex).Lock < main.find" + servesHTTP
	d := diagnosed(t, append(lines, "over"+locked, "at-line"+locked,
		"over profile goroutine count 1 main.search < main.find"+servesHTTP)...)
	if d.found("single-threaded") != nil || d.found("lock-contention") == nil {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
}

// Requests of many milliseconds wait for the only processor long before it is always in use.
func TestGOMAXPROCSIsTooLowThoughTheLineIsWellBeforeItIsInUse(t *testing.T) {
	lines := []string{
		"all go.gomaxprocs = 1", "all goodput 70", "half goodput 110", "at-line goodput 215",
		"over goodput 300", "all service 3ms", "half service 4ms", "at-line service 8ms",
		"over service 80ms", "before target.cpu.seconds += .2", "all target.cpu.seconds += .2",
		"half target.cpu.seconds += .32", "at-line target.cpu.seconds += .62",
		"over target.cpu.seconds += .97", "all host.cpu.busy_seconds += .4",
		"at-line host.cpu.busy_seconds += .8", "over host.cpu.busy_seconds += 1.2",
	}
	d := diagnosed(t, lines...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "gomaxprocs-low" {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
	waits := slices.Concat(lines, []string{"before service 12ms", "all service 12ms", "half service 13ms",
		"at-line service 20ms"})
	if d := diagnosed(t, waits...); d.found("gomaxprocs-low") != nil {
		t.Errorf("requests mostly wait: found %v", names(d))
	}
}

// A service that never closes what it opens.
func TestConnectionsThatStayOpenAreALeakFirst(t *testing.T) {
	lines := []string{
		"all target.memory.rss_bytes = 50000000", "all host.tcp.opened_active += 950",
		"at-line target.outgoing.established = 1000 to 4600",
		"before target.outgoing.established = 100 to 200", "half target.outgoing.established = 500 to 900",
		"over target.outgoing.established = 4600 to 8000", "after target.outgoing.established = 8000 to 9500",
		"all target.outgoing.to.192.0.2.8:80 = 900",
	}
	d := diagnosed(t, lines...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "leak" {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
}
