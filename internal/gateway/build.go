package gateway

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"plimsoll/internal/admission"
	"plimsoll/internal/breaker"
	"plimsoll/internal/concurrency"
	"plimsoll/internal/config"
	"plimsoll/internal/exchange"
	"plimsoll/internal/policy/cache"
	"plimsoll/internal/proxy"
	"plimsoll/internal/route"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/tlsio"
	"plimsoll/internal/upstream"
)

// upstreams are the upstreams of a config by name. Those whose config has not changed are carried
// over from the previous config with their state.
type upstreams map[string]*upstream.Upstream

// buildUpstreams makes the upstreams of cfg, taking over those from old that have not changed.
// fresh are the new ones, which have not been started.
func (g *Gateway) buildUpstreams(cfg *config.Config, old upstreams) (all, fresh upstreams,
	errs config.Errors) {
	all, fresh = upstreams{}, upstreams{}
	for _, name := range slices.Sorted(maps.Keys(cfg.Upstreams)) {
		o, err := upstreamOptions(cfg.Upstreams[name])
		if err != nil {
			errs = append(errs, cfg.Upstreams[name].Position().Wrong("upstreams."+name, err.Error()))
			continue
		}
		if u := old[name]; u != nil && u.SameAs(o) {
			all[name] = u
			continue
		}
		u, err := upstream.New(name, o, g.env)
		if err != nil {
			errs = append(errs, cfg.Upstreams[name].Position().Wrong("upstreams."+name, err.Error()))
			continue
		}
		if from := old[name]; from != nil {
			u.Inherit(from)
		}
		all[name], fresh[name] = u, u
	}
	return all, fresh, errs
}

// upstreamOptions converts an upstream's config to the options of package upstream.
func upstreamOptions(u *config.Upstream) (upstream.Options, error) {
	o := upstream.Options{
		Policy: upstream.Policy(u.Balance.Policy), SlowStart: time.Duration(u.SlowStart),
		Passive: upstream.PassiveOptions{
			Disabled: u.Health.Passive.Disabled, ConsecutiveFailures: *u.Health.Passive.ConsecutiveFailures,
			SuccessRateDeviations: *u.Health.Passive.SuccessRateDeviations,
			EjectFor:              time.Duration(u.Health.Passive.EjectFor),
			MaxEjected:            float64(*u.Health.Passive.MaxEjected),
		},
		Panic:          float64(*u.Health.Panic),
		MaxConnections: u.Pool.MaxConnections, MaxPending: u.Pool.MaxPending,
		PendingTimeout: time.Duration(u.Pool.PendingTimeout),
		MaxIdle:        u.Pool.MaxIdle, IdleTimeout: time.Duration(u.Pool.IdleTimeout),
		MaxConcurrency: u.MaxConcurrency,
		RetryBudget:    float64(*u.Retry.Budget), Protocol: upstreamProtocols[u.Protocol],
	}
	for _, t := range u.Targets {
		o.Targets = append(o.Targets, upstream.TargetOption{Address: t.Address, Weight: *t.Weight})
	}
	if a := u.Health.Active; a != nil {
		o.Active = &upstream.ActiveOptions{
			Path: a.Path, Host: a.Host, Interval: time.Duration(a.Interval),
			Timeout:  time.Duration(a.Timeout),
			DeepPath: a.DeepPath, DeepInterval: time.Duration(a.DeepInterval),
			DeepTimeout:    time.Duration(a.DeepTimeout),
			UnhealthyAfter: a.UnhealthyAfter, HealthyAfter: a.HealthyAfter,
		}
		if a.GRPC != nil {
			o.Active.GRPC = &upstream.GRPCHealth{Service: a.GRPC.Service, DeepService: a.GRPC.DeepService}
		}
	}
	if u.Breaker != nil {
		o.Breaker = breakerOptions(u.Breaker)
	}
	if c := u.Concurrency; c != nil {
		o.Concurrency = concurrencyOptions(c)
	}
	if u.TLS == nil {
		return o, nil
	}
	// Health checks replace this by the target's own name if no server name is configured.
	cfg, err := tlsio.ClientConfig(clientOptions(u.TLS), "target")
	if err != nil {
		return o, fmt.Errorf("tls: %w", err)
	}
	cfg.ServerName = u.TLS.ServerName
	o.TLS, o.TLSIdentity = cfg, tlsIdentity(u.TLS)
	return o, nil
}

