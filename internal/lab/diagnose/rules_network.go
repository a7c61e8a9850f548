package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
)

// networkRules are about connections: made, kept, refused, lost.
var networkRules = []Rule{
	{
		Name:      "accept-queue-overflow",
		Claim:     "Connections are dropped because the service does not accept them fast enough",
		Needs:     []string{measure.HostTCPListenOverflows},
		Threshold: "over 1 overflow a second",
		Reason: "the client of each sends its SYN again after a second: " +
			"its request takes that much longer",
		Judge: func(e *Evidence) *Finding {
			overflows := max(e.AtLine.PerSecond(measure.HostTCPListenOverflows),
				e.Over.PerSecond(measure.HostTCPListenOverflows))
			if overflows <= 1 || e.overflowsElsewhere() {
				return nil
			}
			// Few places that are all taken overflow the queue too, beyond the line.
			binding := e.Over.PerSecond(measure.HostTCPListenOverflows) > 1 && e.idle() &&
				(e.AtLine.PerSecond(measure.HostTCPListenOverflows) > 1 ||
					!e.fewPlaces())
			return &Finding{
				Claim: fmt.Sprintf("The accept queue overflows %s times a second: "+
					"the service accepts connections too slowly, or its backlog is too short",
					number(overflows)),
				Rank:       rankOf(binding),
				Confidence: .9,
				Evidence: []Fact{
					{What: "overflows of accept queues", Value: perSecond(overflows)},
					{
						What: "longest queue seen, and its limit",
						Value: number(max(e.AtLine.Max(measure.ListenerQueue),
							e.Over.Max(measure.ListenerQueue))) + " of " +
							number(e.AtLine.Last(measure.ListenerQueueLimit)),
					},
					{
						What:  "connections made at the line",
						Value: perSecond(e.AtLine.connections()),
					},
				},
				Gain: e.gainIf(binding),
			}
		},
		Counters: []Counter{processorBusy},
		Advice: []Action{
			{
				Text: "do nothing between two accepts that can wait: no lookup, " +
					"no handshake, no sleep",
			},
			{
				Text: "give the listener a backlog for a burst, and the kernel's limit with " +
					"it where that is lower",
				Command: "sysctl net.core.somaxconn   # and, where it is below 4096: " +
					"sysctl -w net.core.somaxconn=4096",
			},
		},
	},
	{
		Name:      "backlog-small",
		Claim:     "The listener's backlog is shorter than the kernel allows, and fills",
		Needs:     []string{measure.ListenerQueue, measure.ListenerQueueLimit, measure.HostTCPSomaxconn},
		Threshold: "over 80 % of a backlog that is under somaxconn",
		Reason:    "the next burst of connections overflows it",
		Judge: func(e *Evidence) *Finding {
			limit := e.AtLine.Last(measure.ListenerQueueLimit)
			allowed := e.AtLine.Last(measure.HostTCPSomaxconn)
			longest := max(e.AtLine.Max(measure.ListenerQueue), e.Over.Max(measure.ListenerQueue))
			if limit >= allowed || longest < .8*limit {
				return nil
			}
			return &Finding{
				Claim: fmt.Sprintf("The listener's backlog of %s fills, "+
					"and the kernel would allow %s", number(limit), number(allowed)),
				Rank:       Risk,
				Confidence: .7,
				Evidence: []Fact{
					{What: "longest accept queue", Value: number(longest) + " of " + number(limit)},
					{What: "net.core.somaxconn", Value: number(allowed)},
				},
				Gain: e.gainIf(false),
			}
		},
		Counters: []Counter{{"it fills only for a moment", func(e *Evidence) (string, bool) {
			mean := max(e.AtLine.Mean(measure.ListenerQueue), e.Over.Mean(measure.ListenerQueue))
			limit := e.AtLine.Last(measure.ListenerQueueLimit)
			return number(mean) + " wait on average", mean < .1*limit
		}}},
		Unless: []string{"accept-queue-overflow"},
		Advice: []Action{{
			Text: "listen with the backlog that the kernel allows, as Go's net.Listen does",
		}},
	},
	{
		Name:      "ports-exhausted",
		Claim:     "The local ports towards one destination run out",
		Needs:     []string{measure.HostTCPPorts, measure.HostTCPPortsUsed},
		Threshold: "over 80 % of the range towards one destination",
		Reason: "when none is left connecting fails at once; each connection that is over " +
			"holds its port for a minute",
		Judge: func(e *Evidence) *Finding {
			used := max(e.Half.Max(measure.HostTCPPortsUsed), e.AtLine.Max(measure.HostTCPPortsUsed),
				e.Over.Max(measure.HostTCPPortsUsed))
			ports := e.AtLine.Last(measure.HostTCPPorts)
			if ports == 0 || used/ports < .8 {
				return nil
			}
			towards := "one destination"
			if names := e.asked(); len(names) > 0 {
				towards += ", and the service asks " + strings.Join(names, ", ")
			}
			return &Finding{
				Claim: fmt.Sprintf("%s of %s local ports are taken towards %s",
					number(used), number(ports), towards),
				Advice:     e.keepUpstream(),
				Rank:       rankOf(e.idle()),
				Confidence: .9,
				Evidence: []Fact{
					{
						What:  "ports taken towards the busiest destination, at most",
						Value: number(used) + " of " + number(ports),
					},
					{
						What:  "connections that wait for stray packets (TIME_WAIT)",
						Value: number(e.AtLine.Max(measure.HostTCPTimeWait)),
					},
					{
						What: "connections the machine opened at the line, " +
							"the generator's left out",
						Value: perSecond(e.AtLine.opened()),
					},
				},
				Gain: e.gain(cure{saves: e.connectionShare()}),
			}
		},
		Counters: []Counter{{
			"the kernel reuses the ports of closed connections (net.ipv4.tcp_tw_reuse)",
			func(e *Evidence) (string, bool) {
				if !e.AtLine.Has(measure.HostTCPTimeWaitReuse) {
					return "", false
				}
				reuse := e.AtLine.Last(measure.HostTCPTimeWaitReuse)
				return number(reuse), reuse == 1 && e.Over.Failed() < .01
			},
		}},
		Advice: []Action{{
			Text: "until then, use ports of closed connections again, and more of them",
			Command: "sysctl -w net.ipv4.tcp_tw_reuse=1   # and, where the range is narrower: " +
				"net.ipv4.ip_local_port_range='10240 65535'",
		}},
	},
	{
		Name:  "time-wait-high",
		Claim: "Closed connections pile up",
		Needs: []string{measure.HostTCPTimeWait, measure.HostTCPTimeWaitReuse},
		Threshold: "over 3,000 with reuse off, or on for the loopback alone and over 3,000 ports " +
			"taken towards one other machine",
		Reason: "each holds a port for a minute: 28,000 ports are 470 connections a second",
		Judge: func(e *Evidence) *Finding {
			waiting := e.AtLine.Max(measure.HostTCPTimeWait)
			reuse := e.AtLine.Last(measure.HostTCPTimeWaitReuse)
			if reuse == 2 {
				// Open connections hold a port too, so fewer may be waiting.
				waiting = min(
					waiting,
					e.AtLine.Max(measure.HostTCPPortsUsedRemote)-
						e.AtLine.Mean(measure.TargetOutgoingEstablished),
				)
			}
			if waiting <= 3000 || reuse == 1 {
				return nil
			}
			return &Finding{
				Claim: fmt.Sprintf("%s connections are over and hold their ports, "+
					"and the kernel may not use them again", number(waiting)),
				Rank:       Risk,
				Confidence: .7,
				Evidence: []Fact{
					{What: "connections in TIME_WAIT", Value: number(waiting)},
					{What: "net.ipv4.tcp_tw_reuse", Value: number(reuse)},
				},
				Gain: e.gainIf(false),
			}
		},
		Counters: []Counter{{
			"few of them are towards any one destination",
			func(e *Evidence) (string, bool) {
				used := e.AtLine.Max(measure.HostTCPPortsUsed)
				ports := e.AtLine.Last(measure.HostTCPPorts)
				return fmt.Sprintf("at most %s of %s ports", number(used), number(ports)),
					ports > 0 && used < .1*ports
			},
		}},
		Unless: []string{"ports-exhausted"},
		Advice: []Action{{
			Text: "keep connections and use them again; " +
				"and let the kernel use their ports again",
			Command: "sysctl -w net.ipv4.tcp_tw_reuse=1",
		}},
	},
	{
		Name:  "client-connections-closed",
		Claim: "The service closes its clients' connections",
		Needs: []string{measure.TargetCPU},
		Threshold: "under 10 requests for each connection, with TLS under 30, and the service " +
			"closes first",
		Reason: "each connection costs the service as much processor time as several small " +
			"requests, with TLS hundreds",
		Judge: func(e *Evidence) *Finding {
			made := e.AtLine.connections()
			if made == 0 || e.AtLine.Goodput()/made > e.worthKeeping() || e.turnsAway() {
				return nil
			}
			here, there, _ := e.closers()
			return &Finding{
				Claim: fmt.Sprintf("%s closes its clients' connections after %s requests each",
					e.server(), number(e.AtLine.Goodput()/made)),
				Advice:     e.keepClients(),
				Rank:       e.closingRank(),
				Confidence: .9,
				Evidence: []Fact{
					{
						What:  "requests for each connection, at the line",
						Value: number(e.AtLine.Goodput() / made),
					},
					{What: "connections made", Value: perSecond(made)},
					{
						What:  "connections that the service closed first (TIME_WAIT on its side)",
						Value: number(here),
					},
					{What: "and its clients", Value: number(there)},
				},
				Gain: e.gainOfKept(made),
			}
		},
		Counters: []Counter{
			{
				"the survey was asked to make a new connection for each request",
				func(e *Evidence) (string, bool) {
					asked := e.Run.Manifest.Settings["new_connections"]
					return asked, asked == "true"
				},
			},
			{"the clients close first", func(e *Evidence) (string, bool) {
				here, there, counted := e.closers()
				if !counted { // a client that gives up makes a new one
					gave := e.AtLine.Failed(measure.Timeout)
					return percent(gave) + " of their requests timed out", gave > .01
				}
				return fmt.Sprintf("%s connections were closed first by the service, "+
						"%s by its clients", number(here), number(there)),
					!e.endsThem() && !e.resetsClients() && (here <= 2*there || here < fewClosed)
			}},
		},
	},
	{
		Name:  "upstream-connections-not-reused",
		Claim: "The service opens a connection to its upstream for nearly each request",
		Needs: []string{measure.HostTCPOpenedActive},
		Threshold: "over 1 connection for 5 requests, or logins that keep a store busy; or over a " +
			"Unix socket others in each look",
		Reason: "each is a round trip and a handshake before the first byte; " +
			"kept ones cost neither",
		Judge: func(e *Evidence) *Finding {
			if f := e.unkept(); f != nil {
				return f
			}
			opened := e.AtLine.opened()
			_, begins := e.sessionsBehind()
			if e.AtLine.Goodput() == 0 || opened/e.AtLine.Goodput() <= .2 && !begins ||
				e.neverAsked() && !e.leavesConnections() {
				return nil
			}
			who := "the service closes them"
			here := e.closedFirst(measure.TargetOutgoingTimeWait)
			there := e.closedFirst(measure.TargetOutgoingTimeWaitThere)
			if there > here {
				who = "the upstream closes them"
			}
			others := "others"
			if names := e.asked(); len(names) > 0 {
				others = strings.Join(names, ", ")
			}
			f := &Finding{
				Claim: fmt.Sprintf("The service opens %s connections to %s for each "+
					"request, and %s", number(opened/e.AtLine.Goodput()), others, who),
				Rank:       e.openingRank(),
				Confidence: .85,
				Evidence: []Fact{
					{
						What: "connections opened for each request, at the line, " +
							"the generator's left out",
						Value: number(opened / e.AtLine.Goodput()),
					},
					{
						What:  "connections that the service closed first",
						Value: number(here),
					},
					{
						What:  "and its upstreams",
						Value: number(there),
					},
				},
				Where:  e.Places[classHandshake],
				Advice: e.keepUpstream(),
				Gain:   e.gainOfKeeping(opened/e.AtLine.Goodput(), nil),
			}
			if d, is := e.sessionsBehind(); is {
				e.begins(f, d, opened/e.AtLine.Goodput())
			}
			return f
		},
		Counters: []Counter{{"another process opens them", func(e *Evidence) (string, bool) {
			if !e.AtLine.Has(measure.TargetOutgoingEstablished) || e.freshTo() != "" {
				return "", false
			}
			// Those that end at once are the service's only if one to the same address was seen
			// before, by chance: at higher rates too, as that may come after the line's step.
			open := e.AtLine.Max(measure.TargetOutgoingEstablished)
			here := e.AtLine.Max(measure.TargetOutgoingTimeWait) +
				e.AtLine.Max(measure.TargetOutgoingTimeWaitThere)
			later := e.fromTheLineOn(measure.TargetOutgoingTimeWait).most +
				e.fromTheLineOn(measure.TargetOutgoingTimeWaitThere).most
			return number(open+max(here, later)) + " were seen to be the service's",
				open+here < 1 && later < fewClosed || e.keepsAll() ||
					e.fewRemembered(e.AtLine.opened())
		}}},
		Unless: []string{"ports-exhausted", "database-connections-churn"},
	},
	{
		Name:      "retransmits",
		Claim:     "The network loses packets",
		Needs:     []string{measure.HostTCPRetransmits, measure.HostTCPSegmentsSent},
		Threshold: "over 1 % of the segments",
		Reason: "each costs its request a timeout of at least 200 ms, " +
			"so 1 % is a p99 of its own",
		Judge: func(e *Evidence) *Finding {
			again := e.AtLine.PerSecond(measure.HostTCPRetransmits)
			sent := e.AtLine.PerSecond(measure.HostTCPSegmentsSent)
			if sent == 0 || again/sent <= .01 || again < 5 {
				return nil
			}
			return &Finding{
				Claim: fmt.Sprintf("%s of the segments are sent again: "+
					"the network loses packets, or a queue on the way overflows",
					percent(again/sent)),
				Rank:       rankOf(e.idle()),
				Confidence: .7,
				Evidence: []Fact{
					{What: "segments sent again, at the line", Value: percent(again / sent)},
					{What: "in a second", Value: number(again)},
					{
						What: "at half of the line",
						Value: percent(e.Half.PerSecond(measure.HostTCPRetransmits) /
							max(e.Half.PerSecond(measure.HostTCPSegmentsSent), 1)),
					},
				},
				Gain: e.gainIf(e.idle()),
			}
		},
		// A machine with busy processors answers so late that segments are retransmitted although
		// none was lost. This was seen over the loopback.
		Counters: []Counter{
			processorBusy,
			{
				"connections were refused by an accept queue, and their SYNs sent again",
				func(e *Evidence) (string, bool) {
					dropped := e.AtLine.PerSecond(measure.HostTCPListenDrops)
					return perSecond(dropped),
						dropped >= .5*e.AtLine.PerSecond(measure.HostTCPRetransmits)
				},
			},
			{
				"they are SYNs: connections are slow to open, as when the other end still " +
					"remembers the last connection of a port that is reused",
				func(e *Evidence) (string, bool) {
					if !e.AtLine.Has(measure.HostTCPSYNRetransmits) {
						return "", false
					}
					syns := e.AtLine.PerSecond(measure.HostTCPSYNRetransmits)
					return perSecond(syns), syns >= .5*e.AtLine.PerSecond(measure.HostTCPRetransmits)
				},
			},
		},
		Unless: []string{"accept-queue-overflow"},
		Advice: []Action{
			{
				Text:    "see which connections lose",
				Command: "ss -ti state established '( sport = :PORT )' | grep -B1 retrans",
			},
			{
				Text: "look for drops at the interface and its queues",
				Command: "ip -s link; tc -s qdisc; " +
					"nstat -az TcpRetransSegs TcpExtTCPLostRetransmit",
			},
		},
	},
}

