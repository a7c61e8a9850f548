package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/internal/exchange"
)

// What a client meets over several requests is the same whatever it speaks: each scenario is done over
// every protocol. Single exchanges are in TestEveryProtocolIsServedAlike.
var scenarios = []struct {
	name string
	run  func(t *testing.T, p spoken)
}{
	{"a status that is listed is tried elsewhere", retriedStatus},
	{"a refused connection is tried elsewhere", retriedConnection},
	{"only what may be repeated is sent again", retriedMethods},
	{"a short body is sent again with its request", repeatedBody},
	{"the budget bounds retries", retryBudget},
	{"a route's timeout ends an exchange and no more", routeTimeout},
	{"the service is told of the deadline", deadlineHeader},
	{"a body that is held comes to the service whole", heldBody},
	{"a body that is not held comes to the service as it is sent", streamedBody},
	{"a body over max_body is refused", largeBody},
	{"a rate that is used up is refused", usedUpRate},
	{"a mirror gets each request and hurts nobody", mirroredRequests},
	{"each kind of end has its line in the access log", loggedEnds},
	{"a client that takes nothing of its response is given up", slowReader},
	{"a body that does not come is given up", slowUpload},
	{"an open breaker refuses until a trial succeeds", openBreaker},
	{"a reload under load loses nothing", loadedReload},
	{"a reload lets what is under way finish", gentleReload},
	{"a drain under load loses nothing", loadedDrain},
	{"a drain lets what is under way finish, and says that the connection ends", gentleDrain},
	{"a drain's limit cuts what is left", cutDrain},
}

func TestScenariosAreAlikeOverEveryProtocol(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range allSpoken {
				t.Run(p.name, func(t *testing.T) { s.run(t, p) })
			}
		})
	}
}

// tried is a configuration of one upstream, s, in turn over these addresses.
func tried(retry string, addresses ...string) string {
	return fmt.Sprintf("upstreams: {s: {targets: [\"%s\"], balance: round_robin, %s, retry: {%s}}}\nroutes: [{match: /, upstream: s}]\n",
		strings.Join(addresses, `", "`), noPassive, retry)
}

func retriedStatus(t *testing.T, p spoken) {
	all := backends(t, 2)
	all[0].answer(answerStatus(503))
	b := serveSpoken(t, "", tried(`on: ["503"], budget: 100%`, all[0].address, all[1].address))
	c := b.talk(p)
	for range 4 {
		c.expect(200, "b", "GET", "/")
	}
	posted := map[int]int{}
	for range 4 {
		posted[c.post("POST", "/", "x").status]++
	}
	if posted[200] != 2 || posted[503] != 2 {
		t.Errorf("POSTs, which may not be repeated, got %v", posted)
	}
}

func retriedConnection(t *testing.T, p spoken) {
	good := newService(t, replying(echo))
	b := serveSpoken(t, "", tried("budget: 100%", refusing(t), good.address()))
	c := b.talk(p)
	for range 4 { // nothing was sent, so any method may be tried again
		c.expect(200, "GET ", "GET", "/")
		if g := c.post("POST", "/", "abc"); g.status != 200 || g.body != "POST abc" {
			t.Errorf("POST got %v", g)
		}
	}
	if s := b.stats("s"); s.Retries != 8 || s.ConnectFailures != 8 {
		t.Errorf("counted %d retries and %d connect failures, want 8 of each", s.Retries, s.ConnectFailures)
	}
}

func retriedMethods(t *testing.T, p spoken) {
	for _, method := range []string{"GET", "PUT", "DELETE", "POST", "PATCH"} {
		var tries atomic.Int64
		bad, good := newService(t, breaking(&tries, 0)), newBackend(t, "b")
		c := serveSpoken(t, "", tried("", bad.address(), good.address)).talk(p)
		again, broken := method != "POST" && method != "PATCH", 0
		for range 2 {
			switch g := c.ask(method, "/"); {
			case g.status == 502 && strings.Contains(g.body, "upstream_reset"):
				broken++
			case g.status != 200:
				t.Errorf("%s got %v", method, g)
			}
		}
		if again != (broken == 0) {
			t.Errorf("of two %s %d failed", method, broken)
		}
		if n := tries.Load(); again != (n == 2) {
			t.Errorf("%s: the broken target was tried %d times", method, n)
		}
	}
}

