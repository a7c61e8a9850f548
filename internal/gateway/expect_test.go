package gateway

import (
	"io"
	"strings"
	"testing"
)

const (
	expectHead = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-Continue\r\n\r\n"
	sawExpect  = "POST / HTTP/1.1\r\nHost: a\r\n" + forwardedFields +
		"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n"
	sawPlain = "POST / HTTP/1.1\r\nHost: a\r\n" + forwardedFields + "Content-Length: 3\r\n\r\n"
	goAhead  = "HTTP/1.1 100 Continue\r\n\r\n"
	created  = "HTTP/1.1 201 Created\r\nDate: d\r\nContent-Length: 0\r\n\r\n"
)

// body reads three bytes, as expectHead announces them.
func (c *serviceConn) body() bool {
	_, err := io.ReadFull(c.R, make([]byte, 3))
	return err == nil
}

// deciding is a service that reads a request's head, says first, reads the body, and answers.
func deciding(t *testing.T, first string) *service {
	return newService(t, func(c *serviceConn, _ int) {
		for c.head() != "" && c.write(first) && c.body() && c.write(created) {
		}
	})
}

func TestTheUpstreamDecidesWhetherTheBodyComes(t *testing.T) {
	t.Run("it asks for it", func(t *testing.T) {
		s := deciding(t, goAhead)
		p := serveClean(t, streamed(oneUpstream(s.address()))).dial()
		for range 2 {
			p.send(expectHead)
			p.expect(goAhead)
			p.send("abc")
			p.expect(created)
		}
		if want := strings.Repeat(sawExpect+"abc", 2); s.saw() != want {
			t.Errorf("the upstream saw\n%q\nwant\n%q", s.saw(), want)
		}
	})
	t.Run("in chunks", func(t *testing.T) {
		s := newService(t, func(c *serviceConn, _ int) {
			c.head()
			c.write(goAhead)
			c.R.ReadString('z')
			c.write(created)
			c.drain()
		})
		p := serveClean(t, streamed(oneUpstream(s.address()))).dial()
		p.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
		p.expect(goAhead)
		p.send("3\r\nxyz\r\n0\r\n\r\n")
		p.expect(created)
	})
	t.Run("behind other interim responses, and says so twice", func(t *testing.T) {
		const hints = "HTTP/1.1 103 Early Hints\r\nLink: </s>\r\n\r\n"
		s := deciding(t, hints+"HTTP/1.1 100 Continue\r\nConnection: X\r\nX: y\r\nZ: 1\r\n\r\n"+goAhead)
		p := serveClean(t, streamed(oneUpstream(s.address()))).dial()
		p.send(expectHead)
		p.expect(hints + "HTTP/1.1 100 Continue\r\nZ: 1\r\n\r\n")
		p.send("abc")
		p.expect(created)
	})
	for _, status := range []string{"417 Expectation Failed", "403 Forbidden", "200 OK"} {
		t.Run("it answers "+status, func(t *testing.T) {
			s := newService(t, func(c *serviceConn, _ int) {
				c.head()
				c.write("HTTP/1.1 " + status + "\r\nDate: d\r\nContent-Length: 2\r\n\r\nno")
				c.drain()
			})
			g := serveClean(t, streamed(oneUpstream(s.address())))
			want := ""
			onceInFive(t, "the answer comes before the gateway asks for the body itself", func() bool {
				want += sawExpect
				p := g.dial()
				defer p.Close()
				p.send(expectHead)
				if line, _ := p.r.Peek(len(goAhead)); string(line) == goAhead {
					return false
				}
				p.expect("HTTP/1.1 " + status + "\r\nDate: d\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
				p.expectEnd() // what follows is the body or the next request, and nobody can tell which
				return true
			})
			if s.saw() != want {
				t.Errorf("the upstream saw %q, want %q", s.saw(), want)
			}
		})
	}
	t.Run("it answers, and the client sends its body all the same", func(t *testing.T) {
		more := make(chan struct{})
		s := newService(t, func(c *serviceConn, _ int) {
			c.head()
			c.write("HTTP/1.1 403 Forbidden\r\nDate: d\r\nContent-Length: 2\r\n\r\nn")
			<-more
			c.body()
			c.write("o")
			c.drain()
		})
		p := serveClean(t, streamed(oneUpstream(s.address()))).dial()
		p.send(expectHead)
		p.expect("HTTP/1.1 403 Forbidden\r\nDate: d\r\nContent-Length: 2\r\nConnection: close\r\n\r\nn")
		p.send("abc")
		close(more)
		p.expect("o")
		p.expectEnd()
	})
}

// An upstream that does not know Expect waits for the body, as the client does. With a short
// timeout the client is asked in time for its body to come, and the timeout still holds.
func TestAShortTimeoutLeavesTimeForTheBodyAndHolds(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	s := newService(t, func(c *serviceConn, _ int) { c.drain() })
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes: [{match: /, upstream: s, timeout: 900ms, hold_body: 0B}]
`)
	onceInFive(t, "the client is asked for its body in half of the route's timeout", func() bool {
		p := g.dial()
		defer p.Close()
		p.send(expectHead)
		first := p.status("POST")
		if first == 100 {
			p.expectFailureEnd(408, "body_timeout")
		}
		return first == 100
	})
}

// A body that is held is the gateway's to ask for, because no upstream has been picked yet. One
// that is too long to be held whole is not held at all: the upstream decides.
func TestWhoAsksForABodyDependsOnWhetherItIsHeld(t *testing.T) {
	for length, asked := range map[string]bool{"3": false, "65537": true} {
		s := newService(t, func(c *serviceConn, _ int) {
			if strings.Contains(c.head(), "Expect: 100-continue") != asked {
				t.Errorf("with %s bytes the upstream is asked: want %v", length, asked)
			}
			c.write("HTTP/1.1 403 Forbidden\r\nDate: d\r\nContent-Length: 0\r\n\r\n")
			c.drain()
		})
		p := serveClean(t, oneUpstream(s.address())).dial()
		p.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + length + "\r\nExpect: 100-continue\r\n\r\n")
		if !asked {
			p.expect("HTTP/1.1 100 Continue\r\n\r\n")
			p.send("abc")
		}
		p.expect("HTTP/1.1 403 Forbidden\r\n")
	}
}

// A client that does not wait for it sends some of its body with the head, and the rest is held.
// The upstream gets all of it with the head then, and has nothing to decide.
func TestAnUpstreamThatGetsAHeldBodyIsNotAskedForIt(t *testing.T) {
	for name, body := range map[string][2]string{
		"length": {"Content-Length: 6\r\n\r\nabc", "def"},
		"chunks": {"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "0\r\n\r\n"},
		"none":   {"Transfer-Encoding: chunked\r\n\r\n", "0\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, replying(echo))
			g := serveClean(t, oneUpstream(s.address()))
			p := g.dial()
			p.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n" + body[0])
			eventually(t, "the beginning to be received", func() bool { return g.snapshot().Active == 1 })
			p.send(body[1])
			if name == "none" {
				p.expect(goAhead)
			}
			p.expect("HTTP/1.1 200 ")
			if strings.Contains(s.saw(), "Expect") {
				t.Errorf("the upstream saw %q", s.saw())
			}
			p.Close()
		})
	}
}

// The route's timeout may be shorter than the time that an upstream has to decide.
func TestASilentUpstreamGetsTheBodyWithinAShortTimeout(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	s := newService(t, func(c *serviceConn, _ int) {
		for c.head() != "" && c.body() && c.write(created) {
		}
	})
	g := serveClean(t, strings.Replace(streamed(oneUpstream(s.address())), "upstream: s", "upstream: s, timeout: 900ms", 1))
	onceInFive(t, "the upload is answered within the route's timeout", func() bool {
		p := g.dial()
		defer p.Close()
		p.send(expectHead)
		if p.status("POST") != 100 {
			return false
		}
		p.send("abc")
		return p.status("POST") == 201
	})
}

func TestASilentUpstreamGetsTheBodyAfterAWhile(t *testing.T) {
	s := newService(t, func(c *serviceConn, _ int) {
		for c.head() != "" && c.body() && c.write(goAhead+created) { // a 100 that comes late is swallowed
		}
	})
	p := serveClean(t, streamed(oneUpstream(s.address()))).dial()
	p.send(expectHead)
	p.expect(goAhead)
	p.send("abc")
	p.expect(created)
	if want := sawExpect + "abc"; s.saw() != want {
		t.Errorf("the upstream saw %q, want %q", s.saw(), want)
	}
}

func TestAClientThatDoesNotWaitIsNotToldToGoOn(t *testing.T) {
	t.Run("with its body behind the head", func(t *testing.T) {
		s := deciding(t, "")
		p := serveClean(t, streamed(oneUpstream(s.address()))).dial()
		p.send(expectHead + "abc")
		p.expect(created)
		if want := sawPlain + "abc"; s.saw() != want {
			t.Errorf("the upstream saw %q, want %q", s.saw(), want)
		}
	})
	t.Run("with its body later", func(t *testing.T) {
		s := newService(t, func(c *serviceConn, _ int) {
			for c.head() != "" && c.body() && c.write(goAhead+created) {
			}
		})
		p := serveClean(t, streamed(oneUpstream(s.address()))).dial()
		for n := range 2 {
			p.send(expectHead)
			there := func() bool { return strings.Count(s.saw(), sawExpect) > n }
			eventually(t, "the head at the upstream", there)
			p.send("abc")
			p.expect(created)
		}
	})
	t.Run("of HTTP/1.0", func(t *testing.T) {
		s := deciding(t, goAhead)
		p := serveClean(t, streamed(oneUpstream(s.address()))).dial()
		p.send(strings.Replace(expectHead, "HTTP/1.1", "HTTP/1.0", 1))
		eventually(t, "the head at the upstream", func() bool { return s.saw() == sawPlain })
		p.send("abc")
		if r, _ := p.response("POST"); r.StatusCode != 201 {
			t.Errorf("got %d, want 201", r.StatusCode)
		}
	})
}

func TestNoContinueWhereNoUpstreamWillReadTheBody(t *testing.T) {
	t.Run("none is there", func(t *testing.T) {
		p := serveClean(t, streamed(oneUpstream(refusing(t)))).dial()
		p.send(expectHead)
		p.expectFailureEnd(502, "connect_failed")
	})
	t.Run("the gateway refuses", func(t *testing.T) {
		p := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
routes: [{match: /, respond: {status: 403, body: no}}]
`).dial()
		p.send(expectHead)
		if r, body := p.response("POST"); r.StatusCode != 403 || body != "no" || !r.Close {
			t.Errorf("got %d %q, close %v", r.StatusCode, body, r.Close)
		}
		p.expectEnd()
	})
	t.Run("the upstream goes away", func(t *testing.T) {
		s := newService(t, func(c *serviceConn, _ int) { c.head() })
		p := serveClean(t, streamed(oneUpstream(s.address()))).dial()
		p.send(expectHead)
		p.expectFailureEnd(502, "upstream_reset")
	})
}