// begins turns a finding about connections into one about a store that is busy beginning sessions.
// opened is the number of connections opened per request.
func (e *Evidence) begins(f *Finding, d dependency, opened float64) {
	s := d.store()
	f.Claim += fmt.Sprintf(": %s at %s %s, and uses %s processors", s.name, d.address, s.session,
		number(max(d.used, d.over)))
	f.Rank, f.whatever = Binding, true
	f.Advice = s.keeps
	f.Evidence = append(f.Evidence, e.dependencyFacts()...)
	f.Gain = e.gainOfKeeping(opened, &d)
	f.Gain.Low = 1
}

// connections returns how many connections the generator made per second.
func (m *Moment) connections() float64 {
	if m == nil || m.Step.Totals.Length == 0 {
		return 0
	}
	return float64(m.Step.Totals.ConnectionsMade) / (float64(m.Step.Totals.Length) / 1e9)
}

// opened returns how many connections the machine opened per second, without the generator's. For a
// target in a network namespace of its own, connections are counted in that namespace, where the
// generator opens none. The count is then far lower than what the generator made.
func (m *Moment) opened() float64 {
	counted, generators := m.PerSecond(measure.HostTCPOpenedActive), m.connections()
	if counted < generators/2 {
		return counted
	}
	return max(counted-generators, 0)
}

