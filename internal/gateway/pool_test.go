package gateway

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// pooled is a configuration of one upstream, s, with one target and the given settings of its pool.
func pooled(address, pool string, more ...string) string {
	return fmt.Sprintf(`
loops: 2
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["%s"], pool: {%s}%s}}
routes: [{match: /, upstream: s}]
`, address, pool, strings.Join(more, ""))
}

func TestConnectionsToATargetAreKeptAndUsedAgain(t *testing.T) {
	b := newBackend(t, "a")
	g := serve(t, pooled(b.address, ""))
	for range 16 {
		expectOnly(t, g.crowd(1, 5, "/"), "200 a", 5)
	}
	if n := b.opened.Load(); n > 2 {
		t.Errorf("80 requests, one after the other, took %d connections, want at most one for each of two loops", n)
	}
	if s := g.stats("s"); s.Opened+s.Reused != 80 {
		t.Errorf("%d connections opened and %d requests on used ones are not 80 requests", s.Opened, s.Reused)
	}
}

func TestAConnectionEndsAfterItsMaxRequests(t *testing.T) {
	b := newBackend(t, "a")
	g := serve(t, strings.Replace(pooled(b.address, "max_requests: 3"), "loops: 2", "loops: 1", 1))
	expectOnly(t, g.crowd(1, 9, "/"), "200 a", 9)
	if n := b.opened.Load(); n != 3 {
		t.Errorf("nine requests of three to a connection took %d connections, want 3", n)
	}
}

func TestAnUnusedConnectionIsClosedAfterTheIdleTimeout(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	b := newBackend(t, "a")
	g := serve(t, pooled(b.address, "idle_timeout: 50ms"))
	expectOnly(t, g.crowd(1, 1, "/"), "200 a", 1)
	eventually(t, "the idle connection to be closed", func() bool { return b.open.Load() == 0 })
	eventually(t, "the connection to be counted off", func() bool { return g.target("s", b.address).Connections == 0 })
}

func TestThereAreNeverMoreConnectionsThanTheBound(t *testing.T) {
	const bound = 3
	b := newBackend(t, "a")
	b.answer(b.slowly(time.Millisecond))
	// Nobody is refused, however long the machine stands still.
	g := serve(t, pooled(b.address, fmt.Sprintf("max_connections: %d, pending_timeout: 10m", bound)))
	expectOnly(t, g.crowd(40, 20, "/"), "200 a", 800)
	if most := b.most.Load(); most > bound {
		t.Errorf("the service had %d connections at once, the bound is %d", most, bound)
	}
	if n := g.target("s", b.address).Connections; n > bound {
		t.Errorf("%d connections are counted, the bound is %d", n, bound)
	}
}

func TestARequestThatGetsNoConnectionInTimeIsRefused(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	b := newBackend(t, "a")
	b.answer(hanging(release))
	g := serve(t, pooled(b.address, "max_connections: 1, pending_timeout: 50ms"))
	first := g.dial()
	first.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	eventually(t, "the connection to be in use", func() bool { return b.requests.Load() == 1 })
	status, body := g.get("/")
	if status != 503 || !strings.Contains(body, "pool_full") {
		t.Errorf("the second request got %d %q, want 503 with pool_full", status, body)
	}
	if n := g.reasons(exchange.PoolFull); n != 1 {
		t.Errorf("pool_full was counted %d times, want 1", n)
	}
}

func TestWithNoRoomToWaitARequestIsRefusedAtOnce(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	b := newBackend(t, "a")
	b.answer(hanging(release))
	// The pending timeout is longer than the test's patience: only the bound on the queue can end
	// this.
	g := serve(t, strings.Replace(pooled(b.address, "max_connections: 1, max_pending: 1, pending_timeout: 10m"), "loops: 2", "loops: 1", 1))
	for range 2 {
		g.dial().send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	}
	eventually(t, "one request to wait", func() bool { return g.waiting("s") == 1 })
	status, body := g.get("/")
	if status != 503 || !strings.Contains(body, "pool_full") {
		t.Errorf("the third request got %d %q, want 503 with pool_full", status, body)
	}
}

