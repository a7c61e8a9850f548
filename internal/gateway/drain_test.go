package gateway

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestADrainFinishesWhatIsUnderWayAndClosesTheConnection(t *testing.T) {
	held := newGate(t)
	s := newService(t, held.script)
	g := serve(t, oneUpstream(s.address()))
	address := g.address(0)
	p := g.dial()
	p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	held.next(t)
	g.stop()
	eventually(t, "it stops accepting", func() bool { return !listensAt(address) })
	if err := g.Ready(); err == nil {
		t.Error("a draining gateway says that it is ready")
	}
	held.let <- okResponse
	if r, body := p.response("GET"); r.StatusCode != 200 || body != "ok" || !r.Close {
		t.Errorf("got %d %q, close %v; want the whole answer and the connection's end", r.StatusCode, body, r.Close)
	}
	p.rest()
	if err := g.drained(); err != nil || !strings.Contains(g.logged.String(), "exchanges_cut=0") {
		t.Errorf("ended with %v\n%s", err, g.logged.String())
	}
}

func TestADrainClosesIdleConnections(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	s := newService(t, answering(okResponse))
	g := serve(t, oneUpstream(s.address()))
	fresh, used := g.dial(), g.dial()
	used.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	used.response("GET")
	eventually(t, "both connections are accepted", func() bool { return g.snapshot().Accepted == 2 })
	g.stop()
	if fresh.rest() != "" || used.rest() != "" {
		t.Error("an idle connection was told something")
	}
	g.drained()
}

func TestARequestThatCrossesTheBeginningOfADrainIsAnswered(t *testing.T) {
	s := newService(t, answering(okResponse))
	onceInFive(t, "an idle connection is served for a second longer", func() bool {
		g := serve(t, oneUpstream(s.address()))
		p := g.dial()
		p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		p.response("GET")
		address := g.address(0)
		g.stop()
		// By then every loop knows.
		eventually(t, "it stops accepting", func() bool { return !listensAt(address) })
		defer g.drained()
		io.WriteString(p, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		r, err := http.ReadResponse(p.r, nil)
		if err != nil {
			return false
		}
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != "ok" || !r.Close {
			t.Errorf("got %q and %v, close %v", body, err, r.Close)
		}
		return true
	})
}

func TestADrainServesTheConnectionsInTheAcceptQueue(t *testing.T) {
	s := newService(t, answering(okResponse))
	g := serve(t, "loops: 2\n"+oneUpstream(s.address()))
	free := make(chan struct{})
	for _, loop := range g.loops {
		loop.Post(func() { <-free })
	}
	var queued []*peer
	for range 8 {
		p := g.dial()
		p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		queued = append(queued, p)
	}
	g.stop()
	eventually(t, "the drain begins", func() bool { return g.State() == Draining })
	close(free)
	for _, p := range queued {
		if r, body := p.response("GET"); r.StatusCode != 200 || body != "ok" {
			t.Errorf("got %d %q", r.StatusCode, body)
		}
	}
	g.drained()
}

func TestADrainUnderLoadFailsNothing(t *testing.T) {
	s := newService(t, answering(okResponse))
	g := serve(t, "loops: 2\n"+oneUpstream(s.address()))
	address := g.address(0)
	l := &load{t: t, address: address, stop: make(chan struct{})}
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() { errs <- l.connection(true) }() // until it is told that the connection ends
	}
	l.more(20)
	g.stop()
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Errorf("a client met %v", err)
		}
	}
	g.drained()
}

func TestTheLimitOfADrainCutsTheRestAndSaysHowMuch(t *testing.T) {
	held := newGate(t)
	s := newService(t, held.script)
	tunnel := newService(t, echoing)
	g := serve(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}, echo: {targets: ["`+tunnel.address()+`"]}}
routes: [{match: /held, upstream: s}, {match: /, upstream: echo}]
drain: {timeout: 50ms}
access_log: {path: "`+filepath.Join(t.TempDir(), "log")+`"}
`)
	p, ws := g.dial(), openTunnel(g)
	p.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
	held.next(t)
	g.stop()
	if _, err := io.ReadAll(p.r); err == nil {
		t.Error("an exchange that is cut off ended in good order")
	}
	if _, err := io.ReadAll(ws.r); err == nil {
		t.Error("a tunnel that is cut off ended in good order")
	}
	if err := g.drained(); err != nil || !strings.Contains(g.logged.String(), "exchanges_cut=2") {
		t.Errorf("ended with %v\n%s", err, g.logged.String())
	}
}

// Who reloads during a drain is told so at once, and not when the last client has gone.
func TestADrainDoesNotKeepReloadsWaiting(t *testing.T) {
	held := newGate(t)
	s := newService(t, held.script)
	g := serve(t, oneUpstream(s.address()))
	p := g.dial()
	p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	held.next(t)
	g.stop()
	eventually(t, "the drain", func() bool { return g.State() == Draining })
	// Were the lock held to the drain's end, none of it would come before the exchange's.
	if err := g.Reload(); err != errNotServing {
		t.Errorf("a reload in a drain: %v", err)
	}
	held.let <- okResponse
	if status := p.status("GET"); status != 200 {
		t.Errorf("the exchange that was under way got %d", status)
	}
	if err := g.drained(); err != nil {
		t.Error(err)
	}
}

func TestSystemdIsToldOfEveryChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	ln, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	told := func(want ...string) {
		t.Helper()
		ln.SetReadDeadline(time.Now().Add(patience))
		buf := make([]byte, 4096)
		n, err := ln.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(string(buf[:n]), w) {
				t.Errorf("told %q, want %q", buf[:n], w)
			}
		}
	}
	yaml := "listeners: [{address: \"127.0.0.1:0\"}]\nroutes: [{match: /, respond: {body: ok}}]\n"
	g := serve(t, yaml)
	told("READY=1", "MAINPID=")
	if err := g.reload(yaml); err != nil {
		t.Fatal(err)
	}
	told("RELOADING=1", "MONOTONIC_USEC=")
	told("READY=1")
	if g.reload("nonsense") == nil {
		t.Fatal("nonsense was loaded")
	}
	told("RELOADING=1")
	told("READY=1")
	g.stop()
	told("STOPPING=1")
	g.drained()
}

// A connection that one loop accepted for another has no client yet.
func TestADrainWaitsForConnectionsOnTheirWayBetweenLoops(t *testing.T) {
	g := serve(t, "loops: 2\nlisteners: [{address: \"127.0.0.1:0\"}]\nroutes: [{match: /, respond: {}}]\n")
	held, release := make(chan struct{}), make(chan struct{})
	g.loops[0].Post(func() {
		close(held)
		<-release
	})
	defer close(release)
	<-held
	var peers []*peer
	for range 100 {
		peers = append(peers, g.dial())
	}
	eventually(t, "a connection to be on its way", func() bool { return g.loops[0].Connections() > 0 })
	for _, p := range peers {
		p.Close()
	}
	eventually(t, "the other loop's clients to have gone", func() bool { return g.shared.Clients.Load() == 0 })
	if g.waitForClients(20 * time.Millisecond) {
		t.Error("the drain is over, and a connection is still on its way")
	}
}
