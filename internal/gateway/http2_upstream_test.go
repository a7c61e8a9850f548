package gateway

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	codec "plimsoll/internal/http2"
)

// notOfHTTP2 are the cases whose response HTTP/2 cannot send, or sends otherwise.
var notOfHTTP2 = []string{
	"a response to the connection's end", "a response of HTTP/1.0", "a service that answers nonsense",
	"a service that switches protocols unasked", "HEAD of chunks", "a service that says nothing",
	"what is hop-by-hop in a response", "103",
	"no chunks but the last", // HTTP/2 says at once that nothing follows, so the length is known
}

// A service is asked alike, and its answer is the same, whatever it speaks.
func TestEveryServiceIsAskedAlike(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	certificate := ca.issue(t, "a")
	server, err := tls.LoadX509KeyPair(certificate.cert, certificate.key)
	if err != nil {
		t.Fatal(err)
	}
	overTLS := fmt.Sprintf(", tls: {ca: %q, server_name: a}", ca.file)
	ways := []struct {
		name, keys string
		secure     *tls.Config
		clients    []spoken
	}{
		{"h2c", ", protocol: h2c", nil, []spoken{allSpoken[0], allSpoken[2]}},
		{"h2", ", protocol: h2" + overTLS, &tls.Config{Certificates: []tls.Certificate{server},
			NextProtos: []string{"h2"}}, allSpoken[1:2]},
		{"auto", overTLS, &tls.Config{Certificates: []tls.Certificate{server}, NextProtos: []string{"h2"}}, allSpoken[3:]},
	}
	for _, c := range likeCases {
		if slices.Contains(notOfHTTP2, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wantSaw, wantGot := c.run(t, allSpoken[0], ca, certificate)
			for _, way := range ways {
				for _, p := range way.clients {
					s := newH2Service(t, way.secure, func(s *h2Service) {
						s.asked = func(a *h2Asked) { a.answerLike(t, c.response) }
					})
					got := c.ask(t, p, s.address(), way.keys, ca, certificate)
					got = strings.ReplaceAll(got, "Via: 2 ", "Via: 1.1 ")
					s.mu.Lock()
					all := slices.Clone(s.all)
					s.mu.Unlock()
					var saw strings.Builder
					for _, a := range all {
						saw.WriteString(alike(a.words(), s.address()))
					}
					if saw.String() != wantSaw {
						t.Errorf("%s from %s: the service saw\n%.2000s\nwant, as over HTTP/1.1,\n%.2000s", way.name, p.name,
							saw.String(), wantSaw)
					}
					if got != wantGot {
						t.Errorf("%s from %s: the client got\n%.2000s\nwant, as over HTTP/1.1,\n%.2000s", way.name, p.name,
							got, wantGot)
					}
				}
			}
		})
	}
}

// serveH2C runs a gateway before a service of HTTP/2 without TLS. keys are further keys of its
// upstream, and route of the route.
func serveH2C(t *testing.T, keys, route string, prepare func(*h2Service)) (*instance, *h2Service) {
	t.Helper()
	s := newH2Service(t, nil, prepare)
	g := serveClean(t, `
loops: 1
listeners: [{address: "127.0.0.1:0", http2: true}]
upstreams: {s: {protocol: h2c, targets: ["`+s.address()+`"]`+keys+`}}
routes: [{match: /, upstream: s`+route+`}]
`)
	return g, s
}

func TestRequestsShareAConnection(t *testing.T) {
	t.Parallel()
	const n = 40
	var g *instance
	held := make(chan struct{})
	g, s := serveH2C(t, "", "", func(s *h2Service) {
		s.asked = func(a *h2Asked) { <-held; a.ok("ok") }
	})
	client := g.h2()
	var streams []*h2stream
	for range n {
		streams = append(streams, client.ask("GET", "/"))
	}
	s.wait("all to have come", func() bool { return len(s.all) == n })
	if s.connections() != 1 {
		t.Errorf("%d connections for %d requests, want 1", s.connections(), n)
	}
	close(held)
	for _, st := range streams {
		st.expect(200, "ok")
	}
	client.leave()
}

