package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// metrics is what a scrape gets.
func (i *instance) metrics() string {
	i.t.Helper()
	page := httptest.NewRecorder()
	i.Metrics().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	return page.Body.String()
}

// expectMetrics fails the test unless a scrape has all these lines.
func (i *instance) expectMetrics(lines ...string) {
	i.t.Helper()
	text := i.metrics()
	for _, line := range lines {
		if !strings.Contains(text, line+"\n") {
			i.t.Errorf("no %q in\n%s", line, text)
		}
	}
}

// expectDegraded reads a static answer with this body.
func (p *peer) expectDegraded(method string, status int, body string) *http.Response {
	p.t.Helper()
	r, got := p.response(method)
	if r.StatusCode != status || got != body || r.Header.Get("X-Degraded") != "static" {
		p.t.Fatalf("got %d %q, %v, want %d %q with its mark", r.StatusCode, got, r.Header, status, body)
	}
	if after := r.Header.Get("Retry-After"); after != "" {
		p.t.Errorf("Retry-After is %q", after)
	}
	return r
}

// withFallback is a config whose one route has a fallback.
func withFallback(upstream, route string) string {
	return `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {` + upstream + `}}
routes: [{match: /, upstream: s, sla: P2, fallback: {body: later}` + route + `}]
`
}

func TestAServiceThatIsDownIsAnsweredForStatically(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	g := serveClean(t, withFallback(`targets: ["`+refusing(t)+`"]`, "")+"access_log: {path: "+path+"}\n")
	p := g.dial()
	p.send(get)
	r := p.expectDegraded("GET", 200, "later")
	if r.Header.Get("Cache-Control") != "no-store" || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("got %v", r.Header)
	}
	p.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r := p.expectDegraded("HEAD", 200, ""); r.ContentLength != 5 {
		t.Errorf("HEAD got the length %d", r.ContentLength)
	}
	// A write is not faked as done.
	p.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
	if r := p.expectFailure(502, "connect_failed"); r.Header.Get("X-Degraded") != "" {
		t.Errorf("POST got %v", r.Header)
	}
	for n, want := range []string{`"status":200`, `"status":200`, `"status":502`} {
		line := lines(t, path, 3)[n]
		if !strings.Contains(line, want) || !strings.Contains(line, `"reason":"connect_failed"`) {
			t.Errorf("line %d of the access log is %s", n, line)
		}
	}
	g.expectMetrics(
		`plimsoll_degraded_total{route="/",step="static"} 2`,
		`plimsoll_answers_total{reason="connect_failed"} 3`,
		`plimsoll_exchanges_total{end="upstream_failed"} 3`,
		`plimsoll_requests_total{code="2xx",route="/"} 2`,
	)
}

func TestABreakerThatIsOpenIsAnsweredForStatically(t *testing.T) {
	b := newBackend(t, "s")
	b.answer(answerStatus(500))
	g := serve(t, withFallback(`targets: ["`+b.address+`"],
  breaker: {scope: upstream, consecutive_failures: 3, failure_ratio: 0%, open_for: 1h}`, ""))
	p := g.dial()
	for range 3 { // what the service itself says is passed on
		p.send(get)
		if r, _ := p.response("GET"); r.StatusCode != 500 || r.Header.Get("X-Degraded") != "" {
			t.Fatalf("got %d, %v", r.StatusCode, r.Header)
		}
	}
	p.send(get)
	p.expectDegraded("GET", 200, "later")
	p.send("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r := p.expectFailure(503, "breaker_open"); r.Header.Get("Retry-After") == "" {
		t.Error("a refused DELETE is not told when to come again")
	}
	g.expectMetrics(
		`plimsoll_degraded_total{route="/",step="static"} 1`,
		`plimsoll_answers_total{reason="breaker_open"} 2`,
		`plimsoll_exchanges_total{end="shed"} 2`,
	)
}

func TestARequestThatIsShedIsAnsweredForStatically(t *testing.T) {
	b, came, answer := busyService(t)
	g := serve(t, "classes: {P2: {patience: 20ms}}"+withFallback(`targets: ["`+b.address+`"],
  concurrency: {mode: fixed, limit: 1}, pool: {pending_timeout: 60s}`, ""))
	first, second := g.dial(), g.dial()
	first.send(get)
	<-came
	second.send(get)
	second.expectDegraded("GET", 200, "later")
	second.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
	if r := second.expectFailure(503, "overloaded"); r.Header.Get("Retry-After") == "" {
		t.Error("a refused POST is not told when to come again")
	}
	answer <- true
	if r, _ := first.response("GET"); r.StatusCode != 200 || r.Header.Get("X-Degraded") != "" {
		t.Errorf("the request that was with the service got %d, %v", r.StatusCode, r.Header)
	}
	second.send(get) // the connection is as it was
	<-came
	answer <- true
	if r, _ := second.response("GET"); r.StatusCode != 200 || r.Header.Get("X-Degraded") != "" {
		t.Errorf("the next request of the connection got %d, %v", r.StatusCode, r.Header)
	}
	g.expectMetrics(`plimsoll_degraded_total{route="/",step="static"} 1`, `plimsoll_exchanges_total{end="shed"} 2`)
}

