// Package admin serves the people and machines that run a gateway: metrics, health checks,
// profiles, and a JSON API that shows what the gateway knows about itself and lets an operator act.
// It knows HTTP and who may ask. It must not know how the gateway does what it is asked, and keeps
// none of the gateway's state.
//
// Every request passes one guard (guard.go), whatever its path. There is no list of paths that are
// let through, so there is none to get around. Behind the guard every path is an exact pattern, and
// a path that is not in its canonical form matches nothing.
package admin

import (
	"context"
	"net/http"
	"net/http/pprof"
	"path"
	"time"

	"plimsoll/internal/gateway"
	"plimsoll/internal/loadline"
)

// Gateway is what is asked, and told. Its methods are called from many goroutines at once.
type Gateway interface {
	State() gateway.State
	Ready() error
	Metrics() http.Handler
	Routes() []gateway.RouteStatus
	Upstreams() []gateway.UpstreamStatus
	Upstream(name string) (gateway.UpstreamStatus, error)
	DrainTarget(upstream, address string) (gateway.TargetStatus, error)
	RestoreTarget(upstream, address string) (gateway.TargetStatus, error)
	ForceBreaker(upstream, address, state string) (gateway.TargetStatus, error)
	SetLimit(route, limit, rate string, burst int64) error
	SetLimitOf(value, route, limit, rate string, burst int64) error
	ChangeGuard(route string, add, remove []string) error
	PurgeCache(gateway.Purge) (gateway.PurgeResult, error)
	Connections() gateway.ConnectionsStatus
	Loops(ctx context.Context, over time.Duration) (gateway.LoopsStatus, error)
	LoadLine() loadline.Status
	Config() gateway.ConfigStatus
	Reload() error
	Drain()
}

// Address is the address that a handler serves.
type Address interface {
	// Address is the address as configured.
	Address() string
	// Token is what requests must carry now; empty for none.
	Token() string
}

// Bounds on how many requests look into the loops at the same time, and on those that watch them
// for some seconds. More wait for as long as lookPatience.
const (
	maxLooks     = 4
	maxWatches   = 4
	lookPatience = 5 * time.Second
)

// maxBody bounds what a request may send. Nothing that is read here is longer than a list of
// addresses for pprof's symbol.
const maxBody = 64 << 10

type api struct {
	gateway Gateway
	looks   chan struct{}
	watches chan struct{}
	mux     *http.ServeMux
}

// New makes the handler of an admin address.
func New(g Gateway, address Address) http.Handler {
	a := &api{
		gateway: g,
		looks:   make(chan struct{}, maxLooks),
		watches: make(chan struct{}, maxWatches),
		mux:     http.NewServeMux(),
	}
	metrics := g.Metrics()
	a.mux.HandleFunc("GET /healthz", a.alive)
	a.mux.HandleFunc("GET /readyz", a.ready)
	a.mux.HandleFunc("GET /metrics", a.look(metrics.ServeHTTP))
	a.mux.HandleFunc("GET /api/v1/routes", a.look(a.routes))
	a.mux.HandleFunc("GET /api/v1/upstreams", a.look(a.upstreams))
	a.mux.HandleFunc("GET /api/v1/upstreams/{name}", a.look(a.upstream))
	a.mux.HandleFunc("POST /api/v1/upstreams/{name}/targets/{address}/drain",
		a.operate(g.DrainTarget))
	a.mux.HandleFunc("POST /api/v1/upstreams/{name}/targets/{address}/restore",
		a.operate(g.RestoreTarget))
	a.mux.HandleFunc("POST /api/v1/upstreams/{name}/targets/{address}/breaker", a.look(a.forceBreaker))
	a.mux.HandleFunc("POST /api/v1/routes/{route}/limits/{limit}", a.setLimit)
	a.mux.HandleFunc("POST /api/v1/routes/{route}/guard", a.changeGuard)
	a.mux.HandleFunc("POST /api/v1/cache/purge", a.purgeCache)
	a.mux.HandleFunc("GET /api/v1/connections", a.look(a.connections))
	a.mux.HandleFunc("GET /api/v1/loops", bounded(a.watches, a.loops))
	a.mux.HandleFunc("GET /api/v1/loadline", a.loadLine)
	a.mux.HandleFunc("GET /api/v1/config", a.config)
	a.mux.HandleFunc("GET /api/v1/config.yaml", a.configYAML)
	a.mux.HandleFunc("POST /api/v1/reload", a.reload)
	a.mux.HandleFunc("POST /api/v1/drain", a.drain)
	a.mux.HandleFunc("GET /debug/pprof/{$}", pprof.Index)
	a.mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	a.mux.HandleFunc("GET /debug/pprof/profile", timed(pprof.Profile))
	a.mux.HandleFunc("GET /debug/pprof/trace", timed(pprof.Trace))
	a.mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	a.mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	a.mux.HandleFunc("GET /debug/pprof/{profile}", timed(profile))
	return guard{address: address, next: a}
}

// ServeHTTP answers what the guard has let through.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if p := r.URL.EscapedPath(); clean(p) != p {
		fail(w, http.StatusNotFound, "there is nothing here: the path is not in its canonical form")
		return
	}
	handler, pattern := a.mux.Handler(r)
	if pattern == "" {
		refused := &refusal{header: http.Header{}, status: http.StatusNotFound}
		handler.ServeHTTP(refused, r)
		a.refuse(w, r, refused)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// clean is path.Clean but for a slash at the end, which counts.
func clean(p string) string {
	c := path.Clean(p)
	if len(p) > 1 && p[len(p)-1] == '/' {
		c += "/"
	}
	return c
}

// refusal takes the mux's own answer, which is text, so that it can be given as JSON.
type refusal struct {
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (r *refusal) Header() http.Header { return r.header }

// Write implements http.ResponseWriter.
func (r *refusal) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader implements http.ResponseWriter.
func (r *refusal) WriteHeader(status int) { r.status = status }

func (a *api) refuse(w http.ResponseWriter, r *http.Request, refused *refusal) {
	if refused.status != http.StatusMethodNotAllowed {
		fail(w, http.StatusNotFound, "not found; docs/operations.md lists the paths")
		return
	}
	allowed := refused.header.Get("Allow")
	w.Header().Set("Allow", allowed)
	fail(w, http.StatusMethodNotAllowed, quoted(r.Method)+" is not for this path: use "+allowed)
}

// look bounds how many requests ask the loops at the same time.
func (a *api) look(next http.HandlerFunc) http.HandlerFunc { return bounded(a.looks, next) }

// bounded lets as many requests in as places has room for.
func bounded(places chan struct{}, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		timer := time.NewTimer(lookPatience)
		defer timer.Stop()
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			next(w, r)
		case <-timer.C:
			w.Header().Set("Retry-After", "5")
			fail(w, http.StatusServiceUnavailable,
				"too many others are looking at the gateway: try again later")
		case <-r.Context().Done():
		}
	}
}
