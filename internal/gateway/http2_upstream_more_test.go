package gateway

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// A copy goes to a service of HTTP/2 whole, and one of a request to such a service goes to any
// other.
func TestAMirrorOfHTTP2GetsEachRequestWhole(t *testing.T) {
	t.Parallel()
	copies := make(chan string, 8)
	mirror := newH2Service(t, nil, func(s *h2Service) {
		s.asked = func(a *h2Asked) { copies <- a.words(); a.ok("ignored") }
	})
	service := newH2Service(t, nil, func(s *h2Service) {
		s.asked = func(a *h2Asked) { a.ok(string(a.body)) }
	})
	g := serveClean(t, `
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {protocol: h2c, targets: ["`+service.address()+`"]}, m: {protocol: h2c, targets: ["`+mirror.address()+`"]}}
routes: [{match: /, upstream: s, mirror: {upstream: m, share: 100%}}]
`)
	p := g.dial()
	for _, c := range []struct{ request, want string }{
		{"GET /a?b HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n", "GET /a?b "},
		{"POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabcdef", "abcdef"},
		{"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3;e\r\ndef\r\n0\r\n\r\n", "chunked\n\nabcdef"},
		{"PUT /d HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "PUT /d "},
	} {
		p.send(c.request)
		method, _, _ := strings.Cut(c.request, " ")
		if r, body := p.response(method); r.StatusCode != 200 || strings.Contains(c.want, "abcdef") && body != "abcdef" {
			t.Fatalf("%d %q", r.StatusCode, body)
		}
		if copied := <-copies; !strings.Contains(copied, c.want) || !strings.Contains(copied, "Host: a\n") {
			t.Errorf("the mirror got %q, want %q", copied, c.want)
		}
	}
	p.Close()
}

// An upgrade is what HTTP/2 does not have: where the protocol is negotiated it gets a connection of
// HTTP/1.1.
func TestAnUpgradeToANegotiatedServiceGoesOverHTTP1(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	files := ca.issue(t, "a")
	certificate, err := tls.LoadX509KeyPair(files.cert, files.key)
	if err != nil {
		t.Fatal(err)
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	service := &http.Server{Protocols: protocols, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") == "" {
				io.WriteString(w, r.Proto)
				return
			}
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
			io.Copy(conn, rw)
		})}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go service.ServeTLS(ln, "", "")
	t.Cleanup(func() { service.Close() })
	g := serveClean(t, fmt.Sprintf(`
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: [%q], tls: {ca: %q, server_name: a}}}
routes: [{match: /, upstream: s}]
`, ln.Addr(), ca.file))
	p := g.dial()
	p.send(get)
	if r, body := p.response("GET"); r.StatusCode != 200 || body != "HTTP/2.0" {
		t.Errorf("%d %q", r.StatusCode, body)
	}
	p.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
	p.send("hello")
	if r, err := http.ReadResponse(p.r, nil); err != nil || r.StatusCode != 101 {
		t.Fatalf("%v %v", r, err)
	}
	echo := make([]byte, 5)
	if _, err := io.ReadFull(p.r, echo); err != nil || string(echo) != "hello" {
		t.Errorf("%q %v", echo, err)
	}
	p.Close()
}

// A target whose concurrency is limited gets no more requests at once, however many connections or
// streams there are.
func TestALimitedServiceOfHTTP2GetsNoMoreAtOnce(t *testing.T) {
	t.Parallel()
	s := newH2Service(t, nil, func(s *h2Service) {})
	g := serveClean(t, `
loops: 1
listeners: [{address: "127.0.0.1:0", http2: true}]
classes: {P1: {patience: 60s}}
upstreams:
  s: {protocol: h2c, targets: ["`+s.address()+`"], concurrency: {mode: fixed, limit: 4},
      pool: {pending_timeout: 60s}}
routes: [{match: /, upstream: s}]
`)
	client := g.h2()
	var streams []*h2stream
	for range 12 {
		streams = append(streams, client.ask("GET", "/"))
	}
	answered := 0
	for answered < 12 {
		most := min(answered+4, 12)
		s.wait("four", func() bool { return len(s.all) == most })
		s.mu.Lock()
		all := slices.Clone(s.all)
		s.mu.Unlock()
		all[answered].ok("ok")
		answered++
	}
	for _, st := range streams {
		st.expect(200, "ok")
	}
	client.leave()
}

