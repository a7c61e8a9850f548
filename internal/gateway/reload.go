package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/loadline"
	"plimsoll/internal/policy/cache"
	"plimsoll/internal/proxy"
	"plimsoll/internal/telemetry/accesslog"
	"plimsoll/internal/upstream"
)

// Reload reads the configuration again and activates it, or returns what is wrong with it and keeps
// the old one. No exchange fails and no connection drops because of it. It also reopens the access
// log's file. If it returns ErrIncomplete, the new configuration is active nevertheless.
func (g *Gateway) Reload() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.State() != Serving {
		return errNotServing
	}
	notify("RELOADING=1", monotonicUsec())
	defer notify("READY=1")
	if g.accessLog != nil {
		g.accessLog.Reopen()
	}
	cfg, err := loadConfig(g.options.ConfigPath)
	if err == nil {
		g.warnOfWhatStays(cfg)
		err = g.apply(cfg, true)
	}
	if err != nil {
		message := "the new configuration was refused; the old one goes on"
		if errors.Is(err, ErrIncomplete) {
			message = "the new configuration is active, but not all of it works"
		}
		g.registry.ReloadFailed()
		g.log.Error(message, "error", err)
		return err
	}
	g.log.Info("configuration reloaded", "version", g.version, "routes", len(cfg.Routes))
	return nil
}

// warnOfWhatStays warns of changes that a reload cannot make.
func (g *Gateway) warnOfWhatStays(cfg *config.Config) {
	if cfg.Loops != g.config.Loops {
		g.log.Warn("the number of loops changes with the next start or upgrade, not with a reload",
			"running", len(g.loops), "configured", cfg.Loops)
	}
	for _, lc := range cfg.Listeners {
		if l := g.listeners[lc.Address]; l != nil && l.config.Backlog != lc.Backlog {
			g.log.Warn("a listener's backlog changes with the next start or upgrade, not with a "+
				"reload", "listener", lc.Address, "configured", lc.Backlog)
		}
	}
}

// change is a new configuration that is being activated: all its parts are made before any is
// activated.
type change struct {
	config    *config.Config
	upstreams upstreams
	fresh     upstreams
	stores    stores
	newStores stores
	memory    *cache.Memory
	lines     map[string]*loadline.Line
	snapshot  *proxy.Snapshot
	policies  []policy
	listeners map[string]*listener
	compiled  map[string]*proxy.Listener
	tls       map[string]*listenerTLS
	bound     []*listener
	udp       map[string]*udpSocket // of existing listeners, by address
	accessLog *accesslog.Log
	sameLog   bool
}

// apply activates a configuration. It first does everything that can fail, and undoes it if any of
// it fails. Then it tells the loops, one after the other, each between two of its turns.
func (g *Gateway) apply(cfg *config.Config, reload bool) error {
	c, err := g.prepare(cfg)
	if err != nil {
		g.undo(c)
		return err
	}
	if err := g.openAdmin(cfg.Admin); err != nil {
		g.undo(c)
		return err
	}
	return g.enforce(c, reload)
}

// enforce passes a change to the loops, and retires what the change no longer has.
func (g *Gateway) enforce(c *change, reload bool) error {
	c.startUpstreams()
	c.newStores.start()
	if c.memory != nil {
		c.memory.Start()
	}
	g.warnOfLines(c.config, c.lines)
	inheritPolicies(c.policies, g.policies)
	g.nameSeries(c.snapshot)
	followMemory(c.memory, g.cached)
	g.declareClasses(c.config)
	g.boundClients(c.config)
	g.encoders.SetMemory(int64(c.config.CompressMemory))
	c.snapshot.Gone = closeWhenGone(c.policies, len(g.workers))
	for i, w := range g.workers {
		g.call(g.loops[i], func() {
			w.Shard().Grow(g.registry.Sizes())
			w.Install(c.snapshot)
			if !c.sameLog {
				w.SetAccessLog(ring(c.accessLog, i))
			}
		})
	}
	incomplete := g.putListeners(c)
	old := replaced{g.upstreams, g.listeners, g.stores, g.cached}
	g.config, g.upstreams, g.listeners, g.policies = c.config, c.upstreams, c.listeners, c.policies
	g.stores, g.cached = c.stores, c.memory
	g.surveyed = c.lines
	g.version, g.loadedAt = configVersion(c.config), time.Now()
	g.registry.ConfigLoaded(g.version, g.loadedAt, reload && incomplete == nil)
	// Before the old listeners end: a listener that is removed must not make the gateway appear
	// unready.
	g.inForce.Store(g.look())
	g.retire(old, c)
	g.lookout.estimator.Configure(described(g.view()))
	if incomplete != nil {
		return fmt.Errorf("%w: %w", ErrIncomplete, incomplete)
	}
	return nil
}

