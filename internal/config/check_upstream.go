package config

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"plimsoll/internal/exchange"
)

// maxUnixPath is the longest path of a socket: sun_path has 108 bytes with the NUL, and 104 on
// macOS.
const maxUnixPath = 103

func (u *Upstream) check(s *scope) {
	u.at = s.begins()
	seen := make(map[string]bool)
	weight := 0
	s.items("targets", func(i int, at place) {
		t := &u.Targets[i]
		if t.Weight != nil {
			weight += *t.Weight
		}
		if t.Address != "" && seen[t.Address] {
			s.fail(at, "%s is a target twice; keep one, and give it a weight if it is to have more",
				t.Address)
		}
		seen[t.Address] = true
	})
	if s.good("targets") && weight == 0 {
		s.reject("targets", "every weight is 0, so that no target is used; give one of them a "+
			"weight, or let the routes respond themselves")
	}
	u.checkConcurrency(s)
	u.checkProtocol(s)
	if u.LoadLine == "" || !s.good("load_line") {
		return
	}
	content, err := s.files.read(u.LoadLine)
	if err != nil {
		s.reject("load_line", "%s cannot be read: %v; give the path of a file that plimsoll survey "+
			"--export wrote", u.LoadLine, bare(err))
	}
	u.Line = content
}

// checkProtocol settles what the connections speak, which tls decides together with protocol.
func (u *Upstream) checkProtocol(s *scope) {
	switch {
	case u.Protocol == "" && s.has("tls"):
		u.Protocol = "auto"
	case u.Protocol == "":
		u.Protocol = "http1"
	case !s.good("protocol"):
	case (u.Protocol == "auto" || u.Protocol == "h2") && !s.has("tls"):
		s.reject("protocol", "%s is found out, or spoken, over TLS; add tls, or write h2c for "+
			"HTTP/2 without TLS", u.Protocol)
	case u.Protocol == "h2c" && s.has("tls"):
		s.reject("protocol", "h2c is HTTP/2 without TLS; remove tls, or write h2")
	}
}

func (t *Target) check(s *scope) {
	if !s.good("address") {
		return
	}
	if err := checkTarget(t.Address); err != nil {
		s.reject("address", "%v", err)
	}
}

func checkTarget(address string) error {
	if socket, found := strings.CutPrefix(address, "unix:"); found {
		if !strings.HasPrefix(socket, "/") || len(socket) > maxUnixPath || strings.Contains(socket, "\x00") {
			return fmt.Errorf("%q is not the path of a socket; write unix:/path, absolute and of "+
				"at most %d bytes", clip(address), maxUnixPath)
		}
		return nil
	}
	if strings.Contains(address, "://") {
		return fmt.Errorf("%q is a URL; write host:port (the upstream's tls key makes it TLS)", clip(address))
	}
	host, port, err := splitAddress(address)
	if err != nil {
		return err
	}
	if port == 0 {
		return errors.New("nothing listens on port 0; write the service's port")
	}
	if _, err := netip.ParseAddr(host); err != nil && !isHostName(host) {
		return fmt.Errorf("%q is neither an IP address nor a host name; write host:port", clip(host))
	}
	return nil
}

// isHostName reports whether text is a name that can be resolved (RFC 1123, section 2.1, and
// underscores, which are about).
func isHostName(text string) bool {
	if len(text) > 253 {
		return false
	}
	labels := strings.Split(strings.TrimSuffix(text, "."), ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if !(c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '-' || c == '_') {
				return false
			}
		}
	}
	// A last label of digits is an address that is not quite one, as 10.0.0.256 is.
	return strings.Trim(labels[len(labels)-1], "0123456789") != ""
}

func (b *Balance) check(s *scope) {
	switch {
	case s.good("hash") && !s.has("policy"):
		b.Policy = "hash"
	case s.has("hash") && s.good("policy") && b.Policy != "hash":
		s.reject("policy", "%q takes no hash; remove one of the two keys", b.Policy)
	case b.Policy == "hash" && !s.has("hash"):
		s.reject("policy", "hash needs to know what to hash; write {hash: client_address}, or "+
			"header:NAME, cookie:NAME, path:NAME")
	}
	if s.good("hash") {
		s.key("hash", b.Hash, BalanceKeys)
	}
}

