package gateway

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/config"
	"plimsoll/internal/policy/cache"
	"plimsoll/internal/policy/cache/tier"
	"plimsoll/internal/reactor"
	"plimsoll/internal/route"
	"plimsoll/internal/telemetry"
)

// buildMemory makes the memory in which cfg's routes store responses, or takes over old if its
// settings are the same. It returns nil if no route stores any.
func (g *Gateway) buildMemory(cfg *config.Config, old *cache.Memory) (m *cache.Memory, err error) {
	needed := false
	for i := range cfg.Routes {
		needed = needed || cfg.Routes[i].Cache != nil
	}
	o := cache.MemoryOptions{
		Bytes: int64(cfg.Cache.Memory), MaxObject: int64(cfg.Cache.MaxObject),
		MaxWaiters: cfg.Cache.MaxWaiters,
	}
	switch {
	case !needed:
		return nil, nil
	}
	second, identity, err := g.tierOptions(cfg)
	switch {
	case err != nil:
		return nil, err
	case old != nil && old.SameAs(o, identity):
		return old, nil
	}
	return cache.NewMemory(o, second, identity)
}

// tierOptions converts the config to the options of the second tier; nil if there is none. identity
// identifies the settings that the tier is made from.
func (g *Gateway) tierOptions(cfg *config.Config) (o *tier.Options, identity string, err error) {
	c := cfg.Cache.Redis
	if c == nil || cfg.Redis[c.Name] == nil { // the config has reported that as an error
		return nil, "", nil
	}
	r := cfg.Redis[c.Name]
	o = &tier.Options{MaxObject: int64(c.MaxObject), CompressAbove: int64(c.CompressAbove),
		QueueBytes: int64(c.Queue),
		Lock:       time.Duration(c.Lock), Channel: c.Channel, Random: g.random(), Log: g.log,
		Wall: func() int64 { return reactor.Wall().UnixNano() }}
	if o.Redis, err = g.storeOptions(c.Name, r); err != nil {
		return nil, "", err
	}
	o.Redis.Timeout = time.Duration(c.Timeout)
	if o.QueueBytes == 0 {
		o.QueueBytes = int64(cfg.Cache.Memory) / 32
	}
	if o.Channel == "" {
		o.Channel = r.Prefix + "cache:purges"
	}
	if o.Random == nil {
		o.Random = rand.Uint64
	}
	return o, storeIdentity(r) + fmt.Sprintf(" %+v", *c), nil
}

// cacheOptions converts a route's config to the options of the cache policy.
func cacheOptions(p plan) (o cache.Options, err error) {
	c := p.Cache
	names := make([]string, len(p.upstream))
	for name, i := range p.upstream {
		names[i] = name
	}
	o = cache.Options{
		Memory: p.memory, Name: c.StatusName, Wait: int64(c.Wait), Jitter: float64(c.Jitter), Env: p.env,
		Barred:       p.barred,
		UpstreamName: func(i int) string { return names[i] },
		Outdating:    p.outdating,
		Rules: rules.Options{
			Targeted: c.Targeted, Heuristic: float64(c.Heuristic), HeuristicMax: int64(c.HeuristicMax),
			Default: int64(c.TTL), Max: int64(c.MaxTTL), IgnoreClients: c.IgnoreClientDirectives,
			StaleWhileRevalidate: int64(c.StaleWhileRevalidate), StaleIfError: int64(c.StaleIfError),
			StaleUnderPressure: int64(c.StaleUnderPressure),
			SetCookie: map[string]rules.SetCookie{
				"refuse": rules.RefuseSetCookie, "strip": rules.StripSetCookie, "keep": rules.KeepSetCookie,
			}[c.SetCookie],
		},
	}
	if c.Targeted == nil {
		o.Rules.Targeted = []string{"CDN-Cache-Control"}
	}
	if c.EarlyRefresh {
		o.Early = 1
	}
	for status, ttl := range c.Statuses {
		o.Rules.Statuses = append(o.Rules.Statuses, rules.StatusTTL{Status: status.Code(), TTL: int64(ttl)})
	}
	key := keyOptions(&c.Key)
	key.Added = addedFields(p)
	o.Rules.Key, err = rules.NewKey(key)
	return o, err
}