func TestAWaitingRequestWhoseClientLeavesGivesItsPlaceUp(t *testing.T) {
	release := make(chan struct{})
	b := newBackend(t, "a")
	b.answer(hanging(release))
	g := serve(t, pooled(b.address, "max_connections: 1"))
	first := g.dial()
	first.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	eventually(t, "the connection to be in use", func() bool { return b.requests.Load() == 1 })
	second := g.dial()
	second.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	eventually(t, "one request to wait", func() bool { return g.waiting("s") == 1 })
	second.Close()
	eventually(t, "no request to wait", func() bool { return g.waiting("s") == 0 })
	close(release)
	if r, _ := first.response("GET"); r.StatusCode != 200 {
		t.Errorf("the first request got %d", r.StatusCode)
	}
	if n := b.requests.Load(); n != 1 {
		t.Errorf("the service saw %d requests, want 1", n)
	}
}

// secured makes a listener speak TLS with a certificate that nobody has to trust.
func secured(t *testing.T) func(net.Listener) net.Listener {
	certificate := throwawayCertificate(t)
	return func(ln net.Listener) net.Listener {
		return tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{certificate}})
	}
}

func TestIdleConnectionsMoveBetweenLoops(t *testing.T) {
	for _, kind := range []string{"plain", "tls"} {
		t.Run(kind, func(t *testing.T) {
			wrap, more := func(ln net.Listener) net.Listener { return ln }, ""
			if kind == "tls" {
				wrap, more = secured(t), ", tls: {insecure_skip_verify: true}"
			}
			b := newBackendAt(t, "a", "tcp", "127.0.0.1:0", wrap)
			g := serve(t, pooled(b.address, "max_connections: 1", more))
			on := g.onEachLoop("/")
			for range 10 {
				for _, p := range on {
					if status, body := p.request("GET", "/"); status != 200 || body != "a" {
						t.Fatalf("got %d %q", status, body)
					}
				}
			}
			if n := b.opened.Load(); n != 1 {
				t.Errorf("two loops with one connection between them opened %d", n)
			}
		})
	}
}

func TestConnectionsThatDieBetweenLoopsAreFoundOut(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	for _, kind := range []string{"plain", "tls"} {
		t.Run(kind, func(t *testing.T) {
			wrap, more := func(ln net.Listener) net.Listener { return ln }, ""
			if kind == "tls" {
				wrap, more = secured(t), ", tls: {insecure_skip_verify: true}"
			}
			b := newBackendAt(t, "a", "tcp", "127.0.0.1:0", wrap)
			g := serve(t, pooled(b.address, "", more, ", retry: {attempts: 0}"))
			on := g.onEachLoop("/")
			gather(t, g, b, 8)
			eventually(t, "idle connections to lie between the loops", func() bool { return g.target("s", b.address).Spare > 1 })
			b.drop()
			eventually(t, "the loops to learn of those they hold", func() bool {
				s := g.target("s", b.address)
				return s.Connections == s.Spare
			})
			for _, p := range on {
				if status, body := p.request("POST", "/"); status != 200 || body != "a" {
					t.Errorf("got %d %q", status, body)
				}
			}
		})
	}
}

// gather makes so many requests meet at the service, so that as many connections to it are idle
// afterwards.
func gather(t *testing.T, g *instance, b *backend, n int) {
	t.Helper()
	var met sync.WaitGroup
	met.Add(n)
	b.answer(func(w http.ResponseWriter, _ *http.Request) {
		met.Done()
		met.Wait()
		io.WriteString(w, b.name)
	})
	expectOnly(t, g.crowd(n, 1, "/"), "200 "+b.name, n)
	b.answer(nil)
}

