package diagnose

import (
	"slices"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

const doing = "behind.doing.127.0.0.1:5432/postgres/"

func TestALockOnARowIsSeenByWhatTheSessionsSay(t *testing.T) {
	lines := append(idleService, "at-line service 20ms", "over goodput 1010",
		"all target.outgoing.established = 10", "all target.outgoing.to.127.0.0.1:5432 = 10",
		"all "+doing+"idle = 4", "all "+doing+"UPDATE waiting = 0",
		"at-line "+doing+"UPDATE waiting = 5", "over "+doing+"UPDATE waiting = 8",
		"over "+doing+"idle in transaction = 1")
	d := diagnosed(t, lines...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "slow-dependency" ||
		!d.Findings[0].says("sessions of postgres at 127.0.0.1:5432 that are in use wait") ||
		!d.Findings[0].says("does nothing meanwhile") || !d.Findings[0].says("FOR UPDATE") {
		t.Errorf("found %+v", d.Findings)
	}
	// What the sessions say counts although processors are busier than that, as long as some are idle.
	for busy, found := range map[string]bool{"1.3": true, "1.95": false} {
		d = diagnosed(t, append(lines, "at-line host.cpu.busy_seconds += "+busy)...)
		if f := d.found("slow-dependency"); (f != nil) != found {
			t.Errorf("%s processors: found %v, held back %+v", busy, names(d), d.HeldBack)
		}
	}
	// Sometimes one session waits for another.
	d = diagnosed(t, append(lines, "at-line "+doing+"UPDATE waiting = .2",
		"over "+doing+"UPDATE waiting = .3", "at-line "+doing+"SELECT = 3",
		"over "+doing+"SELECT = 6")...)
	if f := d.found("slow-dependency"); f != nil && f.says("lock within a database") {
		t.Errorf("found %+v", f)
	}
}

func TestTransactionsThatHoldTheConnectionsOfAPoolAreTold(t *testing.T) {
	lines := append(stuck, "all target.outgoing.established = 5",
		"all target.outgoing.to.127.0.0.1:5432 = 5", "all "+doing+"idle in transaction = 4",
		"all "+doing+"idle = 1")
	f := diagnosed(t, lines...).found("concurrency-limited")
	if f == nil || !f.says("idle in transaction") || !f.says("before a transaction begins") {
		t.Errorf("found %+v", f)
	}
	f = diagnosed(t, append(lines, "all "+doing+"idle in transaction = 1", "all "+doing+"SELECT = 4",
		"all "+doing+"idle = 0")...).found("concurrency-limited")
	if f == nil || f.says("idle in transaction") {
		t.Errorf("found %+v", f)
	}
}

func TestConnectionsThatAreHeldForLongerWithMoreLoadAreNotTooFew(t *testing.T) {
	lines := append(idleService, "at-line service 40ms", "over goodput 1010", "all db.max_open = 10",
		"all db.wait_seconds += 0", "at-line db.wait_seconds += 20", "half db.in_use = 1.5",
		"at-line db.in_use = 3", "at-line db.in_use = 9.5", "over db.in_use = 10")
	d := diagnosed(t, lines...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "slow-dependency" {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
	// Each connection is held as long as before, so there are too few.
	d = diagnosed(t, append(lines, "half db.in_use = 4.7")...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "database-pool-small" {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
}

func TestAPoolIsTooSmallThatRequestsWaitForBeyondTheLine(t *testing.T) {
	pool := []string{
		"all host.cpu.busy_seconds += .4", "all target.cpu.seconds += .2", "all db.max_open = 24",
		"before db.in_use = 20.5", "half db.in_use = 21", "at-line db.in_use = 23",
		"over db.in_use = 24", "at-line db.wait_seconds += 2",
	}
	f := diagnosed(t, append(pool, "over db.wait_seconds += 50")...).found("database-pool-small")
	if f == nil || !f.says("20.5 of them are taken even at a gentle load") || f.Rank != Binding {
		t.Errorf("found %+v", f)
	}
	if d := diagnosed(t, append(pool, "over db.wait_seconds += 4")...); d.found("database-pool-small") != nil {
		t.Errorf("hardly any wait: found %v", names(d))
	}
}

// Beyond the line of a busy machine any pool is full, as what is done with a connection waits for a
// processor.
func TestALargePoolThatIsFullWhereAllProcessorsAreBusyIsNotTooSmall(t *testing.T) {
	lines := []string{
		"at-line host.cpu.busy_seconds += 1.5", "at-line target.cpu.seconds += 1.3",
		"at-line service 7ms", "all db.max_open = 24", "half db.in_use = 3", "at-line db.in_use = 8",
		"over db.in_use = 24", "all db.wait_seconds += 0", "over db.wait_seconds += 50",
	}
	for busy, want := range map[string]bool{"1.98": false, "1.6": true} {
		d := diagnosed(t, append(lines, "over host.cpu.busy_seconds += "+busy)...)
		if f := d.found("database-pool-small"); (f != nil) != want {
			t.Errorf("%s processors are busy: found %v, held back %+v", busy, names(d), d.HeldBack)
		}
	}
}

// A pool that shrinks once in a while does not close connections all the time, and one or two come and
// go in any pool.
func TestConnectionsAreLetGoThatBecomeFewerAllTheTime(t *testing.T) {
	shrinks := slices.Concat(slices.Repeat([]float64{40}, 8), slices.Repeat([]float64{28}, 8))
	for _, c := range []struct {
		rate float64
		open []float64
		want bool
	}{
		{900, []float64{9, 6, 2, 15, 3}, true},
		{900, []float64{9, 6, 2, 3, 1}, false},
		{900, slices.Repeat([]float64{3, 1}, 20), false},
		{900, shrinks, false},
		{900, shrinks[4:12], true}, // as much in fewer looks
		{400, []float64{9, 6, 2, 15, 3}, false},
	} {
		step := measure.Step{Plan: measure.StepPlan{Rate: c.rate}}
		step.Totals.Length = int64(len(c.open)) * 1e9
		for i, n := range c.open {
			step.Samples = append(step.Samples, measure.Sample{At: int64(i) * 1e9,
				Values: map[string]float64{measure.TargetOutgoingEstablished: n}})
		}
		e := &Evidence{Line: 1000, Run: &record.Run{Steps: []measure.Step{step}}}
		if got := e.letsGo(); got != c.want {
			t.Errorf("at %v requests a second %v: %v", c.rate, c.open, got)
		}
	}
}
