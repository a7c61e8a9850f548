package gateway

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/internal/exchange"
)

// retrying is a configuration of one upstream, s, in turn over these addresses, whose health is
// nobody's business. With two of them every request whose first try fails at the first leaves the
// turn at the first again.
func retrying(retry string, addresses ...string) string {
	return fmt.Sprintf(`
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["%s"], balance: round_robin, %s, retry: {%s}}}
routes: [{match: /, upstream: s, timeout: 10m}, {match: /short, upstream: s, timeout: 1s}]
`, strings.Join(addresses, `", "`), noPassive, retry)
}

// connecting is a configuration in which a connection must be made within a time.
func connecting(within, config string) string {
	return strings.Replace(config, "retry:", "pool: {connect_timeout: "+within+"}, retry:", 1)
}

// breaking reads a request, body included, and closes the connection without a word.
func breaking(tries *atomic.Int64, body int) script {
	return func(c *serviceConn, _ int) {
		if c.head() == "" {
			return
		}
		tries.Add(1)
		io.CopyN(io.Discard, c.R, int64(body))
	}
}

// accepting reads requests with bodies of a length and answers them.
func accepting(body int) script {
	return arrivals(nil, func(c *serviceConn, _ int) bool {
		if _, err := io.CopyN(io.Discard, c.R, int64(body)); err != nil {
			return false
		}
		_, err := io.WriteString(c, okResponse)
		return err == nil
	})
}

func TestARefusedConnectionIsNotSeenWhereThereIsAnotherTarget(t *testing.T) {
	b := newBackend(t, "b")
	g := serve(t, retrying("budget: 100%", refusing(t), b.address))
	expectOnly(t, g.crowd(1, 20, "/"), "200 b", 20)
	if s := g.stats("s"); s.Retries != 20 || s.ConnectFailures != 20 {
		t.Errorf("counted %d retries and %d connect failures, want 20 of each", s.Retries, s.ConnectFailures)
	}
}

func TestAConnectionThatTakesTooLongIsTriedElsewhere(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	b := newBackend(t, "b")
	g := serve(t, connecting("500ms", retrying("budget: 100%", deaf(t), b.address)))
	// Nothing was written, so any method may be tried again.
	for _, method := range []string{"GET", "POST"} {
		for range 2 {
			if status, body, err := fetch(g.client(), method, g.url("/")); status != 200 || body != "b" {
				t.Errorf("%s got %d %q %v", method, status, body, err)
			}
		}
	}
}

func TestAConnectionThatTakesTooLongIs504(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	g := serve(t, connecting("100ms", retrying("attempts: 0", deaf(t))))
	if status, body := g.get("/"); status != 504 || !strings.Contains(body, "connect_failed") {
		t.Errorf("got %d %q, want 504 with connect_failed", status, body)
	}
	if n := g.stats("s").ConnectFailures; n != 1 {
		t.Errorf("%d connect failures were counted, want 1", n)
	}
}

func TestARefusedConnectionIs502(t *testing.T) {
	g := serve(t, retrying("", refusing(t)))
	if status, body := g.get("/"); status != 502 || !strings.Contains(body, "connect_failed") {
		t.Errorf("got %d %q, want 502 with connect_failed", status, body)
	}
	if n := g.stats("s").Retries; n != 1 {
		t.Errorf("%d retries were counted, want 1", n)
	}
}

func TestABrokenConnectionIsTriedElsewhereWhenTheRequestMayBeRepeated(t *testing.T) {
	for _, c := range []struct {
		method string
		again  bool
	}{{"GET", true}, {"HEAD", true}, {"OPTIONS", true}, {"PUT", true}, {"DELETE", true}, {"POST", false}, {"PATCH", false}} {
		t.Run(c.method, func(t *testing.T) {
			var tries atomic.Int64
			bad, good := newService(t, breaking(&tries, 0)), newBackend(t, "b")
			g := serve(t, retrying("", bad.address(), good.address))
			broken := 0
			for range 2 {
				status, body, err := fetch(g.client(), c.method, g.url("/"))
				switch {
				case err != nil:
					t.Fatal(err)
				case status == 502 && strings.Contains(body, "upstream_reset"):
					broken++
				case status != 200:
					t.Errorf("got %d %q", status, body)
				}
			}
			if c.again != (broken == 0) {
				t.Errorf("of two requests %d failed", broken)
			}
			want := int64(1)
			if c.again {
				want = 2
			}
			if n := tries.Load(); n != want {
				t.Errorf("the broken target was tried %d times, want %d", n, want)
			}
		})
	}
}

