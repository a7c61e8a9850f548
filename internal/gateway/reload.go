package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"reflect"
	"sync/atomic"
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/proxy"
	"plimsoll/internal/telemetry/accesslog"
	"plimsoll/internal/upstream"
)

// Reload reads the configuration again and puts it in force, or says what is wrong and leaves the old one. No exchange fails and no
// connection drops because of it. It also opens the access log's file anew.
func (g *Gateway) Reload() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	notify("RELOADING=1", monotonicUsec())
	defer notify("READY=1")
	if g.accessLog != nil {
		g.accessLog.Reopen()
	}
	if g.state != Serving {
		return errNotServing
	}
	cfg, err := config.Load(g.options.ConfigPath)
	if err == nil {
		err = g.apply(cfg, true)
	}
	if err != nil {
		g.registry.ReloadFailed()
		g.log.Error("the new configuration was refused; the old one goes on", "error", err)
		return err
	}
	g.log.Info("configuration reloaded", "version", g.version, "routes", len(cfg.Routes))
	return nil
}

// change is a new configuration on its way into force: all of it is made before any of it is.
type change struct {
	config    *config.Config
	services  services
	fresh     services
	snapshot  *proxy.Snapshot
	listeners map[string]*listener
	compiled  map[string]*proxy.Listener
	tls       map[string]*listenerTLS
	bound     []*listener
	accessLog *accesslog.Log
	sameLog   bool
}

// apply puts a configuration in force. Everything that can fail is done first and undone when something else fails; then the loops
// are told, one after the other, each between two of its turns.
func (g *Gateway) apply(cfg *config.Config, reload bool) error {
	c, err := g.prepare(cfg)
	if err != nil {
		c.undo()
		return err
	}
	if err := g.admin.open(cfg.Admin, g.inherited, g.adminHandler); err != nil {
		c.undo()
		return err
	}
	for _, u := range c.fresh {
		u.Start()
	}
	for i, w := range g.workers {
		g.call(g.loops[i], func() {
			w.Shard().Grow(g.registry.Sizes())
			w.Install(c.snapshot)
			if !c.sameLog {
				w.SetAccessLog(lane(c.accessLog, i))
			}
		})
	}
	err = g.putListeners(c)
	g.retire(c)
	g.config, g.services, g.listeners = cfg, c.services, c.listeners
	g.version, g.loadedAt = configVersion(cfg), time.Now()
	g.registry.ConfigLoaded(g.version, g.loadedAt, reload)
	return err
}

// prepare makes everything that a configuration needs and that may fail.
func (g *Gateway) prepare(cfg *config.Config) (c *change, err error) {
	c = &change{config: cfg, listeners: map[string]*listener{}, compiled: map[string]*proxy.Listener{}, tls: map[string]*listenerTLS{}}
	if c.services, c.fresh, err = g.buildServices(cfg, g.services); err != nil {
		return c, err
	}
	if c.snapshot, err = g.buildSnapshot(cfg, c.services); err != nil {
		return c, err
	}
	for _, lc := range cfg.Listeners {
		old := g.listeners[lc.Address]
		if c.compiled[lc.Address], c.tls[lc.Address], err = g.compileListener(lc, old); err != nil {
			return c, err
		}
		if c.listeners[lc.Address] = old; old == nil {
			l, err := g.bind(lc)
			if err != nil {
				return c, err
			}
			c.listeners[lc.Address] = l
			c.bound = append(c.bound, l)
		}
	}
	if c.sameLog = reflect.DeepEqual(cfg.AccessLog, g.loggedBy()); !c.sameLog && cfg.AccessLog != nil {
		c.accessLog, err = g.openAccessLog(cfg.AccessLog)
	}
	return c, err
}

// loggedBy is the access log's config in force; nil for none, also before the first.
func (g *Gateway) loggedBy() *config.AccessLog {
	if g.accessLog == nil {
		return nil
	}
	return g.config.AccessLog
}

// undo gives back what prepare made.
func (c *change) undo() {
	for _, u := range c.fresh {
		u.Close()
	}
	for _, l := range c.bound {
		l.closeSockets()
	}
	if c.accessLog != nil {
		c.accessLog.Close(context.Background())
	}
}

func (g *Gateway) putListeners(c *change) error {
	for _, lc := range c.config.Listeners {
		l := c.listeners[lc.Address]
		first := g.listeners[lc.Address] == nil
		if !first && sameListener(l.config, lc) {
			continue
		}
		if err := g.putListener(l, c.compiled[lc.Address], lc, c.tls[lc.Address], first); err != nil {
			return err
		}
	}
	return nil
}

// retire ends what the old configuration had and the new one has not.
func (g *Gateway) retire(c *change) {
	for address, l := range g.listeners {
		if c.listeners[address] == nil {
			g.closeListener(l, false)
		}
	}
	for name, u := range g.services {
		if c.services[name] != u {
			g.retireService(u)
		}
	}
	if !c.sameLog {
		if old := g.accessLog; old != nil {
			go old.Close(context.Background())
		}
		g.accessLog = c.accessLog
	}
}

// retireService ends an upstream when no loop's exchanges need it any more.
func (g *Gateway) retireService(u *upstream.Upstream) {
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

func (g *Gateway) openAccessLog(c *config.AccessLog) (*accesslog.Log, error) {
	format, err := accesslog.ParseFormat(c.Format)
	if err != nil {
		return nil, err
	}
	return accesslog.Open(accesslog.Options{Path: c.Path, Format: format, MaxSize: int64(*c.MaxSize), Keep: *c.Keep, Loops: len(g.loops),
		Counters: g.lines, Logger: g.log})
}

func lane(log *accesslog.Log, loop int) *accesslog.Lane {
	if log == nil {
		return nil
	}
	return log.Lane(loop)
}

func (g *Gateway) adminHandler() http.Handler {
	if g.options.Admin == nil {
		return http.NotFoundHandler()
	}
	return g.options.Admin(g)
}

// configVersion is a short hash of what the configuration says, defaults included.
func configVersion(cfg *config.Config) string {
	sum := sha256.Sum256(cfg.YAML())
	return hex.EncodeToString(sum[:6])
}
