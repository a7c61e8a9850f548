package diagnose

import (
	"slices"
	"testing"
)

// A pool that keeps two idle connections opens others when more requests are inside.
func TestAPoolThatKeepsTooFewConnectionsIsSeenFromOutside(t *testing.T) {
	lines := slices.Concat(busyStore, []string{
		"all goodput 90", "half goodput 100", "at-line goodput 220", "over goodput 210",
		"all host.tcp.opened_active += 1", "at-line host.tcp.opened_active += 40",
		"over host.tcp.opened_active += 75", "all target.outgoing.time_wait = 200",
		"over target.outgoing.time_wait = 900", "at-line target.outgoing.to.127.0.0.1:5432 = 30 to 2",
		"over target.outgoing.to.127.0.0.1:5432 = 58",
		"all " + postgres + " += .1", "half " + postgres + " += .1", "at-line " + postgres + " += .5",
		"over " + postgres + " += 1.2",
	})
	d := diagnosed(t, lines...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "database-connections-churn" ||
		d.Findings[0].Rank != Binding || !d.Findings[0].says("SetMaxIdleConns") {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
	few := append(slices.Clone(lines), "at-line host.tcp.opened_active += 12", "over host.tcp.opened_active += 15")
	if f := diagnosed(t, few...).found("database-connections-churn"); f == nil || f.Rank != Cost {
		t.Errorf("logins that are little of what the database computes: %+v", f)
	}
	for name, more := range map[string][]string{
		"as many at half of the line":    {"half host.tcp.opened_active += 18"},
		"few":                            {"at-line host.tcp.opened_active += 8"},
		"one for each request":           {"at-line host.tcp.opened_active += 200"},
		"the database closes them":       {"all target.outgoing.time_wait = 0", "over target.outgoing.time_wait = 0"},
		"a pool that grows":              {"at-line target.outgoing.to.127.0.0.1:5432 = 3 to 30"},
		"others come and go, too":        {"at-line target.outgoing.to.127.0.0.1:9000 = 20 to 2"},
		"the pool counts what it closes": {"all db.closed.idle += 0"},
	} {
		if d := diagnosed(t, append(lines, more...)...); d.found("database-connections-churn") != nil {
			t.Errorf("%s: found %v", name, names(d))
		}
	}
}
