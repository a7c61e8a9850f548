package diagnose

import (
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/lab/measure"
)

// Without a profile, the generator still sees that no session is resumed, and the warm-up shows how
// long a connection takes compared with an answer.
func TestFullHandshakesAreSeenByTheirClients(t *testing.T) {
	for name, c := range map[string]struct {
		scheme          string
		connect, answer time.Duration
		made, resumed   uint64
		resumption      string
		want            bool
		busy            string // where a profile has most of the time
	}{
		"each connection a full handshake": {
			"https", 3 * time.Millisecond, time.Millisecond, 4000, 0, "true", true, "",
		},
		"an answer that takes longer": {
			"https", time.Millisecond, 3 * time.Millisecond, 4000, 0, "true", false, "",
		},
		"sessions that are resumed": {
			"https", 3 * time.Millisecond, time.Millisecond, 4000, 3900, "true", false, "",
		},
		"sessions that one worker of two has": {
			"https", 3 * time.Millisecond, time.Millisecond, 4000, 2000, "true", true, "",
		},
		"connections that are kept": {
			"https", 3 * time.Millisecond, time.Millisecond, 40, 0, "true", false, "",
		},
		"no TLS": {
			"http", 3 * time.Millisecond, time.Millisecond, 4000, 0, "true", false, "",
		},
		"resumption that was not asked for": {
			"https", 3 * time.Millisecond, time.Millisecond, 4000, 0, "false", false, "",
		},
		"in a library without symbols": {
			"https", 3 * time.Millisecond, time.Millisecond, 4000, 0, "true", true, "[libcrypto.so.3]",
		},
		"in something else": {
			"https", 3 * time.Millisecond, time.Millisecond, 4000, 0, "true", false, "[libz.so.1]",
		},
		"outside of what Node's profile sees": {
			"https", 3 * time.Millisecond, time.Millisecond, 4000, 0, "true", true, "(program)",
		},
	} {
		lines := strings.Split(base, "\n")
		if c.busy != "" {
			lines = append(lines, "at-line profile cpu nanoseconds 4000000000 "+c.busy)
		}
		run := newFixture(t, lines...).open(t)
		run.Manifest.Target = c.scheme + "://127.0.0.1/"
		if c.busy == "(program)" {
			run.Manifest.Machine.TargetRuntime = measure.RuntimeNode
		}
		run.Manifest.Settings = map[string]string{"new_connections": "true", "resumption": c.resumption}
		for i := range run.Steps {
			if run.Steps[i].Plan.Phase == measure.PhaseAtLine {
				run.Steps[i].Totals.ConnectionsMade, run.Steps[i].Totals.Resumed = c.made, c.resumed
			}
		}
		const requests = 100
		warm := measure.Step{Plan: measure.StepPlan{Phase: measure.PhaseWarmUp, Connections: 1}}
		var h measure.Histogram
		for range requests {
			h.Record(c.answer.Nanoseconds())
		}
		warm.Totals.Response = h.Sparse()
		warm.Totals.Ended[measure.OK], warm.Totals.ConnectionsMade = requests, requests
		warm.Totals.Length = requests * (c.connect + c.answer).Nanoseconds()
		run.Steps = append(run.Steps, warm)
		d := Run(run)
		held := slices.ContainsFunc(d.HeldBack, func(h HeldBack) bool {
			return h.Rule == "handshakes-dominate" && strings.Contains(h.Why, "--no-resumption")
		})
		if held != (c.resumption == "false") {
			t.Errorf("%s: held back %+v", name, d.HeldBack)
		}
		f := d.found("handshakes-dominate")
		if (f != nil) != c.want {
			t.Errorf("%s: found %v, held back %+v", name, names(d), d.HeldBack)
			continue
		}
		which := "no session is resumed"
		if c.resumed > 0 {
			which = "50.0 % of the connections begin with a full TLS handshake"
		}
		if f != nil && (!f.says(which) || !f.says("3.00 ms") || f.Gain.Factor < 1.3) {
			t.Errorf("%s: %q, gain %v", name, f.Claim, f.Gain.Factor)
		}
	}
}

// Connections on this machine cost processor time only, and these requests have hardly any.
func TestConnectionsThatAreOpenedDoNotExplainALongWaitOnThisMachine(t *testing.T) {
	opens := []string{
		"all host.tcp.opened_active += 1000", "all target.outgoing.established = 40",
		"all target.outgoing.time_wait = 900", "all service 12ms", "half service 12ms",
		"at-line service 30ms", "over goodput 1010",
	}
	for name, c := range map[string]struct {
		lines []string
		first string
	}{
		"a small backend": {[]string{"all target.outgoing.to.127.0.0.1:9000 = 40"}, "slow-dependency"},
		"elsewhere": {
			[]string{"all target.outgoing.to.192.0.2.7:9000 = 40"}, "upstream-connections-not-reused",
		},
		"one that computes": {[]string{
			"all target.outgoing.to.127.0.0.1:9000 = 40", "all behind.cpu_seconds.127.0.0.1:9000/shop += 5",
		}, "slow-dependency"},
		"costly ones": {[]string{
			"all target.outgoing.to.127.0.0.1:5432 = 40",
			"all behind.cpu_seconds.127.0.0.1:5432/postgres += 5",
		}, "upstream-connections-not-reused"},
	} {
		d := diagnosed(t, slices.Concat(idleService, opens, c.lines)...)
		if len(d.Findings) == 0 || d.Findings[0].Rule != c.first ||
			d.found("upstream-connections-not-reused") == nil {
			t.Errorf("%s: found %v, held back %+v", name, names(d), d.HeldBack)
		}
	}
}

