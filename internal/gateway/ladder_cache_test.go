package gateway

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"plimsoll/internal/policy/inflight"
)

// ladderService answers by path: "/fresh" may be stored for long, "/stale" was stored for too long when it
// comes, "/grace" is that too and may be served while it is fetched again, "/hang" waits for a word. It
// breaks connections off while it fails.
type ladderService struct {
	*origin
	fails   atomic.Bool
	came    chan bool
	proceed chan bool
}

func newLadderService(t *testing.T) *ladderService {
	s := &ladderService{came: make(chan bool, 10), proceed: make(chan bool)}
	s.origin = newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.fails.Load():
			panic(http.ErrAbortHandler)
		case r.URL.Path == "/hang":
			s.came <- true
			select {
			case <-s.proceed:
			case <-r.Context().Done():
			}
		case r.URL.Path == "/fresh":
			w.Header().Set("Cache-Control", "max-age=3600, stale-if-error=3600")
		case r.URL.Path == "/stale":
			w.Header().Set("Cache-Control", "max-age=50")
			w.Header().Set("Age", "100")
		case r.URL.Path == "/grace":
			w.Header().Set("Cache-Control", "max-age=50, stale-while-revalidate=3600")
			w.Header().Set("Age", "100")
		}
		io.WriteString(w, "live")
	})
	return s
}

// laddered is a gateway whose only route, of class P2, has all steps; a trusted peer chooses the class.
func laddered(t *testing.T, s *ladderService, upstream, cache, route, more string) *instance {
	return serve(t, `
sla_header: X-SLA-Class
listeners: [{address: "127.0.0.1:0", trusted_proxies: `+trustLocal+`}]
upstreams:
  s: {targets: ["`+s.address()+`"], retry: {attempts: 0}, health: {passive: {disabled: true}}`+upstream+`}
routes:
  - {name: r, match: /, split: {weights: {s: 1}}, sla: P2, cache: {`+cache+`},
    fallback: {body: later}`+route+`}
`+more)
}

// rung is a request and what it has to get. body is "" for a refusal.
type rung struct {
	class, method, path, fields string
	status                      int
	body, step                  string
}

func (i *instance) climb(rungs ...rung) {
	i.t.Helper()
	p := i.dial()
	for _, r := range rungs {
		p.send(r.method + " " + r.path + " HTTP/1.1\r\nHost: a\r\nX-SLA-Class: " + r.class + "\r\n" +
			r.fields + "\r\n")
		res, body := p.response(r.method)
		bodyFits := body == r.body || r.body == "" && res.StatusCode >= 400
		step := strings.Join(res.Header.Values("X-Degraded"), ", ")
		if res.StatusCode != r.status || !bodyFits || step != r.step {
			i.t.Errorf("%s %s %s %q gives %d %q, X-Degraded: %s, want %+v", r.class, r.method, r.path, r.fields,
				res.StatusCode, body, step, r)
		}
		again := res.StatusCode == 503 || res.StatusCode == 429
		if (res.Header.Get("Retry-After") != "") != again {
			i.t.Errorf("%s %s %s gives %d with Retry-After %q", r.class, r.method, r.path, res.StatusCode,
				res.Header.Get("Retry-After"))
		}
	}
}

// stored has the service's answers stored.
func (i *instance) stored() {
	i.t.Helper()
	i.climb(rung{"P0", "GET", "/fresh", "", 200, "live", ""}, rung{"P0", "GET", "/stale", "", 200, "live", ""},
		rung{"P0", "GET", "/grace", "", 200, "live", ""})
}

const reload = "Cache-Control: no-cache\r\n"

