package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"plimsoll/internal/exchange"
	codec3 "plimsoll/internal/http3"
)

func loggedEnds(t *testing.T, p spoken) {
	held := newGate(t)
	holding := newService(t, held.script)
	good := newService(t, replying(echo))
	bad := newService(t, answering("nonsense\r\n\r\n"))
	cut := newService(t, func(c *serviceConn, _ int) {
		if c.head() != "" {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome")
		}
	})
	path := filepath.Join(t.TempDir(), "access.log")
	b := serveSpoken(t, "", fmt.Sprintf(`
access_log: {path: %q}
upstreams: {good: {targets: [%q]}, bad: {targets: [%q]}, cut: {targets: [%q]}, held: {targets: [%q]}, down: {targets: [%q]}}
routes:
  - {match: /good, upstream: good, sla: P3}
  - {match: /bad, upstream: bad}
  - {match: /cut, upstream: cut}
  - {match: /held, upstream: held}
  - {match: /down, upstream: down}
  - {match: /slow, upstream: held, timeout: 50ms}
  - {match: GET /answer, respond: {body: hello}}
`, path, good.address(), bad.address(), cut.address(), holding.address(), refusing(t)))
	done := 0
	check := func(what string, want map[string]any) {
		t.Helper()
		done++
		var fields map[string]any
		line := lines(t, path, done)[done-1]
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%s: %v in %s", what, err, line)
		}
		want["protocol"] = p.version()
		for name, value := range want {
			if got, there := fields[name]; fmt.Sprint(got) != fmt.Sprint(value) || there == (value == nil) {
				t.Errorf("%s: %s is %v, want %v\n%s", what, name, got, value, line)
			}
		}
	}
	c := b.talk(p)
	c.ask("GET", "/good?q=1", "User-Agent", "test", "Referer", "here")
	check("a request that goes through", map[string]any{"client": "127.0.0.1", "method": "GET", "host": "a", "path": "/good",
		"query": "q=1", "status": 200, "bytes_in": 0, "bytes_out": 4, "route": "/good", "upstream": "good", "target": good.address(),
		"class": "P3", "attempts": 1, "user_agent": "test", "referer": "here", "reason": nil})
	c.post("POST", "/good", "abc")
	check("a body", map[string]any{"method": "POST", "status": 200, "bytes_in": 3, "bytes_out": 8, "reason": nil})
	c.ask("GET", "/answer")
	check("the gateway's own answer", map[string]any{"status": 200, "bytes_out": 5, "upstream": nil, "attempts": nil})
	c.ask("POST", "/answer")
	check("another method", map[string]any{"status": 405, "reason": "wrong_method", "upstream": nil, "route": nil})
	c.ask("GET", "/nowhere")
	check("no route", map[string]any{"status": 404, "reason": "no_route", "route": nil})
	c.ask("GET", "/down")
	check("no connection", map[string]any{"status": 502, "reason": "connect_failed", "upstream": "down", "attempts": 2})
	c.ask("GET", "/bad")
	check("a malformed response", map[string]any{"status": 502, "reason": "upstream_bad", "upstream": "bad"})
	c.ask("GET", "/slow")
	check("a service that is too slow", map[string]any{"status": 504, "reason": "upstream_timeout", "route": "/slow"})
	held.next(t)
	if g := b.talk(p).begin("GET", "/cut").read(); !g.cut {
		t.Errorf("a response that breaks off looks whole: %v", g)
	}
	check("a response that breaks off", map[string]any{"status": 200, "reason": "upstream_cut", "bytes_out": 4})
	gone := b.talk(p).begin("GET", "/held")
	held.next(t)
	gone.leave()
	check("a client that leaves", map[string]any{"status": 0, "upstream": "held", "bytes_out": 0, "reason": nil})
	eventually(t, "all lines are counted", func() bool { return b.lines.Written.Load() == uint64(done) })
}