// A short body may come with its request's head, in one piece, or behind it.
func repeatedBody(t *testing.T, p spoken) {
	for _, hold := range []string{"", ", hold_body: 0"} {
		var tries atomic.Int64
		bad, good := newService(t, breaking(&tries, 3)), newService(t, replying(echo))
		config := tried("", bad.address(), good.address())
		c := serveSpoken(t, "", strings.Replace(config, "upstream: s", "upstream: s"+hold, 1)).talk(p)
		for range 4 {
			g := c.post("PUT", "/", "abc")
			if hold == "" && (g.status != 200 || g.body != "PUT abc") {
				t.Errorf("a body that is held: got %v", g)
			}
			if hold != "" && g.status == 200 && g.body != "PUT abc" {
				t.Errorf("a body that is not held: got %v", g)
			}
		}
		if hold == "" { // one in parts, of a length that is announced or not
			tries.Store(0)
			for _, length := range []int{6, -1, -1, 6} {
				u := c.open("PUT", "/", length)
				u.send("abc", false)
				u.send("def", true)
				if g := u.read(); g.status != 200 || g.body != "PUT abcdef" {
					t.Errorf("a body in parts: got %v", g)
				}
			}
		}
		if tries.Load() == 0 {
			t.Error("the broken target was never tried")
		}
	}
}

func retryBudget(t *testing.T, p spoken) {
	const requests = 200
	b := serveSpoken(t, "", tried("attempts: 5, budget: 10%", refusing(t), refusing(t)))
	began := time.Now()
	c := b.talk(p)
	for range requests {
		if g := c.ask("GET", "/"); g.status != 502 || !strings.Contains(g.body, "connect_failed") {
			t.Fatalf("got %v", g)
		}
	}
	// The share, and the ten a second that are always allowed, with a second's worth at the start.
	most := requests/10 + 10*(uint64(time.Since(began)/time.Second)+2)
	if s := b.stats("s"); s.Retries > most || s.RetriesRefused == 0 {
		t.Errorf("%d retries of %d requests, and %d refused; want at most %d", s.Retries, requests, s.RetriesRefused, most)
	}
}

func routeTimeout(t *testing.T, p spoken) {
	silent, good := newService(t, func(c *serviceConn, _ int) { c.drain() }), newService(t, replying(echo))
	c := serveSpoken(t, "", fmt.Sprintf(`
upstreams: {s: {targets: [%q]}, good: {targets: [%q]}}
routes: [{match: /, upstream: s, timeout: 100ms}, {match: /good, upstream: good}]
`, silent.address(), good.address())).talk(p)
	for range 2 {
		if g := c.ask("GET", "/"); g.status != 504 || !strings.Contains(g.body, "upstream_timeout") {
			t.Errorf("got %v, want 504 with upstream_timeout", g)
		}
		c.expect(200, "GET ", "GET", "/good") // on the same connection
	}
}

