package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/exchange"
	"plimsoll/internal/hist"
	"plimsoll/internal/loadline"
	"plimsoll/internal/policy/cache"
	"plimsoll/internal/proxy"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/tlsio"
)

// What the gateway reports about itself to its operator. None of it takes the lock that reloads and
// drains hold. Queries of a loop are split into pieces of some tens of microseconds, so that they
// do not noticeably delay requests.

// inForce is what the gateway has been running with since the last reload. It is immutable. What it
// points to has its own synchronisation.
type inForce struct {
	config    *config.Config
	version   string
	loadedAt  time.Time
	upstreams upstreams
	stores    stores
	memory    *cache.Memory
	lines     map[string]*loadline.Line
	policies  []policy
	listeners []listenerView // in the config's order
}

// listenerView is what queries need of a listener.
type listenerView struct {
	address, bound string
	limiter        *tlsio.HandshakeLimiter // nil without TLS
	quota          *proxy.Quota
	accepting      *atomic.Bool
	quic           *http3Endpoint // nil without HTTP/3
}

// look makes the inForce of the present configuration. The caller holds g.mu.
func (g *Gateway) look() *inForce {
	v := &inForce{
		config: g.config, version: g.version, loadedAt: g.loadedAt, upstreams: g.upstreams,
		stores: g.stores, memory: g.cached,
		lines: g.surveyed, policies: g.policies,
	}
	for _, lc := range g.config.Listeners {
		l := g.listeners[lc.Address]
		view := listenerView{address: l.address, bound: l.bound.String(), quota: l.quota,
			accepting: &l.accepting, quic: l.quic}
		if l.tls != nil {
			view.limiter = l.tls.limiter
		}
		v.listeners = append(v.listeners, view)
	}
	return v
}

// view returns the present inForce, which is empty before the first configuration.
func (g *Gateway) view() *inForce {
	if v := g.inForce.Load(); v != nil {
		return v
	}
	return &inForce{config: &config.Config{}}
}

// State is the present phase of the gateway's life.
func (g *Gateway) State() State { return g.state.Load().(State) }

// Ready returns nil while the gateway serves and each of its listeners accepts, and otherwise an
// error that says what is missing.
func (g *Gateway) Ready() error {
	if s := g.State(); s != Serving {
		return fmt.Errorf("the gateway is %s", s)
	}
	for {
		v := g.view()
		i := slices.IndexFunc(v.listeners, func(l listenerView) bool { return !l.accepting.Load() })
		switch {
		case i < 0:
			return nil
		case g.view() == v: // otherwise a reload has just removed the listener
			return fmt.Errorf("the listener %s does not accept", v.listeners[i].address)
		}
	}
}

// Metrics serves the metrics to Prometheus.
func (g *Gateway) Metrics() http.Handler { return g.registry.Handler(g.ask) }

// ConfigStatus describes the active configuration.
type ConfigStatus struct {
	Version    string    `json:"version"` // a short hash of its content
	File       string    `json:"file"`
	LoadedAt   time.Time `json:"loaded_at"`
	AgeSeconds float64   `json:"age_seconds"`
	YAML       string    `json:"yaml"` // with every default, and without secrets
}

// Config returns the active configuration.
func (g *Gateway) Config() ConfigStatus {
	v := g.view()
	return ConfigStatus{Version: v.version, File: g.options.ConfigPath, LoadedAt: v.loadedAt,
		AgeSeconds: time.Since(v.loadedAt).Seconds(),
		YAML:       string(v.config.YAML())}
}

// Spread is the distribution of a duration over all exchanges since the start. The name of its key
// gives the unit.
type Spread struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func spreadOf(h *hist.Histogram, unit time.Duration) Spread {
	in := func(ns int64) float64 { return round(float64(ns) / float64(unit)) }
	return Spread{P50: in(h.Quantile(0.5)), P99: in(h.Quantile(0.99)), Max: in(h.Max())}
}

// round rounds to three decimals; more would not be meaningful.
func round(v float64) float64 { return float64(int64(v*1000+0.5)) / 1000 }

// RouteStatus is a route and the outcome of its exchanges since the start, across reloads.
type RouteStatus struct {
	Name     string   `json:"name"`
	Match    string   `json:"match"`
	Class    string   `json:"class"`
	Action   string   `json:"action"` // "proxy", "split", "respond" or "redirect"
	To       []string `json:"to,omitempty"`
	Requests uint64   `json:"requests"`
	// Codes counts requests by class of status: "2xx" and so on, "none" if none was sent.
	Codes map[string]uint64 `json:"codes"`
	// Refused counts, by reason, those that the gateway refused or cut, or answered with a
	// fallback.
	Refused map[string]uint64 `json:"refused,omitempty"`
	Total   Spread            `json:"duration_ms"`
	Gateway Spread            `json:"gateway_added_us"`
	// Cells is the complete histogram behind Total. From two readings, the percentiles of the time
	// between them can be computed.
	Cells []hist.Cell `json:"duration_histogram,omitempty"`
	SLO   *SLOStatus  `json:"slo,omitempty"`
	// Policies is the status of the route's policies that have one, by kind.
	Policies map[string]any `json:"policies,omitempty"`
}

// Routes returns the active routes in the config's order, followed by an entry for requests that
// matched none.
func (g *Gateway) Routes() []RouteStatus {
	view, snapshot := g.view(), g.feed()
	cfg := view.config
	count := func(s *RouteStatus, series int) {
		if series >= len(snapshot.Routes) {
			return // a route of a config that is newer than the snapshot
		}
		r := snapshot.Routes[series]
		s.Codes, s.Requests = r.Codes.ByClass(), r.Total.Count()
		s.Refused, s.Cells = refusals(&r), r.Total.Cells()
		s.Total, s.Gateway = spreadOf(&r.Total, time.Millisecond), spreadOf(&r.Gateway, time.Microsecond)
	}
	said := policyStatus(view.policies)
	list := make([]RouteStatus, 0, len(cfg.Routes)+1)
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		match, location := cfg.Shown(i)
		s := RouteStatus{Name: r.Name, Match: match, Class: r.SLA,
			Policies: said[r.Name]}
		switch {
		case r.Upstream != "":
			s.Action, s.To = "proxy", []string{r.Upstream}
		case r.Split != nil:
			s.Action, s.To = "split", slices.Sorted(maps.Keys(r.Split.Weights))
		case r.Redirect != nil:
			s.Action, s.To = "redirect", []string{location}
		default:
			s.Action = "respond"
		}
		series := g.registry.Route(r.Name)
		count(&s, series)
		s.SLO = sloStatus(cfg.SLA(r.SLA), g.ledger.Route(series, classOf(r.SLA)))
		list = append(list, s)
	}
	unmatched := RouteStatus{Name: "none", Match: "what no route matches", Action: "respond"}
	count(&unmatched, telemetry.NoRoute)
	return append(list, unmatched)
}

// refusals counts a route's exchanges whose reason has a Fault, by reason; nil if there are none.
func refusals(r *telemetry.RouteSnapshot) (by map[string]uint64) {
	for reason := exchange.NoReason + 1; int(reason) < exchange.Reasons(); reason++ {
		n := r.Reasons[reason]
		if n == 0 || reason.Fault() == exchange.NoFault {
			continue
		}
		if by == nil {
			by = map[string]uint64{}
		}
		by[reason.String()] = n
	}
	return by
}
