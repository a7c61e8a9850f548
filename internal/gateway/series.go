package gateway

import (
	"maps"
	"slices"

	"plimsoll/internal/telemetry"
	"plimsoll/internal/upstream"
)

// shownTargets is how many targets a scrape shows individually; the rest are only counted. A name
// can have thousands of addresses, and each would remain a series in the metrics database for ever.
const shownTargets = 1000

// Indexes of the series about the upstreams.
const (
	seriesTargets = iota
	seriesTargetUp
	seriesTargetState
	seriesLimit
	seriesUsed
	seriesBound
	seriesPlaces
	seriesBreaker
	seriesTrials
	seriesTransitions
	seriesNotShown
	seriesPanicking
	seriesEjections
	seriesOpen
	seriesIdle
	seriesOutstanding
	seriesWaiting
	seriesWaits
	seriesUnserved
	seriesHopeless
)

var upstreamSeries = []telemetry.Series{
	seriesTargets: {Name: "upstream_targets", Help: "Targets of an upstream, by state.",
		Labels: []string{"upstream", "state"}},
	seriesTargetUp: {Name: "target_up", Help: "1 for a target that nothing keeps from being " +
		"used, 0 for any other.",
		Labels: []string{"upstream", "target"}},
	seriesTargetState: {Name: "target_state", Help: "1 for the state that a target is in.",
		Labels: []string{"upstream", "target", "state"}},
	seriesLimit: {Name: "target_concurrency_limit", Help: "How many requests may be at a target at once.",
		Labels: []string{"upstream", "target"}},
	seriesUsed: {
		Name:   "target_concurrency_used",
		Help:   "How many requests are at a target whose concurrency is limited.",
		Labels: []string{"upstream", "target"},
	},
	seriesBound: {
		Name:   "upstream_concurrency_limit",
		Help:   "How many requests may be at all targets of an upstream together.",
		Labels: []string{"upstream"},
	},
	seriesPlaces: {
		Name:   "upstream_concurrency_used",
		Help:   "How many requests are at the targets of an upstream that bounds them together.",
		Labels: []string{"upstream"},
	},
	seriesBreaker: {
		Name:   "target_breaker_state",
		Help:   "1 for the state that the circuit breaker of a target is in.",
		Labels: []string{"upstream", "target", "state"},
	},
	seriesTrials: {
		Name:   "target_breaker_trials",
		Help:   "Requests by which a target's half-open circuit breaker tries it at present.",
		Labels: []string{"upstream", "target"},
	},
	seriesTransitions: {
		Name:   "upstream_breaker_transitions_total",
		Help:   "Changes of state of an upstream's circuit breakers.",
		Labels: []string{"upstream"},
	},
	seriesNotShown: {
		Name: "targets_not_shown",
		Help: "Targets beyond the first thousand, which have no series of their own.",
	},
	seriesPanicking: {Name: "upstream_panicking", Help: "1 while too few targets are usable, so " +
		"that those that are down are used too.",
		Labels: []string{"upstream"}},
	seriesEjections: {Name: "upstream_ejections_total", Help: "Targets of an upstream that were " +
		"taken out by passive health checks.",
		Labels: []string{"upstream"}},
	seriesOpen: {Name: "upstream_connections_open", Help: "Connections to an upstream, those " +
		"that are idle or being made included.",
		Labels: []string{"upstream"}},
	seriesIdle: {Name: "upstream_connections_idle", Help: "Connections to an upstream " +
		"that no request uses.", Labels: []string{"upstream"}},
	seriesOutstanding: {Name: "upstream_requests_in_flight",
		Help: "Requests under way at an upstream.", Labels: []string{"upstream"}},
	seriesWaiting: {Name: "upstream_requests_waiting", Help: "Requests that wait for a " +
		"connection to an upstream.",
		Labels: []string{"upstream"}},
	seriesWaits: {Name: "upstream_waits_total", Help: "Requests that had to wait for a " +
		"connection to an upstream.", Labels: []string{"upstream"}},
	seriesUnserved: {Name: "upstream_waits_refused_total",
		Help: "Requests that got no connection to an upstream because too many waited, or for " +
			"too long.", Labels: []string{"upstream"}},
	seriesHopeless: {Name: "upstream_waits_hopeless_total",
		Help: "Times that a request was refused at once because it would have waited for longer " +
			"than its patience.",
		Labels: []string{"upstream"}},
}

// Indexes of the series about the listeners.
const (
	seriesListener = iota
	seriesAccepting
	seriesHandshakes
	seriesHandshakesWaiting
	seriesAllowed
	seriesDraining
	seriesQUICHandshakes
	seriesQUICFailed
	seriesQUICRefused
	seriesQUICRetries
	seriesQUICEarly
)

