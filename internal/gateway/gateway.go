// Package gateway builds a running gateway from a configuration: loops, listeners, upstreams,
// routes, the access log. It starts the gateway, changes it while it runs (reload), ends it
// gracefully (drain) and hands it over to a new process (upgrade). It does not know how its state
// is displayed: package admin queries it.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/crash"
	"plimsoll/internal/exchange"
	"plimsoll/internal/invariant"
	"plimsoll/internal/loadline"
	"plimsoll/internal/policy/cache"
	"plimsoll/internal/policy/compress"
	"plimsoll/internal/proxy"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/telemetry/accesslog"
	"plimsoll/internal/telemetry/budget"
	"plimsoll/internal/upstream"
)

// Options are the options with which a gateway is started.
type Options struct {
	// ConfigPath is the configuration's file, read again at each reload.
	ConfigPath string
	// Watch reloads when the file changes.
	Watch  bool
	Logger *slog.Logger
	// Version is the program's version, for metrics.
	Version string
	// Ready is called once, as soon as every listener accepts. It may be nil.
	Ready func()
	// Admin makes the handler of an admin address; nil for none.
	Admin func(*Gateway, *AdminAddress) http.Handler

	// Host replaces the machine in a simulation; nil for the real one.
	Host *Host

	// For tests.
	resolver      string        // "host:port" of the name server; empty for those of the system
	adminHeadTime time.Duration // of a request at the admin address; 0 for the constant
	kinds         []kind        // kinds of policies; nil for all
	lookTime      time.Duration // how long Call and ask wait for a loop; 0 for the constant
	seed          uint64        // of the hashes of clients; 0 for a random one
}

// Gateway is a running gateway. Its exported methods may be called from any goroutine but a loop.
type Gateway struct {
	options  Options
	log      *slog.Logger
	started  time.Time
	loops    []*reactor.Loop
	workers  []*proxy.Worker
	shared   *proxy.Shared
	registry *telemetry.Registry
	lines    *accesslog.Counters
	ledger   *budget.Ledger
	feeder   *feeder // while it runs
	lookout  lookout
	env      upstream.Env
	limit    descriptorLimit
	program  string // the file that an upgrade starts

	inherited   *inherited
	admin       adminServer
	adminClosed adminCounts

	mu        lock // one reload or upgrade at a time, and none once the gateway is Draining
	config    *config.Config
	version   string // of the config: a short hash of its content
	loadedAt  time.Time
	upstreams upstreams
	stores    stores
	cached    *cache.Memory // of stored responses; nil for none
	encoders  *compress.Encoders
	surveyed  map[string]*loadline.Line // lines, of upstreams that name one
	kinds     []kind
	policies  []policy
	listeners map[string]*listener
	accessLog *accesslog.Log
	quic      http3Endpoints

	state atomic.Value // State
	// What queries read without mu, which may be held through a whole upgrade; nil before the first
	// config.
	inForce atomic.Pointer[inForce]

	drain     chan string   // asks Run to drain, with the reason
	upgrades  chan struct{} // asks Run for an upgrade
	loopsDone sync.WaitGroup
}

// State is a phase in the life of a gateway.
type State string

// The states of a gateway.
const (
	Starting State = "starting"
	Serving  State = "serving"
	Draining State = "draining"
)

// gcPercent makes the garbage collector run twice as often as by default. The steady state
// allocates nothing, so that costs nothing, and the garbage of TLS handshakes is freed sooner:
// otherwise it would be half the memory of many idle TLS connections.
const gcPercent = 50

// Run starts a gateway and returns when it has ended. It returns nil if ctx ended or a new process
// took over, and the exchanges under way have drained; config.Errors if the configuration is wrong;
// and any other error if the gateway could not start.
func Run(ctx context.Context, o Options) error {
	defer crash.Guard("in the gateway's main goroutine")
	g, err := start(o)
	if err != nil {
		return err
	}
	return g.run(ctx)
}

