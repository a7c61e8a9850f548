package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// mirrored is a gateway with a service and a second one that gets copies.
func mirrored(t *testing.T, mirror, more string) (*instance, *service) {
	t.Helper()
	return mirroredFor(t, "1m", mirror, more)
}

// mirroredFor is mirrored with a timeout of requests, and so of copies.
func mirroredFor(t *testing.T, timeout, mirror, more string) (*instance, *service) {
	t.Helper()
	s := newService(t, replying(echo))
	return serveClean(t, streamed(`
listeners: [{address: "127.0.0.1:0"}]
upstreams:
  s: {targets: ["`+s.address()+`"]}
  m: {targets: ["`+mirror+`"]`+more+`}
routes: [{match: "/{name...}", upstream: s, mirror: {upstream: m, max_body: 4KB}, timeout: `+timeout+`, stream_timeout: 50ms}]
`)), s
}

func TestAMirrorGetsEachRequestWhole(t *testing.T) {
	got := make(chan string, 8)
	m := newService(t, replying(func(r *http.Request, body string) string {
		got <- r.Method + " " + r.RequestURI + " " + body + " " + r.Trailer.Get("X")
		return okResponse
	}))
	g, s := mirrored(t, m.address(), "")
	p := g.dial()
	for _, c := range []struct{ first, rest, want string }{
		{"GET /a?b HTTP/1.1\r\nHost: a\r\n\r\n", "", "GET /a?b  "},
		{"POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n", "abcdef", "POST /b abcdef "},
		{"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "3;e\r\ndef\r\n0\r\n\r\n", "POST /c abcdef "},
		{"HEAD /d HTTP/1.1\r\nHost: a\r\n\r\n", "", "HEAD /d  "},
	} {
		before := strings.Count(s.saw(), "HTTP/1.1")
		p.send(c.first)
		if c.rest != "" {
			eventually(t, "the head at the service", func() bool { return strings.Count(s.saw(), "HTTP/1.1") > before })
			p.send(c.rest)
		}
		method, _, _ := strings.Cut(c.first, " ")
		if r, _ := p.response(method); r.StatusCode != 200 {
			t.Fatalf("got %d", r.StatusCode)
		}
		if copied := <-got; copied != c.want {
			t.Errorf("the mirror got %q, want %q", copied, c.want)
		}
	}
	if n := g.snapshot().MirrorsSent; n != 4 {
		t.Errorf("%d copies are counted, want 4", n)
	}
}

func TestAMirrorHurtsNobody(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	body := strings.Repeat("x", 300<<10)
	for name, answer := range map[string]script{
		"that closes":          func(c *serviceConn, _ int) { c.head() },
		"that answers garbage": answering("garbage\r\n\r\n"),
		"that never answers":   func(c *serviceConn, _ int) { c.drain() },
		"with a large answer":  answering(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)),
		"with a large chunked answer": answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n4b000\r\n" + body + "\r\n0\r\n\r\n"),
		"whose answer ends with it":        closing("HTTP/1.1 200 OK\r\n\r\n" + body),
		"whose answer breaks off":          closing("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"),
		"whose answer is silent":           answering("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"),
		"that switches protocols":          answering(switched),
		"that answers 103 first":           answering("HTTP/1.1 103 Early Hints\r\n\r\n" + okResponse),
		"that says more than was asked":    answering(okResponse + okResponse),
		"that answers before it has heard": func(c *serviceConn, _ int) { c.write(okResponse); c.drain() },
	} {
		t.Run(name, func(t *testing.T) {
			m := newService(t, answer)
			g, s := mirroredFor(t, "5s", m.address(), "")
			for range 3 {
				p := g.dial()
				for range 3 {
					p.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx" + get)
					for _, method := range []string{"POST", "GET"} {
						if r, body := p.response(method); r.StatusCode != 200 || !strings.HasPrefix(body, method) {
							t.Fatalf("got %d %q", r.StatusCode, body)
						}
					}
				}
				p.Close()
			}
			if n := strings.Count(s.saw(), "HTTP/1.1"); n != 18 {
				t.Errorf("the service saw %d requests, want 18", n)
			}
		})
	}
	for name, more := range map[string]string{
		"that is down":                   "",
		"that is chosen by a path value": ", balance: {hash: \"path:name\"}",
		"that is chosen by a header":     ", balance: {hash: \"header:X\"}",
	} {
		t.Run(name, func(t *testing.T) {
			g, _ := mirrored(t, refusing(t), more)
			p := g.dial()
			for range 3 {
				if status, body := p.request("GET", "/a"); status != 200 {
					t.Fatalf("got %d %q", status, body)
				}
			}
		})
	}
}

func TestAMirrorOutlivesAReload(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	arrived := make(chan string, 4)
	m := newService(t, func(c *serviceConn, _ int) {
		arrived <- c.head()
		c.drain()
	})
	g, _ := mirroredFor(t, "5s", m.address(), "")
	p := g.dial()
	p.request("GET", "/")
	<-arrived
	other := newService(t, answering(okResponse))
	if err := g.reload(oneUpstream(other.address())); err != nil {
		t.Fatal(err)
	}
	if status, body := p.request("GET", "/"); status != 200 || body != "ok" {
		t.Errorf("got %d %q", status, body)
	}
}

func TestWhatIsTooLongForAMirrorIsCountedAndGoesOn(t *testing.T) {
	m := untouched(t)
	g, _ := mirrored(t, m.address(), "")
	p := g.dial()
	body := strings.Repeat("y", 5000)
	for _, framing := range []string{fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body),
		fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)} {
		p.send("POST / HTTP/1.1\r\nHost: a\r\n" + framing)
		if r, got := p.response("POST"); r.StatusCode != 200 || got != "POST "+body {
			t.Fatalf("got %d and %d bytes", r.StatusCode, len(got))
		}
	}
	if n := g.snapshot().MirrorsTooLong; n < 1 {
		t.Errorf("%d copies are counted as too long", n)
	}
	m.expectUntouched()
}

func TestAClientThatLeavesInTheMiddleOfAMirroredBody(t *testing.T) {
	m := untouched(t)
	g, s := mirrored(t, m.address(), "")
	p := g.dial()
	p.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
	eventually(t, "the head at the service", func() bool { return strings.Contains(s.saw(), "abc") })
	p.Close()
	g.settled()
	m.expectUntouched()
}

// Each copy holds a large buffer while it waits for the rest of its body, so slow uploads must not
// make any number of them.
func TestCopiesThatAreBeingMadeAreBounded(t *testing.T) {
	const bound = 256
	arrived := make(chan string, 1)
	m := newService(t, func(c *serviceConn, _ int) {
		arrived <- c.head()
		c.drain()
	})
	s := newService(t, replying(echo))
	g := serve(t, `
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}, m: {targets: ["`+m.address()+`"]}}
routes: [{match: /, upstream: s, hold_body: 0B, timeout: 10m, mirror: {upstream: m}}]
`)
	var slow []*peer
	for range bound + 3 {
		p := g.dial()
		p.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
		slow = append(slow, p)
	}
	eventually(t, "the copies too many are counted", func() bool { return g.snapshot().MirrorsDropped == 3 })
	for _, p := range slow {
		p.Close()
	}
	g.settled()
	g.dial().request("GET", "/")
	<-arrived
	if n := g.snapshot().MirrorsDropped; n != 3 {
		t.Errorf("%d copies are counted as dropped, want 3", n)
	}
}