// overflowsElsewhere reports whether the queue that overflows is likely to be that of another process
// on this machine, which the service asks: the kernel counts all of them together, and the service's own
// queue stays short. A very short one fills between two looks.
func (e *Evidence) overflowsElsewhere() bool {
	const short, fills = 16, .25
	limit := e.AtLine.Last(measure.ListenerQueueLimit)
	longest := max(e.AtLine.Max(measure.ListenerQueue), e.Over.Max(measure.ListenerQueue))
	return limit > short && longest < fills*limit &&
		slices.ContainsFunc(e.sampledOf(measure.OutgoingTo), func(to string) bool {
			return onThisMachine(to) && !strings.HasPrefix(to, measure.UnixAddress)
		})
}

// fewRemembered reports whether far fewer connections to others are remembered as closed, for a minute,
// than were opened meanwhile, all of them on this machine: what the service asks opens them. None is
// remembered that was reset, as one is whose last bytes nobody read; but of the service's own there
// are then now more and now fewer.
func (e *Evidence) fewRemembered(opened float64) bool {
	to := e.sampledOf(measure.OutgoingTo)
	if len(to) == 0 || !e.AtLine.Has(measure.TargetOutgoingTimeWait) || e.letsGo() ||
		slices.ContainsFunc(to, func(at string) bool { return !onThisMachine(at) }) {
		return false
	}
	remembered := e.closedFirst(measure.TargetOutgoingTimeWait) +
		e.closedFirst(measure.TargetOutgoingTimeWaitThere)
	return remembered < .1*opened*min(float64(e.AtLine.Step.Totals.Length)/1e9, 60)
}