// start makes everything that is needed to serve, and returns as soon as every listener accepts.
func start(o Options) (g *Gateway, err error) {
	cfg, err := loadConfig(o.ConfigPath)
	if err != nil {
		return nil, err
	}
	g = &Gateway{
		options: o, log: o.Logger, started: time.Now(), config: cfg,
		shared: &proxy.Shared{Seed: cmp.Or(o.seed, o.Host.seed()), HeldBodies: o.Host.heldBodies()},
		lines:  &accesslog.Counters{}, ledger: budget.NewLedger(), listeners: map[string]*listener{},
		mu: newLock(), drain: make(chan string, 1), upgrades: make(chan struct{}, 1),
		inherited: inherit(o.Host),
	}
	if g.kinds = o.kinds; g.kinds == nil {
		g.kinds = policies
	}
	g.state.Store(Starting)
	if g.program, err = programPath(); err != nil {
		return nil, fmt.Errorf("find this program's own file: %w", err)
	}
	if g.limit, err = descriptors(o.Host); err != nil {
		return nil, err
	}
	g.log.Info("descriptors", "allowed", g.limit.allowed, "clients", g.limit.clients,
		"kept_back", g.limit.allowed-g.limit.clients)
	if !g.simulated() {
		debug.SetGCPercent(gcPercent)
	}
	if err := g.makeLoops(cfg.Loops); err != nil {
		return nil, err
	}
	if err := g.apply(cfg, false); err != nil {
		g.stopLoops()
		return nil, err
	}
	g.inherited.closeRest()
	g.state.Store(Serving)
	return g, nil
}

// processors is how many processors the process may use: GOMAXPROCS before any gateway raised it.
// Otherwise, with several gateways in a process, each would have one loop more than the one before.
var processors = sync.OnceValue(func() int { return runtime.GOMAXPROCS(0) })

// makeLoops makes the loops and their workers and starts them. They are idle until there are
// listeners.
func (g *Gateway) makeLoops(n int) error {
	if n == 0 {
		n = processors()
	}
	g.lookout.processors = min(processors(), n+1)
	// The loops occupy their processors (Ps). One more P lets handshakes, health checks and scrapes
	// run beside them. Otherwise these would wait until the scheduler takes a P away from a busy
	// loop, which it does only every ten milliseconds.
	if !g.simulated() {
		runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), n+1))
	}
	loops, err := reactor.NewGroup(n, g.log)
	if err != nil {
		return err
	}
	g.loops, g.encoders = loops, compress.NewEncoders(n)
	g.lookout.estimator, g.lookout.window = loadline.New(n), newLock()
	g.registry, err = telemetry.New(telemetry.Options{
		Loops: n, Version: g.options.Version, Reasons: reasonLabels(), Ends: endLabels,
		HandshakeFailures: proxy.HandshakeFailures,
		BufferSizes:       bufferLabels(), Logger: g.log,
		AccessLog: func() (written, dropped, lost uint64) {
			return g.lines.Written.Load(), g.lines.Dropped.Load(), g.lines.Lost.Load()
		},
		Descriptors: g.limit.usage,
	})
	if err != nil {
		return err
	}
	if err := g.addSeries(); err != nil {
		return err
	}
	for i, loop := range loops {
		shard := g.registry.Shard(i)
		w := proxy.NewWorker(loop, g.shared, shard, g.log)
		shard.Refresh = refresh(loop, w)
		g.workers = append(g.workers, w)
	}
	g.shared.Workers = g.workers
	g.env = g.environment(loops)
	for _, loop := range loops {
		g.loopsDone.Add(1)
		go func() {
			defer crash.Guard(fmt.Sprintf("on loop %d", loop.ID))
			loop.Run()
			// Not deferred: if the loop panics, code that waits for loopsDone must not end the
			// process first.
			g.loopsDone.Done()
		}()
	}
	return nil
}

