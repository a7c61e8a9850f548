package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/http1"
	"plimsoll/internal/upstream"
)

// serveClean is serve for tests at whose end, when every client has gone, nothing may be left
// behind: see settled.
func serveClean(t *testing.T, yaml string) *instance {
	t.Helper()
	g := serve(t, yaml)
	t.Cleanup(g.settled)
	return g
}

// settled waits until no client, exchange, buffer or request to an upstream is left, and every open
// upstream connection is idle.
func (i *instance) settled() {
	i.t.Helper()
	var left string
	began := time.Now()
	for left = i.left(); left != "" && time.Since(began) < patience; left = i.left() {
		lookAgain(began)
	}
	if left != "" {
		i.t.Errorf("still there after every client has gone: %s", left)
	}
}

// left says what of the exchanges that were is still there.
func (i *instance) left() string {
	s := i.snapshot()
	buffers := int64(0)
	for _, n := range s.BuffersOut {
		buffers += n
	}
	load, open := i.load()
	if clients := i.shared.Clients.Load(); clients != 0 || s.Active != 0 || buffers != 0 ||
		load.Outstanding != 0 || load.Waiting != 0 || open != load.Idle {
		return fmt.Sprintf("%d clients, %d exchanges, %d buffers, %d requests at upstreams, %d that wait, %d upstream connections in use",
			clients, s.Active, buffers, load.Outstanding, load.Waiting, open-load.Idle)
	}
	return ""
}

// load is what all upstreams of the configuration in force have to do, and how many connections to
// them are open on loops.
func (i *instance) load() (load upstream.Load, open int) {
	i.mu.Lock()
	all := i.upstreams
	i.mu.Unlock()
	for _, u := range all {
		for loop := range i.loops {
			i.Call(loop, func() {
				for next := u.Local(loop).AddLoad(&load, 0, 16); next != 0; {
					next = u.Local(loop).AddLoad(&load, next, 16)
				}
			})
		}
		for _, t := range u.Status().Targets {
			open += t.Connections - t.Spare
		}
	}
	return load, open
}

// buffered is how many bytes of buffers the loops have handed out.
func (i *instance) buffered() int64 {
	s, sum := i.snapshot(), int64(0)
	for class, size := range bufferLabels() {
		var n int64
		fmt.Sscan(size, &n)
		sum += n * s.BuffersOut[class]
	}
	return sum
}

// expect reads exactly these bytes.
func (p *peer) expect(want string) {
	p.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(p.r, got); string(got[:n]) != want {
		p.t.Fatalf("got\n%q\nwant\n%q (%v)", got[:n], want, err)
	}
}

// expectEnd reads the orderly end of the connection.
func (p *peer) expectEnd() {
	p.t.Helper()
	if b, err := io.ReadAll(p.r); err != nil || len(b) > 0 {
		p.t.Fatalf("got %q and %v, want the connection's orderly end", b, err)
	}
}

// expectCut reads to the end and returns what came, which must not be an orderly end.
func (p *peer) expectCut() string {
	p.t.Helper()
	b, err := readString(p.r)
	if !errors.Is(err, syscall.ECONNRESET) {
		p.t.Fatalf("got %q and then %v, want a connection that is cut", b, err)
	}
	return b
}

// reset closes the connection so that the other side sees an error.
func (p *peer) reset() {
	p.Conn.(*net.TCPConn).SetLinger(0)
	p.Close()
}

// request reads one request, body and all; false means that the connection ended.
func (c *serviceConn) request() (*http.Request, string, bool) {
	r, err := http.ReadRequest(c.R)
	if err != nil {
		return nil, "", false
	}
	body, err := readString(r.Body)
	return r, body, err == nil
}

// write sends raw bytes and says whether that went well.
func (c *serviceConn) write(raw string) bool {
	_, err := io.WriteString(c, raw)
	return err == nil
}

// drain reads until the other side ends.
func (c *serviceConn) drain() { io.Copy(io.Discard, c.R) }

// replying is a script that answers every whole request with raw bytes; none close the connection.
func replying(answer func(r *http.Request, body string) string) script {
	return func(c *serviceConn, _ int) {
		for {
			r, body, ok := c.request()
			if !ok {
				return
			}
			if raw := answer(r, body); raw == "" || !c.write(raw) {
				return
			}
		}
	}
}

// echo answers with the request's method and body.
func echo(r *http.Request, body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s %s", len(r.Method)+1+len(body), r.Method, body)
}

// closing answers one request with raw bytes and closes.
func closing(raw string) script {
	return func(c *serviceConn, _ int) {
		if _, _, ok := c.request(); ok {
			c.write(raw)
		}
	}
}

// untouched is an upstream that must not be reached.
func untouched(t *testing.T) *service {
	return newService(t, func(c *serviceConn, _ int) { c.drain() })
}

// expectUntouched fails the test when the service saw anything.
func (s *service) expectUntouched() {
	s.t.Helper()
	if saw := s.saw(); saw != "" {
		s.t.Errorf("the service saw\n%s\nand should have seen nothing", saw)
	}
}

// forwardedFields are what the gateway adds to the requests of a client on loopback that asks for
// host a.
const forwardedFields = "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n"

// expectFailure reads an answer of the gateway's own, whose body names the reason.
func (p *peer) expectFailure(status int, reason string) *http.Response {
	p.t.Helper()
	r, body := p.response("GET")
	if r.StatusCode != status || !strings.Contains(body, reason) {
		p.t.Fatalf("got %d %q, want %d and %s", r.StatusCode, body, status, reason)
	}
	return r
}

// refusedRequests is how many requests the codec has refused for one reason.
func (i *instance) refusedRequests(e http1.Error) uint64 { return i.snapshot().RefusedRequests[e] }

// counter counts bytes that pass.
type counter struct{ n atomic.Int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// stalls waits until a count has not changed for a number of looks, and returns it.
func stalls(t *testing.T, what string, count func() int64) int64 {
	t.Helper()
	last, same := int64(-1), 0
	eventually(t, what+" to stop", func() bool {
		now := count()
		if now == last {
			same++
		} else {
			last, same = now, 0
		}
		return same == 50
	})
	return last
}

// reader makes a bufio.Reader over what a peer has not read yet.
func reader(p *peer) *bufio.Reader { return p.r }

// stringPeer is a peer that has sent all it will.
func stringPeer(t *testing.T, sent string) *peer {
	return &peer{t: t, r: bufio.NewReader(strings.NewReader(sent))}
}

// expectFailureEnd reads an answer of the gateway's own that says the connection ends, and the end.
func (p *peer) expectFailureEnd(status int, reason string) {
	p.t.Helper()
	if r := p.expectFailure(status, reason); !r.Close {
		p.t.Error("the answer does not say that the connection ends")
	}
	p.expectEnd()
}

// block waits until the connection is closed, by the test's end if nothing else, without reading
// from it.
func (s *service) block(c *serviceConn) {
	raw, err := c.Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return
	}
	raw.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		return n == 0 && err == nil || err != nil && err != syscall.EAGAIN
	})
}