func TestWaysInWhichAServiceFails(t *testing.T) {
	for _, c := range []struct {
		name, reason, route string
		script              script
	}{
		{"nonsense", "upstream_bad", "", answering("nonsense\r\n\r\n")},
		{"no answer", "upstream_reset", "", func(c *serviceConn, _ int) { c.head() }},
		{"too late", "upstream_timeout", ", timeout: 20ms", func(c *serviceConn, _ int) { c.drain() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t, c.script)
			g := serveClean(t, withFallback(`targets: ["`+s.address()+`"]`, c.route))
			p := g.dial()
			p.send(get)
			p.expectDegraded("GET", 200, "later")
			g.expectMetrics(`plimsoll_answers_total{reason="` + c.reason + `"} 1`)
		})
	}
}

func TestAResponseThatHasBegunIsCutAndNotReplaced(t *testing.T) {
	s := newService(t, func(c *serviceConn, _ int) {
		c.head()
		c.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome")
	})
	g := serveClean(t, withFallback(`targets: ["`+s.address()+`"]`, ""))
	p := g.dial()
	p.send(get)
	if got := p.expectCut(); strings.Contains(got, "X-Degraded") || strings.Contains(got, "later") {
		t.Errorf("the client got %q", got)
	}
	g.expectMetrics(`plimsoll_degraded_total{route="/",step="static"} 0`)
}

func TestRefusalsThatAreTheClientsDoingStay(t *testing.T) {
	s := untouched(t)
	g := serveClean(t, withFallback(`targets: ["`+s.address()+`"]`, `, access: {deny: ["127.0.0.1"]}`))
	p := g.dial()
	p.send(get)
	if r := p.expectFailure(403, "denied"); r.Header.Get("X-Degraded") != "" {
		t.Errorf("got %v", r.Header)
	}
	s.expectUntouched()
}

func TestOtherPoliciesActOnAStaticAnswer(t *testing.T) {
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+refusing(t)+`"]}}
routes:
  - match: /
    upstream: s
    sla: P2
    request_id: true
    cors: {origins: ["https://a.example"], expose: [X-Degraded]}
    response_headers: {set: {X-Route: "${route}"}, remove: [X-Gone]}
    fallback: {status: 203, body: "[]", content_type: application/json, headers: {X-Gone: a, X-Stays: b, Cache-Control: max-age=1}}
`)
	p := g.dial()
	p.send("GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://a.example\r\n\r\n")
	r := p.expectDegraded("GET", 203, "[]")
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin": "https://a.example", "Access-Control-Expose-Headers": "X-Degraded", "Vary": "Origin",
		"X-Route": "/", "X-Gone": "", "X-Stays": "b", "Cache-Control": "max-age=1", "Content-Type": "application/json",
	} {
		if got := r.Header.Values(name); strings.Join(got, ", ") != want || len(got) > 1 {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if r.Header.Get("X-Request-Id") == "" {
		t.Error("the answer carries no request id")
	}
}

func TestAFallbackFollowsReloads(t *testing.T) {
	yaml := withFallback(`targets: ["`+refusing(t)+`"]`, "")
	g := serve(t, yaml)
	p := g.dial()
	p.send(get)
	p.expectDegraded("GET", 200, "later")
	if err := g.reload(strings.Replace(yaml, "body: later", "status: 203, body: sorry", 1)); err != nil {
		t.Fatal(err)
	}
	p.send(get)
	p.expectDegraded("GET", 203, "sorry")
	g.expectMetrics(`plimsoll_degraded_total{route="/",step="static"} 2`)

	err := g.reload(strings.Replace(yaml, "sla: P2", "sla: P0", 1))
	if want := "routes[0].fallback: the class P0 may not get static answers; "; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a fallback in class P0 gives %v", err)
	}
	p.send(get)
	p.expectDegraded("GET", 203, "sorry")

	if err := g.reload(strings.Replace(yaml, ", fallback: {body: later}", "", 1)); err != nil {
		t.Fatal(err)
	}
	p.send(get)
	if r := p.expectFailure(502, "connect_failed"); r.Header.Get("X-Degraded") != "" {
		t.Errorf("got %v", r.Header)
	}
}

func TestAClassThatIsToldToDegrades(t *testing.T) {
	g := serve(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
classes: {P0: {degrade: [static]}}
upstreams: {s: {targets: [%q]}}
routes: [{match: /, split: {weights: {s: 1}}, sla: P0, fallback: {body: later}}]
`, refusing(t)))
	p := g.dial()
	p.send(get)
	p.expectDegraded("GET", 200, "later")
}