var listenerSeries = []telemetry.Series{
	seriesListener: {Name: "listener_connections", Help: "Client connections open, by listener.",
		Labels: []string{"listener"}},
	seriesAccepting: {Name: "listener_accepting",
		Help: "1 while a listener accepts on every loop.", Labels: []string{"listener"}},
	seriesHandshakes: {Name: "tls_handshakes_in_flight",
		Help: "TLS handshakes under way, by listener.", Labels: []string{"listener"}},
	seriesHandshakesWaiting: {Name: "tls_handshakes_waiting", Help: "TLS handshakes that wait " +
		"because too many are under way, by listener.",
		Labels: []string{"listener"}},
	seriesAllowed: {Name: "connections_allowed", Help: "Client connections that the limit of " +
		"descriptors leaves room for."},
	seriesDraining: {Name: "draining", Help: "1 while the gateway takes nothing new and ends."},
	seriesQUICHandshakes: {
		Name:   "http3_handshakes_in_flight",
		Help:   "QUIC handshakes under way, by listener.",
		Labels: []string{"listener"},
	},
	seriesQUICFailed: {
		Name:   "http3_handshakes_failed_total",
		Help:   "QUIC handshakes that came to nothing, by listener.",
		Labels: []string{"listener"},
	},
	seriesQUICRefused: {
		Name:   "http3_handshakes_refused_total",
		Help:   "QUIC connections refused because too many handshakes were under way, by listener.",
		Labels: []string{"listener"},
	},
	seriesQUICRetries: {
		Name:   "http3_retries_total",
		Help:   "Clients that had to prove their address first, because many handshakes were under way.",
		Labels: []string{"listener"},
	},
	seriesQUICEarly: {
		Name:   "http3_early_data_total",
		Help:   "QUIC connections whose client began with early data, by listener.",
		Labels: []string{"listener"},
	},
}

// addSeries adds the metrics that do not come from the loops' counters.
func (g *Gateway) addSeries() error {
	if err := g.registry.AddGroup(telemetry.Group{Series: upstreamSeries,
		Read: g.readUpstreams}); err != nil {
		return err
	}
	if err := g.registry.AddGroup(telemetry.Group{Series: adminSeries,
		Read: g.adminClosed.read}); err != nil {
		return err
	}
	if err := g.registry.AddGroup(telemetry.Group{Series: sloSeries, Read: g.readObjectives}); err != nil {
		return err
	}
	if err := g.registry.AddGroup(telemetry.Group{Series: storeSeries, Read: g.readStores}); err != nil {
		return err
	}
	if err := g.registry.AddGroup(telemetry.Group{Series: cacheSeries, Read: g.readCache}); err != nil {
		return err
	}
	if err := g.registry.AddGroup(telemetry.Group{Series: tierSeries, Read: g.readTier,
		ReadHistograms: g.readTierTimes}); err != nil {
		return err
	}
	if err := g.registry.AddGroup(telemetry.Group{Series: lineSeries, Read: g.readLoadLine}); err != nil {
		return err
	}
	if err := g.addPolicySeries(); err != nil {
		return err
	}
	return g.registry.AddGroup(telemetry.Group{Series: listenerSeries, Read: g.readListeners})
}

func (g *Gateway) readUpstreams(emit telemetry.Emit) {
	v := g.view()
	names := slices.Sorted(maps.Keys(v.upstreams))
	names = names[:min(len(names), telemetry.MaxNames)]
	all := make([]*upstream.Upstream, len(names))
	for i, name := range names {
		all[i] = v.upstreams[name]
	}
	shown, left := 0, 0
	for i, load := range g.loads(all) {
		name, s := names[i], all[i].Status()
		states, open, idle := map[string]int{"up": 0}, 0, load.Idle
		seen := map[string]bool{} // two names may stand for the same address
		for _, t := range s.Targets {
			states[t.State]++
			open += t.Connections
			idle += t.Spare
			switch {
			case seen[t.Address]:
			case shown >= shownTargets:
				left++
			default:
				seen[t.Address] = true
				shown++
				emit(seriesTargetUp, truth(t.Usable), name, t.Address)
				emit(seriesTargetState, 1, name, t.Address, t.State)
				if t.Breaker != nil {
					emit(seriesBreaker, 1, name, t.Address, t.Breaker.State.String())
					emit(seriesTrials, float64(t.Breaker.TrialsUnderWay), name, t.Address)
				}
				if c := t.Concurrency; c != nil {
					emit(seriesLimit, float64(c.Limit), name, t.Address)
					emit(seriesUsed, float64(c.Used), name, t.Address)
				}
			}
		}
		for state, n := range states {
			emit(seriesTargets, float64(n), name, state)
		}
		if s.Bound > 0 {
			emit(seriesBound, float64(s.Bound), name)
			emit(seriesPlaces, float64(s.InFlight), name)
		}
		emit(seriesPanicking, truth(load.Panicking > 0), name)
		emit(seriesEjections, float64(s.Ejections), name)
		emit(seriesTransitions, float64(s.Transitions), name)
		emit(seriesOpen, float64(open), name)
		emit(seriesIdle, float64(idle), name)
		emit(seriesOutstanding, float64(load.Outstanding), name)
		emit(seriesWaiting, float64(load.Waiting), name)
		emit(seriesWaits, float64(load.Waits), name)
		emit(seriesUnserved, float64(load.Refused), name)
		emit(seriesHopeless, float64(load.Hopeless), name)
	}
	emit(seriesNotShown, float64(left))
}

func (g *Gateway) readListeners(emit telemetry.Emit) {
	for _, l := range g.view().listeners {
		emit(seriesListener, float64(l.quota.Open()), l.address)
		emit(seriesAccepting, truth(l.accepting.Load()), l.address)
		if l.limiter != nil {
			s := l.limiter.Stats()
			emit(seriesHandshakes, float64(s.InFlight), l.address)
			emit(seriesHandshakesWaiting, float64(s.Waiting), l.address)
		}
		if l.quic != nil {
			s := l.quic.Stats()
			emit(seriesQUICHandshakes, float64(s.Handshakes), l.address)
			emit(seriesQUICFailed, float64(s.Failed), l.address)
			emit(seriesQUICRefused, float64(s.Refused), l.address)
			emit(seriesQUICRetries, float64(s.Retries), l.address)
			emit(seriesQUICEarly, float64(s.Early), l.address)
		}
	}
	emit(seriesAllowed, float64(g.shared.MaxClients.Load()))
	emit(seriesDraining, truth(g.State() == Draining))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