// outdatingOf makes the rules for what unsafe requests invalidate: what the routes of cfg, compiled
// in table, store in memory. It returns nil if they store nothing.
func outdatingOf(cfg *config.Config, table *route.Table, memory *cache.Memory) (*cache.Outdating, error) {
	if memory == nil {
		return nil, nil
	}
	o := &cache.Outdating{Memory: memory, Canonical: func(path string) []byte {
		canonical, _, bad := route.Canonical(nil, []byte(path))
		if bad != route.OK {
			return nil
		}
		return canonical
	}}
	stores := make([]bool, len(cfg.Routes))
	forms := map[string]bool{}
	for i := range cfg.Routes {
		c := cfg.Routes[i].Cache
		if c == nil {
			continue
		}
		stores[i] = true
		query := rules.KeyOptions{SortQuery: c.Key.SortQuery, DropQuery: c.Key.DropQuery}
		if form := fmt.Sprint(query.SortQuery, query.DropQuery); !forms[form] {
			key, err := rules.NewKey(query)
			if err != nil {
				return nil, err
			}
			forms[form] = true
			o.Keys = append(o.Keys, key)
		}
	}
	fits := func(index int) bool { return stores[index] }
	o.Caches = func(host, path []byte) bool { return table.Any(host, path, fits) }
	return o, nil
}

// addedFields is the names of request fields that policies after the cache add, with values that
// differ from client to client.
func addedFields(p plan) []string {
	names := []string{"x-forwarded-for", strings.ToLower(p.DeadlineHeader)}
	for _, fields := range []map[string]string{p.RequestHeaders.Set, p.RequestHeaders.Add} {
		for name, value := range fields {
			if strings.Contains(value, "${") {
				names = append(names, strings.ToLower(name))
			}
		}
	}
	return names
}

// keyOptions is how the key treats a request's fields.
func keyOptions(k *config.CacheKey) rules.KeyOptions {
	fields := map[string]rules.Treatment{}
	for _, list := range []struct {
		names []string
		as    rules.Treatment
	}{{k.Headers, rules.Keyed}, {k.Forward, rules.Plain}, {k.Drop, rules.Drop}} {
		for _, name := range list.names {
			fields[strings.ToLower(name)] = list.as
		}
	}
	return rules.KeyOptions{Fields: fields, SortQuery: k.SortQuery, DropQuery: k.DropQuery}
}

// Indexes of the series about the cache's memory.
const (
	seriesCacheBytes = iota
	seriesCacheEntries
	seriesCacheEvicted
	seriesCachePurged
	seriesCacheFills
)

var cacheSeries = []telemetry.Series{
	seriesCacheBytes:   {Name: "cache_memory_bytes", Help: "Memory that stored responses take."},
	seriesCacheEntries: {Name: "cache_entries", Help: "Stored responses, and markers of what varies."},
	seriesCacheEvicted: {Name: "cache_evicted_total",
		Help: "Stored responses that went because others needed their room."},
	seriesCachePurged: {Name: "cache_purged_total",
		Help: "Stored responses that were found to be purged when they were asked for."},
	seriesCacheFills: {Name: "cache_fetches_in_flight",
		Help: "Fetches whose responses are awaited or come in."},
}

func (g *Gateway) readCache(emit telemetry.Emit) {
	m := g.view().memory
	if m == nil {
		return
	}
	s := m.Stats()
	emit(seriesCacheBytes, float64(s.Bytes))
	emit(seriesCacheEntries, float64(s.Entries))
	emit(seriesCacheEvicted, float64(s.Evicted))
	emit(seriesCachePurged, float64(s.Purged))
	emit(seriesCacheFills, float64(s.Fills))
}

// followMemory ties the memory of the next config to that of the last one, if they differ.
func followMemory(next, last *cache.Memory) {
	if next != nil && last != nil && next != last {
		next.Follow(last)
	}
}

// releaseMemory releases the memory of a config, unless the next config uses it too.
func (g *Gateway) releaseMemory(m, next *cache.Memory) {
	if m == nil || m == next {
		return
	}
	if err := m.Release(); err != nil {
		g.log.Error("the memory of the cache could not be given back; it is lost until the process "+
			"ends", "error", err)
	}
}
