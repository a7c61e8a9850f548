package proxy_test

import (
	"testing"
	"time"

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

// What it has not read may be the rest of its requests, or room for their responses. Its class is
// that of its line only while it has none: here the response ends while it waits.
func TestAClientOfHTTP2WhoseRequestsAreUnderWayIsNotHeld(t *testing.T) {
	for _, ends := range []bool{false, true} {
		c := newCrowd(t)
		c.install(2)
		c.acceptor.Listener.OffersHTTP2 = true
		c.acceptor.Listener.HTTP2 = http2.Limits{Path: 8 << 10, Head: 16 << 10, Fields: 100}
		s := c.client(saying(silence, greeting, framedAsk(1)))
		c.tell(s)
		for range 3 {
			c.turn()
		}
		target := c.asked()
		if n := c.acceptor.Worker.InFlight(); n != 1 || target == nil {
			t.Fatalf("%d exchanges are under way, want 1; the client got %q", n, s.out)
		}
		low, middle := c.many("low", 2, 3), c.known("middle", 1)
		c.now += int64(2 * time.Second)
		c.asks(middle, "middle")
		c.loop.Step(int64(time.Second))
		c.install(2)
		c.read()
		c.allAsk(low, "low")
		s.in = saying(silence, string(http2.AppendPing(nil, false, [8]byte{1})))
		c.tell(s)
		if ends {
			target.in = saying(silence, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			c.tell(target)
		}
		c.loop.Step(int64(time.Second))
		if read := c.read(); read != "low" {
			t.Errorf("%q are read, want one of those that are held", read)
		}
		if frames := framesTo(t, s); !has(frames, http2.Ping, 0) || has(frames, http2.Headers, 1) != ends {
			t.Errorf("the client got %v; its response came: %v", frames, ends)
		}
		c.now += int64(2 * time.Second)
		c.turn()
		c.turn()
		if read := c.read(); read != "low low" {
			t.Errorf("two seconds later %q are read, want the two that were held", read)
		}
	}
}
