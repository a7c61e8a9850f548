package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/upstream"
)

// busyService is a service whose requests say that they came and then wait for a word.
func busyService(t *testing.T) (b *backend, came chan string, answer chan bool) {
	came, answer = make(chan string, 100), make(chan bool)
	b = newBackend(t, "busy")
	b.answer(func(w http.ResponseWriter, r *http.Request) {
		came <- r.URL.Path
		select {
		case <-answer:
		case <-r.Context().Done():
		}
	})
	return b, came, answer
}

// oneAtATime is a config whose service gets one request at a time.
func oneAtATime(address, classes string) string {
	return `
listeners: [{address: "127.0.0.1:0"}]
classes: ` + classes + `
upstreams: {s: {targets: ["` + address + `"], concurrency: {mode: fixed, limit: 1}, pool: {pending_timeout: 60s}}}
routes:
  - {match: /0, upstream: s, sla: P0}
  - {match: /1, upstream: s, sla: P1}
  - {match: /2, upstream: s, sla: P2}
`
}

func TestAFullServiceIsGivenToLowerClassesFirst(t *testing.T) {
	b, came, answer := busyService(t)
	g := serve(t, oneAtATime(b.address, "{P0: {patience: 60s}, P1: {patience: 60s}, P2: {patience: 60s}}"))
	var peers []*peer
	send := func(path string) {
		p := g.dial()
		p.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		peers = append(peers, p)
	}
	send("/2")
	if first := <-came; first != "/2" {
		t.Fatalf("%s came first", first)
	}
	for i, path := range []string{"/2", "/1", "/2", "/0", "/1", "/0"} {
		send(path)
		eventually(t, "the request waits", func() bool { return g.waiting("s") == i+1 })
	}
	status, err := g.Upstream("s")
	if err != nil {
		t.Fatal(err)
	}
	if used := status.Targets[0].Concurrency; used == nil || used.Used != 1 || used.Limit != 1 {
		t.Errorf("the status says %+v, want one slot of one in use", used)
	}
	expectOrder(t, came, answer, "/0 /0 /1 /1 /2 /2")
	for _, p := range peers {
		if r, _ := p.response("GET"); r.StatusCode != 200 {
			t.Errorf("got %d", r.StatusCode)
		}
	}
}

// expectOrder has a busy service answer the request that it is at, then those that wait one after
// the other: they must come in this order of their paths.
func expectOrder(t *testing.T, came <-chan string, answer chan<- bool, want string) {
	t.Helper()
	var order []string
	for range strings.Fields(want) {
		answer <- true
		order = append(order, <-came)
	}
	answer <- true
	if got := strings.Join(order, " "); got != want {
		t.Errorf("they were served in the order %s, want %s", got, want)
	}
}

func TestARequestThatRunsOutOfPatienceIsShed(t *testing.T) {
	b, came, answer := busyService(t)
	g := serve(t, oneAtATime(b.address, "{P0: {patience: 60s}, P1: {patience: 20ms}}"))
	first := g.dial()
	first.send("GET /0 HTTP/1.1\r\nHost: a\r\n\r\n")
	<-came
	second := g.dial()
	second.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
	r, body := second.response("GET")
	if r.StatusCode != 503 || !strings.Contains(body, ": overloaded: ") {
		t.Errorf("got %d %q", r.StatusCode, body)
	}
	if seconds, err := strconv.Atoi(r.Header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 4 {
		t.Errorf("Retry-After is %q, want 1 to 4 seconds", r.Header.Get("Retry-After"))
	}
	answer <- true
	if r, _ := first.response("GET"); r.StatusCode != 200 {
		t.Errorf("the request that was with the service got %d", r.StatusCode)
	}
	second.send("GET /0 HTTP/1.1\r\nHost: a\r\n\r\n") // the refusal has left the connection as it was
	<-came
	answer <- true
	if r, _ := second.response("GET"); r.StatusCode != 200 {
		t.Errorf("the next request of the connection got %d", r.StatusCode)
	}
}

// The service is busy and stays so. When P2 has got nothing for half of its patience, who comes is told so
// at once, and P0 still waits.
func TestARequestThatWouldWaitForTooLongIsRefusedAtOnce(t *testing.T) {
	b, came, answer := busyService(t)
	g := serve(t, oneAtATime(b.address, "{P0: {patience: 60s}, P2: {patience: 2500ms}}"))
	first := g.dial()
	first.send("GET /0 HTTP/1.1\r\nHost: a\r\n\r\n")
	<-came
	var load upstream.Load
	joins := func(path string) *peer {
		before := load.Waits
		p := g.dial()
		p.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		eventually(t, "it waits or is refused", func() bool {
			load = g.loaded("s")
			return load.Waits > before || load.Hopeless > 0
		})
		return p
	}
	var last *peer
	// No faster, or the waiting room would be full before that time is over.
	for tick := time.NewTicker(5 * time.Millisecond); load.Hopeless == 0; <-tick.C {
		last = joins("/2")
	}
	r, body := last.response("GET")
	if r.StatusCode != 503 || !strings.Contains(body, ": overloaded: ") || r.Header.Get("Retry-After") == "" {
		t.Errorf("got %d %q, Retry-After %q", r.StatusCode, body, r.Header.Get("Retry-After"))
	}
	g.expectMetrics(`plimsoll_upstream_waits_hopeless_total{upstream="s"} 1`)
	important, before := g.dial(), load.Waits
	important.send("GET /0 HTTP/1.1\r\nHost: a\r\n\r\n")
	eventually(t, "P0 waits", func() bool { return g.loaded("s").Waits > before })
	answer <- true
	first.status("GET")
	if next := <-came; next != "/0" {
		t.Errorf("%s was served next, want /0", next)
	}
	answer <- true
	important.status("GET")
}

func TestStreamsOfEventsAndTunnelsTakeNoPlaceAtTheService(t *testing.T) {
	s := newService(t, func(c *serviceConn, _ int) {
		r, _, ok := c.request()
		switch {
		case !ok:
		case r.Header.Get("Upgrade") != "":
			c.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
			c.drain()
		case r.Header.Get("Accept") == "text/event-stream":
			c.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
			c.drain()
		default:
			c.write("HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	g := serve(t, oneAtATime(s.address(), "{}"))
	events, tunnel := g.dial(), g.dial()
	events.send("GET /1 HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n")
	events.expect("HTTP/1.1 200 OK\r\n")
	tunnel.send("GET /1 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
	tunnel.expect("HTTP/1.1 101 Switching Protocols\r\n")
	for range 3 {
		if status, _ := g.get("/1"); status != 204 {
			t.Errorf("beside a stream and a tunnel a request got %d", status)
		}
	}
	events.Close()
	tunnel.Close()
	eventually(t, "no slot is used", func() bool {
		status, err := g.Upstream("s")
		return err == nil && status.Targets[0].Concurrency.Used == 0
	})
}
