package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"plimsoll/internal/policy/limit"
)

// rated is a configuration with one route, which has these limits.
func rated(address, limits string, more ...string) string {
	return strings.Replace(oneUpstream(address), "upstream: s", "upstream: s, limits: ["+limits+"]"+strings.Join(more, ""), 1)
}

// passing sends so many requests and says how many got 200; any other answer must be 429.
func (i *instance) passing(n int, header ...string) (passed int) {
	i.t.Helper()
	for range n {
		switch status, body := i.get("/", header...); status {
		case http.StatusOK:
			passed++
		case http.StatusTooManyRequests:
		default:
			i.t.Fatalf("got %d %q", status, body)
		}
	}
	return passed
}

// limitStatus is what the admin API would show of the first route's limits.
func (i *instance) limitStatus() []limit.Status {
	i.t.Helper()
	text, err := json.Marshal(i.Routes()[0].Policies["limits"])
	if err != nil {
		i.t.Fatal(err)
	}
	var said struct{ Limits []limit.Status }
	if err := json.Unmarshal(text, &said); err != nil {
		i.t.Fatal(err)
	}
	return said.Limits
}

func TestARequestOverItsLimitIsRefused(t *testing.T) {
	service := newService(t, replying(echo))
	g := serve(t, rated(service.address(), `{name: all, rate: 2/h}`, ", request_id: true"))
	if n := g.passing(2); n != 2 {
		t.Fatalf("%d requests pass, want 2", n)
	}
	p := g.dial()
	p.send(get)
	r := p.expectFailure(429, "rate_limited: too many requests")
	if got := r.Header.Get("Retry-After"); got != "1800" && got != "1799" {
		t.Errorf("Retry-After: %s, want about 1800", got)
	}
	if got := r.Header.Get("RateLimit"); !strings.HasPrefix(got, `"all";r=0;t=1`) {
		t.Errorf("RateLimit: %s", got)
	}
	if got := r.Header.Get("RateLimit-Policy"); got != `"all";q=2;w=3600` {
		t.Errorf("RateLimit-Policy: %s", got)
	}
	if r.Header.Get("X-Request-Id") == "" {
		t.Error("the refusal has no id")
	}
	p.send(get) // the connection goes on
	p.expectFailure(429, "rate_limited")
	if n := g.reasons(limit.RateLimited); n != 2 {
		t.Errorf("%d refusals are counted, want 2", n)
	}
	if n := strings.Count(service.saw(), "GET / "); n != 2 {
		t.Errorf("the service saw %d requests, want 2", n)
	}
}

func TestPassedResponsesSayWhatIsLeftWhereAsked(t *testing.T) {
	service := newService(t, replying(echo))
	g := serve(t, rated(service.address(), `{name: all, rate: 5/h, algorithm: fixed_window, headers: always}, {rate: 100/h}`))
	p := g.dial()
	p.send(get)
	r, _ := p.response("GET")
	if got := r.Header.Get("RateLimit"); !strings.HasPrefix(got, `"all";r=4;t=`) || strings.Contains(got, ",") {
		t.Errorf("RateLimit: %s", got)
	}
	if got := r.Header.Get("RateLimit-Policy"); got != `"all";q=5;w=3600` {
		t.Errorf("RateLimit-Policy: %s", got)
	}
}

func TestPreflightsAreNotCountedAndRefusalsCanBeRead(t *testing.T) {
	service := newService(t, replying(echo))
	g := serve(t, rated(service.address(), `{rate: 1/h}`, `, cors: {origins: ["https://a.example"]}`))
	for range 3 {
		p := g.dial()
		p.send("OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n\r\n")
		if status := p.status("OPTIONS"); status != 204 {
			t.Fatalf("a preflight got %d", status)
		}
	}
	if n := g.passing(2); n != 1 {
		t.Errorf("%d requests pass, want 1", n)
	}
	p := g.dial()
	p.send("GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://a.example\r\n\r\n")
	if r := p.expectFailure(429, "rate_limited"); r.Header.Get("Access-Control-Allow-Origin") != "https://a.example" {
		t.Error("a script cannot read the refusal")
	}
}

