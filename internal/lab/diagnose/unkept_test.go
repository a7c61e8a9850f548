package diagnose

import "testing"

func TestConnectionsOverUnixSocketsThatAreNotKeptAreTold(t *testing.T) {
	const (
		path = "unix:/run/postgresql/.s.PGSQL.5432"
		open = "all target.outgoing.to." + path + " = 2"
	)
	lines := append([]string{
		open, "all target.outgoing.established = 2", "at-line behind.cpu_seconds." + path +
			"/postgres += 1.4", "over behind.cpu_seconds." + path + "/postgres += 1.5",
		"at-line target.cpu.seconds += .3", "over target.cpu.seconds += .3",
		"at-line service 12ms", "over goodput 1010",
	}, "all host.tcp.opened_active += 0")
	d := diagnosed(t, append(lines, "all target.outgoing.fresh."+path+" += 8")...)
	f := d.found("upstream-connections-not-reused")
	if f == nil || d.Findings[0].Rule != f.Rule || !f.says(".s.PGSQL.5432") ||
		!f.says("PgBouncer") || d.found("slow-dependency") != nil {
		t.Errorf("found %v: %+v", names(d), f)
	}
	d = diagnosed(t, append(lines, "all target.outgoing.fresh."+path+" += 0")...)
	if d.found("upstream-connections-not-reused") != nil || d.found("slow-dependency") == nil {
		t.Errorf("those that are kept: found %v", names(d))
	}
}