func (b *Breaker) check(s *scope) {
	others := b.ConsecutiveFailures > 0 || b.SlowRatio > 0 || b.Adaptive != nil
	if b.FailureRatio == nil && !others {
		ratio := Percent(0.4)
		b.FailureRatio = &ratio
	}
	switch {
	case b.FailureRatio != nil && *b.FailureRatio == 0 && !others:
		s.reject("failure_ratio", "no rule is left that could open the breaker; give one, or "+
			"remove the breaker")
	case b.FailureRatio != nil && *b.FailureRatio == 1:
		s.reject("failure_ratio", "no share is more than 100%%, so the breaker would never open; lower it")
	case b.SlowRatio == 1:
		s.reject("slow_ratio", "no share is more than 100%%, so the breaker would never open; lower it")
	}
	if (b.SlowRatio > 0) != (b.SlowOver > 0) && s.good("slow_ratio") && s.good("slow_over") {
		s.reject("slow_ratio", "slow_ratio and slow_over need each other: the share of requests, "+
			"and what is slow")
	}
	if a := b.Adaptive; a != nil && a.LatencyWeight != nil && a.ErrorWeight != nil &&
		a.SaturationWeight != nil {
		if sum := *a.LatencyWeight + *a.ErrorWeight + *a.SaturationWeight; math.Abs(sum-1) > 1e-6 {
			s.reject("adaptive", "the three weights add up to %.4g; make them add up to 1", sum)
		}
	}
}

// checkConcurrency checks that the bound on requests at all targets leaves the limit on those at one
// a meaning. A limit that nobody wrote is cut by it.
func (u *Upstream) checkConcurrency(s *scope) {
	if u.Concurrency == nil || !s.good("max_concurrency") || u.MaxConcurrency == 0 || !s.has("concurrency") {
		return
	}
	c := u.Concurrency
	values := map[string]int{"limit": c.Limit, "min": c.Min, "max": c.Max}
	for _, e := range s.entriesOf(s.at("concurrency")) {
		if value := values[e.name]; value > u.MaxConcurrency {
			s.fail(e.value, "%d can never be reached at one target, since max_concurrency lets %d be at "+
				"all of them; make it at most that, or raise max_concurrency", value, u.MaxConcurrency)
			return
		}
	}
}

func (c *Concurrency) check(s *scope) {
	switch {
	case !s.good("min") || !s.good("max") || !s.good("limit"):
	case c.Min > c.Max:
		s.reject("min", "%d is more than max, which is %d; lower it, or raise max", c.Min, c.Max)
	case c.Limit < c.Min || c.Limit > c.Max:
		s.reject("limit", "%d is not between min and max, %d and %d", c.Limit, c.Min, c.Max)
	}
	if s.has("max_latency") && c.Mode != "aimd" {
		s.reject("max_latency", "mode %s does not use it; remove it, or choose aimd", c.Mode)
	}
	if c.Mode == "fixed" && !s.has("limit") {
		s.reject("limit", "mode fixed needs a number; say how many requests may be at a target at once")
	}
}

// What a balancer may hash, and what may keep a client on one upstream.
var (
	BalanceKeys = []exchange.KeyKind{exchange.AddressKey, exchange.HeaderKey, exchange.CookieKey,
		exchange.PathKey}
	stickyKeys = []exchange.KeyKind{exchange.AddressKey, exchange.HeaderKey, exchange.CookieKey}
)

// key checks a key against the kinds that are possible there.
func (s *scope) key(name, value string, allowed []exchange.KeyKind) {
	if _, err := exchange.ParseKey(value, allowed...); err != nil || value == "" {
		s.reject(name, "%q is not a key; write one of %s", clip(value), exchange.KeyForms(allowed))
	}
}