func deadlineHeader(t *testing.T, p spoken) {
	const hour, minute = 3_600_000, 60_000
	s := newService(t, telling("X-Deadline-Ms"))
	rest := fmt.Sprintf("upstreams: {s: {targets: [%q]}}\nroutes: [{match: /, upstream: s, deadline_header: X-Deadline-Ms, timeout: 1h}]\n",
		s.address())
	trusted := serveSpoken(t, ", trusted_proxies: "+trustLocal, rest).talk(p)
	stranger := serveSpoken(t, "", rest).talk(p)
	for _, c := range []struct {
		from  *talker
		claim string
		most  int
	}{{trusted, "x", hour}, {trusted, "1800000", hour / 2}, {trusted, "7200000", hour}, {stranger, "1", hour}} {
		g := c.from.ask("GET", "/", "X-Deadline-Ms", c.claim)
		if ms, err := strconv.Atoi(g.body); err != nil || ms > c.most || ms < c.most-minute {
			t.Errorf("of %s the service is told %v, want nearly %d", c.claim, g, c.most)
		}
	}
	before := s.saw()
	if g := trusted.ask("GET", "/", "X-Deadline-Ms", "0"); g.status != 504 || !strings.Contains(g.body, "deadline_passed") {
		t.Errorf("a deadline that has passed gives %v", g)
	}
	if s.saw() != before {
		t.Error("a request whose deadline has passed was sent")
	}
}

func heldBody(t *testing.T, p spoken) {
	s := newService(t, replying(echo))
	b := serveSpoken(t, "", fmt.Sprintf("upstreams: {s: {targets: [%q]}}\nroutes: [{match: /, upstream: s}]\n", s.address()))
	for _, length := range []int{6, -1} {
		u := b.talk(p).open("POST", "/held", length)
		u.send("abc", false)
		eventually(t, "the exchange to begin", func() bool { return b.snapshot().Active == 1 })
		b.talk(p).expect(200, "GET ", "GET", "/")
		if strings.Contains(s.saw(), "/held") {
			t.Error("the service was asked before the body was there")
		}
		u.send("def", true)
		if g := u.read(); g.status != 200 || g.body != "POST abcdef" {
			t.Errorf("got %v", g)
		}
		s.mu.Lock()
		s.in.Reset()
		s.mu.Unlock()
		eventually(t, "the exchange to be over", func() bool { return b.snapshot().Active == 0 })
	}
}

func streamedBody(t *testing.T, p spoken) {
	s := newService(t, replying(echo))
	b := serveSpoken(t, "", fmt.Sprintf("upstreams: {s: {targets: [%q]}}\nroutes: [{match: /, upstream: s, hold_body: 0B}]\n", s.address()))
	for _, length := range []int{6, -1} {
		s.mu.Lock()
		s.in.Reset()
		s.mu.Unlock()
		u := b.talk(p).open("POST", "/", length)
		u.send("abc", false)
		eventually(t, "the first part at the service", func() bool { return strings.Contains(s.saw(), "abc") })
		u.send("def", true)
		if g := u.read(); g.status != 200 || g.body != "POST abcdef" {
			t.Errorf("got %v", g)
		}
	}
}

func largeBody(t *testing.T, p spoken) {
	s := newService(t, func(c *serviceConn, _ int) { c.drain() })
	b := serveSpoken(t, "", fmt.Sprintf(`
upstreams: {s: {targets: [%q]}}
routes: [{match: /, upstream: s, max_body: 10B}, {match: /streamed, upstream: s, max_body: 10B, hold_body: 0B}]
`, s.address()))
	announced := b.talk(p).open("POST", "/", 11)
	if g := announced.read(); g.status != 413 || !strings.Contains(g.body, "body_too_large") {
		t.Errorf("a length over the limit gives %v", g)
	}
	u := b.talk(p).open("POST", "/", -1)
	u.send("0123456789", false)
	u.send("a", false)
	if g := u.read(); g.status != 413 || !strings.Contains(g.body, "body_too_large") {
		t.Errorf("a body over the limit gives %v", g)
	}
	if saw := s.saw(); saw != "" {
		t.Errorf("the service saw %q", saw)
	}
	u = b.talk(p).open("POST", "/streamed", -1)
	u.send("0123456789", false)
	eventually(t, "the first part at the service", func() bool { return strings.Contains(s.saw(), "0123456789") })
	u.send("over", false)
	if g := u.read(); g.status != 413 || !strings.Contains(g.body, "body_too_large") {
		t.Errorf("a streamed body over the limit gives %v", g)
	}
	if strings.Contains(s.saw(), "over") {
		t.Error("the service saw more than the limit")
	}
	if n := b.reasons(exchange.BodyTooLarge); n != 3 {
		t.Errorf("%d are counted, want 3", n)
	}
}

