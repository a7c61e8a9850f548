package diagnose

import (
	"slices"
	"testing"

	"plimsoll/internal/lab/measure"
)

// busyStore is a machine of which a database computes most, far from saturated, as the objectives allow
// little waiting.
var busyStore = []string{
	"all service 13ms", "half service 14ms", "at-line service 22ms", "over service 90ms",
	"all goodput 40", "half goodput 60", "at-line goodput 115", "over goodput 140",
	"all host.cpu.busy_seconds += .5", "half host.cpu.busy_seconds += .8",
	"at-line host.cpu.busy_seconds += 1.5", "over host.cpu.busy_seconds += 1.9",
	"all target.cpu.seconds += .04", "half target.cpu.seconds += .06",
	"at-line target.cpu.seconds += .12", "over target.cpu.seconds += .14",
	"all " + postgres + " += .46", "half " + postgres + " += .7", "at-line " + postgres + " += 1.35",
	"over " + postgres + " += 1.7", "all target.outgoing.to.127.0.0.1:5432 = 3",
	"all target.outgoing.established = 3",
}

// What costs little does not hide the database that the processors are busy with.
func TestLittleCostsDoNotHideABusyDatabase(t *testing.T) {
	closes := []string{
		"all connections 115", "all listener.connections.time_wait = 5000",
		"all listener.clients.time_wait = 0",
	}
	churns := []string{"all db.max_open = 20", "all db.in_use = 3", "all db.closed.idle += 9"}
	pool := []string{
		"all db.max_open = 4", "half db.in_use = .8", "at-line db.in_use = 2", "over db.in_use = 4",
		"all db.wait_seconds += .1", "over db.wait_seconds += 10",
	}
	for name, c := range map[string]struct {
		lines []string
		first string
		also  string
	}{
		"connections of clients":  {closes, "slow-dependency", "client-connections-closed"},
		"a few logins":            {churns, "slow-dependency", "database-connections-churn"},
		"many logins":             {append(churns, "all db.closed.idle += 90"), "database-connections-churn", ""},
		"a pool that is full too": {pool, "slow-dependency", ""},
		"a pool before a database with nothing to do": {
			append(pool, "all "+postgres+" += .1", "at-line host.cpu.busy_seconds += .3",
				"over host.cpu.busy_seconds += .4"), "database-pool-small", "",
		},
	} {
		d := diagnosed(t, slices.Concat(busyStore, c.lines)...)
		if len(d.Findings) == 0 || d.Findings[0].Rule != c.first || c.also != "" && d.found(c.also) == nil {
			t.Errorf("%s: found %v, held back %+v", name, names(d), d.HeldBack)
		}
	}
	// A request costs the machine hardly more than its connection does.
	d := diagnosed(t, slices.Concat(busyStore, closes, []string{
		"all goodput 400", "half goodput 600", "at-line goodput 1150", "over goodput 1200",
		"all connections 1150", "all " + postgres + " += 0", "at-line target.cpu.seconds += 1.2",
	})...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "client-connections-closed" ||
		d.Findings[0].Rank != Binding {
		t.Errorf("cheap requests: found %v", names(d))
	}
}

// Some requests find no idle connection, and their logins are what the database computes.
func TestLoginsOfSomeRequestsKeepADatabaseBusy(t *testing.T) {
	const logins = "at-line " + postgres + " += 1.1"
	lines := slices.Concat(busyStore, []string{
		"all goodput 200", "half goodput 300", "at-line goodput 600", "over goodput 620",
		"all host.tcp.opened_active += 90", "at-line host.tcp.opened_active += 200",
		"all target.outgoing.time_wait = 1500", "at-line target.cpu.seconds += .3", logins,
		"at-line host.cpu.busy_seconds += 1.7",
	})
	d := diagnosed(t, lines...)
	f := d.found("upstream-connections-not-reused")
	if f == nil || d.Findings[0].Rule != f.Rule || !f.says("starts a process for each connection") {
		t.Errorf("found %v: %+v", names(d), f)
	}
	d = diagnosed(t, append(lines, "at-line host.tcp.opened_active += 60")...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "slow-dependency" {
		t.Errorf("a tenth as many: found %v", names(d))
	}
}

// The kernel counts what overflows on the whole machine.
func TestTheQueueOfABackendThatOverflowsIsNotTheServices(t *testing.T) {
	asks := []string{
		"all target.outgoing.to.127.0.0.1:9000 = 30", "all target.outgoing.established = 30",
	}
	lines := slices.Concat(idleService, []string{
		"all listener.queue = 0", "all listener.queue_limit = 511", "over goodput 1010",
		"all host.tcp.listen_overflows += 0", "over host.tcp.listen_overflows += 40",
		"at-line service 20ms", "over service 80ms",
	})
	d := diagnosed(t, append(lines, asks...)...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "slow-dependency" ||
		d.found("accept-queue-overflow") != nil {
		t.Errorf("found %v", names(d))
	}
	if d := diagnosed(t, lines...); d.found("accept-queue-overflow") == nil {
		t.Errorf("it asks nobody: found %v", names(d))
	}
	for what, line := range map[string]string{
		"its own queue is long": "over listener.queue = 300",
		"it is very short":      "all listener.queue_limit = 8",
	} {
		d := diagnosed(t, slices.Concat(lines, asks, []string{line})...)
		if d.found("accept-queue-overflow") == nil {
			t.Errorf("%s: found %v", what, names(d))
		}
	}
}

// A gateway keeps its connections to a service, which opens one to another for each request.
func TestConnectionsThatABackendOpensAreNotTheServices(t *testing.T) {
	lines := slices.Concat(idleService, []string{
		"all host.tcp.opened_active += 950", "all target.outgoing.to.127.0.0.1:9000 = 12 to 20",
		"all target.outgoing.established = 12 to 20", "all target.outgoing.time_wait = 20",
		"all target.outgoing.time_wait_there = 0",
	})
	if d := diagnosed(t, lines...); d.found("upstream-connections-not-reused") != nil {
		t.Errorf("found %v", names(d))
	}
	for _, line := range []string{
		"all target.outgoing.time_wait = 3000", "all target.outgoing.time_wait_there = 3000",
		"all target.outgoing.to.192.0.2.7:80 = 10",
		// Those that it closes are reset, so none is remembered.
		"at-line target.outgoing.established = 100 to 4",
	} {
		if d := diagnosed(t, append(lines, line)...); d.found("upstream-connections-not-reused") == nil {
			t.Errorf("%s: found %v, held back %+v", line, names(d), d.HeldBack)
		}
	}
}

// One thread of Node, of whose time half goes into connections, as far as that is known.
func TestConnectionsThatOneThreadClosesStandBeforeFurtherThreads(t *testing.T) {
	lines := []string{
		"all connections 1250", "all listener.connections.time_wait = 5000",
		"all listener.clients.time_wait = 0", "all goodput 400", "half goodput 620",
		"at-line goodput 1250", "over goodput 1300", "all service 1ms", "half service 2ms",
		"at-line service 9ms", "over service 80ms", "all target.threads.full = 1",
		"half target.cpu.seconds += .46", "at-line target.cpu.seconds += .9",
		"over target.cpu.seconds += 1", "half target.threads.hottest_share = .45",
		"at-line target.threads.hottest_share = .88", "over target.threads.hottest_share = 1",
		"at-line host.cpu.busy_seconds += 1.4", "over host.cpu.busy_seconds += 1.5",
	}
	d := ofRuntime(t, measure.RuntimeNode, "", lines...)
	if len(d.Findings) < 2 || d.Findings[0].Rule != "client-connections-closed" ||
		d.found("single-threaded") == nil {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
	// A request costs ten times as much as its connection.
	slow := append(lines, "all connections 250", "all goodput 80", "half goodput 124",
		"at-line goodput 250", "over goodput 260", "all service 4ms", "half service 6ms")
	d = ofRuntime(t, measure.RuntimeNode, "", slow...)
	if len(d.Findings) < 2 || d.Findings[0].Rule != "single-threaded" {
		t.Errorf("costly requests: found %v, held back %+v", names(d), d.HeldBack)
	}
}

// Three workers of Python, each of which connects to a service for each request that it serves.
func TestConnectionsThatFewWorkersOpenDoNotHideThatTheyAreFew(t *testing.T) {
	lines := slices.Concat(idleService, []string{
		"all service 10ms", "half service 11ms", "at-line service 22ms", "over service 200ms",
		"all goodput 60", "half goodput 125", "at-line goodput 250", "over goodput 295",
		"all host.tcp.opened_active += 270", "all target.outgoing.to.127.0.0.1:9000 = 3",
		"all target.outgoing.established = 3", "all target.outgoing.time_wait = 1500",
		"all target.processes = 4", "at-line host.cpu.busy_seconds += 1", "at-line target.cpu.seconds += .75",
		"all target.outgoing.waiting.127.0.0.1:9000 = 2 to 3",
		"all target.outgoing.exchanges.127.0.0.1:9000 += 270",
	})
	d := ofRuntime(t, measure.RuntimeCPython, "gunicorn", lines...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "concurrency-limited" ||
		d.found("upstream-connections-not-reused") == nil {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
}