// A connection ends after its most requests, and those under way are finished.
func TestAConnectionToAServiceEndsAfterItsMostRequests(t *testing.T) {
	t.Parallel()
	g, s := serveH2C(t, ", pool: {max_requests: 3}", "", func(s *h2Service) {
		s.asked = func(a *h2Asked) { a.ok("ok") }
	})
	p := g.dial()
	for range 9 {
		p.send(get)
		if r, _ := p.response("GET"); r.StatusCode != 200 {
			t.Fatal(r.StatusCode)
		}
	}
	if s.connections() != 3 {
		t.Errorf("%d connections for 9 requests of at most 3 each", s.connections())
	}
	p.Close()
}

// A service that ends its connections in order loses no request.
func TestAServiceThatDrainsLosesNothing(t *testing.T) {
	t.Parallel()
	const last = 39 // the last stream of each connection that is served
	g, s := serveH2C(t, ", retry: {attempts: 0}", "", func(s *h2Service) {
		s.asked = func(a *h2Asked) {
			if a.id == last {
				a.c.do(func(f *http2.Framer) { f.WriteGoAway(last, http2.ErrCodeNo, nil) })
			}
			if a.id <= last {
				a.ok("ok")
			}
		}
	})
	for range 3 {
		client := g.h2()
		var streams []*h2stream
		for range 50 {
			streams = append(streams, client.ask("POST", "/"))
		}
		for _, st := range streams {
			st.expect(200, "ok")
		}
		client.leave()
	}
	if s.connections() < 4 {
		t.Errorf("%d connections, though the service ended each", s.connections())
	}
}

// An idle connection that its service ends, or takes no requests on, is not used again.
func TestAnIdleConnectionThatItsServiceEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*h2Served){
		"GOAWAY": func(c *h2Served) { c.do(func(f *http2.Framer) { f.WriteGoAway(1, http2.ErrCodeNo, nil) }) },
		"close":  func(c *h2Served) { c.Close() },
		"no more streams": func(c *h2Served) {
			c.do(func(f *http2.Framer) { f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams}) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, s := serveH2C(t, ", retry: {attempts: 0}", "", func(s *h2Service) {
				s.asked = func(a *h2Asked) { a.ok("ok") }
			})
			p := g.dial()
			for i := range 4 {
				p.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
				if r, _ := p.response("POST"); r.StatusCode != 200 {
					t.Fatal(r.StatusCode)
				}
				s.mu.Lock()
				c := s.conns[i]
				s.mu.Unlock()
				end(c)
				s.wait("the gateway's end of it", func() bool { return c.ended })
			}
			p.Close()
		})
	}
}

// A response that has come whole is given to a client that takes it slowly, whatever becomes of its
// stream or its connection.
func TestAWholeResponseOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*h2Asked){
		"reset":  func(a *h2Asked) { a.resetWith(http2.ErrCodeNo) },
		"close":  func(a *h2Asked) { a.c.Close() },
		"breach": func(a *h2Asked) { a.c.do(func(f *http2.Framer) { f.WriteData(0, false, nil) }) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := strings.Repeat("x", 100_000)
			g, s := serveH2C(t, "", "", func(s *h2Service) {
				s.begun = func(a *h2Asked) { a.ok(body); end(a) }
			})
			slow := g.thriftyH2(65535)
			st := slow.ask("GET", "/")
			slow.wait("what its windows allow", func() bool { return len(st.body) == 65535 })
			if name != "reset" {
				s.wait("the end", func() bool { return s.conns[0].ended || s.conns[0].goAway != nil })
			}
			slow.served()
			st.allow(100_000)
			slow.send(func(f *http2.Framer) { f.WriteWindowUpdate(0, 100_000) })
			st.expect(200, body)
			slow.leave()
		})
	}
}

// Targets of HTTP/2 are checked in HTTP/2.
func TestHealthChecksSpeakHTTP2(t *testing.T) {
	t.Parallel()
	g, s := serveH2C(t, ", health: {active: {path: /health, interval: 100ms}}", "", func(s *h2Service) {
		s.asked = func(a *h2Asked) { a.ok("ok") }
	})
	s.wait("a check", func() bool {
		return slices.ContainsFunc(s.all, func(a *h2Asked) bool { return a.path == "/health" })
	})
	g.becomes("s", s.address(), "up")
}

// A service that never says how many requests it takes gets none: the try ends with the time to
// connect.
func TestAServiceThatNeverGreets(t *testing.T) {
	t.Parallel()
	g, s := serveH2C(t, ", pool: {connect_timeout: 300ms}, retry: {attempts: 0}", "", func(s *h2Service) { s.mute = true })
	p := g.dial()
	p.send(get)
	if r, body := p.response("GET"); r.StatusCode != 504 && r.StatusCode != 502 {
		t.Errorf("%d %s", r.StatusCode, body)
	}
	s.wait("the connection's end", func() bool { return len(s.conns) == 1 && s.conns[0].ended })
	p.Close()
}
