package gateway

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for something that must happen, and how long a client's
// connection may last. It is not a measure of how fast: only a hung test meets it.
const patience = 3 * time.Minute

// listenOnly is a configuration of one listener and no upstream.
const listenOnly = "listeners: [{address: \"127.0.0.1:0\"}]\nroutes: [{match: /, respond: {}}]\n"

const okResponse = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func oneUpstream(address string) string {
	return `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["` + address + `"]}}
routes: [{match: /, upstream: s}]
`
}

// instance is a gateway that a test runs.
type instance struct {
	*Gateway
	t       *testing.T
	path    string // of its configuration
	logged  *logBuffer
	stop    context.CancelFunc
	stopped chan error
}

// serve runs a gateway with a configuration literal until the test ends. Listen on "127.0.0.1:0";
// address gives the port.
func serve(t *testing.T, yaml string) *instance {
	t.Helper()
	return serveWith(t, yaml, Options{})
}

// serveWith is serve with further options; it sets those that every test's gateway has.
func serveWith(t *testing.T, yaml string, o Options) *instance {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plimsoll.yaml")
	writeFile(t, path, yaml)
	logged := &logBuffer{}
	ctx, cancel := context.WithCancel(context.Background())
	o.ConfigPath, o.Logger, o.Version = path, slog.New(slog.NewTextHandler(logged, nil)), "test"
	o.lookTime = cmp.Or(o.lookTime, patience)
	g, err := start(o)
	if err != nil {
		cancel()
		t.Fatalf("the gateway did not start: %v", err)
	}
	i := &instance{Gateway: g, t: t, path: path, logged: logged, stop: cancel, stopped: make(chan error, 1)}
	go func() { i.stopped <- g.run(ctx) }()
	t.Cleanup(func() { i.end() })
	return i
}

// serveUntimed is serve, but the gateway ends no window by the clock. A fit under the race detector
// took longer than a window on a slow machine: one without requests was ended behind it.
func serveUntimed(t *testing.T, yaml string) *instance {
	t.Helper()
	ready := make(chan struct{})
	g := serveWith(t, yaml, Options{Ready: func() { close(ready) }})
	<-ready
	g.stopFeeder()
	t.Cleanup(g.startFeeder) // for the shutdown to stop
	return g
}

// end stops the gateway and checks that it ended well.
func (i *instance) end() {
	i.stop()
	select {
	case err := <-i.stopped:
		if err != nil {
			i.t.Errorf("the gateway ended with %v", err)
		}
		i.stopped <- nil
	case <-time.After(patience):
		i.t.Error("the gateway did not end")
	}
}

// address is where the n-th listener of the configuration accepts.
func (i *instance) address(n int) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.listeners[i.config.Listeners[n].Address].bound.String()
}

// reload changes the configuration's file and has the gateway read it again.
func (i *instance) reload(yaml string) error {
	i.t.Helper()
	writeFile(i.t, i.path, yaml)
	return i.Reload()
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// logBuffer keeps what was logged.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// eventually waits until a condition holds, asking again and again, and fails the test when it
// never does.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); lookAgain(began) {
		if time.Since(began) > patience {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// lines waits until a file has so many lines and returns them.
func lines(t *testing.T, path string, n int) (list []string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d lines in %s", n, filepath.Base(path)), func() bool {
		text, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		list = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		return strings.HasSuffix(string(text), "\n") && len(list) >= n
	})
	return list
}

// lookAgain waits until the next look at what is awaited since began. A look asks all loops, so the
// longer it takes, the rarer they are.
func lookAgain(began time.Time) {
	<-time.After(min(max(time.Since(began)/20, 2*time.Millisecond), 50*time.Millisecond))
}

// onceInFive tries up to five times what needs the machine to be awake at a moment that no setting
// moves, and fails the test when it never holds.
func onceInFive(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 5 {
		if holds() {
			return
		}
	}
	t.Errorf("in none of five tries: %s", what)
}

// peer is a client's raw connection.
type peer struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

// dial connects to the gateway's first listener.
func (i *instance) dial() *peer { return dialRaw(i.t, i.address(0)) }

