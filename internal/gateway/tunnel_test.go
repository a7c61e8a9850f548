package gateway

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
)

func TestAListOfProtocolsIsUpgradedToOneOfThem(t *testing.T) {
	for asked, forwarded := range map[string]string{"h2c, websocket": "websocket", "x/1,websocket": "x/1, websocket"} {
		t.Run(asked, func(t *testing.T) {
			_, s, p := tunnel(t, "", echoBytes)
			p.send(strings.Replace(askUpgrade, "websocket", asked, 1))
			p.expect(wasSwitched)
			p.send("hello")
			p.expect("hello")
			p.closeWrite()
			p.expectEnd()
			if want := strings.Replace(sawUpgrade, "websocket", forwarded, 1); !strings.HasPrefix(s.saw(), want) {
				t.Errorf("the upstream saw %q, want %q first", s.saw(), want)
			}
		})
	}
}

// tunnel is a gateway with an upstream that switches protocols, sends first right behind the 101,
// and then does as it is told.
func tunnel(t *testing.T, first string, then func(c *serviceConn)) (*instance, *service, *peer) {
	t.Helper()
	s := newService(t, func(c *serviceConn, _ int) {
		if c.head() != "" && c.write(switched+first) {
			then(c)
		}
	})
	g := serveClean(t, oneUpstream(s.address()))
	return g, s, g.dial()
}

// echoBytes sends back what comes, and ends when the other side has ended.
func echoBytes(c *serviceConn) { io.Copy(c.Conn, c.R) }

func (p *peer) closeWrite() { p.Conn.(*net.TCPConn).CloseWrite() }

func TestATunnelCarriesBytesBothWays(t *testing.T) {
	_, s, p := tunnel(t, "", echoBytes)
	p.send(askUpgrade)
	p.expect(wasSwitched)
	for i := range 5 {
		text := fmt.Sprintf("\x00\xff message %d\r\n\r\n", i)
		p.send(text)
		p.expect(text)
	}
	p.closeWrite()
	p.expectEnd()
	if !strings.HasPrefix(s.saw(), sawUpgrade) {
		t.Errorf("the upstream saw %q, want %q first", s.saw(), sawUpgrade)
	}
}

func TestATunnelLosesNoEarlyBytes(t *testing.T) {
	for name, request := range map[string]string{
		"behind a request without a body": askUpgrade,
		"behind a request with a length":  strings.Replace(askUpgrade, "\r\n\r\n", "\r\nContent-Length: 3\r\n\r\nabc", 1),
		"behind a request in chunks": strings.Replace(askUpgrade, "\r\n\r\n",
			"\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 1),
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, func(c *serviceConn, _ int) {
				if _, _, ok := c.request(); ok && c.write(switched+"first") {
					echoBytes(c)
				}
			})
			g := serveClean(t, streamed(oneUpstream(s.address())))
			all := request + "early"
			head := strings.Index(all, "\r\n\r\n") + 4
			for n, split := range []int{len(all), len(all) - len("early"), len(all) - len("early") - 8, head} {
				p := g.dial()
				p.send(all[:split])
				if split == head { // the rest is read when the upstream is at work already
					eventually(t, "the head at the upstream", func() bool { return strings.Count(s.saw(), "GET /chat") > n })
				}
				p.send(all[split:])
				p.expect(wasSwitched)
				got := make([]byte, len("firstearly"))
				io.ReadFull(p.r, got)
				if string(got) != "firstearly" {
					t.Errorf("got %q behind the 101, want what the upstream sent first and then the echo", got)
				}
				p.closeWrite()
				p.expectEnd()
			}
		})
	}
}

func TestATunnelEndsOneDirectionAtATime(t *testing.T) {
	t.Run("the client first", func(t *testing.T) {
		_, _, p := tunnel(t, "", func(c *serviceConn) {
			all, _ := io.ReadAll(c.R)
			c.write(fmt.Sprintf("%d bytes", len(all)))
		})
		p.send(askUpgrade + strings.Repeat("x", 1000))
		p.expect(wasSwitched)
		p.closeWrite()
		p.expect("1000 bytes")
		p.expectEnd()
	})
	t.Run("the upstream first", func(t *testing.T) {
		total := make(chan int, 1)
		_, _, p := tunnel(t, "bye", func(c *serviceConn) {
			c.Conn.(*net.TCPConn).CloseWrite()
			all, _ := io.ReadAll(c.R)
			total <- len(all)
		})
		p.send(askUpgrade)
		p.expect(wasSwitched + "bye")
		if b, err := io.ReadAll(p.r); len(b) > 0 || err != nil {
			t.Fatalf("got %q and %v, want the upstream's end", b, err)
		}
		p.send(strings.Repeat("x", 1000))
		p.Close()
		if n := <-total; n != 1000 {
			t.Errorf("the upstream got %d bytes after its own end, want 1000", n)
		}
	})
}

