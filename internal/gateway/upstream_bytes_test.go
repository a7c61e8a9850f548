package gateway

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
)

// noRetry is oneUpstream without retries, so that what an upstream does wrong shows at once.
func noRetry(address string) string {
	return `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["` + address + `"], retry: {attempts: 0}}}
routes: [{match: /, upstream: s}]
`
}

func TestAMalformedResponseIs502AndItsConnectionEnds(t *testing.T) {
	t.Parallel()
	for name, response := range map[string]string{
		"no HTTP":                   "SSH-2.0-OpenSSH_9.2\r\n\r\n",
		"HTTP/2":                    "HTTP/2 200 OK\r\n\r\n",
		"no status":                 "HTTP/1.1 OK\r\n\r\n",
		"a status of two digits":    "HTTP/1.1 20 OK\r\n\r\n",
		"a status over 599":         "HTTP/1.1 600 X\r\nContent-Length: 0\r\n\r\n",
		"a bare LF":                 "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
		"a bare LF behind a field":  "HTTP/1.1 200 OK\r\nA: b\nContent-Length: 0\r\n\r\n",
		"a bare CR":                 "HTTP/1.1 200 OK\r\nA: b\rC: d\r\nContent-Length: 0\r\n\r\n",
		"obs-fold":                  "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
		"a space before a colon":    "HTTP/1.1 200 OK\r\nA : b\r\nContent-Length: 0\r\n\r\n",
		"an empty field name":       "HTTP/1.1 200 OK\r\n: b\r\nContent-Length: 0\r\n\r\n",
		"NUL in a value":            "HTTP/1.1 200 OK\r\nA: \x00\r\nContent-Length: 0\r\n\r\n",
		"two lengths":               "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"a list of lengths":         "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nab",
		"a negative length":         "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"a length with a coding":    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"an unknown coding":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"chunks from HTTP/1.0":      "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"101 that nobody asked for": "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
		"an interim one with a length": "HTTP/1.1 103 Early Hints\r\nContent-Length: " +
			"1\r\n\r\nxHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"a bad chunk behind the head": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"a head that is too large":    "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 100) + "\r\n",
		"too many fields":             "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 1000) + "\r\n",
		"a line without end":          "HTTP/1.1 200 " + strings.Repeat("x", 100<<10),
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{}, 8)
			s := newService(t, func(c *serviceConn, _ int) {
				c.head()
				c.write(response)
				c.drain()
				ended <- struct{}{}
			})
			g := serveClean(t, noRetry(s.address()))
			p := g.dial()
			for range 2 { // the client's connection goes on
				p.send(get)
				p.expectFailure(502, "upstream_bad")
				<-ended
			}
			if n := s.connections(); n != 2 {
				t.Errorf("the upstream was opened %d connections for two requests, want a fresh one for each", n)
			}
			if n := g.reasons(exchange.UpstreamBad); n != 2 {
				t.Errorf("%d exchanges are counted as ended by a malformed response, want 2", n)
			}
			if n := g.target("s", s.address()).ConsecutiveFailures; n != 2 {
				t.Errorf("%d failures are counted against the target, want 2", n)
			}
		})
	}
}

func TestAResponseThatBreaksOffBeforeItsHeadIsWholeIs502(t *testing.T) {
	const response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
	s := newService(t, func(c *serviceConn, n int) {
		c.head()
		c.write(response[:n-1])
	})
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"], retry: {attempts: 0}, health: {passive: {disabled: true}}}}
routes: [{match: /, upstream: s}]
`)
	p := g.dial()
	for range len(response) {
		p.send(get)
		p.expectFailure(502, "upstream_reset")
	}
}

func TestABodyThatBreaksOffNeverLooksWhole(t *testing.T) {
	for name, rest := range map[string]string{
		"with a length": "Content-Length: 6\r\n\r\nabcdef",
		"in chunks":     "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3;e\r\ndef\r\n0\r\nX: y\r\n\r\n",
	} {
		for _, end := range []string{"closed", "reset"} {
			for _, version := range []string{"1.1", "1.0"} {
				t.Run(name+", "+end+", to HTTP "+version, func(t *testing.T) {
					testCutBodies(t, "HTTP/1.1 200 OK\r\n"+rest, end == "reset", version)
				})
			}
		}
	}
}

// testCutBodies has an upstream send each beginning of a response that holds its whole head, and
// end.
func testCutBodies(t *testing.T, response string, reset bool, version string) {
	head := strings.Index(response, "\r\n\r\n") + 4
	known := make(chan struct{})
	s := newService(t, func(c *serviceConn, n int) {
		c.head()
		c.write(response[:head+n-1])
		<-known // the client has the head, so this is not a 502
		if reset {
			c.Conn.(*net.TCPConn).SetLinger(0)
		}
	})
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"], retry: {attempts: 0}, health: {passive: {disabled: true}}}}
routes: [{match: /, upstream: s}]
`)
	for range len(response) - head {
		p := g.dial()
		p.send("GET / HTTP/" + version + "\r\nHost: a\r\n\r\n")
		p.expect("HTTP/1.1 200 OK\r\n")
		known <- struct{}{}
		if got := p.expectCut(); strings.HasSuffix(got, "0\r\n\r\n") ||
			strings.Contains(got, "Length: 6") && strings.HasSuffix(got, "abcdef") {
			t.Fatalf("the client got %q, which passes for a whole response", got)
		}
		p.Close()
	}
	if n, want := g.reasons(exchange.UpstreamCut), uint64(len(response)-head); n != want {
		t.Errorf("%d exchanges are counted as cut, want %d", n, want)
	}
}

