package gateway

import (
	"bufio"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var soakTime = flag.Duration("soak", time.Second,
	"how long nobody behaves at least; what is asserted does not depend on it")

// soakWhole is how many answers must have come through whole for a soak to have tested something.
const soakWhole = 100

const soakClients = 40

// soak is a world in which nobody behaves.
type soak struct {
	t      *testing.T
	g      *instance
	secure *tls.Config // of the services; nil for plain text
	over   atomic.Bool
	tokens atomic.Int64
	served atomic.Int64 // connections that the services hold
	wg     sync.WaitGroup

	mu     sync.Mutex
	posted map[string]int // how often a service saw each POST
	wrong  map[string]int // what no client should have seen
	whole  int            // answers that good clients got whole
}

// TestNothingIsLeftBehindWhenNobodyBehaves has random clients meet random services through a
// gateway whose configuration and targets change all the while. Afterwards nothing may be left of
// it, and all that was counted must agree.
func TestNothingIsLeftBehindWhenNobodyBehaves(t *testing.T) {
	t.Run("plain", func(t *testing.T) { soakWith(t, nil) })
	t.Run("tls", func(t *testing.T) {
		soakWith(t, &tls.Config{Certificates: []tls.Certificate{throwawayCertificate(t)}})
	})
}

// soakWith runs the soak; with a TLS config the gateway speaks TLS with the services.
func soakWith(t *testing.T, secure *tls.Config) {
	s := &soak{t: t, secure: secure, posted: map[string]int{}, wrong: map[string]int{}}
	var targets []string
	for seed := range uint64(4) {
		r := &lockedRand{r: rand.New(rand.NewPCG(1, seed))}
		targets = append(targets, newService(t, func(c *serviceConn, _ int) { s.misserve(c, r) }).address())
	}
	s.g = serve(t, s.config(0, targets))
	for seed := range uint64(soakClients) {
		r := rand.New(rand.NewPCG(2, seed))
		s.wg.Go(func() { s.behave(r, int(seed)) })
	}
	s.wg.Go(func() { s.meddle(rand.New(rand.NewPCG(3, 0)), targets) })
	s.last()
	s.over.Store(true)
	s.wg.Wait()
	s.settle()
	s.judge()
	s.g.end()
	ended := func() bool { return s.served.Load() == 0 }
	eventually(t, "the connections to the services to end", ended)
}

// judge says what clients and services should not have seen.
func (s *soak) judge() {
	t := s.t
	s.mu.Lock() // a service may still read what it will not answer
	defer s.mu.Unlock()
	for what, n := range s.wrong {
		t.Errorf("%d times: %s", n, what)
	}
	for token, n := range s.posted {
		if n > 1 {
			t.Errorf("the POST %s was carried out %d times", token, n)
		}
	}
	if s.whole < soakWhole {
		t.Errorf("only %d answers came through whole: the soak has tested little", s.whole)
	}
	t.Logf("%d exchanges, %d of them answered whole to good clients, %d POSTs", s.g.snapshot().Requests, s.whole, len(s.posted))
}

// last waits until the soak has lasted its time and has tested something.
func (s *soak) last() {
	<-time.After(*soakTime)
	enough := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.whole >= soakWhole
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	// On a machine that is busy most requests are given up, as the config's timeouts say.
	for deadline := time.Now().Add(2 * patience); !enough() && time.Now().Before(deadline); {
		<-tick.C
	}
}

// config is one of several configurations: some differ in what an upstream keeps over a reload,
// some in what it does not.
func (s *soak) config(n int, targets []string) string {
	if n%3 == 2 {
		targets = targets[1:]
	}
	more := ""
	if s.secure != nil {
		more = "tls: {insecure_skip_verify: true}"
	}
	return fmt.Sprintf(`
loops: 2
listeners:
  - {address: "127.0.0.1:0", limits: {head_timeout: 200ms, idle_timeout: 500ms, send_timeout: 300ms}}
upstreams:
  s:
    targets: ["%s"]
    balance: %s
    pool: {max_connections: %d, max_pending: 8, pending_timeout: 100ms, idle_timeout: 200ms, max_requests: %d, connect_timeout: 200ms}
    retry: {attempts: 2, on: [connect, reset, timeout, "503"], per_try_timeout: 150ms}
    health: {passive: {consecutive_failures: 3, eject_for: 100ms}}
    %s
routes:
  - {match: /, upstream: s, timeout: 400ms, stream_timeout: 200ms}
  - {match: /own, respond: {body: own}}
`, strings.Join(targets, `", "`), []string{"p2c", "round_robin", "least_requests", "random"}[n%4], 3+n%2*5, n%5*10, more)
}

// meddle reloads, drains and restores.
func (s *soak) meddle(r *rand.Rand, targets []string) {
	for n := 1; !s.over.Load(); n++ {
		if r.IntN(2) == 0 {
			if err := s.g.reload(s.config(n, targets)); err != nil {
				s.note("a reload failed: " + err.Error())
			}
		}
		u, target := s.g.service("s"), targets[r.IntN(len(targets))]
		if r.IntN(3) == 0 {
			u.Drain(target) // which it may not have at the moment
		} else {
			u.Restore(target)
		}
		<-time.After(time.Duration(r.IntN(40)) * time.Millisecond)
	}
	for _, target := range targets {
		s.g.service("s").Restore(target)
	}
}

func (s *soak) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong[what]++
}

