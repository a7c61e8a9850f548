package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// paths are the paths of requests. Each has its own route, and the request's token follows it.
var paths = []string{
	"/a/", "/a/", "/a/", "/b/", "/split/", "/copy/", "/own/", "/large/", "/away/", "/nowhere/",
	"/read/",
}

// listeners are the addresses to which clients connect.
var listeners = []string{"10.0.0.1:80", "10.0.0.1:81"}

// largeBody is the answer of the route /large/.
var largeBody = strings.Repeat("0123456789abcdef", 10_000)

// longestTimeout is the longest timeout that a reload may give routes.
const longestTimeout = 3 * time.Second

const ownBody = "the gateway's own"

// ownAnswers are the bodies of the routes that the gateway answers itself.
var ownAnswers = map[string]string{"/own/": ownBody, "/large/": largeBody}

// configuration returns a configuration's text and its parameters. n is 0 for the first one. Others
// differ from it in what a reload must carry over, replace or remove, as drawn for n.
func (s *Scenario) configuration(n int) (string, GatewayPlan) {
	r := s.stream(ofConfigurations, uint64(n))
	g := s.Gateway
	change := func(share float64) bool { return n > 0 && r.Float64() < share }
	if change(0.5) && !s.Quiet {
		g.MaxConnections, g.MaxPending = 1+r.IntN(6), r.IntN(8)
	}
	if change(0.5) {
		g.MaxIdle, g.MaxRequests = r.IntN(6), r.IntN(3)*r.IntN(10)
	}
	if change(0.3) && !s.Quiet {
		g.Timeout = between(r, 100*time.Millisecond, longestTimeout)
		g.Pending = between(r, 20*time.Millisecond, 1500*time.Millisecond)
	}
	if change(0.3) {
		g.Attempts = r.IntN(4)
	}
	g.changeBounds(r, change)
	loops := s.Loops
	if n%3 == 1 { // a reload keeps the number of loops; an upgrade uses this one
		loops = 1 + n%4
	}
	var b strings.Builder
	g.process(&b, loops)
	b.WriteString(s.cacheMemory(n))
	b.WriteString("listeners:\n")
	for i := range listeners {
		if i == 0 || !change(0.3) || s.Quiet {
			s.listener(&b, i, n, g, r)
		}
	}
	b.WriteString(g.classes())
	b.WriteString("upstreams:\n")
	g.Protocols = s.protocols(n)
	s.upstream(&b, "a", s.targets(r, change), g, r, change)
	s.upstream(&b, "b", s.targets(r, change), g, r, change)
	mirror := []string{s.Services[0].Address}
	if g.Named {
		mirror = []string{"named.test:80"}
	}
	s.upstream(&b, "m", mirror, g, r, change)
	s.cacheUpstream(&b, g)
	s.webSocketUpstream(&b, g)
	b.WriteString("routes:\n")
	// X-Config tells services under which configuration a request began.
	times := fmt.Sprintf("timeout: %v, stream_timeout: %v, tunnel_timeout: %v, "+
		"request_headers: {set: {X-Config: \"%d\"}}, "+
		"response_headers: {set: {X-Route: \"yes\"}}, max_body: %dB",
		g.Timeout, g.Stream, g.Tunnel, n, g.MaxBody)
	if g.HoldBody > 0 {
		times += fmt.Sprintf(", hold_body: %dB", g.HoldBody-1)
	}
	if g.Via {
		times += ", via: edge-1"
	}
	if g.InFlight > 0 && change(0.3) {
		g.InFlight += r.IntN(5)
	}
	fmt.Fprintf(&b, "  - {match: \"/a/{token}\", upstream: a, sla: P0, request_id: true, %s%s}\n",
		times, g.limits())
	if !change(0.2) || s.Quiet {
		fmt.Fprintf(&b, "  - {match: \"/b/{token}\", upstream: b, %s%s}\n", times,
			g.fallback("path.token"))
	}
	fmt.Fprintf(&b, "  - {match: \"/split/{token}\", split: {weights: {a: 1, b: %d}}, %s}\n",
		1+r.IntN(3), times)
	fmt.Fprintf(&b, "  - {match: \"/copy/{token}\", upstream: a, mirror: {upstream: m}, %s}\n",
		times)
	fmt.Fprintf(&b, "  - {match: \"GET /read/{token}\", upstream: a, sla: P2, %s%s}\n", times,
		g.fallback("path.token"))
	b.WriteString(s.cacheRoute(times + s.cachedSteps(&g)))
	b.WriteString(s.webSocketRoute(times, s.WebSockets != nil && change(0.2) && !s.Quiet))
	fmt.Fprintf(&b, "  - {match: \"/own/{token}\", respond: {body: %q}}\n", ownBody)
	// In a file: reading 160 KB of YAML takes longer than the whole run.
	b.WriteString("  - {match: \"/large/{token}\", respond: {file: large.txt}}\n")
	b.WriteString("  - {match: \"/away/{token}\", " +
		"redirect: {to: \"https://other.test/${path.token}\"}}\n")
	return b.String(), g
}

