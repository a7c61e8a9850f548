package load_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/pace"
	"plimsoll/internal/reactor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience limits the runs that tests wait for, and the requests whose timeout is not under test.
// Only a hung test reaches it.
const patience = 2 * time.Minute

const (
	okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	ms       = int64(time.Millisecond)
)

// server is a raw HTTP server whose test says, for each request, what is sent.
type server struct {
	address  string
	listener net.Listener
	requests atomic.Int64
	dials    atomic.Int64
	over     sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]bool
}

// serve answers each request by answer, which is given the request's number, from 1, and the
// connection; false closes it. The server ends with the test.
func serve(t testing.TB, answer func(n int64, r *http.Request, c net.Conn) bool) *server {
	t.Helper()
	return serveOn(t, listen(t), answer)
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func serveOn(t testing.TB, listener net.Listener, answer func(n int64, r *http.Request, c net.Conn) bool) *server {
	t.Helper()
	return acceptOn(t, listener, func(s *server, _ int64, c net.Conn) { s.talk(c, answer) })
}

// accept is a server that passes each connection to talk, with its number from 1, and then closes
// it.
func accept(t testing.TB, talk func(n int64, c net.Conn)) *server {
	t.Helper()
	return acceptOn(t, listen(t), func(_ *server, n int64, c net.Conn) { talk(n, c) })
}

func acceptOn(t testing.TB, listener net.Listener, talk func(s *server, n int64, c net.Conn)) *server {
	t.Helper()
	s := &server{address: listener.Addr().String(), listener: listener, conns: map[net.Conn]bool{}}
	s.over.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			n := s.dials.Add(1)
			s.mu.Lock()
			s.conns[c] = true
			s.mu.Unlock()
			s.over.Go(func() {
				defer func() {
					c.Close()
					s.mu.Lock()
					delete(s.conns, c)
					s.mu.Unlock()
				}()
				talk(s, n, c)
			})
		}
	})
	t.Cleanup(s.stop)
	return s
}

func (s *server) talk(c net.Conn, answer func(n int64, r *http.Request, c net.Conn) bool) {
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		io.Copy(io.Discard, r.Body)
		if !answer(s.requests.Add(1), r, c) {
			return
		}
	}
}

// stop closes everything and waits until the server's goroutines have ended.
func (s *server) stop() {
	s.listener.Close()
	s.mu.Lock()
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.over.Wait()
}

func (s *server) url() string { return "http://" + s.address + "/" }

// send answers with a text and keeps the connection.
func send(text string) func(int64, *http.Request, net.Conn) bool {
	return func(_ int64, _ *http.Request, c net.Conn) bool {
		_, err := io.WriteString(c, text)
		return err == nil
	}
}

func target(t testing.TB, url string, secure load.TLSOptions) load.Target {
	t.Helper()
	to, err := load.Resolve(t.Context(), url, secure)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// get is a run of one GET to url, a few connections, that the test changes as it likes.
func get(t testing.TB, url string) load.Options {
	t.Helper()
	to := target(t, url, load.TLSOptions{})
	request, err := load.Prepare(to, "GET", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return load.Options{Target: to, Script: load.Static("get", request, false), Connections: 4,
		Window: 50 * time.Millisecond, Timeout: patience / 2}
}

// run does a run and checks what holds of every run: each request that was due ended once, and the
// windows add up to the totals.
func run(t testing.TB, o load.Options) (*measure.Totals, []*measure.Window) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	totals, windows, err := runIn(ctx, t, o)
	if err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatal("the run did not end")
	}
	return totals, windows
}

