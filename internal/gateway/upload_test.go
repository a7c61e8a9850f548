package gateway

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func TestALongUploadIsNoSlowAnswer(t *testing.T) {
	const pieces, pause, timeout = 10, 50 * time.Millisecond, 300 * time.Millisecond // 500 ms in all
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
	p := g.dial()
	p.send(fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", pieces))
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for range pieces {
		<-tick.C
		p.send("x")
	}
	if r, body := p.response("POST"); r.StatusCode != 200 || body != "ok" {
		t.Errorf("got %d %q, want 200", r.StatusCode, body)
	}
}

func TestAServiceThatStopsReadingAnUploadIs504(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	s := newService(t, func(c *serviceConn, _ int) {
		c.head()
		<-release
	})
	g := serve(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes: [{match: /, upstream: s, timeout: 100ms}]
`)
	p := g.dial()
	p.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
	go io.Copy(p, strings.NewReader(strings.Repeat("x", 100_000_000)))
	if r, body := p.response("POST"); r.StatusCode != 504 || !strings.Contains(body, "upstream_timeout") {
		t.Errorf("got %d %q, want 504 with upstream_timeout", r.StatusCode, body)
	}
}