func TestALimitIsExactOverLoops(t *testing.T) {
	service := newService(t, replying(echo))
	for _, algorithm := range []string{"token_bucket", "fixed_window", "sliding_window", "sliding_log"} {
		yaml := rated(service.address(), "{rate: 100/d, key: client_address, algorithm: "+algorithm+"}")
		g := serve(t, "loops: 3\n"+yaml)
		var passed atomic.Int64
		var clients sync.WaitGroup
		for range 9 {
			clients.Go(func() {
				for range 25 {
					r, err := http.Get("http://" + g.address(0) + "/")
					if err != nil {
						t.Error(err)
						return
					}
					r.Body.Close()
					if r.StatusCode == http.StatusOK {
						passed.Add(1)
					}
				}
			})
		}
		clients.Wait()
		if n := passed.Load(); n != 100 {
			t.Errorf("%s: %d requests pass over three loops, want 100", algorithm, n)
		}
	}
}

func TestLimitsOutliveReloads(t *testing.T) {
	service := newService(t, replying(echo))
	limits := `{name: tenant, rate: 10/d, key: "header:X-Tenant", overrides: {acme: 3/d}}`
	g := serve(t, "loops: 2\n"+rated(service.address(), limits))
	if n, acme := g.passing(6, "X-Tenant: a"), g.passing(5, "X-Tenant: acme"); n != 6 || acme != 3 {
		t.Fatalf("%d and %d pass, want 6 and 3", n, acme)
	}
	reload := func(from, to string, want int) {
		t.Helper()
		limits = strings.Replace(limits, from, to, 1)
		if err := g.reload("loops: 2\n" + rated(service.address(), limits)); err != nil {
			t.Fatal(err)
		}
		if n := g.passing(want+2, "X-Tenant: a"); n != want {
			t.Errorf("with %s %d more pass, want %d", limits, n, want)
		}
	}
	reload("10/d", "10/d, headers: never", 4)
	reload("10/d", "15/d", 5)
	reload("15/d", "2/d", 0)
	if n := g.passing(2, "X-Tenant: acme"); n != 0 {
		t.Errorf("%d more of the override pass, want none", n)
	}
	reload("tenant", "others", 2) // another limit
	if err := g.reload("loops: 2\n" + rated(service.address(), `{rate: 1/s, burst: 0}`)); err == nil {
		t.Error("a limit that makes no sense is accepted")
	}
}

func TestALeakyBucketSpacesRequestsOut(t *testing.T) {
	service := newService(t, replying(echo))
	// With a queue of 4 the last may be refused, when its loop's turn began before the turn of the loop
	// whose request came before: by its clock the queue is longer.
	g := serve(t, rated(service.address(), `{rate: 50/s, algorithm: leaky_bucket, queue: 6, max_wait: 10s}`))
	var clients sync.WaitGroup
	var passed atomic.Int64
	for range 5 {
		clients.Go(func() {
			if status, _ := g.get("/"); status == http.StatusOK {
				passed.Add(1)
			}
		})
	}
	clients.Wait()
	if n := passed.Load(); n != 5 {
		t.Errorf("of five requests at once %d pass, want all", n)
	}
	if s := g.limitStatus()[0]; s.Allowed != 5 || s.Refused != 0 {
		t.Errorf("the status says %+v", s)
	}
}