// lockedRand is shared by the connections of a service.
type lockedRand struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (l *lockedRand) n(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.IntN(n)
}

// misserve answers a connection's requests in one of many ways. A whole answer's body begins with
// the request's token.
func (s *soak) misserve(c *serviceConn, r *lockedRand) {
	s.served.Add(1)
	defer s.served.Add(-1)
	tcp := c.Conn.(*net.TCPConn)
	if s.secure != nil {
		c.Conn = tls.Server(c.Conn, s.secure)
		c.R = bufio.NewReader(c.Conn)
		defer c.Close()
	}
	for {
		q, err := http.ReadRequest(c.R)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, q.Body); err != nil {
			return
		}
		if q.Method == "POST" {
			s.mu.Lock()
			s.posted[q.URL.Path]++
			s.mu.Unlock()
		}
		body := q.URL.Path + "\n" + strings.Repeat("x", r.n(3)*r.n(100_000))
		if q.Method == "HEAD" {
			body = ""
		}
		switch r.n(20) {
		case 0: // no answer
			return
		case 1:
			tcp.SetLinger(0)
			tcp.Close()
			return
		case 2: // a part of a head
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Le")
			return
		case 3: // a part of a body
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body)+10, body)
			return
		case 4:
			io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
		case 5: // until the gateway gives up
			if r.n(4) == 0 {
				c.SetReadDeadline(time.Now().Add(time.Second))
				io.Copy(io.Discard, c.R)
			}
			return
		case 6: // nonsense
			io.WriteString(c, "what?\r\n\r\n")
			return
		case 7: // more than was asked for
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%sHTTP/1.1 200 "+
				"OK\r\nContent-Length: 5\r\n\r\nevil\n", len(body), body)
		case 8: // until the end
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%s", body)
			return
		case 9: // slowly
			drip(c, body, time.Duration(r.n(20))*time.Millisecond)
			return
		case 10, 11:
			if _, err := fmt.Fprintf(c, "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 "+
				"OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", max(len(body), 1),
				body+strings.Repeat("y", max(0, 1-len(body)))); err != nil {
				return
			}
			if q.Method == "HEAD" { // and so it has said more than it may
				return
			}
		case 12: // the keep-alive race
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			return
		default:
			if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
				return
			}
		}
	}
}

// drip answers in pieces.
func drip(c io.Writer, body string, pause time.Duration) {
	fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(body))
	for _, piece := range strings.SplitAfter(body, "\n") {
		<-time.After(pause)
		if _, err := io.WriteString(c, piece); err != nil {
			return
		}
	}
}

// behave is a client's life: it opens one connection after the other and treats each in one of many
// ways.
func (s *soak) behave(r *rand.Rand, kind int) {
	for !s.over.Load() {
		c, err := net.Dial("tcp", s.g.address(0))
		if err != nil {
			s.note("dial: " + err.Error())
			return
		}
		c.SetDeadline(time.Now().Add(patience))
		switch kind % 4 {
		case 0, 1:
			s.good(c, r)
		case 2:
			s.vanishing(c, r)
		case 3:
			s.slow(c, r)
		}
		c.Close()
	}
}

