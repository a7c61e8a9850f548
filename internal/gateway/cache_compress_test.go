package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// What compress makes of a response is stored, so that a hit costs no compression, and each client
// gets a coding that it takes.
func TestCompressedVariantsAreStored(t *testing.T) {
	t.Parallel()
	content := words(20_000)
	var asked atomic.Int64
	s := newService(t, replying(func(r *http.Request, _ string) string {
		asked.Add(1)
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\nETag: \"a\"\r\n"+
			"Content-Type: text/plain\r\n"+
			"Content-Length: %d\r\n\r\n%s", len(content), content)
	}))
	b := serveCache(t, s.address(), "[{match: /, upstream: origin, compress: true, cache: {}}]", "")
	for _, tls := range []bool{false, true} {
		for _, encoding := range []string{"gzip", "br", "zstd", ""} {
			var stored string
			before := asked.Load()
			for _, p := range allSpoken {
				if p.tls != tls {
					continue
				}
				c := b.talk(p)
				for range 2 {
					g := c.ask("GET", "/", "Accept-Encoding", encoding)
					if stored == "" {
						stored = g.body
					}
					tag := `W/"a"`
					if encoding == "" {
						tag = `"a"`
					} else if decoded(t, encoding, g.body) != content {
						t.Fatalf("%s: what %s stands for is something else", p.name, encoding)
					}
					if g.status != 200 || g.body != stored || g.fields.Get("Content-Encoding") != encoding ||
						g.fields.Get("Etag") != tag || g.fields.Get("Vary") != "Accept-Encoding" {
						t.Errorf("%s: %q gives %v", p.name, encoding, g)
					}
				}
				cacheStatus(t, c.expect(206, stored[10:21], "GET", "/", "Accept-Encoding", encoding,
					"Range", "bytes=10-20").fields, "hit")
				c.expect(304, "", "GET", "/", "Accept-Encoding", encoding, "If-None-Match", `W/"a"`)
			}
			if n := asked.Load() - before; n != 1 {
				t.Errorf("%q: the service was asked %d times", encoding, n)
			}
		}
	}
	for _, encoding := range []string{"gzip", "br", "zstd"} {
		b.expectEncoded(encoding, 2)
	}
}

// expectEncoded checks how many responses were compressed with a coding.
func (i *instance) expectEncoded(encoding string, n int) {
	i.t.Helper()
	for line := range strings.Lines(i.metrics()) {
		if strings.HasPrefix(line, "plimsoll_compress_responses_total") && strings.Contains(line,
			`"`+encoding+`"`) {
			if !strings.HasSuffix(line, fmt.Sprintf(" %d\n", n)) {
				i.t.Errorf("%s, want %d", line, n)
			}
			return
		}
	}
	i.t.Errorf("no count of %s in\n%s", encoding, i.metrics())
}

// A service that repeats its own, strong tag in a 304 speaks of the compressed response too, whose
// tag is a weak form of that one.
func TestACompressedResponseIsRevalidated(t *testing.T) {
	t.Parallel()
	content := words(20_000)
	var sent, kept atomic.Int64
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=0")
		w.Header().Set("Etag", `"a"`)
		w.Header().Set("Content-Type", "text/plain")
		if strings.Contains(r.Header.Get("If-None-Match"), `"a"`) {
			kept.Add(1)
			w.WriteHeader(304)
			return
		}
		sent.Add(1)
		fmt.Fprint(w, content)
	})
	i := serveClean(t, strings.Replace(cacheConfig(o, ""),
		"cache:", "compress: {adapt: false}, cache:", 1))
	c := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(c.CloseIdleConnections)
	for range 3 {
		status, body, h := request(t, c, "GET", i.url("/"), "Accept-Encoding", "gzip")
		if status != 200 || h.Get("Etag") != `W/"a"` || decoded(t, "gzip", body) != content {
			t.Errorf("%d %v", status, h)
		}
	}
	if sent.Load() != 1 || kept.Load() != 2 {
		t.Errorf("sent %d times, validated %d times, want 1 and 2", sent.Load(), kept.Load())
	}
}

// The steps of a route whose service fails: what is fresh, then what is stale, then the static
// answer.
func TestTheStepsOfARouteWhoseServiceFails(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case failing.Load():
			panic(http.ErrAbortHandler)
		case r.URL.Path == "/fresh":
			w.Header().Set("Cache-Control", "max-age=1000")
		default:
			w.Header().Set("Cache-Control", "max-age=0")
		}
		w.Header().Set("Etag", `"1"`)
		fmt.Fprint(w, "stored "+r.URL.Path)
	})
	i := serveClean(t, strings.Replace(cacheConfig(o, "stale_if_error: 1h"), "cache:",
		"sla: P2, fallback: {body: later}, cache:", 1))
	c := i.client()
	for _, path := range []string{"/fresh", "/stale"} {
		request(t, c, "GET", i.url(path))
	}
	failing.Store(true)
	for range 2 {
		for path, want := range map[string]struct {
			status int
			body   string
		}{"/fresh": {200, "stored /fresh"}, "/stale": {200, "stored /stale"}, "/none": {200, "later"}} {
			status, body, h := request(t, c, "GET", i.url(path))
			if status != want.status || body != want.body {
				t.Errorf("%s: %d %q %v", path, status, body, h)
			}
		}
	}
}