func TestATargetsLimitOfStreamsIsKept(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	g, s := serveH2C(t, "", "", func(s *h2Service) {
		s.settings = []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 3}}
		s.asked = func(a *h2Asked) { <-held; a.ok("ok") }
	})
	client := g.h2()
	var streams []*h2stream
	for range 10 {
		streams = append(streams, client.ask("GET", "/"))
	}
	s.wait("all to have come", func() bool { return len(s.all) == 10 })
	s.mu.Lock()
	per := map[*h2Served]int{}
	for _, a := range s.all {
		per[a.c]++
	}
	s.mu.Unlock()
	if len(per) != 4 {
		t.Errorf("10 requests went over %d connections, want 4", len(per))
	}
	for _, n := range per {
		if n > 3 {
			t.Errorf("%d requests at once on a connection that takes 3", n)
		}
	}
	close(held)
	for _, st := range streams {
		st.expect(200, "ok")
	}
	client.leave()
}

// What a target says that it has not begun is sent again, whatever its method.
func TestWhatATargetHasNotBegunIsSentAgain(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(a *h2Asked){
		"REFUSED_STREAM": func(a *h2Asked) { a.resetWith(http2.ErrCodeRefusedStream) },
		"GOAWAY": func(a *h2Asked) {
			a.c.do(func(f *http2.Framer) { f.WriteGoAway(a.id-2, http2.ErrCodeNo, nil) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, s := serveH2C(t, ", retry: {attempts: 0}", "", func(s *h2Service) {
				s.asked = func(a *h2Asked) {
					if s.requests() == 2 {
						refuse(a)
						return
					}
					a.ok(string(a.body))
				}
			})
			p := g.dial()
			for _, body := range []string{"one", "two", "three"} {
				p.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + fmt.Sprint(len(body)) + "\r\n\r\n" + body)
				if r, got := p.response("POST"); r.StatusCode != 200 || got != body {
					t.Errorf("%s: %d %q", body, r.StatusCode, got)
				}
			}
			if s.requests() != 4 {
				t.Errorf("%d requests came, want 4", s.requests())
			}
			p.Close()
		})
	}
}

// A request whose fate is unknown is not sent twice.
func TestABrokenStreamIsNotRepeatedBlindly(t *testing.T) {
	t.Parallel()
	g, s := serveH2C(t, ", retry: {attempts: 2, on: [reset]}", "", func(s *h2Service) {
		s.asked = func(a *h2Asked) { a.resetWith(http2.ErrCodeInternal) }
	})
	p := g.dial()
	p.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
	if r, got := p.response("POST"); r.StatusCode != 502 || !strings.Contains(got, "upstream_reset") {
		t.Errorf("%d %s", r.StatusCode, got)
	}
	if s.requests() != 1 {
		t.Errorf("a POST was sent %d times", s.requests())
	}
	p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, _ := p.response("GET"); r.StatusCode != 502 {
		t.Errorf("GET: %d", r.StatusCode)
	}
	if n := s.requests(); n < 3 {
		t.Errorf("a GET was sent %d times, want more than one", n-1)
	}
	p.Close()
}

// A client that goes away has its stream reset at the service, and nobody else's.
func TestAClientThatLeavesResetsItsStreamAlone(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	g, s := serveH2C(t, "", "", func(s *h2Service) {
		s.asked = func(a *h2Asked) {
			if a.path == "/stays" {
				<-held
				a.ok("ok")
			}
		}
	})
	stays, goes := g.h2(), g.dial()
	st := stays.ask("GET", "/stays")
	goes.send("GET /goes HTTP/1.1\r\nHost: a\r\n\r\n")
	s.wait("both to have come", func() bool { return len(s.all) == 2 })
	goes.Close()
	s.wait("a reset", func() bool {
		return slices.ContainsFunc(s.all, func(a *h2Asked) bool { return a.path == "/goes" && a.reset && a.code == http2.ErrCodeCancel })
	})
	close(held)
	st.expect(200, "ok")
	if s.connections() != 1 {
		t.Errorf("%d connections, want 1", s.connections())
	}
	stays.leave()
}

