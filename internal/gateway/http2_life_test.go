package gateway

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"plimsoll/internal/exchange"
	codec "plimsoll/internal/http2"
)

// announced is the last stream of a GOAWAY that only says that another follows.
const announced = 1<<31 - 1

// vanishingService is a gateway whose service accepts one connection and answers nothing, and then
// cannot be connected to any more: an attempt fails at once.
func vanishingService(t *testing.T) (g *instance, gone func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "plimsoll") // short, as the paths of sockets must be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	newServiceOn(t, ln, func(c *serviceConn, _ int) { c.drain() })
	return serveClean(t, withH2(`
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["unix:`+path+`"], retry: {attempts: 0}, pool: {max_connections: 1, pending_timeout: 60s}}}
routes: [{match: /, upstream: s}]
`)), func() { os.Remove(path) }
}

func TestAReloadKeepsTheConnectionsOfHTTP2(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	held := newGate(t)
	s, other := newService(t, held.script), newService(t, replying(echo))
	g := serveClean(t, h2Upstream(s.address(), ""))
	c := g.h2()
	before := c.ask("GET", "/before")
	held.next(t)
	address := g.address(0)
	if err := g.reload(h2Upstream(other.address(), "max_requests: 1000")); err != nil {
		t.Fatal(err)
	}
	c.ask("GET", "/after").expect(200, "GET ")
	held.let <- okResponse
	before.expect(200, "ok")
	// A listener that goes takes its connections along, when their streams are over.
	last := c.open("POST", "/last")
	c.served()
	if err := g.reload(strings.Replace(h2Upstream(other.address(), ""), "127.0.0.1:0", freeAddress(t),
		1)); err != nil {
		t.Fatal(err)
	}
	last.data("abc", true)
	last.expect(200, "POST abc")
	c.expectGoAway(http2.ErrCodeNo)
	if listensAt(address) {
		t.Error("the old address still accepts")
	}
	c.leave()
}

func TestADrainTellsClientsOfHTTP2AndFinishesTheirStreams(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	held := newGate(t)
	s := newService(t, held.script)
	g := serve(t, h2Upstream(s.address(), ""))
	c, idle, late := g.h2(), g.h2(), g.h2()
	first := c.ask("GET", "/first")
	held.next(t)
	idle.served()
	late.served()
	g.stop()
	for _, client := range []*h2{c, idle, late} {
		client.wait("GOAWAY", func() bool { return len(client.goAways) > 0 })
		if a := client.goAways[0]; a.code != http2.ErrCodeNo || a.last != announced {
			t.Errorf("the first GOAWAY says %v", a)
		}
	}
	// Requests that were on their way are served still.
	crossing, alone := c.ask("GET", "/crossing"), late.ask("GET", "/alone")
	held.next(t)
	held.next(t)
	c.wait("the second GOAWAY", func() bool { return len(c.goAways) == 2 })
	c.ask("GET", "/late").expectReset(http2.ErrCodeRefusedStream)
	for range 3 {
		held.let <- okResponse
	}
	first.expect(200, "ok")
	crossing.expect(200, "ok")
	alone.expect(200, "ok")
	for client, last := range map[*h2]uint32{c: crossing.id, idle: 0, late: alone.id} {
		if away := client.expectGoAway(http2.ErrCodeNo); away.last != last || len(client.goAways) != 2 {
			t.Errorf("%d GOAWAYs came, the last with %v, want two, and stream %d", len(client.goAways), away,
				last)
		}
		client.leave()
	}
	if err := g.drained(); err != nil || !strings.Contains(g.logged.String(), "exchanges_cut=0") {
		t.Errorf("ended with %v\n%s", err, g.logged.String())
	}
}