func TestATunnelsLastBytesArriveThoughBothSidesHaveEnded(t *testing.T) {
	read, sum := make(chan struct{}), make(chan [32]byte, 1)
	g, _, p := tunnel(t, "", func(c *serviceConn) {
		c.Conn.(*net.TCPConn).CloseWrite()
		<-read
		all, _ := io.ReadAll(c.R)
		sum <- sha256.Sum256(all)
	})
	p.send(askUpgrade)
	p.expect(wasSwitched)
	p.expectEnd()
	// Until the gateway has to keep some, but not so much that it stops reading: the client's end
	// comes through.
	sent, piece := sha256.New(), noise(32<<10)
	for g.buffered() < 16<<10 {
		p.send(string(piece))
		sent.Write(piece)
	}
	p.closeWrite()
	stalls(t, "the gateway's reading", g.buffered)
	close(read)
	if got := <-sum; string(got[:]) != string(sent.Sum(nil)) {
		t.Error("the upstream did not get all that the client sent before its end")
	}
	eventually(t, "the tunnel's end", func() bool { return g.snapshot().Ends[exchange.Completed] == 1 })
}

func TestALargeTunnelBothWaysAtOnce(t *testing.T) {
	_, _, p := tunnel(t, "", echoBytes)
	body := noise(large)
	p.send(askUpgrade)
	p.expect(wasSwitched)
	go func() {
		p.Write(body)
		p.closeWrite()
	}()
	got, err := io.ReadAll(p.r)
	if err != nil || !bytes.Equal(got, body) {
		t.Errorf("got %d bytes and %v, want the %d that were sent", len(got), err, len(body))
	}
}

func TestATunnelWithASlowReaderHoldsLittle(t *testing.T) {
	var sent counter
	g, _, p := tunnel(t, "", func(c *serviceConn) { io.Copy(io.MultiWriter(c, &sent), bytes.NewReader(noise(24<<20))) })
	p.send(askUpgrade)
	stalls(t, "the upstream's sending", sent.n.Load)
	if n := g.buffered(); n > mostHeld {
		t.Errorf("%d bytes of buffers are held for one client that does not read, want at most %d", n, mostHeld)
	}
}

func TestAVanishedSideEndsTheTunnel(t *testing.T) {
	t.Run("the client", func(t *testing.T) {
		ended := make(chan struct{})
		_, _, p := tunnel(t, "", func(c *serviceConn) {
			c.drain()
			close(ended)
		})
		p.send(askUpgrade)
		p.expect(wasSwitched)
		p.reset()
		<-ended
	})
	t.Run("the upstream", func(t *testing.T) {
		_, _, p := tunnel(t, "x", func(c *serviceConn) { c.Conn.(*net.TCPConn).SetLinger(0) })
		p.send(askUpgrade)
		p.expect(wasSwitched + "x")
		p.expectEnd()
	})
}

func TestARefusedUpgradeLeavesAnOrdinaryConnection(t *testing.T) {
	s := newService(t, answering(okResponse))
	g := serveClean(t, oneUpstream(s.address()))
	p := g.dial()
	p.send(askUpgrade + get)
	for range 2 {
		if r, body := p.response("GET"); r.StatusCode != 200 || body != "ok" {
			t.Fatalf("got %d %q", r.StatusCode, body)
		}
	}
	if want := sawUpgrade + "GET / HTTP/1.1\r\nHost: a\r\n" + forwardedFields + "\r\n"; s.saw() != want {
		t.Errorf("the upstream saw %q, want %q", s.saw(), want)
	}
}

func TestASilentTunnelEnds(t *testing.T) {
	s := newService(t, func(c *serviceConn, _ int) {
		c.head()
		c.write(switched)
		c.drain()
	})
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes: [{match: /, upstream: s, tunnel_timeout: 50ms, websocket: {close_grace: 0s}}]
`)
	p := g.dial()
	p.send(askUpgrade)
	p.expect(wasSwitched)
	p.expectClose(1001)
	p.expectEnd()
}