// changeBounds changes bounds whose counts a reload must carry over.
func (g *GatewayPlan) changeBounds(r *rand.Rand, change func(float64) bool) {
	if g.Places > 0 && change(0.5) {
		g.Places = 1 + r.IntN(8)
	}
	if g.Algorithm != "" && change(0.3) {
		g.Rate = 1 + r.IntN(8)
	}
}

// limits writes the bounds of a route's requests, in number and in time.
func (g *GatewayPlan) limits() (text string) {
	if g.Rate > 0 {
		text = fmt.Sprintf(", limits: [{rate: %d/s, key: client_address", 10*g.Rate)
		if g.Algorithm != "" {
			text = fmt.Sprintf(", limits: [{rate: %d/s, key: client_address", g.Rate)
			text += fmt.Sprintf(", algorithm: %s, values: %d", g.Algorithm, g.Values)
		}
		text += "}"
		if g.Shaped {
			text += fmt.Sprintf(", {rate: %d/s, algorithm: leaky_bucket, max_wait: %v}", g.Rate, g.Timeout/2)
		}
		text += "]"
	}
	if g.InFlight > 0 {
		text += fmt.Sprintf(", concurrency: {max: %d, key: client_address, max_per_value: %d}",
			g.InFlight, g.PerClient)
	}
	if g.Claims {
		text += ", deadline_header: X-Left"
	}
	return text
}

// process writes the settings outside listeners, upstreams and routes.
func (g GatewayPlan) process(b *strings.Builder, loops int) {
	fmt.Fprintf(b, "loops: %d\ndrain: {timeout: %v}\n", loops, g.Drain)
	b.WriteString("access_log: {path: stdout, format: json}\n")
	if g.Admission > 0 {
		fmt.Fprintf(b, "admission: {delay: %v}\n", g.Admission)
	}
	if g.Claims {
		b.WriteString("sla_header: X-Class\n")
	}
	b.WriteString("admin: {address: \"127.0.0.1:9900\"}\n")
}

// listener writes one of the listeners of the n-th configuration.
func (s *Scenario) listener(b *strings.Builder, i, n int, g GatewayPlan, r *rand.Rand) {
	secure := ""
	if g.TLS && i == 1 {
		handshakes := 1 + r.IntN(20)
		if s.Quiet {
			handshakes = 1000
		}
		secure = fmt.Sprintf("tls: {certificates: [{cert: site.pem, key: site.key}], "+
			"handshake_timeout: %v, max_handshakes: %d}, ", g.Head, handshakes)
	}
	if g.Claims {
		secure += "trusted_proxies: [" + address(trusted).String() + "], "
	}
	secure += fmt.Sprintf("http2: %t, ", s.offersHTTP2(i, n))
	fmt.Fprintf(b, "  - {address: %q, %sbacklog: %d, limits: {head_timeout: %v, "+
		"idle_timeout: %v, send_timeout: %v, min_body_rate: %dB, "+
		"max_connections_per_address: %d, max_connections: %d, ping_after: %v}}\n",
		listeners[i], secure, g.Backlog, g.Head, g.Idle, g.Send, g.MinBodyRate, g.PerAddress, g.MaxClients,
		cmp.Or(g.Ping, 15*time.Second))
}

// began is a configuration under which requests have begun.
type began struct {
	text string
	plan GatewayPlan
}

// began returns the n-th configuration.
func (w *world) began(n int) began {
	c, known := w.configs[n]
	if !known {
		c.text, c.plan = w.scenario.configuration(n)
		w.configs[n] = c
	}
	return c
}