func TestABodyWithABadChunkBehindItsHeadIsCut(t *testing.T) {
	known := make(chan struct{})
	s := newService(t, func(c *serviceConn, _ int) {
		c.head()
		c.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
		<-known
		c.write("-1\r\n")
		c.drain()
	})
	g := serveClean(t, oneUpstream(s.address()))
	p := g.dial()
	p.send(get)
	p.expect("HTTP/1.1 200 OK\r\n")
	close(known)
	p.expectCut()
	if n := g.reasons(exchange.UpstreamBad); n != 1 {
		t.Errorf("%d exchanges are counted as ended by a malformed response, want 1", n)
	}
}

func TestAnIdleConnectionThatSaysSomethingIsNotUsedAgain(t *testing.T) {
	for name, unasked := range map[string]string{
		"in one piece with the response": okResponse + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
		"as a longer body":               okResponse + "!",
		"behind a response to HEAD":      "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
		"behind 304":                     "HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nevil",
		"behind 204":                     "HTTP/1.1 204 No Content\r\n\r\nevil",
		"behind the last chunk":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nevil",
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, answering(unasked))
			g := serveClean(t, oneUpstream(s.address()))
			p := g.dial()
			method := "GET"
			if strings.Contains(name, "HEAD") {
				method = "HEAD"
			}
			for range 3 {
				p.send(method + " / HTTP/1.1\r\nHost: a\r\n\r\n")
				if r, body := p.response(method); strings.Contains(body, "evil") || r.StatusCode >= 400 {
					t.Fatalf("got %d %q", r.StatusCode, body)
				}
			}
			if n := s.connections(); n != 3 {
				t.Errorf("the upstream was opened %d connections for three requests, want 3", n)
			}
		})
	}
	t.Run("later", func(t *testing.T) {
		say := make(chan struct{})
		s := newService(t, func(c *serviceConn, n int) {
			c.head()
			c.write(okResponse)
			if n == 1 {
				<-say
				c.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
			}
			c.drain()
		})
		g := serveClean(t, oneUpstream(s.address()))
		p := g.dial()
		p.request("GET", "/")
		close(say)
		eventually(t, "the connection to be dropped", func() bool { return g.target("s", s.address()).Connections == 0 })
		if status, body := p.request("GET", "/"); status != 200 || body != "ok" {
			t.Errorf("got %d %q", status, body)
		}
	})
}

func TestTheKeepAliveRaceIsInvisibleToARequestThatMayBeRepeated(t *testing.T) {
	s := newService(t, func(c *serviceConn, _ int) {
		if c.head() != "" {
			c.write(okResponse)
			c.head() // the next request is read, and the connection closed without an answer
		}
	})
	g := serveClean(t, noRetry(s.address()))
	p := g.dial()
	for i := range 5 {
		if status, body := p.request("GET", fmt.Sprint("/", i)); status != 200 || body != "ok" {
			t.Fatalf("request %d got %d %q", i, status, body)
		}
	}
	if n := g.target("s", s.address()).ConsecutiveFailures; n != 0 {
		t.Errorf("the keep-alive race counts %d failures of the target", n)
	}
}

func TestARequestThatMayNotBeRepeatedIsNeverSentTwice(t *testing.T) {
	s := newService(t, func(c *serviceConn, _ int) {
		if _, _, ok := c.request(); ok {
			c.write(okResponse)
			c.request()
		}
	})
	g := serveClean(t, oneUpstream(s.address()))
	p := g.dial()
	const body = "Content-Length: 4\r\n\r\nonce"
	p.request("GET", "/first")
	p.send("POST /a HTTP/1.1\r\nHost: a\r\n" + body)
	p.expectFailure(502, "upstream_reset")
	if n := strings.Count(s.saw(), "POST /a "); n != 1 {
		t.Errorf("the upstream saw the POST %d times", n)
	}
}

func TestAPOSTFindsANewConnectionWhenTheIdleOneHasEnded(t *testing.T) {
	s := newService(t, func(c *serviceConn, _ int) {
		if _, _, ok := c.request(); ok {
			c.write(okResponse)
		}
	})
	g := serveClean(t, noRetry(s.address()))
	p := g.dial()
	for i := range 20 {
		p.send(fmt.Sprintf("POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nonce", i))
		if r, text := p.response("POST"); r.StatusCode == 502 {
			if n := strings.Count(s.saw(), fmt.Sprintf("POST /%d ", i)); n > 1 {
				t.Fatalf("request %d got %q and was sent %d times", i, text, n)
			}
		} else if r.StatusCode != 200 {
			t.Fatalf("request %d got %d %q", i, r.StatusCode, text)
		}
		eventually(t, "the end of the idle connection", func() bool { return g.target("s", s.address()).Connections == 0 })
	}
}