func TestMaxRequestsEndsAConnectionOfHTTP2InAnOrderlyWay(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	s := newService(t, replying(echo))
	g := serveClean(t, h2Upstream(s.address(), "max_requests: 3"))
	c := g.h2()
	for i := range 3 {
		c.ask("GET", "/").expect(200, "GET ")
		c.served()
		if n := len(c.goAways); n != i/2 {
			t.Errorf("after request %d there were %d GOAWAYs", i+1, n)
		}
	}
	c.ask("GET", "/crossing").expect(200, "GET ")
	if last := c.expectGoAway(http2.ErrCodeNo); last.last != 7 || len(c.goAways) != 2 {
		t.Errorf("%d GOAWAYs, the last of stream %d", len(c.goAways), last.last)
	}
	c.leave()
}

func TestAnIdleConnectionOfHTTP2IsEnded(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	s := newService(t, replying(echo))
	g := serveClean(t, h2Upstream(s.address(), "idle_timeout: 1s, head_timeout: 1h"))
	fresh, used, busy := g.h2(), g.h2(), g.h2()
	used.ask("GET", "/").expect(200, "GET ")
	open := busy.open("POST", "/")
	for _, c := range []*h2{fresh, used} {
		c.expectGoAway(http2.ErrCodeNo)
		c.leave()
	}
	open.data("abc", true)
	open.expect(200, "POST abc")
	busy.expectGoAway(http2.ErrCodeNo)
	busy.leave()
}

func TestAClientOfHTTP2ThatGoesTakesItsRequestsAlong(t *testing.T) {
	for name, leave := range map[string]func(c *h2){
		"closed": func(c *h2) { c.leave() },
		"reset": func(c *h2) {
			c.Conn.(*net.TCPConn).SetLinger(0)
			c.leave()
		},
		"stream by stream": func(c *h2) {
			for id := range c.streams {
				c.send(func(f *http2.Framer) { f.WriteRSTStream(id, http2.ErrCodeCancel) })
			}
			c.served()
		},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan bool, 100)
			s := newService(t, func(c *serviceConn, _ int) {
				c.drain()
				ended <- true
			})
			g := serveClean(t, streamed(h2Upstream(s.address(), "")))
			c := g.h2()
			for range 3 {
				c.ask("GET", "/")
				c.open("POST", "/", "content-length", "100").data("abc", false)
			}
			eventually(t, "the requests at the service", func() bool {
				return strings.Count(s.saw(), "GET /") == 3 && strings.Count(s.saw(), "abc") == 3
			})
			leave(c)
			for range 6 {
				<-ended
			}
			if n := g.snapshot().Ends[exchange.ClientGone]; n != 6 {
				t.Errorf("%d exchanges ended with their client, want 6", n)
			}
			if target := g.target("s", s.address()); target.ConsecutiveFailures != 0 {
				t.Errorf("that counts as %d failures of the target", target.ConsecutiveFailures)
			}
			c.leave()
		})
	}
}

// What a client sends is cut off at every byte.
func TestAClientOfHTTP2ThatVanishesAtAnyByte(t *testing.T) {
	s := newService(t, replying(echo))
	g := serveClean(t, h2Upstream(s.address(), ""))
	post := "\x83\x86\x04\x05/echo\x01\x01a"
	all := codec.Preface + "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x00\xff\xff" +
		"\x00\x00\x05\x01\x00\x00\x00\x00\x01" + post[:5] +
		"\x00\x00\x07\x09\x04\x00\x00\x00\x01" + post[5:] +
		"\x00\x00\x07\x00\x08\x00\x00\x00\x01\x03abc\x00\x00\x00" +
		"\x00\x00\x03\x01\x05\x00\x00\x00\x01\x40\x01x" // a block that is cut off
	for n := range len(all) + 1 {
		p := g.dial()
		p.send(all[:n])
		if n%2 == 0 {
			p.reset()
		} else {
			p.Close()
		}
		if n%16 == 0 { // most go on while others go, some alone
			g.settled()
		}
	}
	g.settled()
	if n := g.refusedH2(codec.BadPreface); n != 0 {
		t.Errorf("%d prefaces were refused", n)
	}
}