// mayGet reports whether, in the n-th configuration, a service is a target of an upstream for the
// path. The addresses of a name change without a configuration.
func (w *world) mayGet(address, path string, n int) bool {
	text := w.began(n).text
	for _, name := range upstreamsOf[path[:strings.IndexByte(path[1:], '/')+2]] {
		_, targets, _ := strings.Cut(text, "\n  "+name+":\n    targets: ")
		targets, _, _ = strings.Cut(targets, "\n")
		named := strings.Contains(targets, `"named.test:80"`)
		if named || strings.Contains(targets, `"`+address+`"`) {
			return true
		}
	}
	return false
}

// upstreamsOf are the upstreams of a path's requests and their copies.
var upstreamsOf = map[string][]string{
	"/ws/": {"w"}, "/a/": {"a"}, "/read/": {"a"}, "/b/": {"b"}, "/split/": {"a", "b"}, "/copy/": {"a", "m"},
}

// targets draws the services of an upstream in this configuration.
func (s *Scenario) targets(r *rand.Rand, change func(float64) bool) (list []string) {
	for _, p := range s.Services {
		if !change(0.2) {
			list = append(list, p.Address)
		}
	}
	again := s.Gateway.Named && r.IntN(2) == 0
	if first := s.Services[0].Address; (again || len(list) == 0) && !slices.Contains(list, first) {
		list = append(list, first)
	}
	if s.Gateway.Named && r.IntN(2) == 0 {
		list = append(list, "named.test:80")
	}
	return list
}

// upstream writes one upstream.
func (s *Scenario) upstream(
	b *strings.Builder, name string, targets []string, g GatewayPlan,
	r *rand.Rand, change func(float64) bool,
) {
	balances := []string{"p2c", "round_robin", "least_requests", "random", "{hash: client_address}"}
	balance := balances[int(s.Seed%5)]
	if change(0.2) {
		balance = "round_robin"
	}
	health := fmt.Sprintf("passive: {consecutive_failures: %d, eject_for: 300ms}", g.Passive)
	if g.Active {
		health += ", active: {path: /health, interval: 200ms, timeout: 100ms, " +
			"unhealthy_after: 2, healthy_after: 1}"
	}
	if s.Quiet {
		health = "passive: {disabled: true}"
	}
	list := `"` + strings.Join(targets, `", "`) + `"`
	if g.Weights {
		list = ""
		for i, t := range targets {
			list += fmt.Sprintf(", {address: %q, weight: %d}", t, 1+(i+r.IntN(2))%4)
		}
		list = list[2:]
	}
	fmt.Fprintf(b, "  %s:\n    targets: [%s]\n    balance: %s\n", name, list, balance)
	fmt.Fprintf(b, "    slow_start: %v\n    health: {%s}\n", g.SlowStart, health)
	g.MaxIdle = min(g.MaxIdle, g.MaxConnections)
	fmt.Fprintf(b, "    pool: {max_connections: %d, max_pending: %d, pending_timeout: %v, "+
		"max_idle: %d, idle_timeout: 900ms, max_requests: %d, connect_timeout: %v}\n",
		g.MaxConnections, g.MaxPending, g.Pending, g.MaxIdle, g.MaxRequests, g.Connect)
	on := "connect, reset, \"503\""
	if g.PerTry > 0 {
		on += ", timeout"
	}
	if g.Slots > 0 {
		mode := "fixed"
		if g.Adaptive {
			mode = "adaptive"
		}
		limit := g.Slots
		if g.Places > 0 {
			limit = min(limit, g.Places)
		}
		fmt.Fprintf(b, "    concurrency: {mode: %s, limit: %d}\n", mode, limit)
	}
	if g.Places > 0 {
		fmt.Fprintf(b, "    max_concurrency: %d\n", g.Places)
	}
	if g.Breaker > 0 {
		fmt.Fprintf(b, "    breaker: {scope: %s, failure_ratio: 30%%, min_requests: 4, window: 1s, "+
			"consecutive_failures: 5, open_for: %v, trials: 1, ramp: 300ms}\n",
			[]string{"target", "upstream"}[s.Seed%2], g.Breaker)
	}
	if p := g.Protocols[strings.Index("abm", name)]; p != "" {
		fmt.Fprintf(b, "    protocol: %s\n", p)
	}
	if g.UpstreamTLS {
		b.WriteString("    tls: {insecure_skip_verify: true}\n")
	}
	fmt.Fprintf(b, "    retry: {attempts: %d, on: [%s], per_try_timeout: %v, budget: %d%%}\n",
		g.Attempts, on, g.PerTry, 20+r.IntN(80))
}
