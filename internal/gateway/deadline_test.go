package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// dated is a config whose route tells the service of a deadline.
func dated(address, trusted, route, upstream string) string {
	return `
listeners: [{address: "127.0.0.1:0", trusted_proxies: ` + trusted + `}]
upstreams: {s: {targets: ["` + address + `"]` + upstream + `}}
routes:
  - {match: /, upstream: s, deadline_header: X-Deadline-Ms` + route + `}
  - {match: /other, upstream: s}
`
}

func TestTheServiceIsToldHowLongItIsWaitedFor(t *testing.T) {
	s := newService(t, telling("X-Deadline-Ms"))
	trusted := serveClean(t, dated(s.address(), trustLocal, ", timeout: 1h", ""))
	tried := serveClean(t, dated(s.address(), trustLocal, ", timeout: 1h", ", retry: {per_try_timeout: 10m}"))
	p := trusted.dial()
	stranger := serveClean(t, dated(s.address(), "[]", ", timeout: 1h", "")).dial()
	const hour, minute = 3_600_000, 60_000
	for name, c := range map[string]struct {
		p            *peer
		path, fields string
		most         int // and at most a minute less; 0 for none
	}{
		"the timeout":             {p, "/", "", hour},
		"a trusted peer's":        {p, "/", "X-Deadline-Ms: 1800000\r\n", hour / 2},
		"in another case":         {p, "/", "x-deadline-ms: 1800000\r\n", hour / 2},
		"more than the timeout":   {p, "/", "X-Deadline-Ms: 7200000\r\n", hour},
		"more than any number":    {p, "/", "X-Deadline-Ms: 99999999999999999999999999\r\n", hour},
		"no number":               {p, "/", "X-Deadline-Ms: 1s\r\n", hour},
		"a negative one":          {p, "/", "X-Deadline-Ms: -1\r\n", hour},
		"nothing":                 {p, "/", "X-Deadline-Ms:\r\n", hour},
		"two":                     {p, "/", "X-Deadline-Ms: 1\r\nX-Deadline-Ms: 2\r\n", hour},
		"an alias":                {p, "/", "X_Deadline_Ms: 1\r\n", hour},
		"a try's":                 {tried.dial(), "/", "", hour / 6},
		"a stranger's":            {stranger, "/", "X-Deadline-Ms: 1\r\nX_Deadline-Ms: 1\r\n", hour},
		"on another route":        {p, "/other", "", 0},
		"a stranger's on another": {stranger, "/other", "X-Deadline-Ms: 1\r\nx-deadline_ms: 1\r\n", 0},
	} {
		c.p.send("GET " + c.path + " HTTP/1.1\r\nHost: a\r\n" + c.fields + "\r\n")
		r, body := c.p.response("GET")
		if c.most == 0 {
			if r.StatusCode != 200 || body != "-" {
				t.Errorf("%s: the service is told %q with %d, want nothing", name, body, r.StatusCode)
			}
			continue
		}
		if ms, err := strconv.Atoi(body); err != nil || ms > c.most || ms < c.most-minute {
			t.Errorf("%s: the service is told %q with %d, want nearly %d", name, body, r.StatusCode, c.most)
		}
	}
	trusted.expectMetrics(`plimsoll_claims_ignored_total{claim="deadline"} 4`)
}

func TestARequestWhoseDeadlineHasPassedIsNotSent(t *testing.T) {
	s := untouched(t)
	g := serveClean(t, dated(s.address(), trustLocal, "", ""))
	p := g.dial()
	for range 2 { // the connection goes on
		p.send("GET / HTTP/1.1\r\nHost: a\r\nX-Deadline-Ms: 0\r\n\r\n")
		p.expectFailure(504, "deadline_passed")
	}
	p.Close()
	s.expectUntouched()
}

func TestADeadlineThatPassesWhileTheRequestWaitsEndsIt(t *testing.T) {
	b, came, answer := busyService(t)
	const one = ", concurrency: {mode: fixed, limit: 1}, pool: {pending_timeout: 60s}"
	g := serve(t, dated(b.address, trustLocal, "", one)+"classes: {P1: {patience: 60s}}\n")
	first, second := g.dial(), g.dial()
	first.send(get)
	<-came
	second.send("GET / HTTP/1.1\r\nHost: a\r\nX-Deadline-Ms: 20\r\n\r\n")
	second.expectFailure(504, "deadline_passed")
	answer <- true
	first.status("GET")
	if len(came) > 0 {
		t.Error("it was sent")
	}
}