// nameSeries assigns series to the routes and upstreams of a snapshot. A name keeps its series for
// ever, so the names of a refused configuration must not get any.
func (g *Gateway) nameSeries(s *proxy.Snapshot) {
	for i := range s.Routes {
		s.Routes[i].Stat = g.registry.Route(s.Routes[i].Name)
	}
	for i := range s.Upstreams {
		s.Upstreams[i].Stat = g.registry.Upstream(s.Upstreams[i].Name())
	}
}

// prepare makes everything that a configuration needs and that may fail.
func (g *Gateway) prepare(cfg *config.Config) (c *change, err error) {
	c, errs := g.compile(cfg)
	if errs != nil {
		return c, errs
	}
	for _, lc := range cfg.Listeners {
		if c.listeners[lc.Address] = g.listeners[lc.Address]; c.listeners[lc.Address] == nil {
			l, err := g.bind(lc)
			if err != nil {
				return c, err
			}
			c.listeners[lc.Address] = l
			c.bound = append(c.bound, l)
		} else if l := c.listeners[lc.Address]; lc.HTTP3 && l.quic == nil && !g.simulated() {
			if c.udp[lc.Address], err = g.bindUDP(lc.Address, l.bound); err != nil {
				return c, err
			}
		}
	}
	if c.sameLog = reflect.DeepEqual(cfg.AccessLog, g.loggedBy()); !c.sameLog && cfg.AccessLog != nil {
		c.accessLog, err = g.openAccessLog(cfg.AccessLog)
	}
	return c, err
}

// compile makes what can be made of a configuration without listening or connecting anywhere, and
// returns all its errors.
func (g *Gateway) compile(cfg *config.Config) (c *change, errs config.Errors) {
	c = &change{config: cfg, listeners: map[string]*listener{},
		compiled: map[string]*proxy.Listener{}, tls: map[string]*listenerTLS{},
		udp: map[string]*udpSocket{}}
	for i, lc := range cfg.Listeners {
		var err error
		before := g.listeners[lc.Address]
		c.compiled[lc.Address], c.tls[lc.Address], err = g.compileListener(lc, before)
		if err != nil {
			errs = append(errs, lc.Position().Wrong(fmt.Sprintf("listeners[%d]", i), err.Error()))
		}
	}
	var bad config.Errors
	c.upstreams, c.fresh, bad = g.buildUpstreams(cfg, g.upstreams)
	errs = append(errs, bad...)
	var wrong, unread config.Errors
	c.stores, c.newStores, wrong = g.buildStores(cfg, g.stores)
	var err error
	if c.memory, err = g.buildMemory(cfg, g.cached); err != nil {
		errs = append(errs, cfg.Cache.Position().Wrong("cache", err.Error()))
	}
	c.lines, unread = readLines(cfg)
	errs = append(append(errs, wrong...), unread...)
	if bad == nil && wrong == nil && err == nil {
		c.snapshot, c.policies, bad = g.buildSnapshot(cfg, c.upstreams, c.stores, c.memory)
		errs = append(errs, bad...)
	}
	slices.SortStableFunc(errs, func(a, b config.Error) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	return c, cfg.Redact(errs.Bounded())
}

// loggedBy is the active config of the access log; nil for none, and before the first config.
func (g *Gateway) loggedBy() *config.AccessLog {
	if g.accessLog == nil {
		return nil
	}
	return g.config.AccessLog
}

// startUpstreams starts the new upstreams concurrently, because each may have to wait for its name
// server.
func (c *change) startUpstreams() {
	var all sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(c.fresh)) {
		all.Go(c.fresh[name].Start)
	}
	all.Wait()
}

