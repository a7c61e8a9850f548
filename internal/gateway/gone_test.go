package gateway

import (
	"testing"

	"plimsoll/internal/exchange"
)

// A request whose client has gone is not sent, wherever it waits.

func TestARequestWhoseClientHasGoneLeavesTheWaitingRoom(t *testing.T) {
	for way, leave := range ways {
		for name, limit := range map[string]string{
			"for a slot":       "concurrency: {mode: fixed, limit: 1}, pool: {pending_timeout: 60s}",
			"for a connection": "pool: {max_connections: 1, pending_timeout: 60s}",
		} {
			t.Run(name+", "+way, func(t *testing.T) {
				b, came, answer := busyService(t)
				g := serve(t, `
loops: 1
listeners: [{address: "127.0.0.1:0"}]
classes: {P1: {patience: 60s}}
upstreams: {s: {targets: ["`+b.address+`"], `+limit+`}}
routes: [{match: /, upstream: s}]
`)
				first, gone, last := g.dial(), g.dial(), g.dial()
				first.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\n")
				<-came
				gone.send("GET /gone HTTP/1.1\r\nHost: a\r\n\r\n")
				eventually(t, "a request to wait", func() bool { return g.waiting("s") == 1 })
				leave(gone)
				eventually(t, "it to leave", func() bool { return g.snapshot().Ends[exchange.ClientGone] == 1 })
				if n := g.waiting("s"); n != 0 {
					t.Errorf("%d requests still wait", n)
				}
				last.send("GET /last HTTP/1.1\r\nHost: a\r\n\r\n")
				eventually(t, "another to wait", func() bool { return g.waiting("s") == 1 })
				answer <- true
				if next := <-came; next != "/last" {
					t.Errorf("%s came to the service", next)
				}
				answer <- true
				first.status("GET")
				last.status("GET")
			})
		}
	}
}

func TestARequestWhoseClientHasGoneWhileItsBodyIsHeldIsNotSent(t *testing.T) {
	for way, leave := range ways {
		t.Run(way, func(t *testing.T) {
			s := untouched(t)
			g := serveClean(t, oneUpstream(s.address()))
			p := g.dial()
			p.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
			eventually(t, "the request to be held", func() bool { return g.snapshot().Active == 1 })
			leave(p)
			g.settled()
			if n := g.snapshot().Ends[exchange.ClientGone]; n != 1 {
				t.Errorf("%d exchanges ended with their clients, want 1", n)
			}
			s.expectUntouched()
		})
	}
}

// The last of the body and the client's end come together: the body is whole, and nobody waits.
func TestARequestWhoseClientEndsWithItsBodyIsNotSent(t *testing.T) {
	s := untouched(t)
	g := serveClean(t, "loops: 1\n"+oneUpstream(s.address()))
	for range 20 {
		p := g.dial()
		p.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
		eventually(t, "the request to be held", func() bool { return g.snapshot().Active == 1 })
		if !g.Call(0, func() { // the loop sees neither before both are there
			p.send("def")
			p.Close()
		}) {
			t.Fatal("the loop does not answer")
		}
		g.settled()
	}
	s.expectUntouched()
}
