package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
)

// limited is a gateway that answers by itself, with limits of its listener.
func limited(limits string) string {
	return "listeners: [{address: \"127.0.0.1:0\", limits: {" + limits + "}}]\nroutes: [{match: /, respond: {body: ok}}]\n"
}

const plainGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

func TestConnectionsBeyondTheListenersBoundAreClosedAndCounted(t *testing.T) {
	for _, c := range []struct {
		limits string
		why    telemetry.ConnRefusal
	}{{"max_connections: 2", telemetry.ListenerFull}, {"max_connections_per_address: 2", telemetry.AddressFull}} {
		g := serve(t, limited(c.limits))
		var kept []*peer
		for range 2 {
			p := g.dial()
			p.send(plainGet)
			p.response("GET")
			kept = append(kept, p)
		}
		if over := g.dial(); over.rest() != "" {
			t.Errorf("%s: a connection too many was told something", c.limits)
		}
		if n := g.snapshot().RefusedConnections[c.why]; n != 1 {
			t.Errorf("%s: %d refusals counted, want 1", c.limits, n)
		}
		for _, p := range kept {
			p.send(plainGet)
			if r, _ := p.response("GET"); r.StatusCode != 200 {
				t.Errorf("%s: an earlier connection: %d", c.limits, r.StatusCode)
			}
		}
		kept[0].Close()
		eventually(t, "the closed one's place is free", func() bool { return g.snapshot().Closed == 1 })
		p := g.dial()
		p.send(plainGet)
		p.response("GET")
	}
}

func TestAHeadThatDoesNotArriveInTimeGets408(t *testing.T) {
	g := serve(t, limited("head_timeout: 50ms"))
	p := g.dial()
	p.send("GET / HTTP/1.1\r\nHost:")
	if got := p.rest(); !strings.HasPrefix(got, "HTTP/1.1 408 ") || !strings.Contains(got, "head_timeout") {
		t.Errorf("got %q", got)
	}
	if n := g.snapshot().Reasons[exchange.HeadTimeout]; n != 1 {
		t.Errorf("%d counted, want 1", n)
	}
}

func TestAnIdleConnectionIsClosed(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	g := serve(t, limited("idle_timeout: 1s"))
	fresh, used := g.dial(), g.dial()
	used.send(plainGet)
	used.response("GET")
	if fresh.rest() != "" || used.rest() != "" {
		t.Error("an idle connection was told something")
	}
}

func TestAConnectionEndsInAnOrderlyWayAfterItsLastRequest(t *testing.T) {
	g := serve(t, limited("max_requests: 2"))
	p := g.dial()
	p.send(plainGet + plainGet + plainGet)
	for n := range 2 {
		if r, _ := p.response("GET"); r.Close != (n == 1) {
			t.Errorf("answer %d: close is %v", n+1, r.Close)
		}
	}
	if rest := p.rest(); rest != "" {
		t.Errorf("after the last answer came %q", rest)
	}
}

func TestABodyThatComesTooSlowlyGets408(t *testing.T) {
	t.Parallel() // it takes the ten seconds that the rate is measured over
	held := newGate(t)
	s := newService(t, held.script)
	g := serve(t, strings.Replace(oneUpstream(s.address()), `"127.0.0.1:0"`, `"127.0.0.1:0", limits: {min_body_rate: 100B}`, 1))
	p := g.dial()
	p.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc")
	if got := p.rest(); !strings.HasPrefix(got, "HTTP/1.1 408 ") || !strings.Contains(got, "body_timeout") {
		t.Errorf("got %q", got)
	}
}

