package proxy_test

import (
	"testing"

	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
)

// A client of HTTP/2 that ends while its connection would have to wait takes its exchanges along.
func TestAClientOfHTTP2ThatEndsTakesItsStreamsAlong(t *testing.T) {
	c := newCrowd(t)
	c.install(2) // which waits
	c.acceptor.Listener.OffersHTTP2 = true
	c.acceptor.Listener.HTTP2 = http2.Limits{Path: 8 << 10, Head: 16 << 10, Fields: 100}
	first := string(http2.AppendSettings([]byte(http2.Preface)))
	request := string(http2.AppendHeaders(nil, 1, []byte("\x82\x86\x84\x01\x01x"), true, 16<<10))
	s := c.client(saying(silence, first, request))
	c.tell(s)
	for range 5 {
		c.turn()
	}
	if n := c.acceptor.Worker.InFlight(); n != 1 {
		t.Fatalf("%d exchanges are under way, want 1; the client got %q", n, s.out)
	}
	c.known("another", 2) // by then the loop is known to be late
	c.events = append(c.events, reactor.Event{Token: s.token, Readable: true, PeerEnded: true})
	c.lateTurn()
	if n := c.acceptor.Worker.InFlight(); n != 0 || !s.closed {
		t.Errorf("%d exchanges are under way, and the connection is closed: %v", n, s.closed)
	}
	for class, n := range c.loop.BuffersOut() {
		if n != 0 {
			t.Errorf("%d buffers of class %d are still out", n, class)
		}
	}
}