func TestConnectionsOfClientsThatAreResetAreClosedByTheService(t *testing.T) {
	reset := []string{
		"all listener.connections.time_wait = 0", "all listener.clients.time_wait = 0",
		"at-line connections 1000", "at-line kept 40",
	}
	if f := diagnosed(t, reset...).found("client-connections-closed"); f == nil ||
		!f.says("after 1.00 requests each") {
		t.Errorf("found %+v", f)
	}
	// A generator that gives up makes new connections itself.
	d := diagnosed(t, append(reset, "at-line failed timeout .1")...)
	if d.found("client-connections-closed") != nil {
		t.Errorf("found %v", names(d))
	}
}

func TestWhatOpeningConnectionsCostsIsAssumedWhereNoProfileShowsIt(t *testing.T) {
	opens := []string{
		"all host.tcp.opened_active += 1000", "all target.outgoing.established = 5",
		"all target.outgoing.time_wait = 900", "all target.cpu.seconds += .5",
		"all host.cpu.busy_seconds += 1.9",
	}
	f := diagnosed(t, opens...).found("upstream-connections-not-reused")
	if f == nil || f.Gain.Factor < 1.5 || f.Gain.High < 2*f.Gain.Factor ||
		!strings.Contains(f.Gain.Why, "is assumed") {
		t.Errorf("%+v", f)
	}
	profiled := append(opens, "at-line profile cpu nanoseconds 3000000000 main.handle < net/http.(*conn).serve")
	f = diagnosed(t, profiled...).found("upstream-connections-not-reused")
	if f == nil || strings.Contains(f.Gain.Why, "is assumed") {
		t.Errorf("with a profile: %+v", f)
	}
}

func TestWhoeverClosesFirstAServiceWhoseAnswersSayCloseEndsTheConnections(t *testing.T) {
	clients := []string{
		"at-line connections 1000", "at-line kept 40", "all listener.connections.time_wait = 0",
		"all listener.clients.time_wait = 5000",
	}
	f := diagnosed(t, append(clients, "all closing 1000")...).found("client-connections-closed")
	if f == nil || !f.says("after 1.00 requests each") {
		t.Errorf("found %+v", f)
	}
	if d := diagnosed(t, append(clients, "all closing 100")...); d.found("client-connections-closed") != nil {
		t.Errorf("a tenth of the answers say so: found %v", names(d))
	}
}

func TestConnectionsOfClientsAreClosedByTheServiceWhereverSocketsWereCounted(t *testing.T) {
	const rule = "client-connections-closed"
	made := []string{"at-line connections 1000", "at-line kept 40"}
	before := append(made, "before listener.connections.time_wait = 5000",
		"before listener.clients.time_wait = 10")
	if f := diagnosed(t, before...).found(rule); f == nil || !f.says("after 1.00 requests each") {
		t.Errorf("counted before the line: found %+v", f)
	}
	clients := append(made, "before listener.connections.time_wait = 10",
		"before listener.clients.time_wait = 5000")
	if d := diagnosed(t, clients...); d.found(rule) != nil {
		t.Errorf("counted before the line, and the clients close: found %v", names(d))
	}
	if f := diagnosed(t, made...).found(rule); f == nil || !f.says("after 1.00 requests each") {
		t.Errorf("never counted: found %+v", f)
	}
	if d := diagnosed(t, append(made, "at-line failed timeout .1")...); d.found(rule) != nil {
		t.Errorf("never counted, and clients give up: found %v", names(d))
	}
}

func TestConnectionsThatOthersOpenAreNotTheServices(t *testing.T) {
	kept := []string{
		"at-line host.tcp.opened_active += 600", "all target.outgoing.established = 20",
		"all target.outgoing.time_wait = 0", "all target.outgoing.time_wait_there = 0",
		"all target.outgoing.to.127.0.0.1:5432 = 20",
	}
	const rule = "upstream-connections-not-reused"
	if d := diagnosed(t, kept...); d.found(rule) != nil {
		t.Errorf("found %v", names(d))
	}
	// Those of a few milliseconds may be seen for the first time after the line's step.
	short := []string{
		"at-line host.tcp.opened_active += 600", "all target.outgoing.established = 0",
		"all target.outgoing.time_wait = 0", "all target.outgoing.time_wait_there = 0",
	}
	if d := diagnosed(t, short...); d.found(rule) != nil {
		t.Errorf("none was seen: found %v", names(d))
	}
	if d := diagnosed(t, append(short, "over target.outgoing.time_wait = 900")...); d.found(rule) == nil {
		t.Errorf("seen beyond the line: found %v, held back %+v", names(d), d.HeldBack)
	}
	// Connections that another machine closes are not remembered on this one.
	d := diagnosed(t, append(kept, "all target.outgoing.to.192.0.2.7:5432 = 20")...)
	if d.found(rule) == nil {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
}