func breakerOptions(b *config.Breaker) *upstream.BreakerOptions {
	o := &upstream.BreakerOptions{Whole: b.Scope == "upstream"}
	o.Options = breaker.Options{
		ConsecutiveFailures: b.ConsecutiveFailures,
		SlowRatio:           float64(b.SlowRatio), SlowOver: time.Duration(b.SlowOver),
		OpenFor: time.Duration(b.OpenFor), Trials: b.Trials, Ramp: time.Duration(b.Ramp),
	}
	if b.FailureRatio != nil {
		o.FailureRatio = float64(*b.FailureRatio)
	}
	if o.FailureRatio > 0 || o.SlowRatio > 0 {
		o.Window, o.MinRequests = time.Duration(b.Window), b.MinRequests
	}
	if a := b.Adaptive; a != nil {
		o.Adaptive = &breaker.Adaptive{
			LatencyOver:   time.Duration(a.LatencyOver),
			LatencyWeight: *a.LatencyWeight, ErrorWeight: *a.ErrorWeight,
			SaturationWeight: *a.SaturationWeight, Threshold: *a.Threshold,
		}
	}
	return o
}

func concurrencyOptions(c *config.Concurrency) *concurrency.Options {
	o := &concurrency.Options{Initial: c.Limit, Min: c.Min, Max: c.Max}
	switch c.Mode {
	case "aimd":
		o.Mode, o.Target = concurrency.AIMD, time.Duration(c.MaxLatency)
	case "fixed":
		o.Min, o.Max = c.Limit, c.Limit
	}
	return o
}

// tlsIdentity identifies TLS settings by their values and by the contents of the files that they
// name, so that a reload picks up new certificates.
func tlsIdentity(t *config.UpstreamTLS) string {
	sum := sha256.New()
	for _, file := range []string{t.CA, t.Cert, t.Key} {
		if content, err := tlsio.ReadFile(file); err == nil {
			sum.Write(content)
		}
	}
	return fmt.Sprintf("%+v %x", *t, sum.Sum(nil))
}

func clientOptions(t *config.UpstreamTLS) tlsio.ClientOptions {
	return tlsio.ClientOptions{CA: t.CA, ServerName: t.ServerName, Cert: t.Cert, Key: t.Key,
		InsecureSkipVerify: t.InsecureSkipVerify}
}

// buildSnapshot compiles the routes of cfg over its upstreams, and returns all errors in them.
func (g *Gateway) buildSnapshot(cfg *config.Config, all upstreams, stores stores, memory *cache.Memory) (
	s *proxy.Snapshot, made []policy, errs config.Errors,
) {
	s = &proxy.Snapshot{NoRoute: telemetry.NoRoute, Admission: admissionPlan(cfg)}
	setClasses(s, cfg)
	index := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		index[name] = len(s.Upstreams)
		u, err := g.proxyUpstream(all[name], cfg.Upstreams[name])
		if err != nil {
			errs = append(errs, cfg.Upstreams[name].Position().Wrong("upstreams."+name+".tls", err.Error()))
		}
		s.Upstreams = append(s.Upstreams, u)
	}
	table, bad := compileTable(cfg)
	if errs = append(errs, bad...); errs != nil {
		return nil, nil, errs
	}
	s.Table = table
	s.Routes = make([]proxy.Route, len(cfg.Routes))
	barred := barredSteps(cfg)
	outdating, err := outdatingOf(cfg, table, memory)
	if err != nil { // which config has checked
		return nil, nil, append(errs, cfg.Cache.Position().Wrong("cache", err.Error()))
	}
	for i := range cfg.Routes {
		r := &cfg.Routes[i]
		chain, of, bad := plan{r, table.Names(i), index, stores, memory, g.encoders, g.policyEnv(),
			barred, outdating}.chain(g.kinds)
		made = append(made, of...)
		for _, b := range bad {
			errs = append(errs, routeError(cfg, i, b.key, b.err.Error()))
		}
		s.Routes[i] = proxy.Route{
			Name: r.Name, Class: classOf(r.SLA), Chain: chain, Upstream: exchange.NoUpstream,
			Timeout: int64(r.Timeout), StreamTimeout: int64(r.StreamTimeout),
			TunnelTimeout: int64(r.TunnelTimeout),
			WebSocket: proxy.WebSocket{
				PingInterval: int64(r.WebSocket.PingInterval), Lifetime: int64(r.WebSocket.Lifetime),
				CloseGrace: int64(r.WebSocket.CloseGrace), MaxMessage: uint64(r.WebSocket.MaxMessage),
			},
			HoldBody: int64(r.HoldBody), Via: r.Via, PathAsSent: r.ForwardPath == "as_sent",
			GRPCWeb: r.GRPCWeb,
		}
		if r.Upstream != "" {
			s.Routes[i].Upstream = index[r.Upstream]
		}
		if r.DeadlineHeader != "" {
			s.Routes[i].Deadline = proxy.NewDeadlineHeader(r.DeadlineHeader)
			if !s.Claims.Has([]byte(r.DeadlineHeader)) {
				s.Claims = s.Claims.With(r.DeadlineHeader)
			}
		}
	}
	return s, made, errs
}