func TestABodyIsSentAgainOnlyWhileItIsHeld(t *testing.T) {
	t.Run("one that came with its head is", func(t *testing.T) {
		s := newService(t, func(c *serviceConn, n int) {
			if _, _, ok := c.request(); ok && n > 1 {
				c.write(okResponse)
			}
		})
		g := serveClean(t, oneUpstream(s.address()))
		p := g.dial()
		p.send("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
		if r, body := p.response("PUT"); r.StatusCode != 200 {
			t.Fatalf("got %d %q", r.StatusCode, body)
		}
		want := "PUT / HTTP/1.1\r\nHost: a\r\n" + forwardedFields + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
		if s.saw() != want+want {
			t.Errorf("the upstream saw %q, want twice %q", s.saw(), want)
		}
	})
	t.Run("one that was streamed is not", func(t *testing.T) {
		heads := make(chan string, 8)
		s := newService(t, func(c *serviceConn, _ int) {
			heads <- c.head()
			c.R.ReadByte()
		})
		g := serveClean(t, streamed(oneUpstream(s.address())))
		p := g.dial()
		p.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n")
		<-heads
		p.send("abc")
		p.expectFailure(502, "upstream_reset")
		if n := strings.Count(s.saw(), "PUT"); n != 1 {
			t.Errorf("the upstream saw %d requests, want 1", n)
		}
	})
}

func TestAnUpstreamThatSaysCloseIsNotUsedAgain(t *testing.T) {
	s := newService(t, replying(func(*http.Request, string) string {
		return "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
	}))
	g := serveClean(t, oneUpstream(s.address()))
	p := g.dial()
	for range 3 {
		if status, _ := p.request("GET", "/"); status != 200 {
			t.Fatalf("got %d", status)
		}
	}
	if n := s.connections(); n != 3 {
		t.Errorf("the upstream was opened %d connections, want 3", n)
	}
}

// heldBack is a connection whose writes after the first wait until they are let go, and then go out
// in one.
type heldBack struct {
	net.Conn
	first bool
	held  []byte
}

func (l *heldBack) Write(p []byte) (int, error) {
	if !l.first {
		l.first = true
		return l.Conn.Write(p)
	}
	l.held = append(l.held, p...)
	return len(p), nil
}

func (l *heldBack) let() {
	l.Conn.Write(l.held)
	l.held = nil
}

// What comes with the handshake's last bytes is read while the request is still in the loop's
// batch: it is not an answer.
func TestHazardAResponseBeforeItsRequestDesyncsNothing(t *testing.T) {
	cfg := &tls.Config{Certificates: []tls.Certificate{throwawayCertificate(t)}, MaxVersion: tls.VersionTLS12}
	s := newService(t, func(c *serviceConn, n int) {
		slow := &heldBack{Conn: c.Conn}
		secure := tls.Server(slow, cfg)
		if secure.Handshake() != nil {
			return
		}
		if n == 1 {
			io.WriteString(secure, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly")
		}
		slow.let()
		for in := bufio.NewReader(secure); ; slow.let() {
			if _, err := http.ReadRequest(in); err != nil {
				return
			}
			fmt.Fprintf(secure, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d", n)
		}
	})
	g := serveClean(t, "loops: 1"+strings.Replace(oneUpstream(s.address()), `"]}`, `"], tls: {insecure_skip_verify: true}}`, 1))
	p := g.dial()
	// The second follows in the very turn, before an answer to the first can have come.
	p.send(get + get)
	for range 2 {
		if r, body := p.response("GET"); r.StatusCode != 200 || body != "2" {
			t.Errorf("got %d %q, want the answer of a second connection", r.StatusCode, body)
		}
	}
}

func TestWhatAnIdleConnectionSaysIsNotAnAnswerToTheNextRequest(t *testing.T) {
	speak, spoken := make(chan struct{}), make(chan struct{})
	s := newService(t, func(c *serviceConn, n int) {
		if n > 1 {
			answering(okResponse)(c, n)
			return
		}
		c.head()
		io.WriteString(c, okResponse)
		<-speak
		io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
		close(spoken)
		c.head()
	})
	g := serve(t, "loops: 1\n"+oneUpstream(s.address()))
	p := g.dial()
	p.send(plainGet)
	p.response("GET")
	// While the loop is held, first the request comes, then what nobody asked for: the loop meets
	// both in one turn.
	held, release := make(chan struct{}), make(chan struct{})
	g.loops[0].Post(func() {
		close(held)
		<-release
	})
	<-held
	p.send(plainGet)
	close(speak)
	<-spoken
	close(release)
	if r, body := p.response("GET"); r.StatusCode != 200 || body != "ok" {
		t.Errorf("got %d %q, want the answer of a fresh connection", r.StatusCode, body)
	}
}
