package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"plimsoll/internal/gateway"
	"plimsoll/internal/upstream"
)

// drawAct draws an act of the operator.
func drawAct(r *rand.Rand, quiet bool) string {
	acts := []string{"reload", "reload", "reload", "look", "names", "upgrade"}
	if !quiet {
		acts = append(acts, "drain-target", "restore-target", "service-down", "service-up",
			"service-full", "service-restart", "broken-reload", "reload")
	}
	return acts[r.IntN(len(acts))]
}

// due is called when an act is due. Acts wait for each other, because the operator is one person.
func (w *world) due(a Act) {
	w.queue = append(w.queue, a)
	w.nextAct()
}

// nextAct begins acts until one runs in the background or none is due.
func (w *world) nextAct() {
	for len(w.queue) > 0 && !w.acting && !w.ending {
		a := w.queue[0]
		w.queue = w.queue[1:]
		w.todo--
		w.trace("operator: %s %d", a.What, a.N)
		w.act(a)
	}
}

// background runs what may block on its own goroutine.
func (w *world) background(do func()) {
	w.acting = true
	go func() {
		do()
		w.kernel.After(0, func() {
			w.acting = false
			w.nextAct()
		})
	}()
}

// act begins one act.
func (w *world) act(a Act) {
	g, background := w.current, w.background
	service := w.services[a.N%len(w.services)]
	switch a.What {
	case "reload":
		text := w.began(a.N + 1).text
		w.replaced = true
		w.part(a.N + 1)
		w.allow(a.N + 1)
		w.recounted = w.recounted || !strings.Contains(text, listeners[1])
		background(func() {
			w.configure(text)
			err := g.Reload()
			if scarce := w.scenario.Kernel.Descriptors < plenty; scarce && errors.Is(err, syscall.EMFILE) {
				w.trace("there is no descriptor for a listener of the new configuration")
			} else if err != nil {
				w.violate("a good configuration is refused: %v", err)
			}
		})
	case "taken-reload":
		background(func() {
			text := w.began(a.N + 1).text
			const listeners = "\nlisteners:\n"
			taken := listeners + "  - {address: \"" + takenAddress + "\"}\n"
			w.configure(strings.Replace(text, listeners, taken, 1))
			if g.Reload() == nil {
				w.violate("a configuration is taken although another program has %s", takenAddress)
			}
		})
	case "broken-reload":
		background(func() {
			w.configure("listeners: nonsense\n")
			if g.Reload() == nil {
				w.violate("a broken configuration is taken")
			}
		})
	case "look":
		background(func() { w.look(g, a.N) })
	case "drain-target":
		background(func() { g.DrainTarget([]string{"a", "b"}[a.N%2], service.plan.Address) })
	case "restore-target":
		background(func() { g.RestoreTarget([]string{"a", "b"}[a.N%2], service.plan.Address) })
	case "service-down":
		service.Down = true
	case "service-up":
		service.Down, service.Full = false, false
	case "service-full":
		service.Full = true
	case "service-restart":
		service.restart()
	case "names":
		w.names.change(a.N, w.services)
	case "purge":
		w.purge(g, a.N)
	case "upgrade":
		w.part(-1)
		w.replaced, w.recounted = true, true
		w.upgraded = make(chan struct{})
		background(func() {
			w.configure(w.began(a.N + 1).text)
			g.Upgrade()
			<-w.upgraded
		})
	case "end":
		w.ending, w.kernel.EndsAt = true, w.kernel.Clock()
		g.cancel()
	default:
		panic("no such act: " + a.What)
	}
}

// part records that there will be another cache memory: that of the n-th configuration or, if n is
// negative, of another process.
func (w *world) part(n int) {
	if s := w.shelf; s != nil {
		s.parted = s.parted || n < 0 || w.scenario.cacheMemory(n) != w.scenario.cacheMemory(0)
	}
}

// purge purges the cache, or a part of it.
func (w *world) purge(g *instance, n int) {
	s := w.shelf
	if s == nil {
		return
	}
	key, scheme := n%(w.scenario.Cache.Keys+2), "http"
	p := gateway.Purge{URL: fmt.Sprintf("http://shop.test%sk%d", cachedPath, key)}
	switch n % 3 {
	case 0:
		key, scheme, p = -1, "", gateway.Purge{All: true}
	case 1:
		key, p = -1, gateway.Purge{Prefix: "http://shop.test" + cachedPath}
	}
	at := w.kernel.Clock()
	w.background(func() {
		if _, err := g.PurgeCache(p); err != nil {
			w.violate("the cache is not purged: %v", err)
		}
		s.gone = append(s.gone, outdated{key, scheme, at, w.kernel.Clock()})
	})
}

// takenAddress is an address on which another program of the machine listens.
const takenAddress = "10.0.0.1:99"

func (w *world) configure(text string) {
	if err := os.WriteFile(filepath.Join(w.dir, "plimsoll.yaml"), []byte(text), 0o600); err != nil {
		w.violate("%v", err)
	}
}

// looks are the paths that the operator requests from the admin address.
var looks = []string{
	"/metrics", "/readyz", "/healthz", "/api/v1/routes", "/api/v1/upstreams", "/api/v1/upstreams/a",
	"/api/v1/connections", "/api/v1/config", "/api/v1/loops?over=100ms",
}

// look sends a request to an admin address.
func (w *world) look(g *instance, n int) {
	path := looks[n%len(looks)]
	answer := w.ask(g, path)
	if answer.Code >= 500 && !w.ending {
		w.violate("%s answers %d %s", path, answer.Code, answer.Body)
	}
}

func (w *world) ask(g *instance, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9900"+path, nil)
	r.RemoteAddr, r.Host = "127.0.0.1:50000", "127.0.0.1:9900"
	answer := httptest.NewRecorder()
	g.admin.ServeHTTP(answer, r)
	return answer
}

// probe is a health check. It takes as long as the service's answers.
func (w *world) probe(ctx context.Context, target upstream.Address, path string) error {
	address := target.String()
	for _, s := range w.services {
		if s.plan.Address != address {
			continue
		}
		hash := hashOf(fmt.Sprint(address, " ", w.kernel.Clock()))
		timer := time.NewTimer(time.Duration(hash)*time.Microsecond + 1)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if s.Down || s.Full || float64(hash%1000)/1000 < s.plan.Vices/2 {
			return errNoAnswer
		}
		return nil
	}
	return errNoAnswer
}

var errNoAnswer = errors.New("no answer")

// namedAnswer is DNS's answer for named.test.
type namedAnswer struct {
	addrs []netip.Addr
	fails bool
}

// change changes the addresses of the name.
func (n *namedAnswer) change(by int, services []*service) {
	n.fails = by%5 == 0
	n.addrs = nil
	for i, s := range services {
		if host, ok := strings.CutSuffix(s.plan.Address, ":80"); ok && by>>i&1 == 0 {
			n.addrs = append(n.addrs, netip.MustParseAddr(host))
		}
	}
}

// lookup is a DNS query. How long it takes depends on the upstream and the time.
func (w *world) lookup(
	ctx context.Context, upstream, _ string,
) ([]netip.Addr, time.Duration, error) {
	const longest = 300 * time.Millisecond
	hash := hashOf(fmt.Sprint(upstream, w.kernel.Clock()))
	wait := longest/time.Duration(len(noiseText))*time.Duration(hash) + 1
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	if w.names.fails {
		return nil, 0, errNoAnswer
	}
	return w.names.addrs, time.Second, nil
}
