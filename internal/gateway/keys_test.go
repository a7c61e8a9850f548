package gateway

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/exchange"
)

// The keys of the configuration whose effect no other test of whole gateways shows: each reaches
// its room.

func TestALimitOfTheConfigurationRefusesAHead(t *testing.T) {
	long := strings.Repeat("a", 1100)
	for limits, c := range map[string]struct{ request, status string }{
		"request_line: 1KB": {"GET /" + long + " HTTP/1.1\r\nHost: a\r\n\r\n", "414"},
		"header_bytes: 1KB": {"GET / HTTP/1.1\r\nHost: a\r\nX: " + long + "\r\n\r\n", "431"},
		"header_count: 2":   {"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nY: 2\r\n\r\n", "431"},
	} {
		ended := strings.Replace(c.request, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1)
		if got := serve(t, limited("")).exchange(ended); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
			t.Errorf("without %s: %q", limits, got)
		}
		if got := serve(t, limited(limits)).exchange(c.request); !strings.HasPrefix(got, "HTTP/1.1 "+c.status+" ") {
			t.Errorf("%s: %q, want %s", limits, got, c.status)
		}
	}
}

func TestWithoutSessionTicketsNothingIsResumed(t *testing.T) {
	ca := newAuthority(t)
	g := serve(t, overTLS(", session_tickets: false", "", ca.issue(t, "a.example")))
	cfg := &tls.Config{RootCAs: ca.pool, ServerName: "a.example", ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	for range 2 {
		p := g.mustDialTLS(cfg)
		if p.state().DidResume {
			t.Error("a session was resumed")
		}
		p.send(plainGet)
		p.response("GET") // a ticket would come with it
	}
}

func TestIdleConnectionsBeyondTheBoundAreClosed(t *testing.T) {
	b := newBackend(t, "a")
	g := serve(t, strings.Replace(pooled(b.address, "max_idle: 2"), "loops: 2", "loops: 1", 1))
	gather(t, g, b, 6)
	eventually(t, "all but two connections to be closed", func() bool { return b.open.Load() == 2 })
	if n := g.target("s", b.address).Connections; n != 2 {
		t.Errorf("%d connections are counted, want 2", n)
	}
}

func TestConditionsOnHeadersAndTheQueryChooseTheRoute(t *testing.T) {
	g := serve(t, `
listeners: [{address: "127.0.0.1:0"}]
routes:
  - {match: /, when: {headers: {X-Beta: "*"}, query: {v: "2"}}, respond: {body: both}}
  - {match: /, when: {headers: {X-Beta: "yes"}}, respond: {body: header}}
  - {match: /, when: {query: {v: "2"}}, respond: {body: query}}
  - {match: /, respond: {body: neither}}
`)
	for _, c := range []struct{ path, header, want string }{
		{"/?v=2", "X-Beta: no", "both"}, {"/?v=1", "X-Beta: yes", "header"}, {"/?v=2", "X: y", "query"}, {"/?v=1", "X-Beta: no", "neither"},
	} {
		if _, body := g.get(c.path, c.header); body != c.want {
			t.Errorf("%s with %s: %q, want %q", c.path, c.header, body, c.want)
		}
	}
}

func TestCORSTellsOfHeadersAndCredentials(t *testing.T) {
	g := serve(t, `
listeners: [{address: "127.0.0.1:0"}]
routes: [{match: /, respond: {}, cors: {origins: ["https://a.example"], methods: [GET], headers: [X-In], expose: [X-Out], credentials: true}}]
`)
	p := g.dial()
	p.send("GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://a.example\r\n\r\n")
	r, _ := p.response("GET")
	if got := r.Header.Get("Access-Control-Expose-Headers") + " " + r.Header.Get("Access-Control-Allow-Credentials"); got != "X-Out true" {
		t.Errorf("the answer says %q", got)
	}
	p.send("OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: " +
		"https://a.example\r\nAccess-Control-Request-Method: " +
		"GET\r\nAccess-Control-Request-Headers: x-in\r\n\r\n")
	r, _ = p.response("OPTIONS")
	if got := r.Header.Get("Access-Control-Allow-Headers") + " " +
		r.Header.Get("Access-Control-Max-Age"); !strings.EqualFold(got, "X-In 600") {
		t.Errorf("the preflight's answer says %q", got)
	}
}

func TestOnlyTheShareIsMirrored(t *testing.T) {
	s, m := newService(t, answering(okResponse)), newService(t, answering(okResponse))
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}, m: {targets: ["`+m.address()+`"]}}
routes: [{match: /, upstream: s, mirror: {upstream: m, share: 30%}}]
`)
	p := g.dial()
	for range 80 {
		if status, _ := p.request("GET", "/"); status != 200 {
			t.Fatalf("got %d", status)
		}
	}
	if n := g.snapshot().MirrorsSent; n == 0 || n > 70 { // either is less likely than one in 10^12
		t.Errorf("%d of 80 requests were copied, want about 24", n)
	}
}

func TestChecksHaveTheHostAndTheDeepTimeoutThatAreConfigured(t *testing.T) {
	t.Parallel() // deep checks are seconds apart
	b := newBackend(t, "a")
	var mu sync.Mutex
	host := ""
	b.answer(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		host = r.Host
		mu.Unlock()
		if r.URL.Path == "/health/deep" {
			pause(r.Context(), 500*time.Millisecond) // less than the default, by which it would be well
		}
		io.WriteString(w, "ok")
	})
	g := serve(t, balanced(1, `"`+b.address+`"`, strings.Replace(lightChecks, "path: /health/light,",
		"path: /health/light, host: checked.example, deep_path: /health/deep, deep_interval: 1s, deep_timeout: 50ms,", 1)+"}"))
	g.becomes("s", b.address, "deep check down")
	mu.Lock()
	defer mu.Unlock()
	if host != "checked.example" {
		t.Errorf("the checks asked for %q", host)
	}
}

func TestEveryVariableOfTheConfigurationHasItsValue(t *testing.T) {
	for _, name := range config.Variables() {
		if _, err := exchange.CompileTemplate("${"+name+"}", nil); err != nil {
			t.Error(err)
		}
	}
}
