package refserver_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"plimsoll/internal/lab/queue"
	"plimsoll/internal/lab/reference"
	"plimsoll/internal/lab/refserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

func start(t *testing.T, o refserver.Options) *refserver.Server {
	t.Helper()
	s, err := refserver.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// client is a connection whose bytes the test chooses.
type client struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, s *refserver.Server) *client {
	t.Helper()
	c, err := net.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &client{t, c, bufio.NewReader(c)}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.t.Fatal(err)
	}
}

// receive reads one answer to a method.
func (c *client) receive(method string) (status int, body string) {
	c.t.Helper()
	r, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		c.t.Fatal(err)
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// until waits for the server to have counted what it must.
func until(t *testing.T, s *refserver.Server, what string, ok func(c refserver.Counts) bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(s.Counts()); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting for %s: %+v", what, s.Counts())
		}
	}
}

const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

func constant(workers, room int, d time.Duration) queue.Station {
	return queue.Station{Workers: workers, Service: queue.Constant(d.Nanoseconds()), Room: room}
}

func TestAnAnswerComesAtItsComputedTimeAndNotBefore(t *testing.T) {
	s := start(t, refserver.Options{Station: constant(1, -1, 2*time.Millisecond), Body: []byte("hello")})
	c := dial(t, s)
	for range 20 {
		before := time.Now()
		c.send(get)
		status, body := c.receive("GET")
		if took := time.Since(before); took < 2*time.Millisecond {
			t.Errorf("a service of 2 ms answered after %v", took)
		}
		if status != 200 || body != "hello" {
			t.Fatalf("%d %q", status, body)
		}
	}
	counts := s.Counts()
	if counts.Offered != 20 || counts.Served != 20 || counts.Refused != 0 || counts.BadRequests != 0 {
		t.Errorf("%+v", counts)
	}
	if counts.Planned.Mean() != 2e6 {
		t.Errorf("one at a time they take 2 ms each, and the plan's mean is %v ns", counts.Planned.Mean())
	}
}

func TestRequestsAreAnsweredInTheOrderThatTheQueueComputes(t *testing.T) {
	s := start(t, refserver.Options{Station: constant(1, -1, 5*time.Millisecond)})
	var clients []*client
	for i := range 8 {
		c := dial(t, s)
		clients = append(clients, c)
		c.send(get)
		until(t, s, "a request's arrival", func(c refserver.Counts) bool { return c.Offered == uint64(i+1) })
	}
	for _, c := range clients {
		if status, _ := c.receive("GET"); status != 200 {
			t.Fatal(status)
		}
	}
	// The first is alone; each waits at most for all before it.
	planned := s.Counts().Planned
	if planned.Count() != 8 || planned.Max > 40e6 || planned.Sum < 8*5e6 {
		t.Errorf("%+v", planned)
	}
}

func TestARequestWithoutRoomIsRefusedAtOnce(t *testing.T) {
	s := start(t, refserver.Options{Station: constant(1, 1, time.Hour)})
	for i := range 2 {
		dial(t, s).send(get)
		until(t, s, "an arrival", func(c refserver.Counts) bool { return c.Offered == uint64(i+1) })
	}
	c := dial(t, s)
	c.send(get)
	if status, _ := c.receive("GET"); status != 503 {
		t.Errorf("one is served, one waits, and the third gets %d", status)
	}
	if counts := s.Counts(); counts.Offered != 3 || counts.Refused != 1 || counts.Served != 0 {
		t.Errorf("%+v", counts)
	}
}

func TestAServiceIsPlayedByTheRoutesOfItsPaths(t *testing.T) {
	s := start(t, refserver.Options{
		Service: reference.Routes{Workers: 1, Takes: []reference.Draw{
			queue.Constant(time.Millisecond.Nanoseconds()),
			queue.Constant(7 * time.Millisecond.Nanoseconds()),
		}}.New(1),
		Paths: []string{"/cheap", "/expensive"},
	})
	c := dial(t, s)
	for i, path := range []string{"/cheap", "/expensive", "/expensive?q=1", "/another"} {
		c.send("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n")
		c.receive("GET")
		want := []uint64{1e6, 8e6, 15e6, 16e6}[i]
		if got := s.Counts().Planned.Sum; got != want {
			t.Errorf("after %s all have taken %d ns, not %d", path, got, want)
		}
	}
}

func TestWhatALimiterRefusesIsAnswered429(t *testing.T) {
	s := start(t, refserver.Options{
		Service: reference.Limited{Station: constant(1, -1, 0), Rate: 1e-6, Burst: 2}.New(1),
	})
	c := dial(t, s)
	for i, want := range []int{200, 200, 429} {
		c.send(get)
		if status, _ := c.receive("GET"); status != want {
			t.Errorf("number %d got %d, not %d", i+1, status, want)
		}
	}
	if counts := s.Counts(); counts.Served != 2 || counts.Refused != 1 {
		t.Errorf("%+v", counts)
	}
}

func TestAStallDelaysExactlyWhatItMeets(t *testing.T) {
	const stall, service = 60 * time.Millisecond, 3 * time.Millisecond
	s := start(t, refserver.Options{Station: constant(1, -1, service), Stall: refserver.Stall{At: 3, For: stall}})
	c := dial(t, s)
	for range 5 {
		c.send(get)
		c.receive("GET")
	}
	counts := s.Counts()
	if want := (stall + service).Nanoseconds(); counts.Planned.Max != want {
		t.Errorf("the third request meets the stall whole and must take %d ns, not %d", want, counts.Planned.Max)
	}
	if want := uint64((stall + 5*service).Nanoseconds()); counts.Planned.Sum != want {
		t.Errorf("the stall must count once: %d ns, not %d", want, counts.Planned.Sum)
	}
}