func TestAServiceThatRestartsIsNotSeenByGETs(t *testing.T) {
	b := newBackend(t, "a")
	g := serve(t, pooled(b.address, ""))
	for range 5 {
		gather(t, g, b, 10)
		b.drop()
		expectOnly(t, g.crowd(10, 5, "/"), "200 a", 50)
	}
	if n := g.stats("s").ConnectFailures; n != 0 {
		t.Errorf("%d connections failed", n)
	}
}

// closingOnReuse answers the first request of each connection and closes it at the second, as a
// service does whose idle timeout ends while the request is on its way.
func closingOnReuse(told chan<- string) script {
	return arrivals(told, func(c *serviceConn, request int) bool {
		if request > 1 {
			return false
		}
		_, err := io.WriteString(c, okResponse)
		return err == nil
	})
}

func TestTheKeepAliveRaceCostsNoAttempt(t *testing.T) {
	s := newService(t, closingOnReuse(nil))
	g := serve(t, pooled(s.address(), "", ", retry: {attempts: 0, budget: 0%}", ", health: {passive: {consecutive_failures: 1}}"))
	c := g.client()
	for range 6 {
		if status, body, err := fetch(c, "GET", g.url("/")); status != 200 || body != "ok" {
			t.Fatalf("got %d %q %v", status, body, err)
		}
	}
	if state := g.target("s", s.address()); state.ConsecutiveFailures != 0 {
		t.Errorf("the race was counted against the target: %d failures", state.ConsecutiveFailures)
	}
}

func TestTheKeepAliveRaceIsRunOnceAndThenAvoided(t *testing.T) {
	// Several old connections are idle, and all of them will break: the second try must not meet
	// another of them.
	heads := make(chan string, 64)
	s := newService(t, closingOnReuse(heads))
	g := serve(t, strings.Replace(pooled(s.address(), "", ", retry: {attempts: 0}"), "loops: 2", "loops: 1", 1))
	var peers []*peer
	for range 4 {
		p := g.dial()
		p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		peers = append(peers, p)
	}
	for _, p := range peers {
		if r, _ := p.response("GET"); r.StatusCode != 200 {
			t.Fatalf("got %d", r.StatusCode)
		}
	}
	for _, p := range peers {
		if status, body := p.request("GET", "/"); status != 200 {
			t.Errorf("got %d %q", status, body)
		}
	}
}

func TestARequestThatIsNotIdempotentIsNotRepeatedInTheKeepAliveRace(t *testing.T) {
	heads := make(chan string, 8)
	s := newService(t, closingOnReuse(heads))
	g := serve(t, pooled(s.address(), ""))
	p := g.dial()
	if status, _ := p.request("GET", "/"); status != 200 {
		t.Fatalf("got %d", status)
	}
	if status, body := p.request("POST", "/pay"); status != 502 || !strings.Contains(body, "upstream_reset") {
		t.Errorf("got %d %q, want 502 with upstream_reset", status, body)
	}
	if n := strings.Count(s.saw(), "POST /pay"); n != 1 {
		t.Errorf("the service was sent the POST %d times", n)
	}
}

func TestWhatStandsBehindAResponseIsNobodysAnswer(t *testing.T) {
	// The response fills the gateway's read to the byte, so that nothing shows that there is more.
	const room = reactor.ScratchSize - 4<<10
	head := "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
	size := room - len(fmt.Sprintf(head, room))
	evil := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	whole := fmt.Sprintf(head, size) + strings.Repeat("x", size) + evil
	s := newService(t, arrivals(nil, func(c *serviceConn, _ int) bool {
		_, err := io.WriteString(c, whole)
		return err == nil
	}))
	g := serve(t, strings.Replace(pooled(s.address(), ""), "loops: 2", "loops: 1", 1))
	p := g.dial()
	for range 20 {
		if status, body := p.request("GET", "/"); status != 200 || len(body) != size {
			t.Fatalf("got %d with %d bytes, want %d bytes", status, len(body), size)
		}
	}
}