// A client that does not read holds its own response up, and not those beside it.
func TestAResponseThatNobodyReadsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", 1<<16) // 1 MB
	g, s := serveH2C(t, "", "", func(s *h2Service) {
		s.asked = func(a *h2Asked) {
			if a.path == "/long" {
				a.ok(long)
				return
			}
			a.ok("ok")
		}
	})
	slow := g.thriftyH2(65535)
	st := slow.ask("GET", "/long")
	s.wait("the long one", func() bool { return len(s.all) == 1 })
	p := g.dial()
	for range 20 {
		p.send(get)
		if r, body := p.response("GET"); r.StatusCode != 200 || body != "ok" {
			t.Fatalf("%d %q", r.StatusCode, body)
		}
	}
	if s.connections() != 1 {
		t.Errorf("%d connections, want 1", s.connections())
	}
	if n := st.got(); n > 65535 {
		t.Errorf("the slow client got %d bytes without asking for them", n)
	}
	st.close(http2.ErrCodeCancel)
	slow.leave()
	p.Close()
}

// Many responses that their client does not read leave the connection's window to one that is read.
func TestManyResponsesThatNobodyReadsHoldUpNoOther(t *testing.T) {
	t.Parallel()
	const unread = 60
	long := strings.Repeat("0123456789abcdef", 1<<16) // 1 MB
	g, s := serveH2C(t, "", "", func(s *h2Service) {
		s.asked = func(a *h2Asked) { go a.ok(long) }
	})
	slow := g.thriftyH2(1000)
	for range unread {
		slow.ask("GET", "/")
	}
	s.wait("all to have come", func() bool { return len(s.all) == unread })
	eventually(t, "their windows to be full", func() bool { return g.buffered() > unread*60<<10 })
	c := g.h2()
	for range 3 {
		c.ask("GET", "/").expect(200, long)
	}
	if s.connections() != 1 {
		t.Errorf("%d connections, want 1", s.connections())
	}
	c.leave()
	slow.leave()
}

// Uploads go as fast as the service opens its windows, and one that it does not read holds up no
// other.
func TestAnUploadThatAServiceDoesNotReadHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	g, s := serveH2C(t, "", "", func(s *h2Service) {
		s.thrifty = true
		s.asked = func(a *h2Asked) { a.ok(fmt.Sprint(len(a.body))) }
	})
	big := g.dial()
	big.send("POST /big HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n")
	go big.Write([]byte(strings.Repeat("x", 200000)))
	s.wait("a window's worth", func() bool { return len(s.all) == 1 && len(s.all[0].body) == 65535 })
	p := g.dial()
	p.send(get) // it has no body, so it needs no window
	if r, _ := p.response("GET"); r.StatusCode != 200 {
		t.Errorf("%d", r.StatusCode)
	}
	s.mu.Lock()
	a := s.all[0]
	s.thrifty = false
	s.mu.Unlock()
	a.c.do(func(f *http2.Framer) {
		f.WriteWindowUpdate(0, 1<<20)
		f.WriteWindowUpdate(a.id, 1<<20)
	})
	if r, got := big.response("POST"); r.StatusCode != 200 || got != "200000" {
		t.Errorf("%d %s", r.StatusCode, got)
	}
	big.Close()
	p.Close()
}

// serviceFaults are what TestAServiceThatBreaksTheProtocol finds counted.
var serviceFaults = map[string]codec.Reason{
	"DATA before the head": codec.LengthMismatch, "no :status": codec.MissingPseudo,
	":status 101": codec.BadStatus, "a field of the connection": codec.ConnectionField,
	"a name in upper case": codec.BadFieldName, "a line break in a value": codec.BadFieldValue,
	"less than was announced": codec.LengthMismatch, "two lengths": codec.BadContentLength,
	"transfer-encoding": codec.ConnectionField, "an interim head that ends": codec.EarlyEnd,
	"a push": codec.Pushed, "DATA on stream 0": codec.StreamZero, "an idle stream": codec.IdleStream,
	"a block that nobody can read": codec.BadBlock, "a window that overflows": codec.WindowOverflow,
	"a window update by 0": codec.ZeroIncrement, "a frame that is too large": codec.FrameTooLarge,
	"a bad setting": codec.BadSetting, "a head that is too long": codec.FrameTooLarge,
}