// undo closes what prepare made.
func (g *Gateway) undo(c *change) {
	for _, u := range c.fresh {
		u.Close()
	}
	closePolicies(c.policies)
	c.newStores.release(nil)
	g.releaseMemory(c.memory, g.cached)
	for _, l := range c.bound {
		l.closeSockets()
	}
	for _, s := range c.udp {
		if s != nil {
			s.Close()
		}
	}
	if c.accessLog != nil {
		c.accessLog.Close(context.Background())
	}
}

// putListeners gives the listeners to the loops. If one fails, it still continues with the others.
func (g *Gateway) putListeners(c *change) error {
	var failed []error
	for _, lc := range c.config.Listeners {
		l := c.listeners[lc.Address]
		first := g.listeners[lc.Address] == nil
		// Certificates and other files of TLS may have changed although the config has not.
		if !first && lc.TLS == nil && l.config.Same(lc) {
			continue
		}
		if s := c.udp[lc.Address]; s != nil {
			l.udp = s
		}
		failed = append(failed, g.putListener(l, c.compiled[lc.Address], lc, c.tls[lc.Address], first))
	}
	return errors.Join(failed...)
}

// replaced is what the previous configuration had.
type replaced struct {
	upstreams upstreams
	listeners map[string]*listener
	stores    stores
	cached    *cache.Memory
}

// retire ends what the old configuration had and the new one does not have.
func (g *Gateway) retire(old replaced, c *change) {
	for _, address := range slices.Sorted(maps.Keys(old.listeners)) {
		if c.listeners[address] == nil {
			g.closeListener(old.listeners[address], false)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.upstreams)) {
		if u := old.upstreams[name]; c.upstreams[name] != u {
			g.retireUpstream(u)
		}
	}
	old.stores.release(c.stores)
	g.releaseMemory(old.cached, c.memory)
	if !c.sameLog {
		if old := g.accessLog; old != nil {
			go old.Close(context.Background())
		}
		g.accessLog = c.accessLog
	}
}

// retireUpstream closes an upstream when no exchange of any loop needs it any more.
func (g *Gateway) retireUpstream(u *upstream.Upstream) {
	left := new(atomic.Int32)
	left.Store(int32(len(g.workers)))
	for i, w := range g.workers {
		g.call(g.loops[i], func() {
			w.Retire(u, func() {
				if left.Add(-1) == 0 {
					go u.Close()
				}
			})
		})
	}
}

// simulatedRing is the smallest possible ring: a simulation opens a log for each of many reloads,
// and writes few lines to it.
const simulatedRing = 1 << 18

func (g *Gateway) openAccessLog(c *config.AccessLog) (*accesslog.Log, error) {
	format, err := accesslog.ParseFormat(c.Format)
	if err != nil {
		return nil, err
	}
	o := accesslog.Options{Path: c.Path, Format: format, MaxSize: int64(*c.MaxSize), Keep: *c.Keep,
		Loops:    len(g.loops),
		Counters: g.lines, Logger: g.log}
	if g.simulated() {
		o.Output = g.options.Host.Stdout
		o.RingSize = simulatedRing
	}
	return accesslog.Open(o)
}

func ring(log *accesslog.Log, loop int) *accesslog.Ring {
	if log == nil {
		return nil
	}
	return log.Ring(loop)
}

// configVersion is a short hash of the configuration, including defaults and without secrets. It is
// displayed, and a hash that included a secret could be used to guess the secret.
func configVersion(cfg *config.Config) string {
	sum := sha256.Sum256(cfg.YAML())
	return hex.EncodeToString(sum[:6])
}
