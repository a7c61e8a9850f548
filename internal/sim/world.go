package sim

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"plimsoll/internal/admin"
	"plimsoll/internal/gateway"
	"plimsoll/internal/invariant"
	"plimsoll/internal/reactor"
	"plimsoll/internal/sim/kernel"
)

// world is one run of a scenario.
type world struct {
	scenario Scenario
	kernel   *kernel.Kernel
	dir      string // of the configuration's file

	gateways      []*instance
	current       *instance // the one that serves
	services      []*service
	people        []*client
	secured       []*secure
	certificate   tls.Certificate
	asked         map[string]*request     // by token
	configs       map[int]began           // by number
	served        map[admission][]*client // clients that have been answered
	bounds        bounds                  // on requests in progress
	clients       int                     // open connections
	upstreamConns int                     // at the services
	upgraded      chan struct{}           // closed at the end of the present upgrade
	queue         []Act                   // acts that are due and have not begun
	acting        bool                    // an act runs in the background
	todo          int                     // number of acts that have not begun
	ending        bool                    // the gateway has been told to end
	replaced      bool                    // by a reload or an upgrade: its limits no longer apply
	recounted     bool                    // the same for what listeners count
	brokenHTTP2   bool                    // a service has broken a rule of a connection
	shelf         *shelf                  // of the route with a cache
	names         namedAnswer
	failure       error
	history       []string // nil unless wanted
}

// instance is one process of the gateway.
type instance struct {
	*gateway.Gateway
	process int
	admin   http.Handler
	log     bytes.Buffer // its standard output: the access log
	cancel  context.CancelFunc
	ended   bool
	err     error
	took    []string      // addresses of the sockets it took over
	serving bool          // it has been ready
	settled chan struct{} // closed when it serves or has ended
}

// result is the result of a run.
type result struct {
	err     error
	history []string // the events, if they were asked for
}

// horizon is how much virtual time a run may take to reach what it waits for. A client leaves after
// longestStay, and a drain in a quiet scenario has ten minutes after that.
const horizon = 15 * time.Minute

// mode is how a scenario is played.
type mode uint8

// The modes. In the first two, a run always makes the same history, and a panic ends the process.
// The last one reports what happened before a panic, and almost always makes that history too.
const (
	forVerdict mode = iota
	forHistory
	forPanic
)

// play runs a scenario in a bubble of package synctest. dir contains what furnish puts there.
// Nothing else in the process may use reactor meanwhile.
func play(s Scenario, dir string, m mode) result {
	invariant.Sequentially()
	w := &world{
		scenario: s, dir: dir, asked: map[string]*request{},
		configs: map[int]began{}, served: map[admission][]*client{},
	}
	k := kernel.New(s.Seed+s.Luck<<32, s.Kernel)
	w.kernel = k
	k.Preemptible = m == forPanic
	if m != forVerdict {
		k.Trace = w.trace
		w.history = []string{}
	}
	reactor.Simulate(k)
	defer reactor.Simulate(nil)
	for _, p := range s.Services {
		v := newService(w, p)
		w.services = append(w.services, v)
		k.Serve(p.Address, &v.Service)
	}
	if s.Cache != nil {
		w.serveCached()
	}
	k.Occupy(takenAddress)
	w.names.change(int(s.Seed%1000), w.services)
	if s.Gateway.TLS || s.Gateway.UpstreamTLS {
		if err := w.certify(); err != nil {
			return result{err: err}
		}
	}
	if w.failure = w.start(); w.failure == nil {
		for _, p := range s.Clients {
			w.people = append(w.people, newClient(w, p))
		}
		w.todo = len(s.Acts)
		for _, a := range s.Acts {
			k.After(a.At, func() { w.due(a) })
		}
		w.drive()
	}
	for _, line := range w.secured {
		line.Close()
	}
	return result{w.failure, w.history}
}

// furnish puts the files to which configurations refer, and that no run changes, into a directory.
func furnish(dir string) error {
	return os.WriteFile(filepath.Join(dir, "large.txt"), []byte(largeBody), 0o600)
}

// drive runs the world until everything is over or something is wrong.
func (w *world) drive() {
	defer func() {
		if p := recover(); p != nil {
			w.violate("panic: %v%s", p, calls(debug.Stack()))
		}
	}()
	for _, phase := range []func(){w.untilQuiet, w.settle, w.end, w.balance} {
		phase()
		if w.failure != nil {
			return
		}
	}
}

// run drives the kernel until a condition holds.
func (w *world) run(what string, done func() bool) {
	limit := w.kernel.Clock() + int64(horizon)
	err := w.kernel.Drive(func() bool {
		if w.failure == nil && w.kernel.Clock() > limit {
			w.violate("%s: that has not come about in %v; %s", what, horizon, w.unfinished())
		}
		return w.failure != nil || done()
	})
	if w.failure == nil {
		w.failure = err
	}
}

// pass lets an amount of time pass.
func (w *world) pass(what string, d time.Duration) {
	over := w.kernel.Clock() + int64(d)
	w.kernel.At(over, func() {})
	w.run(what, func() bool { return w.kernel.Clock() >= over })
}

