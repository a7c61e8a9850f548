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
// drains hold, and whatever must be asked of a loop is asked in pieces of some tens of
// microseconds, so that no request's latency shows that somebody looked.

// inForce is what the gateway runs with since the last reload. It is immutable; what it points to
// guards itself.
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

// listenerView is what is asked of a listener.
type listenerView struct {
	address, bound string
	limiter        *tlsio.HandshakeLimiter // nil without TLS
	quota          *proxy.Quota
	accepting      *atomic.Bool
	quic           *http3Endpoint // nil without HTTP/3
}

// look makes the view of what is in force. g.mu is held.
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

// view is what is in force now, and empty before the first configuration is.
func (g *Gateway) view() *inForce {
	if v := g.inForce.Load(); v != nil {
		return v
	}
	return &inForce{config: &config.Config{}}
}

// State is where the gateway is in its life.
func (g *Gateway) State() State { return g.state.Load().(State) }

// Ready is nil while the gateway serves and each of its listeners accepts, and otherwise says what
// it lacks.
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
		case g.view() == v: // else a reload has just taken the listener away
			return fmt.Errorf("the listener %s does not accept", v.listeners[i].address)
		}
	}
}

// Metrics serves the metrics to Prometheus.
func (g *Gateway) Metrics() http.Handler { return g.registry.Handler(g.ask) }

// ConfigStatus is the configuration in force.
type ConfigStatus struct {
	Version    string    `json:"version"` // a short hash of its content
	File       string    `json:"file"`
	LoadedAt   time.Time `json:"loaded_at"`
	AgeSeconds float64   `json:"age_seconds"`
	YAML       string    `json:"yaml"` // with every default, and without secrets
}

// Config is the configuration in force.
func (g *Gateway) Config() ConfigStatus {
	v := g.view()
	return ConfigStatus{Version: v.version, File: g.options.ConfigPath, LoadedAt: v.loadedAt,
		AgeSeconds: time.Since(v.loadedAt).Seconds(),
		YAML:       string(v.config.YAML())}
}

// Spread is how a duration is spread over exchanges, all since the start. The unit is in its key's
// name.
type Spread struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func spreadOf(h *hist.Histogram, unit time.Duration) Spread {
	in := func(ns int64) float64 { return round(float64(ns) / float64(unit)) }
	return Spread{P50: in(h.Quantile(0.5)), P99: in(h.Quantile(0.99)), Max: in(h.Max())}
}

// round keeps three decimals: more would say less.
func round(v float64) float64 { return float64(int64(v*1000+0.5)) / 1000 }

// RouteStatus is a route and the outcome of the exchanges on it since the start, over reloads.
type RouteStatus struct {
	Name     string   `json:"name"`
	Match    string   `json:"match"`
	Class    string   `json:"class"`
	Action   string   `json:"action"` // "proxy", "split", "respond" or "redirect"
	To       []string `json:"to,omitempty"`
	Requests uint64   `json:"requests"`
	// Requests by class of status: "2xx" and so on, "none" where none was sent.
	Codes map[string]uint64 `json:"codes"`
	// Of them those that the gateway refused or cut, or gave a fallback's answer, by reason.
	Refused map[string]uint64 `json:"refused,omitempty"`
	Total   Spread            `json:"duration_ms"`
	Gateway Spread            `json:"gateway_added_us"`
	// Cells are the whole histogram behind Total, from which a reader who looks twice can tell the
	// percentiles of the time between.
	Cells []hist.Cell `json:"duration_histogram,omitempty"`
	SLO   *SLOStatus  `json:"slo,omitempty"`
	// What those say of themselves that have something to say.
	Policies map[string]any `json:"policies,omitempty"`
}

// Routes are the routes in force, in the config's order, and at the end what matched none of them.
func (g *Gateway) Routes() []RouteStatus {
	view, snapshot := g.view(), g.feed()
	cfg := view.config
	count := func(s *RouteStatus, series int) {
		if series >= len(snapshot.Routes) {
			return // of a config that came after the snapshot
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

// refusals are the counts of a route's exchanges that were somebody's fault; nil without any.
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
