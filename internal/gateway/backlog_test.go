package gateway

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"plimsoll/internal/reactor"
)

// full is a unix socket whose accept queue is full, and its path. The connections that fill it say
// nothing.
func full(t *testing.T) (net.Listener, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "plimsoll") // short, as the paths of sockets must be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	fd, err := reactor.BindListener(reactor.Address{Path: path}, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "full")
	defer f.Close()
	ln, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	for range 8 {
		c, err := net.Dial("unix", path)
		if errors.Is(err, syscall.EAGAIN) {
			return ln, path
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the queue of a listener that does not accept never became full")
	return nil, ""
}

// unixUpstream proxies everything to a unix socket, without retries.
func unixUpstream(path, connectTimeout string) string {
	return fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["unix:%s"], retry: {attempts: 0}, pool: {connect_timeout: %s}}}
routes: [{match: /, upstream: s}]
`, path, connectTimeout)
}

func TestRequestsWaitForRoomInTheAcceptQueueOfAUnixTarget(t *testing.T) {
	ln, path := full(t)
	g := serveClean(t, unixUpstream(path, "10m"))
	var peers []*peer
	for range 20 {
		p := g.dial()
		p.send(get)
		peers = append(peers, p)
	}
	eventually(t, "all connections to be begun", func() bool { return g.target("s", "unix:"+path).Connections == len(peers) })
	newServiceOn(t, ln, answering(okResponse))
	for _, p := range peers {
		if r, body := p.response("GET"); r.StatusCode != 200 || body != "ok" {
			t.Errorf("got %d %q", r.StatusCode, body)
		}
		p.Close()
	}
	if n := g.target("s", "unix:"+path).ConsecutiveFailures; n != 0 || g.stats("s").ConnectFailures != 0 {
		t.Errorf("%d failures are counted against the target, and %d connects have failed", n, g.stats("s").ConnectFailures)
	}
}

func TestAUnixTargetWhoseQueueStaysFullHasTimedOut(t *testing.T) {
	_, path := full(t)
	g := serveClean(t, unixUpstream(path, "100ms"))
	p := g.dial()
	p.send(get)
	p.expectFailure(504, "connect_failed")
	if n := g.target("s", "unix:"+path).ConsecutiveFailures; n != 1 || g.stats("s").ConnectFailures != 1 {
		t.Errorf("%d failures are counted against the target, and %d connects have failed, want one of each", n, g.stats("s").ConnectFailures)
	}
	p.Close()
}

func TestAClientThatLeavesTakesItsPlaceBeforeAFullUnixTargetWithIt(t *testing.T) {
	ln, path := full(t)
	g := serveClean(t, unixUpstream(path, "10m"))
	leaving, staying := g.dial(), g.dial()
	for i, p := range []*peer{leaving, staying} {
		p.send(get)
		eventually(t, "the connection to be begun", func() bool { return g.target("s", "unix:"+path).Connections == i+1 })
	}
	leaving.Close()
	eventually(t, "the connection to be given up", func() bool { return g.target("s", "unix:"+path).Connections == 1 })
	s := newServiceOn(t, ln, answering(okResponse))
	if r, _ := staying.response("GET"); r.StatusCode != 200 {
		t.Errorf("the client that stayed got %d", r.StatusCode)
	}
	if n := strings.Count(s.saw(), "GET"); n != 1 {
		t.Errorf("the service saw %d requests, want 1", n)
	}
	staying.Close()
}

func TestAUnixTargetThatEndsRefusesThoseWhoWait(t *testing.T) {
	ln, path := full(t)
	g := serveClean(t, unixUpstream(path, "10m"))
	var peers []*peer
	for range 3 {
		p := g.dial()
		p.send(get)
		peers = append(peers, p)
	}
	eventually(t, "all connections to be begun", func() bool { return g.target("s", "unix:"+path).Connections == len(peers) })
	ln.Close()
	for _, p := range peers {
		p.expectFailure(502, "connect_failed")
		p.Close()
	}
}
