package gateway

import (
	"net/http"
	"strings"
	"testing"

	"plimsoll/internal/policy/inflight"
)

// bounded is a config whose route bounds what is under way.
func bounded(address, concurrency, more string) string {
	return `
loops: 2
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["` + address + `"]` + more + `}}
routes: [{name: r, match: /, upstream: s, concurrency: ` + concurrency + `}, {match: /own, respond: {}}]
`
}

// inFlight is what the route's policy counts.
func (i *instance) inFlight() inflight.Status {
	i.t.Helper()
	return i.route("r").Policies["concurrency"].(inflight.Status)
}

func (i *instance) nothingInFlight() {
	i.t.Helper()
	eventually(i.t, "nothing to be in flight", func() bool {
		s := i.inFlight()
		return s.UnderWay == 0 && s.Values == 0
	})
}

func TestARouteTakesAsManyRequestsAtOnceAsItsBoundOverAllLoops(t *testing.T) {
	b, came, answer := busyService(t)
	g := serve(t, bounded(b.address, "2", ""))
	peers := g.onEachLoop("/own")
	for _, p := range peers {
		p.send(get)
		<-came
	}
	third := g.dial()
	for range 2 { // a refusal takes no place, and leaves the connection as it was
		third.send(get)
		r := third.expectFailure(503, "route_full")
		if after := r.Header.Get("Retry-After"); len(after) != 1 || after < "1" || after > "4" {
			t.Errorf("Retry-After is %q, want 1 to 4", after)
		}
	}
	answer <- true
	answer <- true
	for _, p := range peers {
		p.status("GET")
	}
	g.nothingInFlight()
	third.send(get)
	<-came
	answer <- true
	if status := third.status("GET"); status != 200 {
		t.Errorf("afterwards a request got %d", status)
	}
	g.expectMetrics(
		`plimsoll_route_concurrency{route="r"} 0`,
		`plimsoll_route_concurrency_refused_total{bound="route",route="r"} 2`,
		`plimsoll_route_concurrency_refused_total{bound="value",route="r"} 0`,
		`plimsoll_exchanges_total{end="shed"} 2`,
	)
}

func TestAClientTakesAsManyRequestsAtOnceAsItsBound(t *testing.T) {
	b, came, answer := busyService(t)
	g := serve(t, bounded(b.address, `{key: "header:X-Tenant", max_per_value: 1}`, ""))
	send := func(tenant string) *peer {
		p := g.dial()
		p.send("GET / HTTP/1.1\r\nHost: a\r\nX-Tenant: " + tenant + "\r\n\r\n")
		return p
	}
	a := send("a")
	<-came
	send("a").expectFailure(429, "client_full")
	other := send("b")
	<-came
	answer <- true
	answer <- true
	a.status("GET")
	other.status("GET")
	g.nothingInFlight()
	g.expectMetrics(`plimsoll_route_concurrency_refused_total{bound="value",route="r"} 1`,
		`plimsoll_exchanges_total{end="shed"} 0`)
}

// Whatever a request waits for, and however it ends, its place is given back once.
func TestAPlaceIsGivenBackHoweverARequestEnds(t *testing.T) {
	const per = "{max: 9, key: client_address, max_per_value: 9}"
	underWay := func(g *instance, n int64) {
		t.Helper()
		eventually(t, "the requests to be counted", func() bool { return g.inFlight().UnderWay == n })
	}
	for way, leave := range ways {
		t.Run("client gone, "+way, func(t *testing.T) {
			b, came, _ := busyService(t)
			const one = ", concurrency: {mode: fixed, limit: 1}, pool: {pending_timeout: 60s}"
			g := serveClean(t, bounded(b.address, per, one)+
				"classes: {P1: {patience: 60s}}\n")
			sent, waiting, holding := g.dial(), g.dial(), g.dial()
			sent.send(get)
			<-came
			waiting.send(get)
			holding.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na")
			underWay(g, 3)
			leave(holding)
			underWay(g, 2)
			leave(waiting)
			underWay(g, 1)
			leave(sent)
			g.nothingInFlight()
		})
	}
	t.Run("tunnel", func(t *testing.T) {
		s := newService(t, func(c *serviceConn, _ int) {
			if _, _, ok := c.request(); ok {
				c.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
				c.drain()
			}
		})
		g := serveClean(t, bounded(s.address(), per, ""))
		p := g.dial()
		p.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		p.expect("HTTP/1.1 101 Switching Protocols\r\n")
		underWay(g, 1) // a tunnel is one for as long as it lasts
		p.Close()
		g.nothingInFlight()
	})
	t.Run("retries", func(t *testing.T) {
		b := newBackend(t, "b")
		b.answer(answerStatus(http.StatusServiceUnavailable))
		g := serve(t, bounded(b.address, "{max: 1, key: client_address, max_per_value: 1}",
			`, retry: {attempts: 3, on: ["503"], budget: 100%}`))
		for range 3 {
			if status, body := g.get("/"); status != 503 || strings.Contains(body, "_full") {
				t.Errorf("got %d %q", status, body)
			}
			g.nothingInFlight() // else the next may come, to another loop, before the place is given back
		}
	})
	t.Run("no service", func(t *testing.T) {
		g := serveClean(t, bounded(refusing(t), per, ""))
		g.get("/")
		g.nothingInFlight()
	})
}

func TestAReloadCountsOnWhatIsInFlight(t *testing.T) {
	b, came, answer := busyService(t)
	g := serve(t, bounded(b.address, "{max: 2, key: client_address, max_per_value: 2}", ""))
	first := g.dial()
	first.send(get)
	<-came
	fewer := bounded(b.address, "{max: 1, key: client_address, max_per_value: 1}", "")
	if err := g.reload(fewer); err != nil {
		t.Fatal(err)
	}
	second := g.dial()
	second.send(get)
	second.expectFailure(429, "client_full")
	answer <- true
	first.status("GET")
	g.nothingInFlight()
	second.send(get)
	<-came
	answer <- true
	if status := second.status("GET"); status != 200 {
		t.Errorf("afterwards a request got %d", status)
	}
}