func dialRaw(t *testing.T, address string) *peer {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &peer{Conn: c, t: t, r: bufio.NewReader(c)}
}

// send writes raw bytes.
func (p *peer) send(raw string) {
	p.t.Helper()
	if _, err := io.WriteString(p, raw); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

// response reads one response, whole, to a request of the given method.
func (p *peer) response(method string) (*http.Response, string) {
	p.t.Helper()
	r, err := http.ReadResponse(p.r, &http.Request{Method: method})
	if err != nil {
		p.t.Fatalf("read the response: %v", err)
	}
	body, err := readString(r.Body)
	if err != nil {
		p.t.Fatalf("read the body: %v", err)
	}
	return r, body
}

// status reads one response, whole or interim, to a request of the given method.
func (p *peer) status(method string) int {
	p.t.Helper()
	r, _ := p.response(method)
	return r.StatusCode
}

// rest reads until the gateway closes.
func (p *peer) rest() string {
	p.t.Helper()
	b, err := readString(p.r)
	if err != nil {
		p.t.Fatalf("read to the end: %v", err)
	}
	return b
}

// exchange sends raw bytes on a new connection and reads until the gateway closes.
func (i *instance) exchange(raw string) string {
	i.t.Helper()
	p := i.dial()
	defer p.Close() // or the gateway would linger for the client's own end
	p.send(raw)
	return p.rest()
}

// service is an upstream that answers each connection by a script and records the bytes it was
// sent.
type service struct {
	net.Listener
	t  *testing.T
	mu sync.Mutex
	in bytes.Buffer // at most mostRecorded
	n  int
	wg sync.WaitGroup
}

// mostRecorded is how much a service records: what grows to hold a long body is copied into fresh
// memory again and again, which the race detector makes expensive. A script looks at long bodies.
const mostRecorded = 1 << 20

// script answers on one connection; n counts connections from 1. seen is everything that was read
// on the connection so far.
type script func(c *serviceConn, n int)

// serviceConn is a connection of a service. What is read through it is recorded.
type serviceConn struct {
	net.Conn
	s *service
	R *bufio.Reader
}

// newService starts an upstream on loopback; it ends with the test.
func newService(t *testing.T, answer script) *service {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newServiceOn(t, ln, answer)
}

// acceptEach is the address of a service that gives each connection to talk, and closes it then.
func acceptEach(t *testing.T, talk func(c net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				talk(c)
			}()
		}
	}()
	return ln.Addr().String()
}

// newServiceOn is newService on a listener that is there already.
func newServiceOn(t *testing.T, ln net.Listener, answer script) *service {
	s := &service{Listener: ln, t: t}
	var conns sync.Map
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.n++
			n := s.n
			s.mu.Unlock()
			conns.Store(c, true)
			s.wg.Go(func() {
				defer c.Close()
				sc := &serviceConn{Conn: c, s: s}
				sc.R = bufio.NewReader(io.TeeReader(c, recorder{s}))
				answer(sc, n)
			})
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		conns.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		s.wg.Wait()
	})
	return s
}

type recorder struct{ s *service }

func (r recorder) Write(p []byte) (int, error) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.in.Write(p[:min(len(p), mostRecorded-r.s.in.Len())])
	return len(p), nil
}

// address is where the service listens.
func (s *service) address() string { return s.Addr().String() }

// saw is every byte the service was sent, over all connections.
func (s *service) saw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.in.Len() == mostRecorded {
		s.t.Error("the service was sent more than it records: have its script look at it")
	}
	return s.in.String()
}

// connections is how many connections the service was opened.
func (s *service) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// head reads one request's head and returns it; an empty one means that the connection ended.
func (c *serviceConn) head() string {
	var b strings.Builder
	for {
		line, err := c.R.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			return ""
		}
		if line == "\r\n" {
			return b.String()
		}
	}
}

// answering is a script that answers every request head with the same bytes, for requests without
// bodies.
func answering(response string) script {
	return func(c *serviceConn, _ int) {
		for c.head() != "" {
			if _, err := io.WriteString(c, response); err != nil {
				return
			}
		}
	}
}
