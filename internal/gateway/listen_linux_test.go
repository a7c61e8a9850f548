package gateway

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// spoil puts a file, which no loop can watch, in the place of one of a listener's sockets.
func spoil(t *testing.T, l *listener, k int) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	syscall.Close(l.fds[k])
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	l.fds[k] = fd
}

// HAZARDS: a descriptor's number outlives the descriptor. What was given the number next would
// have been handed to the next process as a listening socket.
func TestHazardASocketOnWhichALoopCannotListenIsNotHandedOver(t *testing.T) {
	g := serve(t, "loops: 2\n"+listenOnly)
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.config.Listeners[0]
	l, err := g.bind(c)
	if err != nil {
		t.Fatal(err)
	}
	spoil(t, l, 0)
	p, _, err := g.compileListener(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.putListener(l, p, c, nil, true); err == nil {
		t.Fatal("a loop listens on a file")
	}
	defer g.closeListener(l, false)
	if l.accepting.Load() || l.open[1] == nil {
		t.Error("the listener counts as accepting on each loop, or accepts on none")
	}
	before := g.listeners
	g.listeners = map[string]*listener{c.Address: l}
	files, sockets, err := g.handover()
	g.listeners = before
	if err != nil || len(files) != 1 || sockets != c.Address+"=3" {
		t.Errorf("%d sockets are handed over as %q, %v; want the one that is left", len(files), sockets, err)
	}
	for _, f := range files {
		f.Close()
	}
}

// A configuration is in force once the loops have its routes, whatever becomes of its sockets.
func TestAListenerThatFailsLateDoesNotMakeAReloadPassForRefused(t *testing.T) {
	g := serve(t, "loops: 2\n"+listenOnly)
	writeFile(t, g.path, `
loops: 2
listeners: [{address: "127.0.0.1:0"}, {address: "0.0.0.0:0"}]
routes: [{match: /, respond: {status: 204}}]
`)
	cfg, err := loadConfig(g.path)
	if err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	c, err := g.prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	second := cfg.Listeners[1].Address
	spoil(t, c.listeners[second], 1)
	err = g.enforce(c, true)
	g.mu.Unlock()
	if !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), "listen on "+second) {
		t.Errorf("a listener that failed late: %v", err)
	}
	if n := g.snapshot().Reloads; n != 0 {
		t.Errorf("%d reloads count as successes", n)
	}
	p := g.dial()
	p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, _ := p.response("GET"); r.StatusCode != 204 {
		t.Errorf("got %d, want the new configuration's 204", r.StatusCode)
	}
	if g.Ready() == nil {
		t.Error("the gateway says that it is ready")
	}
}

// A reload that waits for an upgrade to end finds a gateway that takes none.
func TestAReloadThatWaitsForAnUpgradeIsRefused(t *testing.T) {
	g := &Gateway{mu: newLock()}
	g.state.Store(Serving)
	var waited chan error
	g.options.Host = &Host{Succeed: func(context.Context, map[string][]int) ([]string, error) {
		waited = make(chan error)
		go func() { waited <- g.Reload() }()
		return nil, nil
	}}
	if _, err := g.upgrade(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != errNotServing {
		t.Errorf("the reload says %v", err)
	}
	g.state.Store(Serving)
	g.options.Host.Succeed = func(context.Context, map[string][]int) ([]string, error) { return nil, os.ErrInvalid }
	if _, err := g.upgrade(t.Context()); err == nil || g.State() != Serving {
		t.Errorf("after an upgrade that failed, %v, the gateway is %s", err, g.State())
	}
}
