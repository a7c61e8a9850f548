package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
)

// outdateConfig has a route that stores, whose queries are sorted, and two that do not.
func outdateConfig(o *origin) string {
	return fmt.Sprintf(`
listeners: [{address: 127.0.0.1:0}]
upstreams: {origin: {targets: [%q]}}
routes:
  - {match: "GET /stored/", upstream: origin, cache: {key: {sort_query: true}}}
  - {match: "/stored/", upstream: origin, strip_prefix: /stored}
  - {match: "/other/", upstream: origin}
`, o.address())
}

// A POST changes what a GET got, whatever route it takes.
func TestAnUnsafeRequestOfAnyRouteOutdatesWhatIsStored(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("do") {
		case "fail":
			w.WriteHeader(500)
		case "name":
			w.Header().Set("Location", "/stored/x?b=2&a=1")
			w.WriteHeader(201)
		}
		w.Header().Set("Cache-Control", "max-age=100")
		if r.Method == "GET" {
			fmt.Fprint(w, n.Add(1))
		}
	})
	i := serveClean(t, outdateConfig(o))
	c := i.client()
	want := 0
	for _, test := range []struct {
		method, path string
		outdates     bool
	}{
		{"", "", true}, // nothing is stored
		{"POST", "/stored/x?b=2&a=1", true},
		{"DELETE", "/stored/x?a=1&b=2", true},
		{"MAD", "/stored/x?a=1&b=2", true},
		{"POST", "/stored/x?a=1", false},
		{"POST", "/stored/y?b=2&a=1", false},
		{"OPTIONS", "/stored/x?b=2&a=1", false},
		{"POST", "/stored/x?b=2&a=1&do=fail", false},
		{"POST", "/other/x?b=2&a=1", false},
		{"PUT", "/other/x?do=name", true},
		{"PUT", "/stored/z?do=name", true},
	} {
		if test.method != "" {
			request(t, c, test.method, i.url(test.path))
		}
		if test.outdates {
			want++
		}
		_, body, _ := request(t, c, "GET", i.url("/stored/x?a=1&b=2"))
		if body != strconv.Itoa(want) {
			t.Errorf("after %s %s: %q, want %d", test.method, test.path, body, want)
		}
	}
	i.expectMetrics(`plimsoll_cache_invalidations_total{route="/other/"} 1`)
}

// The answer to a HEAD that passes makes stale what differs from it, and nothing else.
func TestAHeadThatPassesMakesStaleWhatDiffers(t *testing.T) {
	t.Parallel()
	var tag, status atomic.Value
	tag.Store(`"1"`)
	status.Store(200)
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=100")
		w.Header().Set("Etag", tag.Load().(string))
		if r.Method == "HEAD" {
			w.WriteHeader(status.Load().(int))
			return
		}
		io.WriteString(w, tag.Load().(string))
	})
	// The key is that of the request as it came, whatever the policies behind the cache make of it.
	i := serveClean(t, fmt.Sprintf(`
listeners: [{address: 127.0.0.1:0}]
upstreams: {origin: {targets: [%q]}}
routes:
  - {match: /a/, upstream: origin, strip_prefix: /a, request_headers: {set: {Accept: "x/y"}}, cache: {}}
`, o.address()))
	c := i.client()
	request(t, c, "GET", i.url("/a/"))
	pass := func() {
		t.Helper()
		_, _, h := request(t, c, "HEAD", i.url("/a/"), "If-Match", `"other"`)
		cacheStatus(t, h, "fwd=bypass", "precondition")
	}
	expect := func(body, said string) {
		t.Helper()
		_, got, h := request(t, c, "GET", i.url("/a/"))
		if cacheStatus(t, h, said); got != body {
			t.Errorf("%q, want %q", got, body)
		}
	}
	pass()
	expect(`"1"`, "hit")
	status.Store(412)
	tag.Store(`"2"`)
	pass()
	expect(`"1"`, "hit")
	status.Store(200)
	_, _, h := request(t, c, "HEAD", i.url("/a/"), "If-Match", `"other"`, "Cookie", "a=b")
	cacheStatus(t, h, "precondition")
	expect(`"1"`, "hit")
	pass()
	expect(`"2"`, "fwd=stale")
	expect(`"2"`, "hit")
}