func TestAFurtherTryAsksAgainUntilTheClientWasToldToGoOn(t *testing.T) {
	put := strings.Replace(expectHead, "POST", "PUT", 1)
	first := strings.Replace(sawExpect, "POST", "PUT", 1)
	second := strings.Replace(sawPlain, "POST", "PUT", 1)
	for name, c := range map[string]struct {
		// What the first try says before it breaks off, and what the upstream sees in all.
		before, saw string
	}{
		"told by the second": {"", first + first + "abc"},
		"told by the first":  {goAhead, first + second + "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, func(sc *serviceConn, n int) {
				switch head := sc.head(); {
				case n == 1:
					sc.write(c.before)
				case !strings.Contains(head, "Expect") || sc.write(goAhead):
					if sc.body() {
						sc.write(created)
					}
				}
			})
			p := serveClean(t, streamed(oneUpstream(s.address()))).dial()
			p.send(put)
			p.expect(goAhead)
			eventually(t, "the second try", func() bool { return s.connections() == 2 })
			p.send("abc")
			p.expect(created)
			if s.saw() != c.saw {
				t.Errorf("the upstreams saw\n%q\nwant\n%q", s.saw(), c.saw)
			}
		})
	}
}

func TestACopyCarriesNoExpect(t *testing.T) {
	s, copies := deciding(t, goAhead), deciding(t, "")
	p := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}, m: {targets: ["`+copies.address()+`"]}}
routes: [{match: /, upstream: s, mirror: {upstream: m}}]
`).dial()
	p.send(expectHead)
	p.expect(goAhead)
	p.send("abc")
	p.expect(created)
	eventually(t, "the copy", func() bool { return copies.saw() == sawPlain+"abc" })
}