func TestWhenTheServiceFailsEachClassGetsItsSteps(t *testing.T) {
	t.Parallel()
	s := newLadderService(t)
	path := filepath.Join(t.TempDir(), "access.log")
	i := laddered(t, s, "", "stale_if_error: 1h", "", "access_log: {path: "+path+"}\n")
	i.stored()
	s.fails.Store(true)
	i.climb(
		// What the cache serves while nothing fails is everybody's.
		rung{"P0", "GET", "/fresh", "", 200, "live", ""},
		rung{"P0", "GET", "/grace", "", 200, "live", ""},
		rung{"P0", "GET", "/stale", "", 502, "", ""},
		rung{"P0", "GET", "/fresh", reload, 502, "", ""},
		rung{"P0", "GET", "/other", "", 502, "", ""},
		rung{"P1", "GET", "/stale", "", 200, "live", "stale"},
		rung{"P1", "HEAD", "/stale", "", 200, "", "stale"},
		rung{"P1", "GET", "/fresh", reload, 200, "live", "cache"},
		rung{"P1", "GET", "/other", "", 502, "", ""},
		rung{"P2", "GET", "/stale", "", 200, "live", "stale"},
		rung{"P2", "GET", "/other", "", 200, "later", "static"},
		rung{"P2", "POST", "/stale", "Content-Length: 0\r\n", 502, "", ""},
		rung{"P2", "DELETE", "/other", "", 502, "", ""},
	)
	i.expectMetrics(
		`plimsoll_degraded_total{route="r",step="cache"} 1`,
		`plimsoll_degraded_total{route="r",step="stale"} 3`,
		`plimsoll_degraded_total{route="r",step="static"} 1`,
	)
	steps := map[string]int{}
	for _, line := range lines(t, path, 16) { // in any order: connections are on several loops
		var exchange struct{ Class, Method, Path, Degraded string }
		if err := json.Unmarshal([]byte(line), &exchange); err != nil {
			t.Fatal(err)
		}
		if exchange.Degraded != "" {
			steps[exchange.Class+" "+exchange.Method+" "+exchange.Path+" "+exchange.Degraded]++
		}
	}
	want := map[string]int{"P1 GET /stale stale": 1, "P1 HEAD /stale stale": 1, "P1 GET /fresh cache": 1,
		"P2 GET /stale stale": 1, "P2 GET /other static": 1}
	if !maps.Equal(steps, want) {
		t.Errorf("the access log has these steps: %v, want %v", steps, want)
	}
}

func TestWhatIsShedForTheRoutesBoundGetsWhatIsStored(t *testing.T) {
	t.Parallel()
	s := newLadderService(t)
	i := laddered(t, s, "", "stale_under_pressure: 1h", ", concurrency: 1", "")
	i.stored()
	i.nothingInFlight()
	busy := i.dial()
	busy.send("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n")
	<-s.came
	i.climb(
		rung{"P0", "GET", "/fresh", "", 503, "", ""}, // it takes no step
		rung{"P1", "GET", "/fresh", "", 200, "live", "cache"},
		rung{"P1", "HEAD", "/fresh", "", 200, "", "cache"},
		rung{"P1", "GET", "/fresh", "Range: bytes=1-2\r\n", 206, "iv", "cache"},
		rung{"P1", "GET", "/stale", "", 200, "live", "stale"},
		rung{"P1", "GET", "/grace", "", 200, "live", "stale"},
		rung{"P1", "GET", "/other", "", 503, "", ""},
		rung{"P1", "GET", "/fresh?other", "", 503, "", ""},
		rung{"P2", "GET", "/fresh", "", 200, "live", "cache"},
		rung{"P2", "GET", "/other", "", 200, "later", "static"},
		rung{"P2", "POST", "/fresh", "Content-Length: 0\r\n", 503, "", ""},
		rung{"P2", "POST", "/other", "Content-Length: 0\r\n", 503, "", ""},
	)
	if n := i.route("r").Policies["concurrency"].(inflight.Status); n.UnderWay != 1 || n.RouteFull != 12 {
		t.Errorf("the bound says %+v", n)
	}
	s.expectAsked(t, 4)
	s.proceed <- true
	if status := busy.status("GET"); status != 200 {
		t.Errorf("the request that had the place got %d", status)
	}
	i.nothingInFlight()
	i.climb(rung{"P0", "GET", "/fresh", "", 200, "live", ""}, rung{"P1", "GET", "/fresh", "", 200, "live", ""})
	i.expectMetrics(
		`plimsoll_degraded_total{route="r",step="cache"} 4`,
		`plimsoll_degraded_total{route="r",step="stale"} 2`,
		`plimsoll_degraded_total{route="r",step="static"} 1`,
	)
}