// pouring answers with a body that never ends: bytes as they are let, a megabyte each, and without
// a pause when let is nil.
func pouring(let chan bool) script {
	megabyte := strings.Repeat("0123456789abcdef", 1<<16)
	return func(c *serviceConn, _ int) {
		if c.head() == "" {
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
		for {
			if let != nil {
				if _, ok := <-let; !ok {
					return
				}
			}
			if _, err := io.WriteString(c, megabyte); err != nil {
				return
			}
		}
	}
}

func TestAClientThatTakesNothingOfItsResponseIsCut(t *testing.T) {
	s := newService(t, pouring(nil))
	g := serve(t, strings.Replace(oneUpstream(s.address()), `"127.0.0.1:0"`, `"127.0.0.1:0", limits: {send_timeout: 50ms}`, 1))
	p := g.dial()
	p.send(plainGet)
	eventually(t, "the exchange is cut", func() bool { return g.snapshot().Reasons[exchange.ClientSlow] == 1 })
	r, err := http.ReadResponse(p.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r.Body); err == nil {
		t.Error("a cut-off response looks whole")
	}
}

func TestAClientThatTakesItsResponseTooSlowlyIsCut(t *testing.T) {
	t.Parallel()
	s := newService(t, pouring(nil))
	// A gigabyte a second is more than anybody takes here, so the slow reader below is far from it
	// and yet never still.
	g := serve(t, strings.Replace(oneUpstream(s.address()), `"127.0.0.1:0"`,
		`"127.0.0.1:0", limits: {send_timeout: 1s, min_body_rate: 1GB}`, 1))
	p := g.dial()
	p.send(plainGet)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := int64(0); ; n++ {
		<-tick.C
		if _, err := io.CopyN(io.Discard, p.r, 64<<10); err != nil {
			break
		}
		if n == 1000 {
			t.Fatal("a client that is too slow was served on")
		}
	}
	if g.snapshot().Reasons[exchange.ClientSlow] != 1 {
		t.Error("the cut was not counted as client_slow")
	}
}

func TestAClientThatStopsTakingItsResponseLaterIsCutToo(t *testing.T) {
	t.Parallel() // the gateway's timer has to pass once while nothing waits for the client
	let := make(chan bool)
	s := newService(t, pouring(let))
	pour := func(megabytes int) {
		for range megabytes {
			select {
			case let <- true:
			case <-t.Context().Done():
				return
			}
		}
	}
	g := serve(t, strings.Replace(oneUpstream(s.address()), `"127.0.0.1:0"`,
		`"127.0.0.1:0", limits: {send_timeout: 3s, head_timeout: 4s}`, 1))
	p := g.dial()
	p.send(plainGet)
	go pour(32)
	eventually(t, "bytes wait for the client", func() bool { return g.snapshot().BuffersOut[len(reactor.Sizes)-1] > 0 })
	if _, err := io.CopyN(io.Discard, p.r, 32<<20); err != nil {
		t.Fatal(err)
	}
	other := g.dial()
	other.send("GET")
	other.rest() // after its time for a head, which is longer than the first's for taking something
	go pour(64)
	eventually(t, "the exchange is cut", func() bool { return g.snapshot().Reasons[exchange.ClientSlow] == 1 })
}

func TestAClientThatPipelinesAndTakesNoAnswersCannotFillTheMemory(t *testing.T) {
	const requests = 5000 // responses of 5 MB, far more than what lies between the two can hold
	g := serve(t, "loops: 1\nlisteners: [{address: \"127.0.0.1:0\"}]\nroutes: [{match: /, "+
		"respond: {body: \""+strings.Repeat("x", 1000)+"\"}}]\n")
	p := g.dialNarrow()
	go io.WriteString(p, strings.Repeat(plainGet, requests))
	before := uint64(0)
	eventually(t, "the gateway answers no more", func() bool {
		n := g.snapshot().Requests
		still := n > 0 && n == before
		before = n
		return still
	})
	if before == requests {
		t.Error("all requests are answered though no answer is taken")
	}
	held := int64(0)
	for class, n := range g.snapshot().BuffersOut[:len(reactor.Sizes)] {
		held += n * int64(reactor.Sizes[class])
	}
	if held > 1<<20 {
		t.Errorf("%d bytes are held for a client that takes nothing", held)
	}
	for n := range requests {
		if r, _ := p.response("GET"); r.StatusCode != 200 {
			t.Fatalf("answer %d: %d", n+1, r.StatusCode)
		}
	}
}

func TestTheHardLimitOfDescriptorsMayBeTooLow(t *testing.T) {
	c := startChild(t, limited(""), childDescriptors+"=100")
	eventually(t, "the process ends", c.over)
	eventually(t, "its words arrive", func() bool { return c.logged.String() != "" })
	lines := strings.TrimSpace(c.logged.String())
	if c.cmd.ProcessState.ExitCode() != 2 || !strings.Contains(lines, "hard limit of descriptors is 100") || strings.Contains(lines, "\n") {
		t.Errorf("exit %d and\n%s\nwant one clear line", c.cmd.ProcessState.ExitCode(), lines)
	}
}

func TestAnAcceptQueueThatTheKernelCutsIsWarnedOf(t *testing.T) {
	g := serve(t, "listeners: [{address: \"127.0.0.1:0\", backlog: 65535}]\nroutes: [{match: /, respond: {}}]\n")
	if log := g.logged.String(); !strings.Contains(log, "net.core.somaxconn") {
		t.Errorf("no warning in\n%s", log)
	}
}

// metric is one value of the child's metrics, over a connection that is kept: when descriptors run
// out there is no other.
func metric(t *testing.T, client *http.Client, admin, name string) float64 {
	t.Helper()
	r, err := client.Get("http://" + admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, m := range regexp.MustCompile(`(?m)^`+name+`(?:\{[^}]*\})? (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += v
	}
	return sum
}

// shedOf is how many of n connections are closed before anything is said on them.
func shedOf(t *testing.T, address string, n int) (shed int) {
	t.Helper()
	for range n {
		c := dialRaw(t, address)
		if got, err := c.Read(make([]byte, 1)); got == 0 && err != nil {
			shed++
		}
		c.Close()
	}
	return shed
}

func TestWithoutDescriptorsNewConnectionsAreShedAndTheOthersServed(t *testing.T) {
	held := newGate(t)
	s := newService(t, held.script)
	address, admin := freeAddress(t), freeAddress(t)
	c := startChild(t, `
loops: 1
listeners: [{address: "`+address+`"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes: [{match: /held, upstream: s}, {match: /, respond: {body: ok}}]
admin: {address: "`+admin+`"}
`, childDescriptors+"=256")
	eventually(t, "the gateway serves", func() bool { return strings.Contains(c.logged.String(), "msg=serving") })
	scraper := &http.Client{}
	metric(t, scraper, admin, "plimsoll_loop_turns_total")

	// Each of these takes two descriptors, until there are none.
	var clients []*peer
	for range 190 {
		p := dialRaw(t, address)
		p.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
		clients = append(clients, p)
	}
	if shed := shedOf(t, address, 200); shed != 200 {
		t.Errorf("%d of 200 connections were closed, want all", shed)
	}
	refused := metric(t, scraper, admin, `plimsoll_connections_refused_total`)
	if refused < 200 {
		t.Errorf("%v connections were counted as refused, want at least 200", refused)
	}
	if turns := metric(t, scraper, admin, "plimsoll_loop_turns_total"); turns == 0 || turns > 20_000 {
		t.Errorf("the loop turned %v times: it is busy with nothing", turns)
	}
	if n := strings.Count(c.logged.String(), "no descriptor is left"); n == 0 || n > 5 {
		t.Errorf("%d lines were logged of it, want a few", n)
	}

	// Those it has are served: with the service's answer, or with 503 where there was no descriptor
	// to reach it.
	for range clients {
		held.let <- okResponse
	}
	answered, busy := 0, 0
	for _, p := range clients {
		r, err := http.ReadResponse(bufio.NewReader(p), nil)
		if err != nil {
			continue // it was one of those that were shed
		}
		if r.StatusCode == 200 {
			answered++
		} else if r.StatusCode == 503 {
			busy++
		}
		p.Close()
	}
	if answered == 0 || busy == 0 || answered+busy < 100 {
		t.Errorf("%d clients were answered and %d told that there is no room, of %d", answered, busy, len(clients))
	}
	eventually(t, "new clients are served again", func() bool {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		fmt.Fprint(conn, plainGet)
		_, err = http.ReadResponse(bufio.NewReader(conn), nil)
		return err == nil
	})
}