// refresh copies a loop's own statistics to its counters.
func refresh(loop *reactor.Loop, w *proxy.Worker) func(*telemetry.Shard) {
	return func(s *telemetry.Shard) {
		stats := loop.Stats()
		s.Turns, s.BusyNS, s.CPUNS = stats.Turns, uint64(stats.Wall-stats.Waited), uint64(reactor.ThreadCPU())
		s.Active, s.HTTP2 = int64(w.InFlight()), w.HTTP2()
		for i, n := range loop.BuffersOut() {
			s.BuffersOut[i] = int64(n)
		}
	}
}

func reasonLabels() []string {
	labels := make([]string, exchange.Reasons())
	for r := range labels {
		labels[r] = exchange.Reason(r).String()
	}
	return labels
}

var endLabels = []string{
	exchange.Completed: "completed", exchange.ClientGone: "client_gone",
	exchange.GatewayAnswer:  "gateway_answer",
	exchange.UpstreamFailed: "upstream_failed", exchange.Shed: "shed",
}

func bufferLabels() (labels []string) {
	for _, n := range reactor.Sizes {
		labels = append(labels, fmt.Sprint(n))
	}
	return labels
}

// callLimit is how long call waits for a loop. A loop that takes longer is stuck, which should not
// be possible.
const callLimit = 5 * time.Second

// call makes a loop run f and waits for it. It reports whether f has run.
func (g *Gateway) call(loop *reactor.Loop, f func()) bool {
	if !loop.Call(callLimit, f) {
		g.log.Error("a loop did not answer in time", "loop", loop.ID, "limit", callLimit.String())
		return false
	}
	return true
}

// lookLimit is how long queries of a loop's state wait for the loop.
const lookLimit = time.Second

// Call runs f on a loop, for queries of its state. It returns false if it gives up; f then never
// runs.
func (g *Gateway) Call(loop int, f func()) bool {
	return g.loops[loop].Call(cmp.Or(g.options.lookTime, lookLimit), f)
}

// ask is Call for the metrics. When it gives up, f still runs as soon as the loop responds again,
// which shows the metrics that it does. A loop that has ended runs nothing.
func (g *Gateway) ask(loop int, f func()) bool {
	done := make(chan struct{})
	g.loops[loop].Post(func() {
		f()
		close(done)
	})
	timer := time.NewTimer(cmp.Or(g.options.lookTime, lookLimit))
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// run runs the gateway from the opening of the first listener to the end.
func (g *Gateway) run(ctx context.Context) error {
	signals := make(chan os.Signal, 8)
	if !g.simulated() {
		signal.Notify(signals, syscall.SIGHUP, upgradeSignal)
		defer signal.Stop(signals)
	}
	watched, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	if g.options.Watch {
		go g.watchConfig(watched)
	}
	go g.rotateTickets(watched)
	g.startFeeder()
	if g.options.Ready != nil {
		g.options.Ready()
	}
	g.inherited.ready()
	notify("READY=1", fmt.Sprintf("MAINPID=%d", os.Getpid()))
	g.mu.Lock()
	// Two processes write to one log during an upgrade; the pid and the version tell which one
	// serves now.
	g.log.Info("serving", "version", g.options.Version, "pid", os.Getpid(), "loops", len(g.loops),
		"listeners", len(g.listeners), "routes", len(g.config.Routes))
	g.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return g.end("stopped", nil)
		case why := <-g.drain:
			return g.end(why, nil)
		case s := <-signals:
			if s == syscall.SIGHUP {
				g.Reload()
				continue
			}
			g.Upgrade()
		case <-g.upgrades:
			next, err := g.upgrade(ctx)
			if err != nil {
				g.log.Error("the upgrade failed; this process goes on", "error", err)
				continue
			}
			return g.end("upgraded", next)
		}
	}
}

// rotateTickets makes new session ticket keys as they come due.
func (g *Gateway) rotateTickets(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	defer crash.Guard("in the rotation of ticket keys")
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			g.mu.Lock()
			for _, l := range g.listeners {
				if l.tls != nil && l.tls.tickets != nil {
					l.tls.tickets.Rotate(reactor.Clock())
				}
			}
			g.mu.Unlock()
		}
	}
}