func TestABodyThatIsHeldGoesOutAgainWhole(t *testing.T) {
	for _, framing := range []string{"Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"} {
		t.Run(framing[:7], func(t *testing.T) {
			_, body, _ := strings.Cut(framing, "\r\n\r\n")
			var tries atomic.Int64
			bad, good := newService(t, breaking(&tries, len(body))), newService(t, accepting(len(body)))
			g := serve(t, retrying("", bad.address(), good.address()))
			p := g.dial()
			for range 2 {
				p.send("PUT /x HTTP/1.1\r\nHost: a\r\n" + framing)
				if r, answer := p.response("PUT"); r.StatusCode != 200 {
					t.Fatalf("got %d %q", r.StatusCode, answer)
				}
			}
			if n := strings.Count(good.saw(), body); n != 2 || tries.Load() != 2 {
				t.Errorf("the good target got the body %d times of 2, the bad one %d requests of 2:\n%s", n, tries.Load(), good.saw())
			}
		})
	}
}

func TestABodyThatHasBeenStreamedIsNotSentAgain(t *testing.T) {
	heads := make(chan string, 4)
	bad := newService(t, arrivals(heads, func(c *serviceConn, _ int) bool {
		io.CopyN(io.Discard, c.R, 10)
		return false
	}))
	good := newBackend(t, "b")
	g := serve(t, streamed(retrying("", bad.address(), good.address)))
	for range 2 {
		p := g.dial()
		p.send("PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
		eventually(t, "the head to arrive somewhere", func() bool { return len(heads) > 0 || good.requests.Load() > 0 })
		p.send("world")
		r, body := p.response("PUT")
		if len(heads) == 0 {
			if r.StatusCode != 200 {
				t.Errorf("the good target's answer was %d %q", r.StatusCode, body)
			}
			good.requests.Store(0)
			continue
		}
		<-heads
		if r.StatusCode != 502 || !strings.Contains(body, "upstream_reset") {
			t.Errorf("got %d %q, want 502 with upstream_reset", r.StatusCode, body)
		}
	}
	if n := g.stats("s").Retries; n != 0 {
		t.Errorf("%d retries, want none", n)
	}
}

func TestATryThatTakesTooLongIsTriedElsewhere(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	release := make(chan struct{})
	defer close(release)
	all := backends(t, 2)
	all[0].answer(hanging(release))
	g := serve(t, retrying(`on: [timeout], per_try_timeout: 1s`, all[0].address, all[1].address))
	expectOnly(t, g.crowd(1, 2, "/"), "200 b", 2)
	if n := all[0].requests.Load(); n != 2 {
		t.Errorf("the slow target was tried %d times, want 2", n)
	}
	// Without timeout among the outcomes the first is the last.
	if err := g.reload(retrying(`on: [connect], per_try_timeout: 1s`, all[0].address, all[1].address)); err != nil {
		t.Fatal(err)
	}
	got := g.crowd(1, 2, "/")
	if got["200 b"] != 1 || got["504 504 Gateway Timeout: upstream_timeout: the service did not answer in time"] != 1 {
		t.Errorf("the clients got %v", got)
	}
}

func TestASlowBodyDoesNotUseUpATrysTime(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	release := make(chan struct{})
	defer close(release)
	heads := make(chan string, 4)
	s := newService(t, func(c *serviceConn, _ int) {
		head := c.head()
		heads <- head
		if strings.HasPrefix(head, "GET /hang") {
			<-release
			return
		}
		io.CopyN(io.Discard, c.R, 10)
		io.WriteString(c, okResponse)
	})
	g := serve(t, streamed(retrying("attempts: 0, per_try_timeout: 1s", s.address())))
	upload := g.dial()
	upload.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
	<-heads
	// Another request's try begins now and runs out of time, and with it the time that the upload's
	// would have had.
	if status, body := g.get("/hang"); status != 504 {
		t.Fatalf("got %d %q, want 504", status, body)
	}
	upload.send("world")
	if r, body := upload.response("PUT"); r.StatusCode != 200 || body != "ok" {
		t.Errorf("the upload got %d %q", r.StatusCode, body)
	}
}

func TestListedStatusesAreTriedElsewhere(t *testing.T) {
	for _, code := range []int{502, 503, 504} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			all := backends(t, 2)
			all[0].answer(answerStatus(code))
			g := serve(t, retrying(fmt.Sprintf(`on: ["%d"]`, code), all[0].address, all[1].address))
			expectOnly(t, g.crowd(1, 4, "/"), "200 b", 4)
			posted := map[int]int{}
			c := g.client()
			for range 4 {
				status, _, _ := fetch(c, "POST", g.url("/"))
				posted[status]++
			}
			if posted[200] != 2 || posted[code] != 2 {
				t.Errorf("POSTs, which may not be repeated, got %v", posted)
			}
			other := 502 + (code-502+1)%3
			all[0].answer(answerStatus(other))
			if got := g.crowd(1, 4, "/"); got[fmt.Sprintf("%d ", other)] != 2 {
				t.Errorf("with a status that is not listed the clients got %v", got)
			}
		})
	}
}