func TestAStallHoldsBackRefusalsAndWhatIsBeingServed(t *testing.T) {
	s := start(t, refserver.Options{Station: constant(1, 0, time.Millisecond), Stall: refserver.Stall{At: 2, For: time.Hour}})
	c := dial(t, s)
	c.send(get)
	c.receive("GET")
	for i := range 3 {
		dial(t, s).send(get)
		until(t, s, "an arrival", func(c refserver.Counts) bool { return c.Offered == uint64(i+2) })
	}
	if counts := s.Counts(); counts.Served != 1 || counts.Refused != 0 {
		t.Errorf("a server that stands still answers nobody: %+v", counts)
	}
}

func TestBodiesAreReadAndDropped(t *testing.T) {
	s := start(t, refserver.Options{Station: constant(4, -1, 0), Body: []byte("done")})
	large := strings.Repeat("x", 300_000)
	for name, request := range map[string]string{
		"length":  "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + large,
		"chunked": "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n493e0\r\n" + large + "\r\n0\r\n\r\n",
		"none":    get,
	} {
		c := dial(t, s)
		for range 2 {
			c.send(request)
			if status, body := c.receive("POST"); status != 200 || body != "done" {
				t.Errorf("%s: %d %q", name, status, body)
			}
		}
	}
	c := dial(t, s)
	for _, b := range []byte(get) {
		c.send(string(b))
	}
	if status, _ := c.receive("GET"); status != 200 {
		t.Errorf("a head that came byte by byte got %d", status)
	}
	c.send("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
	if status, body := c.receive("HEAD"); status != 200 || body != "" {
		t.Errorf("HEAD got %d %q", status, body)
	}
	c.send("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
	if status, _ := c.receive("POST"); status != 100 {
		t.Fatalf("Expect: 100-continue got %d", status)
	}
	c.send("abc")
	if status, _ := c.receive("POST"); status != 200 {
		t.Error(status)
	}
	c.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if status, body := c.receive("GET"); status != 200 || body != "done" {
		t.Error(status, body)
	}
	if _, err := c.in.ReadByte(); err != io.EOF {
		t.Errorf("after Connection: close the connection gave %v", err)
	}
}

func TestWhatIsNotARequestOrOneTooManyEndsTheConnection(t *testing.T) {
	s := start(t, refserver.Options{Station: constant(1, -1, time.Hour)})
	bad := []string{
		"nonsense\r\n\r\n", get + get, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nab",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("y", 20_000),
	}
	for _, request := range bad {
		c := dial(t, s)
		c.send(request)
		if _, err := c.in.ReadByte(); err == nil {
			t.Errorf("%.40q was answered", request)
		}
	}
	if got := s.Counts().BadRequests; got != uint64(len(bad)) {
		t.Errorf("%d connections were closed for what came over them, not %d", got, len(bad))
	}
}

func TestAClientThatLeavesKeepsItsWorkerBusy(t *testing.T) {
	s := start(t, refserver.Options{Station: constant(1, 0, 40*time.Millisecond)})
	c := dial(t, s)
	c.send(get)
	until(t, s, "the arrival", func(c refserver.Counts) bool { return c.Offered == 1 })
	c.Close()
	until(t, s, "the end of the work", func(c refserver.Counts) bool { return c.Gone == 1 })
	if counts := s.Counts(); counts.Planned.Count() != 1 || counts.Served != 0 {
		t.Errorf("%+v", counts)
	}
}

func TestMoreConnectionsThanAllowedAreClosed(t *testing.T) {
	s := start(t, refserver.Options{Station: constant(1, -1, 0), Connections: 1})
	first := dial(t, s)
	first.send(get)
	first.receive("GET")
	if _, err := dial(t, s).in.ReadByte(); err == nil {
		t.Error("a second connection was served")
	}
	until(t, s, "the count", func(c refserver.Counts) bool { return c.TooMany == 1 })
}

func TestAServerThatCannotBeSaysWhy(t *testing.T) {
	if _, err := refserver.Start(refserver.Options{}); err == nil || !strings.Contains(err.Error(), "worker") {
		t.Error(err)
	}
	taken := start(t, refserver.Options{Station: constant(1, -1, 0)})
	if _, err := refserver.Start(refserver.Options{Station: constant(1, -1, 0),
		Address: taken.Address()}); err == nil || !strings.Contains(err.Error(), "taken") {
		t.Error(err)
	}
	if _, err := refserver.Start(refserver.Options{Station: constant(1, -1, 0), Address: "nowhere"}); err == nil {
		t.Error("an invalid address was taken")
	}
}

func TestARequestDoesNotAlloc(t *testing.T) {
	s := start(t, refserver.Options{Station: constant(2, -1, 10*time.Microsecond), Body: []byte("hello")})
	c := dial(t, s)
	request, answer := []byte(get), make([]byte, 1024)
	once := func() {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(answer); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		once()
	}
	if n := testing.AllocsPerRun(500, once); n != 0 {
		t.Errorf("%v allocations for a request", n)
	}
}
