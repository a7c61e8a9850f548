package gateway

import (
	"fmt"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/reactor"
)

// ways are the two ways in which a client can go.
var ways = map[string]func(*peer){
	"closed": func(p *peer) { p.Close() },
	"reset":  func(p *peer) { p.reset() },
}

func TestAClientThatVanishesAtAnyByteOfItsRequest(t *testing.T) {
	for name, request := range map[string]string{
		"with a length": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabcdef",
		"in chunks":     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\nX: y\r\n\r\n",
		"in a pipeline": get + "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc" + get,
	} {
		for way, leave := range ways {
			t.Run(name+", "+way, func(t *testing.T) {
				s := newService(t, func(c *serviceConn, _ int) { c.drain() }) // it never answers
				g := serveClean(t, oneUpstream(s.address()))
				for n := range len(request) + 1 {
					p := g.dial()
					p.send(request[:n])
					leave(p)
					if n%16 == 0 { // most go on while others go, some alone
						g.settled()
					}
				}
				g.settled()
				if target := g.target("s", s.address()); target.ConsecutiveFailures != 0 {
					t.Errorf("the clients' going counts as %d failures of the target", target.ConsecutiveFailures)
				}
				if e := g.snapshot().Ends; e[exchange.UpstreamFailed] != 0 || e[exchange.Completed] != 0 {
					t.Errorf("exchanges ended as %v, want only clients that went", e)
				}
			})
		}
	}
}

func TestAClientThatVanishesWithTheUpstreamAtWork(t *testing.T) {
	for way, leave := range ways {
		t.Run(way, func(t *testing.T) {
			arrived, ended := make(chan string), make(chan struct{})
			s := newService(t, func(c *serviceConn, _ int) {
				arrived <- c.head()
				c.drain()
				ended <- struct{}{}
			})
			g := serveClean(t, oneUpstream(s.address()))
			for range 3 {
				p := g.dial()
				p.send(get)
				<-arrived
				leave(p)
				<-ended // the upstream is told at once
			}
			eventually(t, "the exchanges' end", func() bool { return g.snapshot().Ends[exchange.ClientGone] == 3 })
			if n := g.target("s", s.address()).ConsecutiveFailures; n != 0 {
				t.Errorf("the clients' going counts as %d failures of the target", n)
			}
		})
	}
}

func TestAClientThatVanishesAtAnyPointOfTheResponse(t *testing.T) {
	for name, response := range map[string]string{
		"with a length": "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabcdef",
		"in chunks":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n",
		"interim first": "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	} {
		for way, leave := range ways {
			t.Run(name+", "+way, func(t *testing.T) {
				written := make(chan struct{})
				s := newService(t, func(c *serviceConn, n int) {
					if c.head() != "" {
						c.write(response[:min(n-1, len(response)-1)])
						written <- struct{}{}
					}
					c.drain()
				})
				g := serveClean(t, oneUpstream(s.address()))
				for range len(response) {
					p := g.dial()
					p.send(get)
					<-written
					leave(p)
					// The connection in use ends with its exchange, so that the next one gets the
					// next piece.
					eventually(t, "the upstream connection's end", func() bool { return g.target("s", s.address()).Connections == 0 })
				}
				if n := g.target("s", s.address()).ConsecutiveFailures; n != 0 {
					t.Errorf("the clients' going counts as %d failures of the target", n)
				}
			})
		}
	}
}

func TestAClientThatVanishesInTheMiddleOfALargeBody(t *testing.T) {
	for way, leave := range ways {
		t.Run("of its response, "+way, func(t *testing.T) {
			s := newService(t, func(c *serviceConn, _ int) {
				c.head()
				c.write(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", 24<<20))
				c.write(string(noise(24 << 20)))
			})
			g := serveClean(t, oneUpstream(s.address()))
			p := g.dial()
			p.send(get)
			stalls(t, "the response", g.buffered)
			leave(p)
			g.settled()
		})
	}
	// Closed in order, its end stands behind bytes for which the gateway has no room, and cannot be
	// known.
	t.Run("of its request, reset", func(t *testing.T) {
		arrived := make(chan string, 1)
		s := newService(t, func(c *serviceConn, _ int) {
			arrived <- c.head()
			c.s.block(c)
		})
		g := serveClean(t, streamed(oneUpstream(s.address())))
		p := g.dial()
		p.send(fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", 1<<30))
		<-arrived
		go func() {
			for b := noise(1 << 20); ; {
				if _, err := p.Write(b); err != nil {
					return
				}
			}
		}()
		eventually(t, "the upstream to be full", func() bool { return g.buffered() > reactor.HighWater })
		p.reset()
		g.settled()
	})
}

func TestAClientThatVanishesWhileItWaitsForAConnection(t *testing.T) {
	arrived := make(chan string, 4)
	s := newService(t, func(c *serviceConn, _ int) {
		arrived <- c.head()
		c.drain()
	})
	g := serveClean(t, `
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"], pool: {max_connections: 1}}}
routes: [{match: /, upstream: s}]
`)
	first, second := g.dial(), g.dial()
	first.send(get)
	<-arrived
	second.send(get)
	eventually(t, "the second to wait", func() bool { load, _ := g.load(); return load.Waiting == 1 })
	second.Close()
	eventually(t, "its place in the queue to be free", func() bool { load, _ := g.load(); return load.Waiting == 0 })
	first.Close()
	g.settled()
	if n := strings.Count(s.saw(), "GET"); n != 1 {
		t.Errorf("the upstream saw %d requests, want the first alone", n)
	}
}

func TestAClientThatVanishesWhileTheUpstreamIsConnectedTo(t *testing.T) {
	g := serveClean(t, oneUpstream(deaf(t)))
	for _, leave := range ways {
		p := g.dial()
		p.send(get)
		eventually(t, "the try", func() bool { load, _ := g.load(); return load.Outstanding == 1 })
		leave(p)
		g.settled()
	}
}
