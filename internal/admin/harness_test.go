package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/internal/admin"
	"plimsoll/internal/gateway"
)

// patience is how long a test waits for something that must happen. It is not a measure of how
// fast: only a hung test meets it.
const patience = 2 * time.Minute

// running is a whole gateway with an admin address, as the program runs it.
type running struct {
	t            *testing.T
	path         string // of its configuration
	token        string // that requests carry
	adminAddress atomic.Pointer[gateway.AdminAddress]
	ended        chan error
	stop         context.CancelFunc
}

// run starts a gateway; it ends with the test.
func run(t *testing.T, yaml string) *running {
	t.Helper()
	g := &running{t: t, path: filepath.Join(t.TempDir(), "plimsoll.yaml"), ended: make(chan error, 1)}
	g.write(yaml)
	ctx, cancel := context.WithCancel(context.Background())
	g.stop = cancel
	ready := make(chan bool)
	go func() {
		g.ended <- gateway.Run(ctx, gateway.Options{
			ConfigPath: g.path, Logger: slog.New(slog.DiscardHandler), Version: "test", Ready: func() { close(ready) },
			Admin: func(gw *gateway.Gateway, d *gateway.AdminAddress) http.Handler {
				g.adminAddress.Store(d)
				return admin.New(gw, d)
			},
		})
	}()
	select {
	case <-ready:
	case err := <-g.ended:
		cancel()
		t.Fatalf("the gateway did not start: %v", err)
	}
	t.Cleanup(func() {
		cancel()
		g.wait()
	})
	return g
}

// wait waits for the gateway's end.
func (g *running) wait() {
	g.t.Helper()
	select {
	case err := <-g.ended:
		if err != nil {
			g.t.Errorf("the gateway ended with %v", err)
		}
		g.ended <- nil
	case <-time.After(patience):
		g.t.Error("the gateway did not end")
	}
}

func (g *running) write(yaml string) {
	g.t.Helper()
	if err := os.WriteFile(g.path, []byte(yaml), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// ask sends a request to the admin address and reads the answer.
func (g *running) ask(method, path string) (status int, body string) {
	g.t.Helper()
	r, err := http.NewRequest(method, "http://"+g.adminAddress.Load().Bound()+path, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	if g.token != "" {
		r.Header.Set("Authorization", "Bearer "+g.token)
	}
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	if err != nil {
		g.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatalf("%s %s: %v", method, path, err)
	}
	return res.StatusCode, string(b)
}

// get asks for JSON.
func get[T any](g *running, path string) (v T) {
	g.t.Helper()
	status, body := g.ask("GET", path)
	if status != 200 {
		g.t.Fatalf("GET %s: %d %s", path, status, body)
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		g.t.Fatalf("GET %s: %v in\n%s", path, err, body)
	}
	return v
}

// want asks, and expects a status and each of some texts.
func (g *running) want(method, path string, status int, texts ...string) string {
	g.t.Helper()
	got, body := g.ask(method, path)
	if got != status {
		g.t.Fatalf("%s %s: %d %s, want %d", method, path, got, body, status)
	}
	for _, text := range texts {
		if !strings.Contains(body, text) {
			g.t.Fatalf("%s %s: nothing of %q in\n%s", method, path, text, body)
		}
	}
	return body
}

// address is where the n-th listener of the configuration accepts.
func (g *running) address(n int) string {
	return get[gateway.ConnectionsStatus](g, "/api/v1/connections").Listeners[n].Bound
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("it never came about that %s", what)
		}
	}
}

// target is a service that counts its requests.
type target struct {
	*httptest.Server
	requests atomic.Int64
}

func newTarget(t *testing.T) *target {
	return newTargetWith(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "ok")
	})
}

func newTargetWith(t *testing.T, answer http.HandlerFunc) *target {
	s := &target{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *target) address() string { return s.Listener.Addr().String() }

// traffic is clients that send requests until they are told to stop.
type traffic struct {
	sent, failed atomic.Int64
	mu           sync.Mutex
	first        string // failure
	stop         chan bool
	clients      sync.WaitGroup
}

func drive(url string) *traffic {
	tr := &traffic{stop: make(chan bool)}
	for range 4 {
		tr.clients.Go(func() {
			client := http.Client{Timeout: patience, Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for {
				select {
				case <-tr.stop:
					return
				default:
					tr.one(&client, url)
				}
			}
		})
	}
	return tr
}

func (tr *traffic) one(client *http.Client, url string) {
	res, err := client.Get(url)
	why := ""
	if err != nil {
		why = err.Error()
	} else {
		var b bytes.Buffer
		if _, err := b.ReadFrom(res.Body); err != nil || res.StatusCode != 200 || b.String() != "ok" {
			why = res.Status + " " + b.String()
		}
		res.Body.Close()
	}
	if why != "" {
		tr.failed.Add(1)
		tr.mu.Lock()
		defer tr.mu.Unlock()
		if tr.first == "" {
			tr.first = why
		}
	}
	tr.sent.Add(1)
}

// more waits until so many further requests were answered.
func (tr *traffic) more(t *testing.T, n int64) {
	t.Helper()
	until := tr.sent.Load() + n
	eventually(t, "traffic goes on", func() bool { return tr.sent.Load() >= until })
}

// end stops the clients and checks that none of their requests failed.
func (tr *traffic) end(t *testing.T) {
	t.Helper()
	close(tr.stop)
	tr.clients.Wait()
	if n := tr.failed.Load(); n > 0 {
		t.Errorf("%d of %d requests failed, the first with %s", n, tr.sent.Load(), tr.first)
	}
}
