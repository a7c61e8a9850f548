package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// pressed is a gateway whose service takes one request at a time. "/hang" keeps its place until the
// test lets it go; every other path is stored, and stale for 50 s when it comes.
func pressed(t *testing.T, cache string) (i *instance, hang func() (free func())) {
	t.Helper()
	came, proceed := make(chan bool), make(chan bool)
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			w.Header().Set("Cache-Control", "no-store")
			came <- true
			<-proceed
		} else {
			w.Header().Set("Cache-Control", "max-age=50"+strings.TrimPrefix(r.URL.Path, "/stale"))
			w.Header().Set("Age", "100")
			w.Header().Set("Etag", `"1"`)
		}
		io.WriteString(w, "live")
	})
	i = serveClean(t, fmt.Sprintf(`
sla_header: X-SLA-Class
listeners: [{address: "127.0.0.1:0", trusted_proxies: %s}]
classes: {P0: {patience: 10ms}, P1: {patience: 10ms}, P2: {patience: 10ms}}
upstreams:
  s: {targets: [%q], max_concurrency: 1, retry: {attempts: 0}, health: {passive: {disabled: true}}}
routes: [{name: r, match: /, upstream: s, cache: {jitter: 0%%%s}}]
`, trustLocal, o.address(), cache))
	return i, func() func() {
		busy := i.sendGET("/hang")
		<-came
		return func() {
			proceed <- true
			if g := busy.read(); g.status != 200 {
				t.Errorf("the request that had the place got %v", g)
			}
		}
	}
}

// A fetch that is shed because the service has too much to do is answered with what is stale, for
// as long as stale_under_pressure says, where nothing forbids it.
func TestWhatIsStaleSparesAServiceThatHasTooMuchToDo(t *testing.T) {
	t.Parallel()
	const no = "" // a refusal
	i, hang := pressed(t, ", stale_under_pressure: 60s")
	must, shared := "/stale,%20must-revalidate", "/stale,%20s-maxage=50"
	for _, path := range []string{"/stale", "/stale?old", must, shared} {
		i.climb(rung{"P1", "GET", path, "", 200, "live", ""})
	}
	free := hang()
	i.climb(
		rung{"P1", "GET", "/stale", "", 200, "live", "stale"},
		rung{"P2", "GET", "/stale", "", 200, "live", "stale"},
		rung{"P1", "HEAD", "/stale", "", 200, "", "stale"},
		rung{"P1", "GET", "/stale", "Range: bytes=1-2\r\n", 206, "iv", "stale"},
		rung{"P1", "GET", "/stale", "If-None-Match: \"1\"\r\n", 304, "", "stale"},
		rung{"P0", "GET", "/stale", "", 503, no, ""},
		rung{"P1", "GET", must, "", 503, no, ""},
		rung{"P1", "GET", shared, "", 503, no, ""},
		rung{"P1", "GET", "/never", "", 503, no, ""},
		rung{"P1", "POST", "/stale", "Content-Length: 0\r\n", 503, no, ""},
	)
	calls := i.allAskFor("/stale", "X-SLA-Class: P1", 20)
	for _, g := range readAll(calls) {
		if g.status != 200 || g.body != "live" ||
			!strings.Contains(g.fields.Get("Cache-Status"), "hit; ttl=-") ||
			!strings.Contains(g.fields.Get("Cache-Status"), "detail=overload") {
			t.Errorf("one of many gets %v", g)
		}
	}
	i.expectMetrics(`plimsoll_cache_requests_total{reason="overload",result="stale",route="r"} 25`,
		`plimsoll_degraded_total{route="r",step="stale"} 25`)
	free()
	i.climb(rung{"P1", "GET", "/stale", "", 200, "live", ""})
}

// allAskFor sends n requests for a path with a field, each on a connection of its own.
func (i *instance) allAskFor(path, field string, n int) (calls []*call) {
	i.t.Helper()
	for range n {
		calls = append(calls, i.sendGETWith(path, field))
	}
	return calls
}

// Without stale_under_pressure, and later than it allows, the request is refused.
func TestPressureDoesNotServeWhatIsTooStale(t *testing.T) {
	t.Parallel()
	for _, keys := range []string{"", ", stale_under_pressure: 49s", ", stale_if_error: 1h"} {
		i, hang := pressed(t, keys)
		i.climb(rung{"P1", "GET", "/stale", "", 200, "live", ""})
		free := hang()
		want := rung{"P1", "GET", "/stale", "", 503, "", ""}
		if strings.Contains(keys, "error") { // a request that is shed is one that failed
			want = rung{"P1", "GET", "/stale", "", 200, "live", "stale"}
		}
		i.climb(want)
		free()
		i.climb(rung{"P1", "GET", "/stale", "", 200, "live", ""})
	}
}