// ask is a random request with a token of its own.
func (s *soak) ask(r *rand.Rand) (method, path, raw string) {
	method = []string{"GET", "GET", "GET", "HEAD", "POST", "PUT"}[r.IntN(6)]
	path = fmt.Sprintf("/%s-%d", method, s.tokens.Add(1))
	raw = method + " " + path + " HTTP/1.1\r\nHost: a\r\n"
	switch method {
	case "POST", "PUT":
		body := strings.Repeat("b", r.IntN(5)*r.IntN(20_000))
		if r.IntN(2) == 0 {
			raw += fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
		} else if body == "" {
			raw += "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
		} else {
			raw += fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		}
	default:
		raw += "\r\n"
	}
	return method, path, raw
}

// good sends requests and reads the answers, each of which must be its own request's or an error
// that says so.
func (s *soak) good(c net.Conn, r *rand.Rand) {
	in := bufio.NewReader(c)
	for range 1 + r.IntN(20) {
		method, path, raw := s.ask(r)
		if _, err := io.WriteString(c, raw); err != nil {
			return
		}
		for {
			answer, err := http.ReadResponse(in, &http.Request{Method: method})
			if err != nil {
				return // cut, which is how a broken answer must look
			}
			if answer.StatusCode < 200 {
				continue
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				return
			}
			first, _, _ := strings.Cut(string(body), "\n")
			switch {
			case answer.StatusCode == 200 && method != "HEAD" && first != path:
				s.note("an answer was another request's: " + first[:min(len(first), 50)] + " for " + path)
			case answer.StatusCode == 200:
				s.mu.Lock()
				s.whole++
				s.mu.Unlock()
			case answer.StatusCode == 408: // its upload stalled, on a machine that is crowded
			case answer.StatusCode < 500:
				s.note(fmt.Sprintf("a good client got %d %q", answer.StatusCode, body))
			}
			if answer.Close {
				return
			}
			break
		}
	}
}

// vanishing leaves at any byte of its request or of the answer.
func (s *soak) vanishing(c net.Conn, r *rand.Rand) {
	_, _, raw := s.ask(r)
	if r.IntN(2) == 0 {
		raw = raw[:r.IntN(len(raw))]
	}
	io.WriteString(c, raw)
	switch r.IntN(3) {
	case 0:
		c.(*net.TCPConn).SetLinger(0)
	case 1:
		c.SetReadDeadline(time.Now().Add(time.Duration(r.IntN(20)) * time.Millisecond))
		io.CopyN(io.Discard, c, int64(r.IntN(100_000)))
	}
}

// slow sends a part of its request, or takes a part of the answer, and then does nothing until the
// gateway has had enough.
func (s *soak) slow(c net.Conn, r *rand.Rand) {
	_, _, raw := s.ask(r)
	if r.IntN(2) == 0 {
		raw = raw[:r.IntN(len(raw))]
	}
	io.WriteString(c, raw)
	c.SetReadDeadline(time.Now().Add(time.Second))
	if r.IntN(2) == 0 {
		c.(*net.TCPConn).SetReadBuffer(4 << 10)
		<-time.After(time.Duration(r.IntN(500)) * time.Millisecond)
	}
	io.Copy(io.Discard, c)
}

// settle waits until the gateway is at rest and checks that nothing is left and the books are in
// order.
func (s *soak) settle() {
	t, g := s.t, s.g
	eventually(t, "the clients to be gone", func() bool { return g.shared.Clients.Load() == 0 })
	eventually(t, "the exchanges to be over", func() bool { return g.snapshot().Active == 0 })
	eventually(t, "the buffers to be back", func() bool {
		sum := int64(0)
		for _, n := range g.snapshot().BuffersOut {
			sum += n
		}
		return sum == 0
	})
	eventually(t, "the idle connections to be closed", func() bool {
		for _, target := range g.service("s").Status().Targets {
			if target.Connections != 0 || target.Spare != 0 {
				return false
			}
		}
		return true
	})
	now := g.snapshot()
	ends, codes := uint64(0), uint64(0)
	for _, n := range now.Ends {
		ends += n
	}
	for _, route := range now.Routes {
		for _, n := range route.Codes {
			codes += n
		}
	}
	if now.Requests != ends || now.Requests != codes {
		t.Errorf("%d requests, %d ends, %d routed: they should be the same", now.Requests, ends, codes)
	}
	if now.Accepted != now.Closed {
		t.Errorf("%d connections were accepted and %d closed", now.Accepted, now.Closed)
	}
	if load := g.loaded("s"); load.Waiting != 0 || load.Outstanding != 0 || load.Idle != 0 {
		t.Errorf("the loops still have %+v", load)
	}
}