func TestTheLastStatusIsPassedOnAsItCame(t *testing.T) {
	all := backends(t, 2)
	for _, b := range all {
		b.answer(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(503)
			io.WriteString(w, "closed on Sundays")
		})
	}
	g := serve(t, retrying(`on: ["503"]`, all[0].address, all[1].address))
	expectOnly(t, g.crowd(1, 1, "/"), "503 closed on Sundays", 1)
	if all[0].requests.Load() != 1 || all[1].requests.Load() != 1 {
		t.Errorf("the targets were tried %d and %d times, want once each", all[0].requests.Load(), all[1].requests.Load())
	}
}

func TestRetriesDoNotBecomeAStorm(t *testing.T) {
	const clients, each = 8, 100
	for _, way := range []string{"broken", "refused"} {
		t.Run(way, func(t *testing.T) {
			var tries atomic.Int64
			addresses := []string{refusing(t), refusing(t)}
			if way == "broken" {
				addresses = []string{newService(t, breaking(&tries, 0)).address(), newService(t, breaking(&tries, 0)).address()}
			}
			g := serve(t, retrying("attempts: 5, budget: 10%", addresses...))
			began := time.Now()
			got := g.crowd(clients, each, "/")
			seconds := int64(time.Since(began)/time.Second) + 1
			if len(got) != 1 {
				t.Errorf("the clients got %v, want only failures", got)
			}
			s := g.stats("s")
			// The share, and the ten a second that are always allowed, with a second's worth at the
			// start.
			most := int64(clients*each/10) + 10*(seconds+1)
			if int64(s.Retries) > most {
				t.Errorf("%d retries of %d requests, want at most %d", s.Retries, clients*each, most)
			}
			if s.RetriesRefused == 0 {
				t.Error("no retry was refused")
			}
			if n := tries.Load(); way == "broken" && n != int64(clients*each)+int64(s.Retries) {
				t.Errorf("the services saw %d tries, want the %d requests and %d retries", n, clients*each, s.Retries)
			}
		})
	}
}

func TestAServiceThatDoesNotAnswerIs504(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	release := make(chan struct{})
	defer close(release)
	b := newBackend(t, "a")
	b.answer(hanging(release))
	g := serve(t, retrying("attempts: 5", b.address))
	if status, body := g.get("/short"); status != 504 || !strings.Contains(body, "upstream_timeout") {
		t.Errorf("got %d %q, want 504 with upstream_timeout", status, body)
	}
	eventually(t, "the request to arrive", func() bool { return b.requests.Load() > 0 })
	if n := b.requests.Load(); n != 1 {
		t.Errorf("the service was tried %d times in a time that belongs to all tries together, want once", n)
	}
	if s := g.stats("s"); s.Retries != 0 {
		t.Errorf("%d retries were counted, want none", s.Retries)
	}
}

func TestTheRoutesTimeoutHoldsForAllTriesTogether(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	release := make(chan struct{})
	defer close(release)
	all := backends(t, 2)
	for _, b := range all {
		b.answer(hanging(release))
	}
	g := serve(t, retrying("attempts: 5, budget: 100%, on: [timeout], per_try_timeout: 400ms", all[0].address, all[1].address))
	if status, body := g.get("/short"); status != 504 || !strings.Contains(body, "upstream_timeout") {
		t.Errorf("got %d %q, want 504 with upstream_timeout", status, body)
	}
	retries := int64(g.stats("s").Retries)
	if retries > 2 {
		t.Errorf("%d tries of 400 ms were begun within a second", retries+1)
	}
	// The last may have ended on its way to the service.
	if tries := all[0].requests.Load() + all[1].requests.Load(); tries > retries+1 {
		t.Errorf("%d retries were counted, the services saw %d tries", retries, tries)
	}
}