// letsGo reports whether the service closes connections to others all the time near the line: from one
// look to the next they become fewer by one or more on average. One or two come and go in any pool, and
// a pool that has become too large shrinks once in a while.
func (e *Evidence) letsGo() bool {
	closed, looks := 0.0, 0.0
	for i := range e.Run.Steps {
		m := &Moment{Step: &e.Run.Steps[i]}
		if e.loadOf(m.Step) != nearLine {
			continue
		}
		open, _, _ := m.values(measure.TargetOutgoingEstablished)
		for j := 1; j < len(open); j++ {
			looks++
			if fewer := open[j-1] - open[j]; fewer > 2 {
				closed += fewer
			}
		}
	}
	return closed >= max(fewClosed, looks)
}

// closedFirst returns how many connections of the service to others were remembered as closed, under
// one of the names for that: at the line or, if none was known to be the service's by then, beyond
// it.
func (e *Evidence) closedFirst(name string) float64 {
	return cmp.Or(e.AtLine.Mean(name), e.fromTheLineOn(name).most)
}

// keepsAll reports whether the service has the same number of connections to others all the time,
// all of them on this machine, and none is remembered as closed: it has opened none.
func (e *Evidence) keepsAll() bool {
	open, _, _ := e.AtLine.values(measure.TargetOutgoingEstablished)
	known := false
	for _, sample := range e.AtLine.Step.Samples { // not every sample has all values
		for name := range sample.Values {
			to, is := strings.CutPrefix(name, measure.OutgoingTo)
			if is && !onThisMachine(to) {
				return false
			}
			known = known || is
		}
	}
	return known && len(open) > 1 && slices.Min(open) > 0 && slices.Min(open) == slices.Max(open) &&
		e.AtLine.Max(measure.TargetOutgoingTimeWait) == 0 &&
		e.AtLine.Max(measure.TargetOutgoingTimeWaitThere) == 0
}

