package top

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/internal/admin"
	"plimsoll/internal/gateway"
)

// grace is how long a test waits for something that must happen.
const grace = 20 * time.Second

// start runs a whole gateway, as the program does, until the test is over. It returns the addresses
// of its listener and of its admin API.
func start(t *testing.T, yaml string) (address, api string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plimsoll.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	var running atomic.Pointer[gateway.Gateway]
	var bound atomic.Pointer[gateway.AdminAddress]
	go func() {
		ended <- gateway.Run(ctx, gateway.Options{
			ConfigPath: path, Logger: slog.New(slog.DiscardHandler), Version: "test",
			Ready: func() { close(ready) },
			Admin: func(g *gateway.Gateway, a *gateway.AdminAddress) http.Handler {
				running.Store(g)
				bound.Store(a)
				return admin.New(g, a)
			},
		})
	}()
	t.Cleanup(func() {
		stop()
		select {
		case <-ended:
		case <-time.After(grace):
			t.Error("the gateway did not end")
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		t.Fatalf("the gateway did not start: %v", err)
	}
	return running.Load().Connections().Listeners[0].Bound, bound.Load().Bound()
}

func get(t *testing.T, url string, times int) {
	t.Helper()
	client := http.Client{Timeout: grace}
	defer client.CloseIdleConnections()
	for range times {
		res, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}

// What happened between two samples of a real gateway, and only that, is in the figures.
func TestFiguresOfARealGateway(t *testing.T) {
	var failing atomic.Bool
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if failing.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer service.Close()
	address, api := start(t, fmt.Sprintf(`
loops: 2
listeners: [{address: "127.0.0.1:0"}]
upstreams:
  shop:
    breaker: {consecutive_failures: 3}
    concurrency: {mode: fixed, limit: 9}
    targets: [%q, {address: "127.0.0.1:1", weight: 0}]
routes:
  - {match: /shop, upstream: shop, sla: P0}
  - {match: /few, respond: {body: few}, limits: [{name: all, rate: 5/h, algorithm: fixed_window}]}
admin: {address: "127.0.0.1:0", token: s3cret}
`, strings.TrimPrefix(service.URL, "http://")))
	c := client(t, api, "s3cret")
	get(t, "http://"+address+"/shop", 30) // before the interval
	before, err := c.sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	get(t, "http://"+address+"/shop", 17)
	failing.Store(true)
	get(t, "http://"+address+"/shop", 3)
	get(t, "http://"+address+"/few", 12)
	loops, err := c.loops(t.Context(), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	after, err := c.sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	after.routesAt, after.upstreamsAt = before.routesAt.Add(1e9), before.upstreamsAt.Add(1e9)
	f := compare(before, after, loops)

	if g := f.Gateway; g.State != "serving" || len(g.Loops) != 2 {
		t.Errorf("the instance: %+v", g)
	}
	if len(f.Upstreams) != 1 || len(f.Routes) != 2 || len(f.Notes) != 0 {
		t.Fatalf("%d upstreams, %d routes, notes %q", len(f.Upstreams), len(f.Routes), f.Notes)
	}
	u := f.Upstreams[0]
	if *u.Rate != 20 || *u.Errors != .15 || u.Response == nil || *u.Limit != 18 || u.InFlight != 0 ||
		u.Up != 1 || u.Targets != 2 || u.Breakers["open"] != 1 || u.Breakers["closed"] != 1 {
		t.Errorf("the upstream: %+v, rate %v, errors %v", u, *u.Rate, *u.Errors)
	}
	shop, few := f.Routes[0], f.Routes[1]
	if shop.Class != "P0" || *shop.Rate != 20 || *shop.Errors != .15 || shop.Response == nil ||
		shop.Response.P99 < shop.Response.P50 || shop.Burn == nil || len(shop.Limits) != 0 {
		t.Errorf("the route of the upstream: %+v", shop)
	}
	if *few.Rate != 12 || len(few.Refused) != 1 || few.Refused[0] != (Refusal{"rate_limited", 7}) {
		t.Errorf("the limited route: %+v", few)
	}
	if l := few.Limits[0]; l.Name != "all" || l.Rate != "5/h" || *l.Allowed != 5 || *l.Refused != 7 {
		t.Errorf("its limit: %+v", l)
	}
	if text := Text(f, 80, false); !strings.Contains(text, "1/2 open") || !strings.Contains(text, "7 rate_limited") {
		t.Errorf("the view:\n%s", text)
	}
}

// A watcher asks a real gateway all that it needs, again and again.
func TestAWatcherOfARealGateway(t *testing.T) {
	_, api := start(t, `
listeners: [{address: "127.0.0.1:0"}]
routes: [{match: /, respond: {body: hello}}]
admin: {address: "127.0.0.1:0"}
`)
	w := NewWatcher(client(t, api, ""), ShortestInterval)
	for range 2 {
		f, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if f.Length < ShortestInterval.Seconds() || f.Address != "http://"+api || f.Gateway.Rate == nil {
			t.Errorf("got %+v", f)
		}
	}
	if _, err := NewWatcher(client(t, api, ""), LongestInterval+time.Second).Next(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "at most 30s") {
		t.Errorf("an interval above the gateway's own bound: %v", err)
	}
}