func TestTheAccessLogTellsOfHTTP2(t *testing.T) {
	s := newService(t, replying(echo))
	path := filepath.Join(t.TempDir(), "access.log")
	g := serveClean(t, h2Upstream(s.address(), "")+fmt.Sprintf("access_log: {path: %q}\n", path))
	c := g.h2()
	st := c.open("POST", "/a?b", "user-agent", "test")
	st.data("abc", true)
	st.expect(200, "POST abc")
	c.ask("GET", "/", "x", strings.Repeat("a", 40_000)).answer()
	var first, second map[string]any
	got := lines(t, path, 2)
	if json.Unmarshal([]byte(got[0]), &first) != nil || json.Unmarshal([]byte(got[1]),
		&second) != nil {
		t.Fatal(got)
	}
	for name, want := range map[string]any{
		"protocol": "HTTP/2.0", "method": "POST", "host": "a", "path": "/a", "query": "b", "status": 200, "bytes_in": 3, "bytes_out": 8,
		"user_agent": "test", "client": "127.0.0.1",
	} {
		if fmt.Sprint(first[name]) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", name, first[name], want)
		}
	}
	if second["protocol"] != "HTTP/2.0" || fmt.Sprint(second["status"]) != "431" {
		t.Errorf("the refusal's line is %s", got[1])
	}
	c.leave()
}

func TestALPNChoosesTheProtocol(t *testing.T) {
	s := newService(t, replying(echo))
	ca := newAuthority(t)
	cert := ca.issue(t, "a")
	yaml := (&likeCase{}).config(spoken{tls: true}, s.address(), "", cert)
	with, without := serveClean(t, yaml), serveClean(t, strings.Replace(yaml, "http2: true",
		"http2: false", 1))
	for _, c := range []struct {
		g      *instance
		offers []string
		want   string // "" for none
		fails  bool
	}{
		{with, []string{"h2", "http/1.1"}, "h2", false}, {with, []string{"http/1.1", "h2"}, "h2", false},
		{with, []string{"http/1.1"}, "http/1.1", false}, {with, nil, "", false}, {with, []string{"h3"},
			"", true},
		{without, []string{"h2", "http/1.1"}, "http/1.1", false}, {without, []string{"h2"}, "",
			true}, {without, nil, "", false},
	} {
		p, err := c.g.dialTLS(&tls.Config{RootCAs: ca.pool, ServerName: "a", NextProtos: c.offers})
		if (err != nil) != c.fails {
			t.Errorf("a client that offers %v: %v", c.offers, err)
		}
		if err != nil {
			continue
		}
		if got := p.state().NegotiatedProtocol; got != c.want {
			t.Errorf("of %v the gateway chose %q, want %q", c.offers, got, c.want)
		}
		if c.want == "h2" {
			client := newH2(t, p.Conn, "https")
			client.greet()
			client.ask("GET", "/").expect(200, "GET ")
			client.leave()
		} else if status, body := p.request("GET", "/"); status != 200 || body != "GET " {
			t.Errorf("got %d %q", status, body)
		}
		p.Close()
	}
}

// The preface does not change what was agreed on by TLS.
func TestThePrefaceCountsForNothingOverTLSWithoutALPN(t *testing.T) {
	s := newService(t, replying(echo))
	ca := newAuthority(t)
	g := serveClean(t, (&likeCase{}).config(spoken{tls: true}, s.address(), "", ca.issue(t, "a")))
	p := g.mustDialTLS(&tls.Config{RootCAs: ca.pool, ServerName: "a"})
	p.send(codec.Preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	p.expectFailureEnd(505, "bad_request")
	p.Close()
	h := newH2(t, g.mustDialTLS(&tls.Config{RootCAs: ca.pool, ServerName: "a",
		NextProtos: []string{"h2"}}).Conn, "https")
	h.raw("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	h.expectGoAway(http2.ErrCodeProtocol)
	g.expectRefusedH2(codec.BadPreface, 1)
	h.leave()
}
