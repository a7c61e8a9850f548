package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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
	ln := unaccepted(t, reactor.Address{Path: path})
	fill(t, func() (net.Conn, error) {
		c, err := net.Dial("unix", path)
		if err != nil && !errors.Is(err, syscall.EAGAIN) {
			t.Fatal(err)
		}
		return c, err
	})
	return ln, path
}

// deaf is an address that answers no attempt to connect: a TCP listener whose queue is full.
func deaf(t *testing.T) string {
	t.Helper()
	ln := unaccepted(t, reactor.Address{IP: netip.MustParseAddrPort("127.0.0.1:0")})
	address := ln.Addr().String()
	fill(t, func() (c net.Conn, err error) {
		for range 2 { // or a machine that is busy for so long is taken for a full queue
			if c, err = net.DialTimeout("tcp", address, time.Second); err == nil {
				break
			}
		}
		return c, err
	})
	return address
}

// unaccepted is a listener with the shortest queue, from which nobody accepts.
func unaccepted(t *testing.T, at reactor.Address) net.Listener {
	t.Helper()
	fd, err := reactor.BindListener(at, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "unaccepted")
	defer f.Close()
	ln, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// fill dials until there is no more room. The connections are closed with the test.
func fill(t *testing.T, dial func() (net.Conn, error)) {
	t.Helper()
	for range 8 {
		c, err := dial()
		if err != nil {
			return
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the queue of a listener that does not accept never became full")
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
		t.Errorf("%d failures are counted against the target, and %d connects have failed, want "+
			"one of each", n, g.stats("s").ConnectFailures)
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