func (h *ActiveHealth) check(s *scope) {
	for _, c := range []struct{ name, path string }{{"path", h.Path}, {"deep_path", h.DeepPath}} {
		if s.good(c.name) && !isPath(c.path) {
			s.reject(c.name, "%q is not a path; write one that begins with / and has no blanks", clip(c.path))
		}
	}
	if s.good("host") && !isHostField(h.Host) {
		s.reject("host", "%q cannot be a Host header; write a name or an address, with or "+
			"without a port", clip(h.Host))
	}
	s.notLonger("timeout", &h.Timeout, "interval", h.Interval)
	s.notLonger("deep_timeout", &h.DeepTimeout, "deep_interval", h.DeepInterval)
	deep, missing := h.DeepPath, "deep_path"
	if h.GRPC != nil {
		if s.has("deep_path") {
			s.reject("deep_path", "the checks are calls of gRPC; write grpc: {deep_service: NAME}")
		}
		deep, missing = h.GRPC.DeepService, "grpc: {deep_service: NAME}"
	}
	def := prototype(reflect.TypeFor[ActiveHealth]()).Interface().(ActiveHealth)
	if deep == "" && s.good("deep_interval") && h.DeepInterval != def.DeepInterval {
		s.reject("deep_interval", "has no effect without %[1]s; add %[1]s, or remove it", missing)
	}
	if deep == "" && s.good("deep_timeout") && h.DeepTimeout != def.DeepTimeout {
		s.reject("deep_timeout", "has no effect without %[1]s; add %[1]s, or remove it", missing)
	}
}

func (h *GRPCHealth) check(s *scope) {
	for _, c := range []struct{ name, service string }{
		{"service", h.Service}, {"deep_service", h.DeepService},
	} {
		if s.good(c.name) && !isService(c.service) {
			s.reject(c.name, "%q is not the name of a service; write it as in its .proto, such as "+
				"users.v1.Users, of at most %d bytes", clip(c.service), maxService)
		}
	}
}

// maxService is the longest name of a service that a check asks for.
const maxService = 255

// isService reports whether text can be the name of a service. Servers are free in what they call
// the things whose health they tell, so that any printable text will do.
func isService(text string) bool {
	return text != "" && len(text) <= maxService && utf8.ValidString(text) &&
		!strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// notLonger checks that one duration is no longer than another. A default that is too long is cut
// instead.
func (s *scope) notLonger(name string, d *Duration, than string, most Duration) {
	switch {
	case *d <= most || s.failed[name] || s.failed[than]:
	case s.has(name):
		s.reject(name, "%s is longer than the %s of %s; make it the shorter", *d, than, most)
	default:
		*d = most
	}
}

// isHostField reports whether text may stand in a Host header.
func isHostField(text string) bool {
	if isHostName(text) {
		return true
	}
	if ip, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return ip.Is4() || strings.HasPrefix(text, "[")
	}
	host, _, err := splitAddress(text)
	if err != nil {
		return false
	}
	_, err = netip.ParseAddr(host)
	return err == nil || isHostName(host)
}

func (p *Pool) check(s *scope) {
	if p.MaxIdle <= p.MaxConnections || s.failed["max_idle"] || s.failed["max_connections"] {
		return
	}
	if s.has("max_idle") {
		s.reject("max_idle", "%d idle connections cannot be kept of %d; make it at most "+
			"max_connections", p.MaxIdle, p.MaxConnections)
		return
	}
	p.MaxIdle = p.MaxConnections
}

func (r *Retry) check(s *scope) {
	if s.good("on") && slices.Contains(r.On, "timeout") && r.PerTryTimeout == 0 &&
		!s.failed["per_try_timeout"] {
		s.reject("on", "\"timeout\" never happens while per_try_timeout is 0s; set "+
			"per_try_timeout, or remove it from the list")
	}
	seen := make(map[string]bool)
	s.items("on", func(i int, at place) {
		if seen[r.On[i]] {
			s.fail(at, "%q is listed twice; keep one", r.On[i])
		}
		seen[r.On[i]] = true
	})
}

func (t *UpstreamTLS) check(s *scope) {
	switch {
	case s.good("cert") && s.good("key"):
		s.keyPair("cert", t.Cert, "key", t.Key)
	case s.good("cert"):
		s.reject("cert", "needs its private key; add key")
	case s.good("key"):
		s.reject("key", "is of no certificate; add cert")
	}
	if s.good("server_name") && !isHostName(t.ServerName) {
		s.reject("server_name", "%q is not a host name; write the name that is in the targets' "+
			"certificates", clip(t.ServerName))
	}
	if t.InsecureSkipVerify && s.has("ca") {
		s.reject("insecure_skip_verify", "accepts any certificate, so that ca has no effect; "+
			"remove one of the two")
	}
	s.authorities("ca", t.CA)
}