func TestADeadlineThatPassesWhileTheBodyIsReceivedEndsIt(t *testing.T) {
	s := untouched(t)
	g := serveClean(t, dated(s.address(), trustLocal, "", ""))
	p := g.dial()
	p.send("POST / HTTP/1.1\r\nHost: a\r\nX-Deadline-Ms: 20\r\nContent-Length: 3\r\n\r\na")
	p.expectFailureEnd(504, "deadline_passed")
	p.Close()
	s.expectUntouched()
}

// A deadline that leaves less than the class promises is not counted as the target's failure.
func TestADeadlineBlamesATargetThatHadItsTime(t *testing.T) {
	t.Parallel() // the deadline is later than a busy machine keeps the request from the service
	s := newService(t, func(c *serviceConn, _ int) { c.drain() })
	for latency, c := range map[string]struct {
		reason   string
		failures int
	}{"10m": {"deadline_passed", 0}, "1ms": {"upstream_timeout", 1}} {
		g := serveClean(t, dated(s.address(), trustLocal, "", "")+"classes: {P1: {latency: "+latency+"}}\n")
		p := g.dial()
		p.send("GET / HTTP/1.1\r\nHost: a\r\nX-Deadline-Ms: 3000\r\n\r\n")
		p.expectFailure(504, c.reason)
		if n := g.target("s", s.address()).ConsecutiveFailures; n != c.failures {
			t.Errorf("%s: the target has %d failures, want %d", c.reason, n, c.failures)
		}
		p.Close()
	}
}

func TestATargetIsNotBlamedForAClientThatStopsInItsBody(t *testing.T) {
	t.Parallel() // its timeout is longer than a busy machine keeps the head from the service
	s := newService(t, func(c *serviceConn, _ int) { c.drain() })
	g := serveClean(t, dated(s.address(), trustLocal, ", hold_body: 0B, timeout: 4s", "")+
		"classes: {P1: {latency: 1ms}}\n")
	for name, c := range map[string]struct {
		deadline string
		status   int
		reason   string
	}{
		"the timeout":  {"", 408, "body_timeout"},
		"the deadline": {"X-Deadline-Ms: 3000\r\n", 504, "deadline_passed"},
	} {
		p := g.dial()
		p.send("POST / HTTP/1.1\r\nHost: a\r\n" + c.deadline + "Content-Length: 3\r\n\r\na")
		p.expectFailureEnd(c.status, c.reason)
		if n := g.target("s", s.address()).ConsecutiveFailures; n != 0 {
			t.Errorf("%s: the target has %d failures, want none", name, n)
		}
	}
}

func TestARetryIsToldASmallerRest(t *testing.T) {
	t.Parallel() // the first try's time is longer than a busy machine keeps it from the service
	var tries atomic.Int32
	rests := make(chan int, 2)
	b := newBackend(t, "b")
	b.answer(func(w http.ResponseWriter, r *http.Request) {
		ms, _ := strconv.Atoi(told(r, "X-Deadline-Ms"))
		rests <- ms
		if tries.Add(1) == 1 {
			<-r.Context().Done() // until the try is given up
		}
	})
	g := serve(t, dated(b.address, trustLocal, ", timeout: 1h",
		", retry: {attempts: 1, on: [timeout], per_try_timeout: 3s}"))
	p := g.dial()
	p.send("GET / HTTP/1.1\r\nHost: a\r\nX-Deadline-Ms: 3500\r\n\r\n")
	r, body := p.response("GET")
	first := <-rests
	if first < 1 || first > 3000 {
		t.Errorf("the first try had %d ms, want those of a try", first)
	}
	// On a busy machine nothing may be left for a second try.
	switch {
	case r.StatusCode == 200:
		if second := <-rests; second < 1 || second > 500 {
			t.Errorf("the second try had %d ms, want at most the 500 that were left", second)
		}
	case r.StatusCode != 504:
		t.Errorf("got %d %q", r.StatusCode, strings.TrimSpace(body))
	}
}