// fewClosed is how many connections must be remembered as closed to show who closes them.
const fewClosed = 10

// openingRank returns the rank of connections to others that are opened for each request. On this
// machine they cost processor time, and nothing else.
func (e *Evidence) openingRank() Rank {
	to := e.sampledOf(measure.OutgoingTo)
	elsewhere := func(at string) bool { return !onThisMachine(at) }
	if len(to) == 0 || slices.ContainsFunc(to, elsewhere) {
		return e.costRank()
	}
	cost, plain := e.AtLine.PerRequest(measure.TargetCPU), true
	for _, d := range e.dependencies() {
		switch behind := e.costsBehind(d); {
		case d.session() != "":
			logins := e.AtLine.opened() / max(e.AtLine.Goodput(), 1e-9) * d.store().login
			cost, plain = cost+min(behind, max(logins, connectionCost)), false
		case strings.HasSuffix(d.address, "443"): // TLS, by custom
			cost, plain = cost+min(behind, acceptingMost), false
		default:
			cost += min(behind, connectionCost)
		}
	}
	if plain && e.fewPlaces() {
		return Cost // what they cost is a part of the time for which a place is taken
	}
	if d, is := e.saturatedBehind(); is && !e.busyAccepting(d) || e.waitsLonger(cost) ||
		e.rowsLocked() != nil {
		return Cost
	}
	return e.costRank()
}