func slowReader(t *testing.T, p spoken) {
	ended := make(chan bool, 1)
	s := newService(t, func(c *serviceConn, n int) {
		for head := c.head(); head != ""; head = c.head() {
			if !strings.HasPrefix(head, "GET /large") {
				c.write(okResponse)
				continue
			}
			c.write("HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
			io.Copy(c, zeros{})
			ended <- true
			return
		}
	})
	b := serveSpoken(t, ", limits: {send_timeout: 100ms}",
		fmt.Sprintf("upstreams: {s: {targets: [%q]}}\nroutes: [{match: /, upstream: s}]\n", s.address()))
	c := b.talkSlowly(p)
	slow := c.begin("GET", "/large")
	<-ended
	eventually(t, "the client's slowness to be counted", func() bool { return b.reasons(exchange.ClientSlow) == 1 })
	g := slow.read()
	if !g.cut {
		t.Errorf("a response that was given up is %v", g)
	}
	if code, reset := errH3(g.why); p.http3 && (!reset || code != uint64(codec3.RequestCancelled)) {
		t.Errorf("a response that was given up ends with %v", g.why)
	}
	if p.http2 || p.http3 { // its siblings go on
		c.expect(200, "ok", "GET", "/")
	}
	if target := b.target("s", s.address()); target.ConsecutiveFailures != 0 {
		t.Errorf("a slow client counts as %d failures of the target", target.ConsecutiveFailures)
	}
}

func slowUpload(t *testing.T, p spoken) {
	s, other := untouched(t), newService(t, replying(echo))
	b := serveSpoken(t, ", limits: {min_body_rate: 0B}", fmt.Sprintf(`
upstreams: {s: {targets: [%q]}, other: {targets: [%q]}}
routes: [{match: /, upstream: s, timeout: 100ms}, {match: /other, upstream: other}]
`, s.address(), other.address()))
	c := b.talk(p)
	u := c.open("POST", "/", 100)
	u.send("x", false)
	if g := u.read(); g.status != 408 || !strings.Contains(g.body, "body_timeout") {
		t.Errorf("got %v, want 408 with body_timeout", g)
	}
	c.expect(200, "GET ", "GET", "/other")
	s.expectUntouched()
}

// changing is a configuration that differs from number to number and serves the same.
func changing(b *bed, n int, address string) string {
	cert := b.config.Listeners[0].TLS.Certificates[0]
	return spokenConfig(pair{cert.Cert, cert.Key}, "127.0.0.1:0", "127.0.0.2:0", fmt.Sprintf(", limits: {max_connections: %d}", 10000+n),
		fmt.Sprintf(`
upstreams: {s: {targets: [%q], balance: %s}, other%d: {targets: [%q]}}
routes:
  - {match: /, upstream: s, response_headers: {set: {X-Version: "%d"}}}
  - {match: /other%d, upstream: other%d}
`, address, []string{"p2c", "round_robin"}[n%2], n, address, n, n, n))
}

func loadedReload(t *testing.T, p spoken) {
	s := newService(t, answering(okResponse))
	b := serveSpoken(t, "", fmt.Sprintf("upstreams: {s: {targets: [%q]}}\nroutes: [{match: /, upstream: s}]\n", s.address()))
	l := b.sessions(p).startLoad(t, 2)
	for n := range 20 {
		if err := b.reload(changing(b, n, s.address())); err != nil {
			t.Fatal(err)
		}
		l.more(3)
	}
	if failed := l.end(); failed != nil {
		t.Errorf("%d clients met a failure while the configuration was reloaded: %s", len(failed), strings.Join(failed, "; "))
	}
}

func gentleReload(t *testing.T, p spoken) {
	held := newGate(t)
	s, other := newService(t, held.script), newService(t, replying(echo))
	b := serveSpoken(t, "", fmt.Sprintf("upstreams: {s: {targets: [%q]}}\nroutes: [{match: /, upstream: s}]\n", s.address()))
	c := b.talk(p)
	before := c.begin("GET", "/")
	held.next(t)
	if err := b.reload(changing(b, 1, other.address())); err != nil {
		t.Fatal(err)
	}
	b.talk(p).expect(200, "GET ", "GET", "/")
	held.let <- okResponse
	if g := before.read(); g.status != 200 || g.body != "ok" || g.fields.Get("X-Version") != "" {
		t.Errorf("the exchange under way got %v", g)
	}
	if g := c.expect(200, "GET ", "GET", "/"); g.fields.Get("X-Version") != "1" {
		t.Errorf("the connection's next exchange got %v", g)
	}
}

func loadedDrain(t *testing.T, p spoken) {
	s := newService(t, answering(okResponse))
	b := serveEnding(t, "", fmt.Sprintf("upstreams: {s: {targets: [%q]}}\nroutes: [{match: /, upstream: s}]\n", s.address()))
	l := b.sessions(p).startLoad(t, 2)
	l.more(20)
	b.stop()
	if err := b.drained(); err != nil || !strings.Contains(b.logged.String(), "exchanges_cut=0") {
		t.Errorf("ended with %v\n%s", err, b.logged.String())
	}
	// A client that dials now is refused, or reset: a connection that the kernel has made, and that was
	// not accepted yet, ends with the socket that it came to. None may have met anything else.
	for _, failure := range l.end() {
		if !strings.Contains(failure, "refused") && !strings.Contains(failure, "connect: connection reset") {
			t.Errorf("a client met %s", failure)
		}
	}
}

func gentleDrain(t *testing.T, p spoken) {
	held := newGate(t)
	s := newService(t, held.script)
	b := serveEnding(t, "", fmt.Sprintf("upstreams: {s: {targets: [%q]}}\nroutes: [{match: /, upstream: s}]\n", s.address()))
	c := b.talk(p)
	underWay := c.begin("GET", "/")
	held.next(t)
	address := b.address(1)
	b.stop()
	eventually(t, "it stops accepting", func() bool { return !listensAt(address) })
	if c.two != nil {
		c.two.wait("GOAWAY", func() bool { return len(c.two.goAways) > 0 })
	}
	held.let <- okResponse
	if g := underWay.read(); g.cut || g.status != 200 || g.body != "ok" || g.closes != (c.two == nil && c.thr == nil) {
		t.Errorf("the exchange under way got %v, and that the connection ends: %v", g, g.closes)
	}
	if c.two != nil {
		c.two.expectGoAway(http2.ErrCodeNo)
		c.two.leave()
	}
	if err := b.drained(); err != nil || !strings.Contains(b.logged.String(), "exchanges_cut=0") {
		t.Errorf("ended with %v\n%s", err, b.logged.String())
	}
}

func cutDrain(t *testing.T, p spoken) {
	held := newGate(t)
	s := newService(t, held.script)
	b := serveEnding(t, "", fmt.Sprintf(`
upstreams: {s: {targets: [%q]}}
routes: [{match: /, upstream: s}]
drain: {timeout: 50ms}
`, s.address()))
	underWay := b.talk(p).begin("GET", "/")
	held.next(t)
	b.stop()
	if err := b.drained(); err != nil || !strings.Contains(b.logged.String(), "exchanges_cut=1") {
		t.Errorf("ended with %v\n%s", err, b.logged.String())
	}
	if !underWay.breaksOff() {
		t.Error("what was left when the drain's limit was over looks whole, or goes on")
	}
}

// breaksOff says that the response does not come whole: its stream is reset, or the connection ends.
func (c *call) breaksOff() bool {
	st := c.two
	if st == nil {
		return c.read().cut
	}
	st.c.wait("the end", func() bool { return st.ended || st.reset || st.c.err != nil })
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	return !st.ended
}