func runIn(ctx context.Context, t testing.TB, o load.Options) (*measure.Totals, []*measure.Window, error) {
	t.Helper()
	descriptors := openFiles(t)
	var windows []*measure.Window
	seen := o.Observe
	o.Observe = func(w *measure.Window) {
		windows = append(windows, w)
		if seen != nil {
			seen(w)
		}
	}
	totals, err := load.Run(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	audit(t, totals, windows)
	if o.Target.TLS == nil && descriptors > 0 {
		eventually(t, "the run's descriptors are closed", func() bool { return openFiles(t) <= descriptors+serverSide(o) })
	}
	return totals, windows, nil
}

// serverSide is how many descriptors the test's own server may still hold because it has not
// noticed the end of the run.
func serverSide(o load.Options) int { return o.Connections }

func audit(t testing.TB, totals *measure.Totals, windows []*measure.Window) {
	t.Helper()
	if totals.Due != totals.Ended.Total() {
		t.Errorf("%d requests were due, and %d ended: %v", totals.Due, totals.Ended.Total(), totals.Ended)
	}
	if n := totals.Response.Count(); n != totals.Ended[measure.OK] || totals.Service.Count() != n {
		t.Errorf("%d ended well, %d response times and %d service times", totals.Ended[measure.OK], n, totals.Service.Count())
	}
	var due, sent, in, out uint64
	var ended measure.Tally
	end := int64(0)
	for _, w := range windows {
		if w.Start != end {
			t.Errorf("a window begins at %d, and the one before it ended at %d", w.Start, end)
		}
		end = w.End()
		due, sent, in, out = due+w.Due, sent+w.Sent, in+w.BytesIn, out+w.BytesOut
		ended.Add(&w.Ended)
	}
	if due != totals.Due || sent != totals.Sent || ended != totals.Ended || in != totals.BytesIn || out != totals.BytesOut {
		t.Errorf("the windows add up to due %d sent %d ended %v, the totals are %d %d %v", due,
			sent, ended, totals.Due, totals.Sent, totals.Ended)
	}
	counted, found := uint64(0), -1
	for _, c := range totals.ConcurrencyAtSend {
		if c.Found <= found || c.Found >= totals.Peak || c.Count == 0 || c.Squares*float64(c.Count) < c.Sum*c.Sum*0.999 {
			t.Errorf("an entry for concurrency at send after that of %d: %+v, and %d were in flight at most", found, c, totals.Peak)
		}
		found = c.Found
		counted += c.Count
	}
	if counted != totals.Ended[measure.OK] {
		t.Errorf("%d requests are counted by concurrency at send, %d ended well", counted, totals.Ended[measure.OK])
	}
	var kinds measure.Tally
	for _, r := range totals.Requests {
		kinds.Add(&r.Ended)
	}
	if kinds != totals.Ended {
		t.Errorf("the kinds of request add up to %v, the totals are %v", kinds, totals.Ended)
	}
	for k, n := range totals.Ended {
		if kind := measure.Kind(k); n > 0 && kind != measure.OK && kind != measure.Unfinished && totals.Examples[kind.String()] == "" {
			t.Errorf("%d requests ended as %v, and there is no example", n, kind)
		}
	}
}

// openFiles is how many descriptors this process has.
func openFiles(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// eventually waits, without sleeping, until holds returns true.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("timed out waiting: %s", what)
		case <-tick.C:
		}
	}
}

// at is a schedule of given times.
type at []int64

func (a *at) Next() (int64, bool) {
	if len(*a) == 0 {
		return 0, false
	}
	due := (*a)[0]
	*a = (*a)[1:]
	return due, true
}

// released is a schedule of one loop whose arrivals the test releases one by one. They are due at
// their release.
type released struct{ let, given, n, began int64 }

// letting returns the arrivals of a run, the first ones released at once and each further one, up
// to n, by a call of more.
func letting(first, n int64) (arrivals func(loop, loops int) pace.Schedule, more func()) {
	r := &released{let: first, n: n}
	return func(int, int) pace.Schedule { return r }, func() { atomic.AddInt64(&r.let, 1) }
}

func (r *released) Next() (int64, bool) {
	if r.began == 0 {
		r.began = reactor.Clock()
	}
	if r.given == min(r.n, atomic.LoadInt64(&r.let)) {
		return 0, false
	}
	r.given++
	return reactor.Clock() - r.began, true
}

func (r *released) Pending() bool { return r.given < r.n }

// until has one arrival per millisecond, on one loop, until over is set.
type until struct {
	next int64
	over atomic.Bool
}

func (u *until) arrivals(int, int) pace.Schedule { return u }

func (u *until) Next() (int64, bool) {
	u.next += ms
	return u.next, !u.over.Load()
}

// inOneOf repeats a test that is meaningless if the machine stalls at the wrong moment. It must
// hold in one of several runs.
func inOneOf(t testing.TB, runs int, what string, holds func() bool) {
	t.Helper()
	for range runs {
		if holds() {
			return
		}
	}
	t.Errorf("in none of %d runs: %s", runs, what)
}

// every returns n arrivals, distance nanoseconds apart, distributed over the loops in turn.
func every(n int, distance int64) func(loop, loops int) pace.Schedule {
	return func(loop, loops int) pace.Schedule {
		var a at
		for i := loop; i < n; i += loops {
			a = append(a, int64(i)*distance)
		}
		return &a
	}
}

// want checks how many requests ended in each way.
func want(t testing.TB, totals *measure.Totals, ended map[measure.Kind]uint64) {
	t.Helper()
	for k, n := range totals.Ended {
		if n != ended[measure.Kind(k)] {
			t.Errorf("%d ended as %v, want %d (%v)", n, measure.Kind(k), ended[measure.Kind(k)], totals.Examples)
		}
	}
}

func contains(t testing.TB, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%q does not say %q", text, part)
	}
}

func length(n int) string { return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", n) }