// A bound per client is about that client: what is stored does not get it around.
func TestWhatIsRefusedForAClientsBoundGetsNothingStored(t *testing.T) {
	t.Parallel()
	s := newLadderService(t)
	i := laddered(t, s, "", "", `, concurrency: {key: client_address, max_per_value: 1}`, "")
	i.stored()
	i.nothingInFlight()
	busy := i.dial()
	busy.send("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n")
	<-s.came
	i.climb(rung{"P2", "GET", "/fresh", "", 429, "", ""})
	s.proceed <- true
	busy.status("GET")
}

// Access control comes first, however full the route is.
func TestWhatIsStoredIsNotGivenAroundAccessControl(t *testing.T) {
	t.Parallel()
	s := newLadderService(t)
	i := laddered(t, s, "", "", `, concurrency: 1, access: {deny: ["203.0.113.1"]}`, "")
	i.stored()
	i.nothingInFlight()
	busy := i.dial()
	busy.send("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n")
	<-s.came
	i.climb(rung{"P2", "GET", "/fresh", "X-Forwarded-For: 203.0.113.1\r\n", 403, "", ""},
		rung{"P2", "GET", "/fresh", "X-Forwarded-For: 203.0.113.2\r\n", 200, "live", "cache"})
	s.proceed <- true
	busy.status("GET")
}

func TestWhatIsShedByABreakerGetsWhatIsStale(t *testing.T) {
	t.Parallel()
	s := newLadderService(t)
	i := laddered(t, s, ", breaker: {scope: upstream, consecutive_failures: 1, failure_ratio: 0%, open_for: 1h}",
		"stale_under_pressure: 1h", "", "")
	i.stored()
	s.fails.Store(true)
	i.climb(rung{"P1", "GET", "/other", "", 502, "", ""}) // it opens the breaker
	i.climb(
		rung{"P0", "GET", "/fresh", "", 200, "live", ""},
		rung{"P0", "GET", "/stale", "", 503, "", ""},
		rung{"P1", "GET", "/stale", "", 200, "live", "stale"},
		rung{"P2", "GET", "/stale", "", 200, "live", "stale"},
		rung{"P2", "GET", "/other", "", 200, "later", "static"},
	)
}

// The route's timeout is shorter than the wait for a fetch, so that it ends the request first.
func TestAServiceThatIsTooSlowIsAnsweredForByWhatIsStale(t *testing.T) {
	t.Parallel()
	var slow atomic.Bool
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if slow.Load() {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Cache-Control", "max-age=50")
		w.Header().Set("Age", "100")
		io.WriteString(w, "live")
	})
	i := laddered(t, &ladderService{origin: o}, "", "stale_if_error: 1h", ", timeout: 500ms", "")
	i.climb(rung{"P1", "GET", "/stale", "", 200, "live", ""})
	slow.Store(true)
	i.climb(rung{"P1", "GET", "/stale", "", 200, "live", "stale"}, rung{"P0", "GET", "/stale", "", 504, "", ""})
}

func TestAClassThatIsToldToTakesStepsOfTheCache(t *testing.T) {
	t.Parallel()
	s := newLadderService(t)
	i := laddered(t, s, "", "stale_if_error: 1h", "",
		"classes: {P0: {degrade: [cache]}, P1: {degrade: [stale]}, P3: {degrade: []}, P4: {degrade: [static]}}\n")
	i.stored()
	s.fails.Store(true)
	i.climb(
		rung{"P0", "GET", "/fresh", reload, 200, "live", "cache"},
		rung{"P0", "GET", "/stale", "", 502, "", ""},
		rung{"P1", "GET", "/fresh", reload, 502, "", ""},
		rung{"P1", "GET", "/stale", "", 200, "live", "stale"},
		rung{"P3", "GET", "/stale", "", 502, "", ""},
		rung{"P4", "GET", "/stale", "", 200, "later", "static"},
	)
}
