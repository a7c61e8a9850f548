package gateway

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/upstream"
)

// backend is a service made with net/http, for tests that ask who was asked rather than which bytes
// came. Requests for paths under /health are counted apart.
type backend struct {
	t       *testing.T
	name    string // what it answers by default
	network string
	address string // as a target's

	handler  atomic.Pointer[http.HandlerFunc]
	requests atomic.Int64
	checks   atomic.Int64
	opened   atomic.Int64 // connections ever
	open     atomic.Int64 // connections now
	most     atomic.Int64 // connections at once

	server *http.Server
	wrap   func(net.Listener) net.Listener
}

// newBackend starts a service on loopback that answers every request with its name; it ends with
// the test.
func newBackend(t *testing.T, name string) *backend {
	return newBackendAt(t, name, "tcp", "127.0.0.1:0", nil)
}

func newBackendAt(t *testing.T, name, network, address string, wrap func(net.Listener) net.Listener) *backend {
	t.Helper()
	b := &backend{t: t, name: name, network: network, address: address, wrap: wrap}
	b.start()
	t.Cleanup(b.stop)
	return b
}

// start accepts, at the same address as before.
func (b *backend) start() {
	b.t.Helper()
	ln, err := net.Listen(b.network, b.address)
	if err != nil {
		b.t.Fatal(err)
	}
	if b.network == "tcp" {
		b.address = ln.Addr().String()
	}
	if b.wrap != nil {
		ln = b.wrap(ln)
	}
	b.server = &http.Server{Handler: b, ConnState: b.connState}
	go b.server.Serve(ln)
}

// stop closes the listener and every connection.
func (b *backend) stop() { b.server.Close() }

// drop closes every connection and goes on accepting new ones.
func (b *backend) drop() { b.stop(); b.start() }

func (b *backend) connState(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		b.opened.Add(1)
		n := b.open.Add(1)
		for most := b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
		}
	case http.StateClosed:
		b.open.Add(-1)
	}
}

// answer makes f answer from now on; nil for the name again.
func (b *backend) answer(f http.HandlerFunc) {
	if f == nil {
		b.handler.Store(nil)
		return
	}
	b.handler.Store(&f)
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/health") {
		b.checks.Add(1)
	} else {
		b.requests.Add(1)
	}
	if f := b.handler.Load(); f != nil {
		(*f)(w, r)
		return
	}
	io.WriteString(w, b.name)
}

// backends are n services called a, b, c, …
func backends(t *testing.T, n int) []*backend {
	var all []*backend
	for i := range n {
		all = append(all, newBackend(t, string(rune('a'+i))))
	}
	return all
}

// targetsOf is a config's list of targets.
func targetsOf(all []*backend, weights ...int) string {
	var list []string
	for i, b := range all {
		weight := 1
		if i < len(weights) {
			weight = weights[i]
		}
		list = append(list, fmt.Sprintf(`{address: "%s", weight: %d}`, b.address, weight))
	}
	return strings.Join(list, ", ")
}

// balanced is a configuration of one upstream, s, with these targets and settings.
func balanced(loops int, targets, settings string) string {
	return fmt.Sprintf(`
loops: %d
listeners: [{address: "127.0.0.1:0", trusted_proxies: [127.0.0.1]}]
upstreams: {s: {targets: [%s], %s}}
routes: [{match: /, upstream: s}, {match: "/users/{id}", upstream: s}]
`, loops, targets, settings)
}

// answerStatus answers every request with one status.
func answerStatus(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// unwell answers health checks with a status, and everything else with the name.
func (b *backend) unwell(path string, code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, path) {
			w.WriteHeader(code)
			return
		}
		io.WriteString(w, b.name)
	}
}

// slowly answers with the name after a while.
func (b *backend) slowly(d time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		pause(r.Context(), d)
		io.WriteString(w, b.name)
	}
}

// pause is how slow parts of a test's world wait. No test waits so for something to happen.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// hanging never answers; the requests end when they are given up, or the channel is closed.
func hanging(until <-chan struct{}) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-until:
		case <-r.Context().Done():
		}
	}
}

// refusing is an address where nobody listens until the test is over: its port is taken, or else a
// service of another test might get it.
func refusing(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	on, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", on.(*syscall.SockaddrInet4).Port)
}

