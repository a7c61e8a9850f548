package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/exchange"
)

func TestALongUploadIsNotASlowAnswer(t *testing.T) {
	t.Parallel()                                                               // it takes longer than the route's timeout
	const pieces, pause, timeout = 10, 300 * time.Millisecond, 2 * time.Second // 3 s in all
	s := newService(t, func(c *serviceConn, _ int) {
		c.head()
		io.CopyN(io.Discard, c.R, pieces)
		io.WriteString(c, okResponse)
	})
	g := serve(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["%s"]}}
routes: [{match: /, upstream: s, timeout: %s}]
`, s.address(), timeout))
	onceInFive(t, "an upload that takes longer is answered", func() bool {
		p := g.dial()
		defer p.Close()
		p.send(fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", pieces))
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for range pieces {
			<-tick.C
			io.WriteString(p, "x")
		}
		return p.answered() == "200 ok"
	})
}

// answered is the status and the body of the answer to an upload, or why there is none. On a
// machine that stops for seconds the client may have been too slow.
func (p *peer) answered() string {
	p.t.Helper()
	r, err := http.ReadResponse(p.r, nil)
	if err != nil {
		return err.Error()
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err.Error()
	}
	got := fmt.Sprint(r.StatusCode, " ", string(body))
	p.t.Logf("got %q", got)
	return got
}

func TestAServiceThatStopsReadingAnUploadIs504(t *testing.T) {
	t.Parallel() // its timeout is longer than a busy machine keeps the client from sending
	release := make(chan struct{})
	defer close(release)
	s := newService(t, func(c *serviceConn, _ int) {
		c.head()
		<-release
	})
	g := serve(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes: [{match: /, upstream: s, timeout: 2s, hold_body: 0B}]
`)
	body := strings.Repeat("x", 100_000_000)
	onceInFive(t, "the service is blamed", func() bool {
		p := g.dial()
		defer p.Close()
		p.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
		go io.Copy(p, strings.NewReader(body))
		got := p.answered()
		return strings.HasPrefix(got, "504 ") && strings.Contains(got, "upstream_timeout")
	})
}

// readingSlowly reads a request's body in portions, one each tick, from a socket whose kernel takes
// little in advance, and then answers.
func readingSlowly(body, portion int, tick time.Duration) script {
	return func(c *serviceConn, _ int) {
		c.Conn.(*net.TCPConn).SetReadBuffer(16 << 10)
		c.head()
		clock := time.NewTicker(tick)
		defer clock.Stop()
		for left := body; left > 0; left -= portion {
			<-clock.C
			if _, err := io.CopyN(io.Discard, c.R, int64(min(portion, left))); err != nil {
				return
			}
		}
		io.WriteString(c, okResponse)
	}
}

func TestAnUploadToAServiceThatReadsSlowlyIsNotASlowAnswer(t *testing.T) {
	t.Parallel() // it takes several times the route's timeout
	const timeout = 2 * time.Second
	for name, c := range map[string]struct{ body, portion int }{
		"that is streamed":         {3 << 20, 60 << 10},  // 5 s in all
		"that the kernel can hold": {400 << 10, 8 << 10}, // as long
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, readingSlowly(c.body, c.portion, 100*time.Millisecond))
			g := serve(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["%s"]}}
routes: [{match: /, upstream: s, timeout: %s}]
`, s.address(), timeout))
			onceInFive(t, "the upload is answered", func() bool {
				p := g.dial()
				defer p.Close()
				p.send(fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", c.body))
				go io.Copy(p, strings.NewReader(strings.Repeat("x", c.body)))
				return p.answered() == "200 ok"
			})
		})
	}
}

func TestAServiceThatHasAnUploadAndDoesNotAnswerIs504InTime(t *testing.T) {
	t.Parallel() // its timeout is longer than a busy machine keeps the upload from the service
	s := newService(t, func(c *serviceConn, _ int) { c.drain() })
	g := serve(t, `
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes: [{match: /, upstream: s, timeout: 4s}]
`)
	upload, later := g.dial(), g.dial()
	upload.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
	eventually(t, "the service to have the upload", func() bool { return strings.HasSuffix(s.saw(), "abc") })
	later.send(get)
	later.expectFailure(504, "upstream_timeout")
	if n := g.reasons(exchange.UpstreamTimeout); n != 2 {
		t.Error("an upload that the service had at once waits longer for its answer than a later request without a body")
	}
	upload.expectFailure(504, "upstream_timeout")
}