// loaded is what the loops have to do with an upstream, all together.
func (i *instance) loaded(name string) (sum upstream.Load) {
	u := i.service(name)
	for loop := range i.loops {
		i.Call(loop, func() { u.Local(loop).AddLoad(&sum, 0, 1000) })
	}
	return sum
}

// waiting is how many requests wait for a connection of an upstream.
func (i *instance) waiting(name string) int { return i.loaded(name).Waiting }

func TestTheKeepAliveRaceLeavesTheConfiguredAttempts(t *testing.T) {
	// The first connection breaks in the race, the second at its first request; one attempt is
	// configured, for the third.
	s := newService(t, func(c *serviceConn, n int) {
		if c.head() == "" || n == 2 {
			return
		}
		io.WriteString(c, okResponse)
		if c.head() == "" || n == 1 {
			return
		}
		io.WriteString(c, okResponse)
		c.head()
	})
	g := serve(t, strings.Replace(pooled(s.address(), "", ", retry: {attempts: 1}"), "loops: 2", "loops: 1", 1))
	c := g.client()
	for range 2 {
		if status, body, err := fetch(c, "GET", g.url("/")); status != 200 || body != "ok" {
			t.Fatalf("got %d %q %v", status, body, err)
		}
	}
	if n := s.connections(); n != 3 {
		t.Errorf("the service was opened %d connections, want 3", n)
	}
}

func TestAClientThatLeavesDuringATLSHandshakeLeavesNothing(t *testing.T) {
	hello := make(chan string, 1)
	mute := newService(t, func(c *serviceConn, _ int) {
		first := make([]byte, 1)
		io.ReadFull(c.R, first)
		hello <- string(first)
		io.Copy(io.Discard, c.R)
	})
	g := serve(t, pooled(mute.address(), "", ", tls: {insecure_skip_verify: true}"))
	p := g.dial()
	p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-hello
	p.Close()
	eventually(t, "the client's leaving to be counted", func() bool { return g.snapshot().Ends[exchange.ClientGone] == 1 })
	eventually(t, "the connection to be counted off", func() bool { return g.target("s", mute.address()).Connections == 0 })
	if s := g.stats("s"); s.Opened != 0 || s.ConnectFailures != 0 {
		t.Errorf("%d connections opened and %d failures were counted, want none", s.Opened, s.ConnectFailures)
	}
}

func TestAMirrorOfAnOldConfigurationLetsItsUpstreamsGo(t *testing.T) {
	read := func(c *serviceConn, _ int) bool {
		io.CopyN(io.Discard, c.R, 10)
		_, err := io.WriteString(c, okResponse)
		return err == nil
	}
	heads := make(chan string, 4)
	s, m := newService(t, arrivals(heads, read)), newService(t, arrivals(heads, read))
	g := serve(t, fmt.Sprintf(`
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["%s"]}, m: {targets: ["%s"]}}
routes: [{match: /, upstream: s, hold_body: 0B, mirror: {upstream: m}}]
`, s.address(), m.address()))
	service, copies := g.service("s"), g.service("m")
	p := g.dial()
	p.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
	<-heads
	if err := g.reload("loops: 1\nlisteners: [{address: \"127.0.0.1:0\"}]\nroutes: [{match: /, respond: {body: b}}]\n"); err != nil {
		t.Fatal(err)
	}
	p.send("world")
	if r, body := p.response("POST"); r.StatusCode != 200 || body != "ok" {
		t.Errorf("got %d %q", r.StatusCode, body)
	}
	<-heads
	for _, u := range []*upstream.Upstream{service, copies} {
		eventually(t, "the connections of an upstream that is gone to be closed", func() bool {
			return u.Status().Targets[0].Connections == 0
		})
	}
	if n := g.snapshot().Active; n != 0 {
		t.Errorf("%d exchanges are under way", n)
	}
}
