package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"plimsoll/internal/telemetry"
)

// route is the status of a route.
func (i *instance) route(name string) RouteStatus {
	i.t.Helper()
	for _, r := range i.Routes() {
		if r.Name == name {
			return r
		}
	}
	i.t.Fatalf("there is no route %s", name)
	return RouteStatus{}
}

// scraped checks that the metrics have each of some lines.
func (i *instance) scraped(lines ...string) {
	i.t.Helper()
	w := httptest.NewRecorder()
	i.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range lines {
		if !strings.Contains(w.Body.String(), "\n"+line+"\n") {
			i.t.Errorf("the metrics have no line %s", line)
		}
	}
}

func (i *instance) wantSLO(route string, good, requests uint64, burn float64) {
	i.t.Helper()
	slo := i.route(route).SLO
	if len(slo.Windows) != 4 {
		i.t.Fatalf("%s has %d windows", route, len(slo.Windows))
	}
	for _, w := range slo.Windows {
		if w.Good != good || w.Requests != requests || w.Burn != burn {
			i.t.Errorf("%s, over %s: %d of %d good, a burn of %g; want %d of %d and %g",
				route, w.Window, w.Good, w.Requests, w.Burn, good, requests, burn)
		}
		if a := w.Attainment; (a == nil) != (requests == 0) || a != nil && *a != float64(good)/float64(requests) {
			i.t.Errorf("%s, over %s: the attainment is %v", route, w.Window, a)
		}
	}
}

const slowClasses = "classes: {P0: {latency: 10m}, P1: {latency: 10m}, P2: {latency: 10m, availability: 90%}}"

func TestObjectivesFollowTheClassOverReloads(t *testing.T) {
	b := newBackend(t, "b")
	b.answer(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			w.WriteHeader(500)
		}
	})
	config := func(class string) string {
		return fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
%s
upstreams: {s: {targets: ["%s"]}}
routes:
  - {name: all, match: /, upstream: s, sla: %s}
  - {name: own, match: /own, respond: {status: 403}, sla: P2}
`, slowClasses, b.address, class)
	}
	g := serve(t, config("P2"))
	p := g.dial()
	g.scraped(`plimsoll_slo_requests_total{class="P2",route="all"} 0`, `plimsoll_slo_burn{route="all",window="3d"} 0`)
	for _, path := range []string{"/", "/own", "/bad", "/", "/"} {
		p.request("GET", path)
	}
	g.wantSLO("all", 3, 4, 2.5) // a quarter fails where a tenth may
	g.wantSLO("own", 1, 1, 0)
	if slo := g.route("all").SLO; slo.Availability != 0.9 || slo.LatencyMS != 600_000 {
		t.Errorf("the objective is %+v", slo)
	}
	if none := g.route("none").SLO; none != nil {
		t.Errorf("what matches no route has the objective %+v", none)
	}
	if err := g.reload(config("P0")); err != nil {
		t.Fatal(err)
	}
	g.wantSLO("all", 0, 0, 0)
	p.request("GET", "/")
	g.wantSLO("all", 1, 1, 0)
	g.scraped(
		`plimsoll_slo_requests_total{class="P2",route="all"} 4`,
		`plimsoll_slo_good_total{class="P2",route="all"} 3`,
		`plimsoll_slo_requests_total{class="P0",route="all"} 1`,
		`plimsoll_slo_good_total{class="P0",route="all"} 1`,
		`plimsoll_slo_objective{class="P0",route="all"} 0.9999`,
		`plimsoll_slo_objective{class="P2",route="own"} 0.9`,
		`plimsoll_slo_burn{route="all",window="5m"} 0`,
		`plimsoll_slo_class_burn{class="P0",window="1h"} 0`,
	)
	if err := g.reload(config("P2")); err != nil {
		t.Fatal(err)
	}
	g.wantSLO("all", 3, 4, 2.5)
}

// What lasts until somebody leaves cannot be waited for, so that a drain cuts it is not a failure. A
// plain response that is cut is one.
func TestADrainCutsTunnelsAndStreamsWithoutAFailure(t *testing.T) {
	s := newService(t, func(c *serviceConn, _ int) {
		switch head := c.head(); {
		case strings.HasPrefix(head, "GET /chat "):
			c.write(switched)
		case strings.HasPrefix(head, "GET /events "):
			c.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
		default:
			c.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc")
		}
		io.Copy(io.Discard, c.R)
	})
	g := serve(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
%s
drain: {timeout: 1ms}
upstreams: {s: {targets: ["%s"]}}
routes:
  - {name: chat, match: /chat, upstream: s}
  - {name: events, match: /events, upstream: s}
  - {name: plain, match: /plain, upstream: s}
`, slowClasses, s.address()))
	peers := map[string]*peer{}
	for path, until := range map[string]string{"/chat": "\r\n\r\n", "/events": "abc\r\n", "/plain": "abc"} {
		p := g.dial()
		p.send(strings.Replace(askUpgrade, "/chat", path, 1))
		var got strings.Builder
		for !strings.HasSuffix(got.String(), until) {
			c, err := p.r.ReadByte()
			if err != nil {
				t.Fatalf("%s: %v after %q", path, err, got.String())
			}
			got.WriteByte(c)
		}
		peers[path] = p
	}
	g.stop()
	g.drained()
	after := g.registry.Collect(func(_ int, f func()) bool { f(); return true }) // no loop runs any more
	want := map[string]telemetry.SLOCounts{
		"chat": {Requests: 1, Good: 1}, "events": {Requests: 1, Good: 1}, "plain": {Requests: 1},
	}
	for _, r := range after.Routes {
		if got := r.SLO[1]; got != want[r.Name] {
			t.Errorf("%s: %+v, want %+v", r.Name, got, want[r.Name])
		}
	}
}