// A turn that comes too late is refused at once, and a client that leaves while it waits does no
// harm.
func TestALeakyBucketsQueueIsBounded(t *testing.T) {
	service := newService(t, replying(echo))
	g := serveClean(t, rated(service.address(),
		`{rate: 1/m, algorithm: leaky_bucket, queue: 1, max_wait: 59s}, {rate: 9/s}`,
		", timeout: 60s"))
	if status, _ := g.get("/"); status != 200 {
		t.Fatalf("the first request got %d", status)
	}
	if status, body := g.get("/"); status != 429 || !strings.Contains(body, "rate_limited") {
		t.Errorf("a request whose turn is in a minute got %d %q", status, body)
	}
	yaml := rated(service.address(), `{rate: 2/m, algorithm: leaky_bucket, queue: 1, max_wait: 59s}`)
	if err := g.reload(yaml); err != nil {
		t.Fatal(err)
	}
	waiting := g.dial()
	waiting.send(get)
	eventually(t, "a request waits", func() bool { return g.limitStatus()[0].Queued == 1 })
	waiting.reset()
}

func TestLimitsShowTheirMetricsAndStatus(t *testing.T) {
	service := newService(t, replying(echo))
	g := serve(t, rated(service.address(),
		`{name: client, rate: 2/d, key: client_address}, {name: try, rate: 1/d, dry_run: true}`))
	g.passing(5)
	page := httptest.NewRecorder()
	g.Metrics().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`limit_decisions_total{limit="client",result="allowed",route="/"} 2`,
		`limit_decisions_total{limit="client",result="refused",route="/"} 3`,
		`limit_decisions_total{limit="try",result="allowed",route="/"} 1`,
		`limit_decisions_total{limit="try",result="would_refuse",route="/"} 4`,
		`limit_overflowed_total{limit="client",route="/"} 0`,
		`limit_queued_total{limit="client",route="/"} 0`,
		`limit_values{limit="client",route="/"} 1`,
	} {
		if !strings.Contains(page.Body.String(), "plimsoll_"+want) {
			t.Errorf("no %s", want)
		}
	}
	s := g.limitStatus()
	if len(s) != 2 || s[0].Name != "client" || s[0].Rate != "2/d" || s[0].Algorithm != "token_bucket" || s[0].Changed {
		t.Fatalf("the status says %+v", s)
	}
	if top := fmt.Sprint(s[0].TopRefused); top != "[{127.0.0.1 3}]" {
		t.Errorf("who is refused most: %s", top)
	}
}

// What the config's checks let pass the limits themselves may still refuse, with the route's
// position.
func TestLimitsThatCannotBeCountedAreRefused(t *testing.T) {
	service := newService(t, replying(echo))
	g := serve(t, oneUpstream(service.address()))
	for _, limits := range []string{
		`{rate: 1000000/s, algorithm: sliding_window}`,
		`{rate: 20000/s, algorithm: sliding_log}`,
		`{rate: 9000/s, algorithm: sliding_log, key: client_address, values: 1000000}`,
		`{rate: 1/366d, burst: 2}`,
		`{rate: 1/d, burst: 1000}`,
	} {
		err := g.reload(rated(service.address(), limits))
		if err == nil || !strings.Contains(err.Error(), "plimsoll.yaml:") || !strings.Contains(err.Error(), "routes[0].limits") {
			t.Errorf("%s: the error is %v", limits, err)
		}
	}
}

func TestARequestCostsWhatATrustedPeerSaysOfIt(t *testing.T) {
	service := newService(t, replying(echo))
	for _, c := range []struct {
		trusted string
		passes  int
	}{{"[127.0.0.1]", 2}, {"[192.0.2.1]", 10}} {
		cfg := rated(service.address(), `{rate: 10/h, cost: {header: X-Cost, max: 5}}`)
		cfg = strings.Replace(cfg, `address: "127.0.0.1:0"`, `address: "127.0.0.1:0", trusted_proxies: `+c.trusted, 1)
		g := serve(t, cfg)
		if n := g.passing(12, "X-Cost: 5"); n != c.passes {
			t.Errorf("peers trusted: %s: %d requests that say a cost of 5 pass a limit of 10, want %d", c.trusted, n, c.passes)
		}
	}
}