// acceptingMost is the most processor time in seconds that a service spends on a connection which it
// accepts, and a request: a TLS handshake with RSA is most of that. On processors that are in use and
// share their units, it takes up to slowdown times as long.
const acceptingMost, slowdown = 2e-3, 2

// busyAccepting reports whether a dependency may be busy because connections to it are made for each
// request: it spends no more on a request than that takes, or starts a session for each.
func (e *Evidence) busyAccepting(d dependency) bool {
	return e.costsBehind(d) <= slowdown*acceptingMost || d.session() != ""
}

// littleOfIt is the largest share of a lone request's time that is not what requests wait for.
const littleOfIt = .25

// waitsLonger reports whether requests wait for something, while the processors have room, that
// seconds of processor time for each cannot explain: they are too little of a lone request's time.
func (e *Evidence) waitsLonger(cost float64) bool {
	return e.found() && e.queues() && e.room() && cost < littleOfIt*e.unhurried()
}

// machineCost returns how many seconds of processor time a request costs the whole machine, at the
// line; 0 if that is not known.
func (e *Evidence) machineCost() float64 {
	return e.AtLine.PerRequest(measure.HostCPU)
}

// connectionShare returns the share of the target's processor time that goes into making
// connections: handshakes, dialing, accepting.
func (e *Evidence) connectionShare() float64 {
	return e.spent(classHandshake) + e.spent(classConnect)
}

// clientsShare returns how many processors the clients' side of handshakes uses, if it is on this
// machine. The generator does its handshakes outside its loops, so they are not part of what its
// loops used.
func (e *Evidence) clientsShare() float64 {
	if !e.Run.Manifest.Machine.Shared() || !strings.HasPrefix(e.Run.Manifest.Target, "https:") {
		return 0
	}
	return .9 * e.others()
}