func (g *Gateway) watchConfig(ctx context.Context) {
	err := config.Watch(ctx, g.options.ConfigPath, func() { g.Reload() })
	if err != nil && ctx.Err() == nil {
		g.log.Error("the configuration's file is no longer watched; SIGHUP still reloads it", "error", err)
	}
}

// Drain makes the gateway stop accepting, finish what is under way, and end. It returns at once.
func (g *Gateway) Drain() {
	select {
	case g.drain <- "drained by the admin API":
	default:
	}
}

// drainTick is how often an ending gateway looks whether its clients are gone.
const drainTick = 10 * time.Millisecond

// end drains the gateway and stops everything. next is the process that has taken over, or nil.
func (g *Gateway) end(why string, next *successor) error {
	// The lock is not held through the drain: a reload that waits for it then finds that the
	// gateway is draining, and changes nothing.
	g.mu.Lock()
	g.state.Store(Draining)
	g.mu.Unlock()
	if next != nil {
		g.admin.retire() // the new process shares its socket, and would miss scrapes made here
	} else {
		notify("STOPPING=1")
	}
	limit := time.Duration(g.config.Drain.Timeout)
	g.log.Info("draining", "why", why, "pid", os.Getpid(), "connections", g.shared.Clients.Load(),
		"limit", limit.String())
	// First, so that no answer after the listeners' end lacks Connection: close.
	for i, w := range g.workers {
		g.call(g.loops[i], w.Drain)
	}
	for _, address := range slices.Sorted(maps.Keys(g.listeners)) {
		g.giveHTTP3(g.listeners[address], next)
		g.closeListener(g.listeners[address], next.has(address))
	}
	cut := 0
	if !g.waitForClients(limit) {
		for i, w := range g.workers {
			g.call(g.loops[i], func() { cut += w.Cut() })
		}
	}
	g.admin.close()
	g.stopFeeder()
	g.stopLoops()
	var errs []error
	for _, u := range g.upstreams {
		u.Close()
	}
	g.stores.release(nil)
	g.releaseMemory(g.cached, nil)
	if g.accessLog != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := g.accessLog.Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("access log: %w", err))
		}
	}
	g.log.Info("ended", "why", why, "exchanges_cut", cut)
	return errors.Join(errs...)
}

// waitForClients waits until no client connection is left, and reports whether that happened before
// the limit. A connection on its way from the loop that has accepted it to another loop counts,
// because its client expects an answer. So do the connections in the queue of a closing listener.
func (g *Gateway) waitForClients(limit time.Duration) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	for g.connections() > 0 {
		select {
		case <-deadline.C:
			return false
		case <-tick.C:
		}
	}
	return true
}

// connections is how many accepted connections the loops hold, including those on their way between
// two loops. A closing listener that still accepts its queue counts as one.
func (g *Gateway) connections() (n int64) {
	for _, loop := range g.loops {
		n += loop.Connections() + loop.Closing()
	}
	return n + g.shared.HTTP3.Load() + g.quic.handshakes()
}

// handshakesLimit is how long stopping waits for aborted TLS handshakes to return.
const handshakesLimit = time.Second

func (g *Gateway) stopLoops() {
	for i, w := range g.workers {
		g.call(g.loops[i], w.Close)
	}
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	left := g.handshakes()
	for began := time.Now(); left > 0 && time.Since(began) < handshakesLimit; left = g.handshakes() {
		<-tick.C
	}
	if left > 0 {
		g.log.Error("some TLS handshakes do not end: their sockets stay open until the process ends",
			"handshakes", left)
		if invariant.Sequential {
			panic("gateway: a handshake was counted and never counted off")
		}
	}
	for i, w := range g.workers {
		g.call(g.loops[i], w.Stop)
	}
	g.loopsDone.Wait()
	g.quic.close()
}

// handshakes is how many TLS handshakes are under way on all loops.
func (g *Gateway) handshakes() (n int) {
	for i, w := range g.workers {
		g.call(g.loops[i], func() { n += w.Handshakes() })
	}
	return n
}
