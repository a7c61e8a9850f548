package gateway

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/policy/limit/shared"
	"plimsoll/internal/reactor"
	"plimsoll/internal/redis"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/tlsio"
)

// store is a Redis of a config. The policies that use it keep it open as well.
type store struct {
	*shared.Store
	identity string // identifies the settings that it was made from
}

// stores are the stores of a config by name.
type stores map[string]store

// buildStores makes the stores of cfg, taking over those from old that have not changed. fresh are
// the new ones.
func (g *Gateway) buildStores(cfg *config.Config, old stores) (all, fresh stores, errs config.Errors) {
	all, fresh = stores{}, stores{}
	for _, name := range slices.Sorted(maps.Keys(cfg.Redis)) {
		c := cfg.Redis[name]
		identity := storeIdentity(c)
		if s, ok := old[name]; ok && s.identity == identity {
			all[name] = s
			continue
		}
		o, err := g.storeOptions(name, c)
		if err == nil {
			var made *shared.Store
			if made, err = shared.New(o); err == nil {
				all[name] = store{made, identity}
				fresh[name] = all[name]
				continue
			}
		}
		errs = append(errs, c.Position().Wrong("redis."+name, err.Error()))
	}
	return all, fresh, errs
}

// storeIdentity identifies Redis settings.
func storeIdentity(c *config.Redis) string {
	identity := fmt.Sprintf("%q %q %q %v %d %q",
		c.Addresses, c.Username, c.Password, c.Timeout, c.MaxInFlight, c.Prefix)
	if c.TLS != nil {
		identity += tlsIdentity(c.TLS)
	}
	return identity
}

// storeOptions converts the config to the options of package redis.
func (g *Gateway) storeOptions(name string, c *config.Redis) (redis.Options, error) {
	o := redis.Options{
		Name: name, Addresses: c.Addresses, Username: c.Username, Password: c.Password,
		Timeout: time.Duration(c.Timeout), MaxInFlight: c.MaxInFlight, Prefix: c.Prefix,
		Now: reactor.Clock, Log: g.log,
	}
	if c.TLS == nil {
		return o, nil
	}
	// The client replaces this by each server's own name if none is configured.
	tls, err := tlsio.ClientConfig(clientOptions(c.TLS), "server")
	if err != nil {
		return o, fmt.Errorf("tls: %w", err)
	}
	tls.ServerName, tls.NextProtos = c.TLS.ServerName, nil
	o.TLS = tls
	return o, nil
}

func (all stores) start() {
	for _, s := range all {
		s.Start()
	}
}

// release releases the stores that are not in kept.
func (all stores) release(kept stores) {
	for name, s := range all {
		if kept[name].Store != s.Store {
			go s.Release()
		}
	}
}

// Indexes of the series about the stores.
const (
	seriesStoreCalls = iota
	seriesStoreInFlight
	seriesStoreBreaker
)

var storeSeries = []telemetry.Series{
	seriesStoreCalls: {Name: "redis_calls_total",
		Help: "Calls of limits to a Redis: answered, failed (error, timeout), " +
			"or not made because its breaker was open or too many were in flight (busy).",
		Labels: []string{"redis", "result"}},
	seriesStoreInFlight: {Name: "redis_calls_in_flight",
		Help: "Calls to a Redis under way.", Labels: []string{"redis"}},
	seriesStoreBreaker: {Name: "redis_breaker",
		Help: "1 for the state that the breaker of a Redis is in.", Labels: []string{"redis", "state"}},
}

func (g *Gateway) readStores(emit telemetry.Emit) {
	all := g.view().stores
	names := slices.Sorted(maps.Keys(all))
	for _, name := range names[:min(len(names), telemetry.MaxNames)] {
		s := all[name].Status()
		emit(seriesStoreCalls, float64(s.Answered), name, "answered")
		emit(seriesStoreCalls, float64(s.Errors), name, "error")
		emit(seriesStoreCalls, float64(s.Timeouts), name, "timeout")
		emit(seriesStoreCalls, float64(s.RefusedOpen), name, "open")
		emit(seriesStoreCalls, float64(s.RefusedBusy), name, "busy")
		emit(seriesStoreInFlight, float64(s.InFlight), name)
		emit(seriesStoreBreaker, 1, name, s.Breaker)
	}
}
