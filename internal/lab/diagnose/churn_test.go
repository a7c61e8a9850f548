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
		"over target.outgoing.time_wait = 900", "over target.outgoing.to.127.0.0.1:5432 = 58",
		"all " + postgres + " += .1", "half " + postgres + " += .1", "at-line " + postgres + " += .5",
		"over " + postgres + " += 1.2",
	})
	d := diagnosed(t, lines...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "database-connections-churn" ||
		d.Findings[0].Rank != Binding || !d.Findings[0].says("SetMaxIdleConns") {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
	for name, more := range map[string][]string{
		"as many at half of the line":    {"half host.tcp.opened_active += 18"},
		"few":                            {"at-line host.tcp.opened_active += 8"},
		"one for each request":           {"at-line host.tcp.opened_active += 200"},
		"the database closes them":       {"all target.outgoing.time_wait = 0", "over target.outgoing.time_wait = 0"},
		"as many of them all the time":   {"all target.outgoing.to.127.0.0.1:5432 = 58"},
		"opened once, and no more":       {"over target.outgoing.to.127.0.0.1:5432 = 5"},
		"the pool counts what it closes": {"all db.closed.idle += 0"},
	} {
		if d := diagnosed(t, append(lines, more...)...); d.found("database-connections-churn") != nil {
			t.Errorf("%s: found %v", name, names(d))
		}
	}
}