// setClasses converts the SLA classes, and how trusted peers choose one, for the data plane.
func setClasses(s *proxy.Snapshot, cfg *config.Config) {
	for class := range s.Classes {
		sla := cfg.SLA(className(class))
		s.Classes[class] = proxy.Class{Latency: int64(sla.Latency), Patience: int64(sla.Patience)}
	}
	if cfg.SLAHeader != "" {
		s.ClassHeader = proxy.NewClassHeader(cfg.SLAHeader)
		s.Claims = s.Claims.With(cfg.SLAHeader)
	}
	if slices.ContainsFunc(cfg.Listeners, func(l config.Listener) bool { return l.HTTP3 }) {
		s.Claims = s.Claims.With(earlyDataHeader)
	}
}

// earlyDataHeader is the field by which the gateway marks requests that came in early data (RFC
// 8470). If it were accepted from untrusted clients, services would take needless precautions.
const earlyDataHeader = "Early-Data"

// barredSteps is the classes that may not have each step of the ladder.
func barredSteps(cfg *config.Config) (barred exchange.Barred) {
	for class := range telemetry.Classes {
		sla := cfg.SLA(className(class))
		for step := exchange.StepCache; step < exchange.Steps; step++ {
			if !sla.May(step) {
				barred[step] |= 1 << class
			}
		}
	}
	return barred
}

// admissionPlan is the plan for shedding requests; nil if none are shed.
func admissionPlan(cfg *config.Config) *admission.SheddingPlan {
	if cfg.Admission == nil {
		return nil
	}
	o := admission.Options{Delay: time.Duration(cfg.Admission.Delay), Shadow: cfg.Admission.Mode == "shadow"}
	for i := range cfg.Routes {
		o.Used[classOf(cfg.Routes[i].SLA)] = true
	}
	for class := range o.Used { // trusted peers may choose any
		o.Used[class] = o.Used[class] || cfg.SLAHeader != ""
	}
	return admission.NewSheddingPlan(o)
}

// compileTable makes the table of the routes. A route without a match, which config has reported,
// is left out.
func compileTable(cfg *config.Config) (table *route.Table, errs config.Errors) {
	var rules []route.Rule
	var index []int // in cfg.Routes
	for i := range cfg.Routes {
		if r := &cfg.Routes[i]; r.Match != "" {
			rules = append(rules, route.Rule{Pattern: r.Match, Headers: conditions(r.When.Headers),
				Query: conditions(r.When.Query)})
			index = append(index, i)
		}
	}
	table, bad := route.Compile(rules)
	for _, e := range bad {
		problem := e.Reason
		if e.Other >= 0 {
			problem += fmt.Sprintf(" (the other is at %s; both match %s)",
				cfg.Routes[index[e.Other]].Position(), e.Example)
		}
		errs = append(errs, routeError(cfg, index[e.Index], "match", problem))
	}
	return table, errs
}

