package gateway

import (
	"fmt"
	"sync/atomic"

	"plimsoll/internal/exchange"
	"plimsoll/internal/policy/guard"
	"plimsoll/internal/policy/limit"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
)

// policyEnv is the environment for which policies are made.
func (g *Gateway) policyEnv() exchange.Env {
	return exchange.Env{Loops: max(1, len(g.loops)), Random: g.random(), Now: reactor.Clock, Log: g.log}
}

// inheritPolicies lets the policies of a new config take over the state of those that they replace.
func inheritPolicies(fresh, old []policy) {
	type place struct{ route, kind string }
	before := make(map[place]any, len(old)) // there may be hundreds of thousands
	for _, p := range old {
		before[place{p.route, p.kind}] = p.is
	}
	for _, p := range fresh {
		if heir, ok := p.is.(exchange.Heir); ok {
			if was := before[place{p.route, p.kind}]; was != nil {
				heir.Inherit(was)
			}
		}
	}
}

// closeWhenGone returns a function that each of loops loops calls once, when none of its exchanges
// can use the policies any more. The last call closes them.
func closeWhenGone(all []policy, loops int) (gone func()) {
	left := new(atomic.Int32)
	left.Store(int32(loops))
	return func() {
		if left.Add(-1) == 0 {
			go closePolicies(all)
		}
	}
}

func closePolicies(all []policy) {
	for _, p := range all {
		if c, ok := p.is.(exchange.Closer); ok {
			c.Close()
		}
	}
}

// addPolicySeries adds the metrics of every kind of policy, whether a route has it or not.
func (g *Gateway) addPolicySeries() error {
	for _, k := range g.kinds {
		var series []telemetry.Series
		for _, s := range k.series {
			labels := append([]string{"route"}, s.Labels...)
			series = append(series, telemetry.Series{Name: s.Name, Help: s.Help, Labels: labels,
				Bounds: s.Bounds})
		}
		if len(series) == 0 {
			continue
		}
		if err := g.registry.AddGroup(telemetry.Group{Series: series, Read: g.readPolicies(k.name),
			ReadHistograms: g.readMeasured(k.name)}); err != nil {
			return err
		}
	}
	return nil
}

// readPolicies reads the metrics of the policies of a kind.
func (g *Gateway) readPolicies(kind string) func(telemetry.Emit) {
	return func(emit telemetry.Emit) {
		eachOfKind(g, kind, func(m exchange.Metered, route string) {
			m.Metrics(func(series int, value float64, labels ...string) {
				emit(series, value, append([]string{route}, labels...)...)
			})
		})
	}
}

// readMeasured reads the histograms of the policies of a kind.
func (g *Gateway) readMeasured(kind string) func(telemetry.EmitHistogram) {
	return func(emit telemetry.EmitHistogram) {
		eachOfKind(g, kind, func(m exchange.Measured, route string) {
			m.Histograms(func(series int, counts []uint64, sum float64, labels ...string) {
				emit(series, counts, sum, append([]string{route}, labels...)...)
			})
		})
	}
}

// eachOfKind calls f for the policies of a kind that implement T, for at most as many as a scrape
// shows.
func eachOfKind[T any](g *Gateway, kind string, f func(is T, route string)) {
	shown := 0
	for _, p := range g.view().policies {
		is, ok := p.is.(T)
		if !ok || p.kind != kind || shown == telemetry.MaxNames {
			continue
		}
		shown++
		f(is, p.route)
	}
}

// SetLimit changes a rate limit of a route until its configuration changes. rate is written as in
// the configuration; a burst of 0 keeps the present one. It returns ErrUnknown if there is no such
// limit.
func (g *Gateway) SetLimit(route, name, rate string, burst int64) error {
	limits, of, err := g.limits(route, name, rate)
	if err != nil {
		return err
	}
	return limits.SetLimit(name, of, burst)
}

// SetLimitOf changes or adds an override: the numbers of one value of a limit's key, written as in
// the configuration, until the limit's overrides there change.
func (g *Gateway) SetLimitOf(value, route, name, rate string, burst int64) error {
	limits, of, err := g.limits(route, name, rate)
	if err != nil {
		return err
	}
	return limits.SetOverride(name, value, of, burst)
}

// limits returns the limits of a route that has one with this name, and the parsed rate.
func (g *Gateway) limits(route, name, rate string) (*limit.Policy, limit.Rate, error) {
	of, err := limitRate(rate)
	if err != nil {
		return nil, of, err
	}
	for _, p := range g.view().policies {
		if limits, ok := p.is.(*limit.Policy); ok && p.route == route {
			if !limits.Has(name) {
				return nil, of, fmt.Errorf("%w limit %q of route %q", ErrUnknown, name, route)
			}
			return limits, of, nil
		}
	}
	return nil, of, fmt.Errorf("%w route %q, or it has no limits", ErrUnknown, route)
}

// ChangeGuard adds keys to the list of a route's guard and removes others, until the configured
// list changes. It returns ErrUnknown if there is no such guard.
func (g *Gateway) ChangeGuard(route string, add, remove []string) error {
	for _, p := range g.view().policies {
		keys, ok := p.is.(*guard.Policy)
		if !ok || p.route != route {
			continue
		}
		for _, key := range add {
			if err := keys.Add(key); err != nil {
				return err
			}
		}
		for _, key := range remove {
			if err := keys.Remove(key); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("%w route %q, or it has no guard", ErrUnknown, route)
}

// policyStatus is the status of policies, by route and kind.
func policyStatus(all []policy) map[string]map[string]any {
	said := map[string]map[string]any{}
	for _, p := range all {
		if s, ok := p.is.(exchange.Shown); ok {
			if said[p.route] == nil {
				said[p.route] = map[string]any{}
			}
			said[p.route][p.kind] = s.Status()
		}
	}
	return said
}