func TestAClientThatLeavesEndsTheTries(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	all := backends(t, 2)
	for _, b := range all {
		b.answer(hanging(release))
	}
	// Each try is longer than the test's patience, so that a second one can only come from the
	// client's leaving.
	g := serve(t, retrying("attempts: 5, budget: 100%, on: [connect, reset, timeout], per_try_timeout: 9m", all[0].address, all[1].address))
	p := g.dial()
	p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	eventually(t, "the first try", func() bool { return all[0].requests.Load()+all[1].requests.Load() == 1 })
	p.Close()
	eventually(t, "the client's leaving to be counted", func() bool { return g.snapshot().Ends[exchange.ClientGone] == 1 })
	eventually(t, "the connection upstream to be closed", func() bool { return all[0].open.Load()+all[1].open.Load() == 0 })
	if n := all[0].requests.Load() + all[1].requests.Load(); n != 1 {
		t.Errorf("%d tries, want 1", n)
	}
	for _, b := range all {
		if n := g.target("s", b.address).Connections; n != 0 {
			t.Errorf("%d connections to %s are counted, want none", n, b.address)
		}
	}
}

func TestAttemptsAreInMetricsAndTheAccessLog(t *testing.T) {
	var tries atomic.Int64
	services := []string{newService(t, breaking(&tries, 0)).address(), newService(t, breaking(&tries, 0)).address()}
	log := filepath.Join(t.TempDir(), "access.log")
	g := serve(t, fmt.Sprintf("access_log: {path: %q}", log)+retrying("attempts: 3, budget: 100%", services...))
	if status, _ := g.get("/"); status != 502 {
		t.Errorf("got %d, want 502", status)
	}
	if s := g.stats("s"); s.Retries != 3 || tries.Load() != 4 {
		t.Errorf("counted %d retries, the services saw %d tries; want 3 and 4", s.Retries, tries.Load())
	}
	eventually(t, "the access log to say so", func() bool {
		text, _ := os.ReadFile(log)
		return strings.Contains(string(text), `"attempts":4`)
	})
	if n := g.snapshot().Ends[exchange.UpstreamFailed]; n != 1 {
		t.Errorf("%d exchanges ended by the upstream's failure, want 1", n)
	}
}

func TestATLSHandshakeThatFailsIsTriedElsewhere(t *testing.T) {
	good := newBackendAt(t, "b", "tcp", "127.0.0.1:0", secured(t))
	bad := newService(t, func(c *serviceConn, _ int) { io.WriteString(c, "SSH-2.0-what\r\n") })
	g := serve(t, strings.Replace(retrying("budget: 100%", bad.address(), good.address), "retry:",
		"tls: {insecure_skip_verify: true}, retry:", 1))
	expectOnly(t, g.crowd(1, 4, "/"), "200 b", 4)
	if s := g.stats("s"); s.ConnectFailures != 4 || s.Opened != 1 {
		t.Errorf("counted %d connect failures and %d connections, want 4 and 1", s.ConnectFailures, s.Opened)
	}
	if n := g.target("s", bad.address()).Connections; n != 0 {
		t.Errorf("%d connections to the bad target are counted, want none", n)
	}
}

func TestATLSHandshakeThatTakesTooLongIsGivenUp(t *testing.T) {
	mute := newService(t, func(c *serviceConn, _ int) { io.Copy(io.Discard, c.R) })
	g := serve(t, connecting("100ms", strings.Replace(retrying("attempts: 0", mute.address()),
		"retry:", "tls: {insecure_skip_verify: true}, retry:", 1)))
	if status, body := g.get("/"); status != 504 || !strings.Contains(body, "connect_failed") {
		t.Errorf("got %d %q, want 504 with connect_failed", status, body)
	}
	eventually(t, "the connection to be counted off", func() bool { return g.target("s", mute.address()).Connections == 0 })
}

func TestAnInterimResponseDoesNotEndATry(t *testing.T) {
	s := newService(t, answering("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"+okResponse))
	g := serve(t, retrying("", s.address()))
	p := g.dial()
	p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	for _, want := range []int{103, 200} {
		if r, _ := p.response("GET"); r.StatusCode != want {
			t.Errorf("got %d, want %d", r.StatusCode, want)
		}
	}
}

func TestABodyThatIsCutOffIsNotRepeatedAndDoesNotPassForWhole(t *testing.T) {
	var tries atomic.Int64
	s := newService(t, func(c *serviceConn, _ int) {
		if c.head() != "" {
			tries.Add(1)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
		}
	})
	g := serve(t, retrying("attempts: 5", s.address()))
	status, body, err := fetch(g.client(), "GET", g.url("/"))
	if err == nil {
		t.Errorf("the client takes %d %q for a whole response", status, body)
	}
	if n := tries.Load(); n != 1 {
		t.Errorf("%d tries, want 1: a part had gone out", n)
	}
}