// fetch sends one request with net/http, from any goroutine, and returns the answer's status and
// body.
func fetch(c *http.Client, method, url string, headers ...string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, "", err
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	answer, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

// client is a user's agent with one connection of its own.
func (i *instance) client() *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 1, MaxConnsPerHost: 1}
	i.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// url is a path at the first listener.
func (i *instance) url(path string) string { return "http://" + i.address(0) + path }

// tally counts answers by status and body: "200 a".
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (a *tally) add(status int, body string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n == nil {
		a.n = map[string]int{}
	}
	if err != nil {
		a.n["error "+err.Error()]++
		return
	}
	a.n[fmt.Sprintf("%d %s", status, strings.TrimSpace(body))]++
}

// crowd has so many clients, each on a connection of its own, send so many GETs each, and returns
// what they got.
func (i *instance) crowd(clients, each int, path string) map[string]int {
	var wg sync.WaitGroup
	var all tally
	for range clients {
		c := i.client()
		wg.Go(func() {
			for range each {
				all.add(fetch(c, "GET", i.url(path)))
			}
		})
	}
	wg.Wait()
	return all.n
}

// get sends one GET from a client of its own.
func (i *instance) get(path string, headers ...string) (int, string) {
	i.t.Helper()
	status, body, err := fetch(i.client(), "GET", i.url(path), headers...)
	if err != nil {
		i.t.Fatalf("GET %s: %v", path, err)
	}
	return status, body
}

// expectOnly fails the test unless all answers were of one kind.
func expectOnly(t *testing.T, got map[string]int, want string, n int) {
	t.Helper()
	if len(got) != 1 || got[want] != n {
		t.Errorf("the clients got %v, want only %q, %d times", got, want, n)
	}
}

// snapshot is the metrics of this moment.
func (i *instance) snapshot() *telemetry.Snapshot { return i.registry.Collect(i.ask) }

// stats are an upstream's metrics of this moment.
func (i *instance) stats(name string) *telemetry.UpstreamStats {
	i.t.Helper()
	for _, u := range i.snapshot().Upstreams {
		if u.Name == name {
			return u.UpstreamStats
		}
	}
	i.t.Fatalf("there is no upstream %q", name)
	return nil
}

// reasons is how many exchanges the gateway ended for a reason of its own.
func (i *instance) reasons(r exchange.Reason) uint64 { return i.snapshot().Reasons[r] }

// service is an upstream of the configuration in force.
func (i *instance) service(name string) *upstream.Upstream {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.upstreams[name]
}

// target is the state of an upstream's target.
func (i *instance) target(name, address string) upstream.TargetStatus {
	i.t.Helper()
	for _, t := range i.service(name).Status().Targets {
		if t.Address == address {
			return t
		}
	}
	i.t.Fatalf("upstream %s has no target %s", name, address)
	return upstream.TargetStatus{}
}

// becomes waits until a target is in a state.
func (i *instance) becomes(name, address, state string) {
	i.t.Helper()
	eventually(i.t, address+" to be "+state, func() bool { return i.target(name, address).State == state })
}

// onEachLoop opens one connection to each of two loops and sends a GET on each, which must succeed.
func (i *instance) onEachLoop(path string) [2]*peer {
	i.t.Helper()
	var on [2]*peer
	for range 100 {
		before := i.snapshot().Loops
		p := i.dial()
		p.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		if r, body := p.response("GET"); r.StatusCode != 200 {
			i.t.Fatalf("got %d %q", r.StatusCode, body)
		}
		for loop, counters := range i.snapshot().Loops {
			if counters.Requests > before[loop].Requests {
				on[loop] = p
			}
		}
		if on[0] != nil && on[1] != nil {
			return on
		}
	}
	i.t.Fatal("of a hundred connections none came to the other loop")
	return on
}

// request sends a request without a body on a connection and returns its answer.
func (p *peer) request(method, path string) (int, string) {
	p.t.Helper()
	p.send(method + " " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
	r, body := p.response(method)
	return r.StatusCode, body
}

// arrivals is a script that tells of every request head it reads, and leaves the answer to f. f
// returns false to close.
func arrivals(told chan<- string, f func(c *serviceConn, request int) bool) script {
	return func(c *serviceConn, _ int) {
		for n := 1; ; n++ {
			head := c.head()
			if head == "" {
				return
			}
			if told != nil {
				told <- head
			}
			if !f(c, n) {
				return
			}
		}
	}
}

// throwawayCertificate is one that nobody knows.
func throwawayCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"a.test"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