// unfinished lists what a run still waits for.
func (w *world) unfinished() string {
	var list []string
	for _, c := range w.people {
		if c.here && !c.done {
			list = append(list, fmt.Sprintf("%s has sent %d of %d bytes and read %d",
				c.name, c.sent, c.given, c.received))
		}
	}
	if w.acting || w.todo > 0 {
		list = append(list, fmt.Sprintf("%d acts have not begun, one is under way: %v",
			w.todo, w.acting))
	}
	return strings.Join(list, ", ")
}

// untilQuiet lets all clients come and go, and the operator act.
func (w *world) untilQuiet() {
	last := time.Duration(0)
	for _, c := range w.scenario.Clients {
		last = max(last, c.At)
	}
	for _, a := range w.scenario.Acts {
		last = max(last, a.At)
	}
	over := w.kernel.Clock() + int64(last+time.Second)
	w.kernel.At(over, func() {})
	w.run("every client is served or ended", func() bool {
		return w.kernel.Clock() >= over && w.clients == 0 && !w.acting && (w.todo == 0 || w.ending)
	})
}

// start starts a gateway's process and returns when it serves.
func (w *world) start() error {
	w.configure(w.began(0).text)
	w.allow(0)
	i := w.launch(nil)
	w.run("the gateway starts", func() bool { return i.serving || i.ended })
	if w.failure == nil && i.ended {
		return fmt.Errorf("the gateway did not start: %w", i.err)
	}
	return w.failure
}

// launch starts a process of the gateway, with the sockets that another process hands over.
func (w *world) launch(sockets map[string][]int) *instance {
	i := &instance{process: len(w.gateways) + 1, settled: make(chan struct{})}
	w.kernel.Process = i.process
	ctx, cancel := context.WithCancel(context.Background())
	i.cancel = cancel
	random := w.scenario.stream(ofProcesses, uint64(i.process))
	o := gateway.Options{
		ConfigPath: filepath.Join(w.dir, "plimsoll.yaml"), Version: "sim",
		Logger: slog.New(w.logHandler()),
		Admin: func(g *gateway.Gateway, d *gateway.AdminAddress) http.Handler {
			i.Gateway, i.admin = g, admin.New(g, d)
			return i.admin
		},
		Host: &gateway.Host{
			Seed: w.scenario.Seed | 1, Random: random.Uint64,
			Descriptors: w.scenario.Kernel.Descriptors, HeldBodies: w.scenario.HeldBodies,
			Stdout: &i.log, Sockets: sockets,
			Probe: w.probe, Lookup: w.lookup,
			ListenAdmin: func(string) (net.Listener, error) { return newSilentListener(), nil },
			Ready: func(took []string) {
				i.took, i.serving = took, true
				w.current = i
				close(i.settled)
			},
			Succeed: w.succeed,
		},
	}
	w.gateways = append(w.gateways, i)
	go func() {
		i.err = gateway.Run(ctx, o)
		i.ended = true
		if !i.serving {
			close(i.settled)
		}
	}()
	return i
}

// succeed starts the process that takes over from another.
func (w *world) succeed(_ context.Context, sockets map[string][]int) ([]string, error) {
	defer close(w.upgraded)
	before, process := w.kernel.Process, len(w.gateways)+1
	copies := map[string][]int{}
	for _, address := range slices.Sorted(maps.Keys(sockets)) {
		for _, fd := range sockets[address] {
			copies[address] = append(copies[address], w.kernel.Dup(fd, process))
		}
	}
	i := w.launch(copies)
	<-i.settled
	if !i.serving {
		i.err = nil // it has logged the reason, and the old process continues
		w.kernel.Process = before
		return nil, errors.New("the new process ended before it was ready")
	}
	return i.took, nil
}

// logHandler handles the logs of gateways.
func (w *world) logHandler() slog.Handler {
	if w.history == nil {
		return slog.DiscardHandler
	}
	return slog.NewTextHandler(logSink{w}, &slog.HandlerOptions{ReplaceAttr: withoutTime})
}

// logSink writes a gateway's log into the history.
type logSink struct{ w *world }

func (l logSink) Write(p []byte) (int, error) {
	l.w.trace("log: %s", p[:len(p)-1])
	return len(p), nil
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

func (w *world) violate(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
		w.trace("WRONG: %v", w.failure)
	}
}

func (w *world) trace(format string, args ...any) {
	if w.history != nil {
		at := time.Duration(w.kernel.Clock())
		line := fmt.Sprintf(format, args...)
		w.history = append(w.history, fmt.Sprintf("%12.6f  %s", at.Seconds(), line))
	}
}

// silentListener is an admin address to which nobody connects: the operator calls the handlers.
type silentListener struct{ closed chan struct{} }

func newSilentListener() *silentListener { return &silentListener{make(chan struct{})} }

func (l *silentListener) Accept() (net.Conn, error) {
	<-l.closed
	return nil, net.ErrClosed
}

func (l *silentListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *silentListener) Addr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9900}
}