// loadConfig reads a configuration. If it has errors, it is still checked for conflicting routes,
// so that all errors are reported at once.
func loadConfig(path string) (*config.Config, error) {
	cfg, err := config.Load(path)
	wrong, ok := errors.AsType[config.Errors](err)
	if !ok || cfg == nil || len(wrong) > config.MaxErrors {
		return cfg, err
	}
	type spot struct {
		line int
		path string
	}
	said := map[spot]bool{}
	for _, e := range wrong {
		said[spot{e.Line, e.Path}] = true
	}
	_, bad := compileTable(cfg)
	for _, b := range bad {
		if !said[spot{b.Line, b.Path}] {
			wrong = append(wrong, b)
		}
	}
	slices.SortStableFunc(wrong, func(a, b config.Error) int { return cmp.Compare(a.Line, b.Line) })
	return nil, cfg.Redact(wrong.Bounded())
}

func conditions(m map[string]string) (list []route.Condition) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, route.Condition{Name: name, Value: m[name]})
	}
	return list
}

func routeError(cfg *config.Config, i int, key, problem string) config.Error {
	return cfg.Routes[i].Position().Wrong(fmt.Sprintf("routes[%d].%s", i, key), problem)
}

func (g *Gateway) proxyUpstream(u *upstream.Upstream, c *config.Upstream) (p proxy.Upstream, err error) {
	p = proxy.Upstream{
		Upstream: u, ConnectTimeout: int64(c.Pool.ConnectTimeout),
		PendingTimeout: int64(c.Pool.PendingTimeout),
		Limited:        c.Concurrency != nil || c.MaxConcurrency > 0, MaxRequests: uint32(c.Pool.MaxRequests),
		Attempts: uint8(*c.Retry.Attempts), PerTry: int64(c.Retry.PerTryTimeout),
		Protocol: upstreamProtocols[c.Protocol],
	}
	if p.Key, err = hashKey(c.Balance.Hash); err != nil {
		return p, err
	}
	for _, on := range c.Retry.On {
		p.RetryOn |= retryOn[on]
	}
	if c.TLS != nil {
		o := clientOptions(c.TLS)
		if p.TLSForUpgrades, err = hostConfigs(o, u.Hosts()); err != nil {
			return p, err
		}
		switch p.Protocol {
		case upstream.HTTP2:
			o.ALPN = []string{"h2"}
		case upstream.Negotiated:
			o.ALPN = []string{"h2", "http/1.1"}
		}
		p.TLS, err = hostConfigs(o, u.Hosts())
	}
	return p, err
}

var upstreamProtocols = map[string]upstream.Protocol{
	"http1": upstream.HTTP1, "auto": upstream.Negotiated, "h2": upstream.HTTP2, "h2c": upstream.HTTP2,
}

var retryOn = map[string]proxy.RetryOn{
	"connect": proxy.RetryConnect, "reset": proxy.RetryReset, "timeout": proxy.RetryTimeout,
	"502": proxy.Retry502, "503": proxy.Retry503, "504": proxy.Retry504,
	"grpc-aborted": proxy.RetryGRPCAborted, "grpc-cancelled": proxy.RetryGRPCCancelled,
	"grpc-deadline-exceeded":  proxy.RetryGRPCDeadlineExceeded,
	"grpc-internal":           proxy.RetryGRPCInternal,
	"grpc-resource-exhausted": proxy.RetryGRPCResourceExhausted,
	"grpc-unavailable":        proxy.RetryGRPCUnavailable,
}

// hostConfigs makes the TLS settings for each host of an upstream. It makes them once, because they
// hold the sessions to resume, and now, because a loop may not read files.
func hostConfigs(o tlsio.ClientOptions, hosts []string) (func(host string) (*tls.Config, error), error) {
	made := map[string]*tls.Config{}
	for _, host := range hosts {
		cfg, err := tlsio.ClientConfig(o, host)
		if err != nil {
			return nil, err
		}
		made[host] = cfg
	}
	return func(host string) (*tls.Config, error) {
		if cfg := made[host]; cfg != nil {
			return cfg, nil
		}
		return nil, fmt.Errorf("%s is not a host of this upstream", host)
	}, nil
}

// hashKey returns a function for the value that a hashing balancer hashes of an exchange, which is
// 0 for a request without it. It returns nil if the balancer does not hash.
func hashKey(on string) (func(*exchange.Exchange) uint64, error) {
	key, err := exchange.ParseKey(on, config.BalanceKeys...)
	if err != nil || on == "" {
		return nil, err
	}
	return func(x *exchange.Exchange) uint64 {
		value := key.Find(x)
		if value == nil {
			return 0
		}
		return upstream.HashKey(value)
	}, nil
}