func usedUpRate(t *testing.T, p spoken) {
	s := newService(t, replying(echo))
	b := serveSpoken(t, "", fmt.Sprintf("upstreams: {s: {targets: [%q]}}\nroutes: [{match: /, upstream: s, limits: [{name: all, rate: 2/h}]}]\n",
		s.address()))
	c := b.talk(p)
	for range 2 {
		c.expect(200, "GET ", "GET", "/")
	}
	for range 2 { // another connection is the same client
		g := c.ask("GET", "/")
		if seconds, err := strconv.Atoi(g.fields.Get("Retry-After")); g.status != 429 || err != nil || seconds < 1 {
			t.Errorf("got %v, want 429 with Retry-After", g)
		}
		c = b.talk(p)
	}
	if n := strings.Count(s.saw(), "GET / "); n != 2 {
		t.Errorf("the service saw %d requests, want 2", n)
	}
}

func mirroredRequests(t *testing.T, p spoken) {
	copied := make(chan string, 100)
	for name, answer := range map[string]script{
		"that answers": replying(func(r *http.Request, body string) string {
			copied <- r.Method + " " + body
			return okResponse
		}),
		"that closes":          func(c *serviceConn, _ int) { c.head() },
		"that answers garbage": answering("garbage\r\n\r\n"),
		"that never answers":   func(c *serviceConn, _ int) { c.drain() },
		"that is down":         nil,
	} {
		address := refusing(t)
		if answer != nil {
			address = newService(t, answer).address()
		}
		s := newService(t, replying(echo))
		c := serveSpoken(t, "", fmt.Sprintf(`
upstreams: {s: {targets: [%q]}, m: {targets: [%q]}}
routes: [{match: /, upstream: s, mirror: {upstream: m}, timeout: 2s}]
`, s.address(), address)).talk(p)
		for range 3 {
			c.expect(200, "GET ", "GET", "/")
			if g := c.post("POST", "/", "abc"); g.status != 200 || g.body != "POST abc" {
				t.Errorf("with a mirror %s a POST gets %v", name, g)
			}
		}
		if n := strings.Count(s.saw(), "HTTP/1.1"); n != 6 {
			t.Errorf("with a mirror %s the service saw %d requests, want 6", name, n)
		}
	}
	count := map[string]int{}
	for range 6 {
		count[<-copied]++
	}
	if count["GET "] != 3 || count["POST abc"] != 3 {
		t.Errorf("the mirror got %v", count)
	}
}

func openBreaker(t *testing.T, p spoken) {
	s := newBackend(t, "s")
	s.answer(answerStatus(500))
	b := serveSpoken(t, "", fmt.Sprintf(`
upstreams:
  s:
    targets: [%q]
    breaker: {scope: upstream, failure_ratio: 50%%, min_requests: 6, window: 1h, trials: 1, ramp: 0s, open_for: 200ms}
routes: [{match: /, upstream: s}]
`, s.address))
	c := b.talk(p)
	for range 6 {
		c.expect(500, "", "GET", "/")
	}
	var refusal *got
	eventually(t, "a refusal", func() bool { // on a slow machine a trial may come first, and fail
		refusal = c.ask("GET", "/")
		return refusal.status == 503
	})
	if seconds, err := strconv.Atoi(refusal.fields.Get("Retry-After")); err != nil || seconds < 1 ||
		!strings.Contains(refusal.body, "breaker_open") {
		t.Errorf("the refusal is %v", refusal)
	}
	s.answer(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "well") })
	eventually(t, "a trial succeeds", func() bool { return c.ask("GET", "/").status == 200 })
	for range 10 {
		c.expect(200, "well", "GET", "/")
	}
}
