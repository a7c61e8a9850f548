package diagnose

import (
	"strings"
	"testing"
)

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

func TestTheGainOfKeepingConnectionsNamesWhatItAssumes(t *testing.T) {
	const path = "unix:/run/postgresql/.s.PGSQL.5432"
	fresh := []string{
		"all target.outgoing.to." + path + " = 2", "all target.outgoing.established = 2",
		"all target.outgoing.fresh." + path + " += 8", "all host.tcp.opened_active += 0",
		"at-line target.cpu.seconds += 1", "at-line host.cpu.busy_seconds += 1.9",
	}
	gains := func(lines ...string) Gain {
		t.Helper()
		f := diagnosed(t, append(fresh, lines...)...).found("upstream-connections-not-reused")
		if f == nil {
			t.Fatal("it is not found")
		}
		return f.Gain
	}
	const (
		service    = "assumed to be 75.0 % of the service's time"
		everything = "everything else on the machine"
		sessions   = "75.0 % of what postgres computes is assumed to be for new sessions"
	)
	// The dependency is known, and uses little. What else runs on the machine saves nothing.
	known := gains("all behind.cpu_seconds." + path + "/postgres += .1")
	if !strings.Contains(known.Why, service+" and 50.0 % of what postgres computes") ||
		known.High < 2*known.Factor {
		t.Errorf("%+v", known)
	}
	if all := gains(); !strings.Contains(all.Why, service+" and 50.0 % of what "+everything) ||
		all.Factor < 1.2*known.Factor {
		t.Errorf("nobody is known to be asked: %+v, and with one %+v", all, known)
	}
	// A store that is busy beginning sessions.
	begun := gains("at-line behind.cpu_seconds."+path+"/postgres += 1.4",
		"over behind.cpu_seconds."+path+"/postgres += 1.5", "at-line target.cpu.seconds += .3",
		"over target.cpu.seconds += .3", "over goodput 1010")
	if !strings.Contains(begun.Why, service+";") || begun.Low != 1 ||
		!strings.Contains(begun.Why, sessions) {
		t.Errorf("%+v", begun)
	}
	tcp := diagnosed(t, "all host.tcp.opened_active += 1000", "all target.outgoing.established = 5",
		"all target.outgoing.time_wait = 900", "all target.outgoing.to.192.0.2.7:5432 = 5",
		"at-line target.cpu.seconds += 1").found("upstream-connections-not-reused")
	if tcp == nil || !strings.HasSuffix(tcp.Gain.Why, service) {
		t.Errorf("who is asked is on another machine: %+v", tcp)
	}
}
