package diagnose

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

// A gateway of Node that asks a service of Node, which uses as much, is not its parent.
func TestAServiceInTheSameLanguageIsNotAChild(t *testing.T) {
	const backend = "behind.cpu_seconds.127.0.0.1:9000/node"
	run := newFixture(t, append(strings.Split(base, "\n"), "all "+backend+" += .9",
		"all target.threads.cpu_seconds.node += .98", "all target.cpu.seconds += 1")...).open(t)
	if d := newEvidence(run).dependencies(); len(d) != 1 || d[0].child {
		t.Errorf("%+v", d)
	}
	run = newFixture(t, append(strings.Split(base, "\n"), "all "+backend+"3 += .5",
		"all target.threads.cpu_seconds.node += .52", "all target.cpu.seconds += 1")...).open(t)
	if d := newEvidence(run).dependencies(); len(d) != 1 || !d[0].child {
		t.Errorf("a child whose threads are called without its number: %+v", d)
	}
}

// Which of two services asks the store is not known.
func TestAStoreBehindOneServiceIsCountedOnce(t *testing.T) {
	lines := append(strings.Split(base, "\n"), "all behind.cpu_seconds.127.0.0.1:9000/api += .1",
		"all host.others.cpu_seconds.postgres += .4", "at-line host.others.cpu_seconds.postgres += .8",
		"half host.others.cpu_seconds.postgres += .4", "all goodput 400", "half goodput 500", "at-line goodput 1000")
	e := newEvidence(newFixture(t, lines...).open(t))
	d := e.dependencies()
	if len(d) != 2 || !d[0].hop || d[0].process != "postgres behind api" {
		t.Errorf("%+v", d)
	}
	if e.carriesMany("127.0.0.1:9000", 1) != e.oneEach(1) {
		t.Error("a store that another service asks says what connections to that carry")
	}
	two := append(lines, "all behind.cpu_seconds.127.0.0.1:9001/prices += .1")
	if d := newEvidence(newFixture(t, two...).open(t)).dependencies(); len(d) != 2 {
		t.Errorf("two services: %+v", d)
	}
}

// Requests that time out hold connections, too.
func TestAConnectionThatFailedRequestsHoldIsNotHeldLonger(t *testing.T) {
	pool := append(idleService, "all db.max_open = 5", "half db.in_use = 2.5", "at-line db.in_use = 4.9",
		"over db.in_use = 5", "all goodput 200", "half goodput 250", "at-line goodput 490", "over goodput 120",
		"all db.wait_seconds += 1", "over db.wait_seconds += 60", "at-line db.wait_seconds += 12")
	if e := newEvidence(newFixture(t, append(strings.Split(base, "\n"), pool...)...).open(t)); e.heldLonger() {
		t.Error("goodput has fallen: held longer")
	}
	slow := append(pool, "over goodput 480", "over db.in_use = 16", "half db.in_use = 2.5")
	if e := newEvidence(newFixture(t, append(strings.Split(base, "\n"), slow...)...).open(t)); !e.heldLonger() {
		t.Error("each is held for three times as long: not held longer")
	}
}

// One connection that is lost does not speak against a limit that answers with errors.
func TestAFewLostConnectionsDoNotHideALimit(t *testing.T) {
	d := diagnosed(t, slices.Concat(idleService, []string{
		"all service 300us", "at-line service 300us", "over service 310us", "over goodput 1010",
		"over failed bad_status .28", "over failed connection_lost .002", "half failed connection_lost .001",
	})...)
	if f := d.found("concurrency-limited"); f == nil || !f.says("are answered with an error") {
		t.Errorf("found %v", names(d))
	}
}

func TestAnswersAreAwaitedFromOneAddressAndNotFromThoseThatBeginAlike(t *testing.T) {
	s := &measure.Sample{Values: map[string]float64{
		measure.OutgoingWaiting + "127.0.0.1:80": 1, measure.OutgoingWaiting + "127.0.0.1:8080": 5,
	}}
	one, _ := awaitedIn(s, "127.0.0.1:80")
	all, told := awaitedIn(s, "")
	if one != 1 || all != 6 || !told {
		t.Errorf("%v of one, %v of all", one, all)
	}
}
