package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Routes with a cache are a separate part of the world. An answer is not made for one request, so
// the service cannot repeat the request's token. Instead, each of its answers (cached_service.go)
// has a serial number, in its head and throughout its body. The answers that clients get are judged
// by what is known about the service's answer with that number (cached_oracle.go).

// CachePlan is the configuration of the gateway's cache, and the behaviour of its service.
type CachePlan struct {
	Memory, MaxObject    int // bytes
	Wait                 time.Duration
	Early, IgnoreClients bool
	Keys                 int     // different resources
	Vices                float64 // share of requests that the service answers wrongly
	Slow                 time.Duration
	Longest              int           // longest body in bytes
	Fails                time.Duration `json:",omitempty"` // start of the failures; 0 for never
}

// CachedPlan is a request of a route with a cache.
type CachedPlan struct {
	Key    int
	Fields []string `json:",omitempty"` // additional lines of its head
}

// cachedPath is the route with a cache.
const cachedPath = "/cached/"

// cachedService is the address of its service.
const cachedService = "10.0.2.1:80"

// cachedFields are possible lines of requests.
var cachedFields = []string{
	"cache-control: no-cache", "cache-control: max-age=0", "cache-control: max-age=1",
	"cache-control: no-store",
	"cache-control: max-stale=5", "cache-control: stale-if-error=3", "cache-control: min-fresh=1",
	"range: bytes=10-999", "range: bytes=-100",
	"range: bytes=5000-", "range: bytes=10-20,30-40", "if-modified-since: Mon, 23 Nov 2020 10:00:00 GMT",
	`if-none-match: "s1"`, `if-none-match: *`, `if-match: "s3"`, "authorization: me", "cookie: user=me",
	"accept-language: de", "accept-encoding: gzip", "accept-encoding: br, gzip", "x-poison: evil",
	"x-forwarded-host: evil.test", "pragma: no-cache",
}

// addCache draws whether there is a route with a cache, and turns some of the clients' requests
// into requests to it.
func (s *Scenario) addCache(r *rand.Rand, mood float64) {
	if r.IntN(5) < 3 {
		return
	}
	c := &CachePlan{
		Memory: 2 << 20 << r.IntN(3), Wait: between(r, 50*time.Millisecond, 5*time.Second),
		Early:         r.IntN(2) == 0,
		IgnoreClients: r.IntN(5) == 0, Keys: 1 + r.IntN(6), Vices: mood * r.Float64() / 2,
		Slow: between(r, 0, 500*time.Millisecond), Longest: 1 + r.IntN(1+r.IntN(300_000)),
	}
	if s.Quiet {
		c.Wait = time.Hour
	}
	if r.IntN(2) == 0 {
		c.MaxObject = 1<<10 + r.IntN(c.Memory/8-1<<10)
	}
	s.Cache = c
	share := 0.3 + 0.7*r.Float64()
	for i := range s.Clients {
		for j := range s.Clients[i].Requests {
			if q := &s.Clients[i].Requests[j]; !q.Upgrade && !q.Torn && r.Float64() < share {
				*q = c.request(r, q)
			}
		}
	}
	crowd := 0
	if r.IntN(3) == 0 {
		crowd = 20
	}
	for at := between(r, 0, 2*time.Second); crowd > 0; crowd-- { // all at once
		p := drawClient(r, mood, 0)
		p.At, p.Requests = at+between(r, 0, 20*time.Millisecond), p.Requests[:1]
		p.Requests[0] = c.request(r, &RequestPlan{Method: "GET"})
		s.Clients = append(s.Clients, p)
	}
	for range r.IntN(4) {
		s.Acts = append(s.Acts, Act{between(r, 0, 4*time.Second), "purge", r.IntN(1000)})
	}
	if !s.Quiet && r.IntN(5) == 0 {
		s.failCache(r)
	}
}

// failCache makes the service behind the cache fail after a while, for longer than any stored
// answer may be served. Clients keep requesting a few resources.
func (s *Scenario) failCache(r *rand.Rand) {
	c := s.Cache
	c.Fails, c.Keys = between(r, 200*time.Millisecond, 2*time.Second), 1+r.IntN(2)
	for range 20 + r.IntN(20) {
		p := drawClient(r, 0, 0)
		p.At = time.Duration(r.Int64N(int64(8 * time.Second)))
		p.Requests = []RequestPlan{c.request(r, &RequestPlan{})}
		s.Clients = append(s.Clients, p)
	}
	s.Acts = slices.DeleteFunc(s.Acts, func(a Act) bool { return a.What == "end" })
}

// request draws a request to the route with the cache, to replace q.
func (c *CachePlan) request(r *rand.Rand, q *RequestPlan) RequestPlan {
	p := RequestPlan{Number: q.Number, Method: "GET", Path: cachedPath, Body: -1, Close: q.Close,
		Reset: q.Reset}
	switch r.IntN(20) {
	case 0, 1:
		p.Method = "HEAD"
	case 2:
		p.Method = "POST"
		p.Body = 0
	}
	p.Cached = &CachedPlan{Key: r.IntN(1 + r.IntN(c.Keys))}
	for range r.IntN(3) * r.IntN(2) {
		name, _, _ := strings.Cut(cachedFields[r.IntN(len(cachedFields))], ":")
		for _, line := range cachedFields { // only one with this name
			if strings.HasPrefix(line, name+":") && !strings.Contains(strings.Join(p.Cached.Fields,
				"\n"), name+":") &&
				r.IntN(3) == 0 {
				p.Cached.Fields = append(p.Cached.Fields, line)
			}
		}
	}
	return p
}

// field is the value of one of the plan's header lines.
func (p *CachedPlan) field(name string) string {
	for _, line := range p.Fields {
		if n, value, _ := strings.Cut(line, ": "); n == name {
			return value
		}
	}
	return ""
}

// target is the target of the request. The service sees the token if the request bypasses the
// cache.
func (q *request) target() string {
	if q.Cached == nil {
		return q.Path + q.token
	}
	return fmt.Sprintf("%sk%d?t=%s", q.Path, q.Cached.Key, q.token)
}

// cacheMemory writes the cache's memory in the n-th configuration.
func (s *Scenario) cacheMemory(n int) string {
	c := s.Cache
	if c == nil {
		return ""
	}
	memory := c.Memory
	if n%4 == 3 {
		memory += 1 << 20
	}
	return fmt.Sprintf("cache: {memory: %dB, max_object: %dB}\n", memory, c.MaxObject)
}

// cacheUpstream writes the upstream of the route with the cache.
func (s *Scenario) cacheUpstream(b *strings.Builder, g GatewayPlan) {
	if s.Cache != nil {
		fmt.Fprintf(b, "  c:\n    targets: [%q]\n    health: {passive: {disabled: true}}\n    "+
			"retry: {attempts: %d}\n"+
			"    pool: {max_connections: %d, max_pending: %d, pending_timeout: %v, "+
			"connect_timeout: %v, idle_timeout: 900ms}\n",
			cachedService, g.Attempts, max(4, g.MaxConnections), 100+g.MaxPending, g.Pending, g.Connect)
	}
}

// cacheRoute writes the route with the cache.
func (s *Scenario) cacheRoute(times string) string {
	c := s.Cache
	if c == nil {
		return ""
	}
	return fmt.Sprintf("  - {match: \"%s{key}\", upstream: c, %s, cache: {wait: %v, early_refresh: %t, "+
		"ignore_client_directives: %t, heuristic: 10%%, heuristic_max: %v, key: {drop_query: [t]}}}\n",
		cachedPath, times, c.Wait, c.Early, c.IgnoreClients, maxHeuristic)
}