// What a service does wrong is its stream's or its connection's end: 502, and the next request is
// served.
func TestAServiceThatBreaksTheProtocol(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(a *h2Asked){
		"DATA before the head":      func(a *h2Asked) { a.data("x", true) },
		"no :status":                func(a *h2Asked) { a.headers(true, "x-a", "b") },
		":status 101":               func(a *h2Asked) { a.headers(true, ":status", "101") },
		"a field of the connection": func(a *h2Asked) { a.headers(true, ":status", "200", "connection", "close") },
		"a name in upper case":      func(a *h2Asked) { a.headers(true, ":status", "200", "X-A", "b") },
		"a line break in a value":   func(a *h2Asked) { a.headers(true, ":status", "200", "x-a", "b\r\nc: d") },
		"less than was announced":   func(a *h2Asked) { a.headers(true, ":status", "200", "content-length", "1") },
		"two lengths":               func(a *h2Asked) { a.headers(false, ":status", "200", "content-length", "1", "content-length", "1") },
		"transfer-encoding":         func(a *h2Asked) { a.headers(false, ":status", "200", "transfer-encoding", "chunked") },
		"an interim head that ends": func(a *h2Asked) { a.headers(true, ":status", "103") },
		"a push": func(a *h2Asked) {
			a.c.do(func(f *http2.Framer) {
				f.WritePushPromise(http2.PushPromiseParam{StreamID: a.id, PromiseID: 2, EndHeaders: true})
			})
		},
		"DATA on stream 0": func(a *h2Asked) {
			a.c.do(func(f *http2.Framer) { f.WriteRawFrame(http2.FrameData, 0, 0, []byte("x")) })
		},
		"an idle stream": func(a *h2Asked) { a.c.do(func(f *http2.Framer) { f.WriteRSTStream(a.id+100, 0) }) },
		"a block that nobody can read": func(a *h2Asked) {
			a.c.do(func(f *http2.Framer) {
				f.WriteRawFrame(http2.FrameHeaders, 5, a.id, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
			})
		},
		"a window that overflows": func(a *h2Asked) { a.c.do(func(f *http2.Framer) { f.WriteWindowUpdate(0, 1<<31-1) }) },
		"a window update by 0":    func(a *h2Asked) { a.c.do(func(f *http2.Framer) { f.WriteWindowUpdate(a.id, 0) }) },
		"a frame that is too large": func(a *h2Asked) {
			a.c.do(func(f *http2.Framer) { f.WriteRawFrame(http2.FrameData, 0, a.id, make([]byte, 1<<14+1)) })
		},
		"a bad setting": func(a *h2Asked) {
			a.c.do(func(f *http2.Framer) { f.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1}) })
		},
		"a head that is too long": func(a *h2Asked) { a.headers(true, ":status", "200", "x-a", strings.Repeat("a", 70_000)) },
		"a reset":                 func(a *h2Asked) { a.resetWith(http2.ErrCodeInternal) },
		"a close":                 func(a *h2Asked) { a.c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, s := serveH2C(t, ", retry: {attempts: 0}, health: {passive: {disabled: true}}", "", func(s *h2Service) {
				s.asked = func(a *h2Asked) {
					if a.path == "/bad" {
						answer(a)
						return
					}
					a.ok("ok")
				}
			})
			p := g.dial()
			p.send("POST /bad HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
			if r, got := p.response("POST"); r.StatusCode != 502 {
				t.Errorf("%d %s", r.StatusCode, got)
			}
			for why, n := range g.snapshot().UpstreamFaults2 { // counted before the client was answered
				want := uint64(0)
				if codec.Reason(why) == serviceFaults[name] && why > 0 {
					want = 1
				}
				if n != want {
					t.Errorf("%d faults are counted for %v, want %d", n, codec.Reason(why), want)
				}
			}
			p.send(get)
			if r, got := p.response("GET"); r.StatusCode != 200 || got != "ok" {
				t.Errorf("the next one: %d %s", r.StatusCode, got)
			}
			if n := s.requests(); n != 2 {
				t.Errorf("%d requests came, want 2", n)
			}
			p.Close()
		})
	}
}
