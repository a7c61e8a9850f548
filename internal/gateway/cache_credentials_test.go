package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// The answer to a cookie is for its client alone. Who has none is served from the cache all the
// same, at once and for the next ten seconds: else one client could keep a page from being stored.
func TestAClientWithACookieKeepsNothingFromBeingStored(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=100")
		io.WriteString(w, "for "+r.Header.Get("Cookie"))
	})
	i := serveClean(t, cacheConfig(o, ""))
	c := i.client()
	for range 3 {
		if _, body, _ := request(t, c, "GET", i.url("/"), "Cookie", "me"); body != "for me" {
			t.Errorf("with a cookie: %q", body)
		}
	}
	_, body, h := request(t, c, "GET", i.url("/"))
	cacheStatus(t, h, "uri-miss", "stored")
	if body != "for " {
		t.Errorf("without one: %q", body)
	}
	_, _, h = request(t, c, "GET", i.url("/"))
	cacheStatus(t, h, "hit")
	o.expectAsked(t, 4)
}

// A fetch that somebody's cookie makes hang or fail is not one that others wait for. Who sent it gets, in
// place of the failure, what has been stored for all meanwhile.
func TestWhoHasNoCookieDoesNotWaitForAFetchWithOne(t *testing.T) {
	t.Parallel()
	enter, leave := make(chan bool, 100), make(chan bool)
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie") != "" {
			enter <- true
			<-leave
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Cache-Control", "max-age=100")
		io.WriteString(w, "for all")
	})
	i := serveClean(t, cacheConfig(o, ""))
	evil := i.dial()
	evil.send("GET / HTTP/1.1\r\nHost: " + i.address(0) + "\r\nCookie: me\r\n\r\n")
	<-enter
	if status, body, _ := request(t, i.client(), "GET", i.url("/")); status != 200 || body != "for all" {
		t.Errorf("%d %q", status, body)
	}
	close(leave)
	if r, body := evil.response("GET"); r.StatusCode != 200 || body != "for all" || r.Header.Get("X-Degraded") != "cache" {
		t.Errorf("%d %q, X-Degraded: %q", r.StatusCode, body, r.Header.Get("X-Degraded"))
	}
}

// A 304 to somebody's cookie renews what all get, and brings nothing into it but how fresh it is.
func TestA304ToACookieChangesNoFieldThatOthersGet(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", `"1"`)
		w.Header().Set("X-For", r.Header.Get("Cookie"))
		if r.Header.Get("If-None-Match") != "" {
			w.Header().Set("Cache-Control", "max-age=100")
			w.WriteHeader(304)
			return
		}
		w.Header().Set("Cache-Control", "max-age=0")
		fmt.Fprint(w, "the same")
	})
	i := serveClean(t, cacheConfig(o, ""))
	c := i.client()
	request(t, c, "GET", i.url("/"))
	request(t, c, "GET", i.url("/"), "Cookie", "me")
	status, body, h := request(t, c, "GET", i.url("/"))
	if status != 200 || body != "the same" || h.Get("X-For") != "" {
		t.Errorf("%d %q %v", status, body, h)
	}
	cacheStatus(t, h, "hit", "ttl=")
	o.expectAsked(t, 2)
}

// The gateway itself tells services for whom it asks. What says that it depends on that is not for
// others.
func TestWhatVariesByWhatTheGatewayAddsIsNotStored(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"X-Forwarded-For", "X-Left-Ms", "X-Client"} {
		o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=100")
			w.Header().Set("Vary", "Accept, "+name)
			io.WriteString(w, r.Header.Get(name))
		})
		i := serveClean(t, fmt.Sprintf(`
listeners: [{address: 127.0.0.1:0}]
upstreams: {origin: {targets: [%q]}}
routes:
  - {match: /, upstream: origin, deadline_header: X-Left-Ms,
	request_headers: {set: {X-Client: "${client_address}"}}, cache: {}}
`, o.address()))
		c := i.client()
		_, _, h := request(t, c, "GET", i.url("/"))
		cacheStatus(t, h, "vary-added")
		request(t, c, "GET", i.url("/"))
		o.expectAsked(t, 2)
	}
}

// Behind a proxy that ends TLS, services redirect those who came without it. That answer is not for
// those who came with it.
func TestWhatATrustedPeerSaysOfTheSchemeIsPartOfTheKey(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=100")
		if r.Header.Get("X-Forwarded-Proto") != "https" {
			w.Header().Set("Location", "https://a/")
			w.WriteHeader(301)
			return
		}
		io.WriteString(w, "home")
	})
	yaml := cacheConfig(o, "")
	trusting := strings.Replace(yaml, "127.0.0.1:0", "127.0.0.1:0, trusted_proxies: [127.0.0.1]", 1)
	for _, c := range []struct {
		yaml  string
		asked int64
		https int // the status that those get who say that they came with TLS
	}{{trusting, 2, 200}, {yaml, 1, 301}} {
		o.asked.Store(0)
		i := serveClean(t, c.yaml)
		for range 2 {
			for proto, want := range map[string]int{"http": 301, "https": c.https} {
				p := i.dial()
				p.send("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\n" +
					"X-Forwarded-Proto: " + proto + "\r\n\r\n")
				if status := p.status("GET"); status != want {
					t.Errorf("%s: %d, want %d", proto, status, want)
				}
				p.Close()
			}
		}
		o.expectAsked(t, c.asked)
		if c.asked == 1 {
			continue
		}
		if _, err := i.PurgeCache(Purge{URL: "https://a/"}); err != nil {
			t.Fatal(err)
		}
		p := i.dial()
		p.send("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\n\r\n")
		p.status("GET")
		p.Close()
		o.expectAsked(t, 3)
	}
}

// Nor does it take from others what is stale, which they may need when the service fails, and can
// have revalidated.
func TestARevalidationWithACookieTakesNothingFromOthers(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	validated := make(chan string, 10)
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			w.WriteHeader(503)
			return
		}
		validated <- r.Header.Get("If-None-Match")
		w.Header().Set("Cache-Control", "max-age=0, stale-if-error=100")
		w.Header().Set("Etag", `"1"`)
		fmt.Fprint(w, "for ", r.Header.Get("Cookie"))
	})
	i := serveClean(t, cacheConfig(o, ""))
	c := i.client()
	request(t, c, "GET", i.url("/"))
	for range 3 { // the first asks whether what is stored is still good, the others go on their own
		if _, body, _ := request(t, c, "GET", i.url("/"), "Cookie", "me"); body != "for me" {
			t.Errorf("a client with a cookie gets %q", body)
		}
	}
	for n, want := range []string{"", `"1"`, "", ""} {
		if got := <-validated; got != want {
			t.Errorf("request %d asks for other than %q", n, got)
		}
	}
	broken.Store(true)
	for _, fields := range [][]string{nil, {"Cookie", "me"}} {
		status, body, h := request(t, c, "GET", i.url("/"), fields...)
		if fields != nil {
			if status != 503 && body != "for " {
				t.Errorf("with a cookie, while the service fails: %d %q", status, body)
			}
			continue
		}
		if status != 200 || body != "for " {
			t.Errorf("while the service fails: %d %q", status, body)
		}
		cacheStatus(t, h, "stale-if-error")
	}
}

// What a service answers to a refresh with somebody's cookie says nothing of what others get: that
// stays stored, and is served, until a refresh without one takes its place.
func TestARefreshWithACookieTakesNothingFromOthers(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=50, stale-while-revalidate=3600")
		if n.Add(1) == 1 {
			w.Header().Set("Age", "100")
		}
		fmt.Fprint(w, n.Load(), r.Header.Get("Cookie"))
	})
	i := serveClean(t, cacheConfig(o, "early_refresh: false"))
	c := i.client()
	request(t, c, "GET", i.url("/"))
	for try := range int64(3) {
		_, body, h := request(t, c, "GET", i.url("/"), "Cookie", "me")
		if body != "1" {
			t.Errorf("a client with a cookie gets %q", body)
		}
		cacheStatus(t, h, "detail=stale-while-revalidate")
		eventually(t, "the refresh to be asked for", func() bool { return o.asked.Load() == 2+try })
		i.fetched()
	}
	if _, body, h := request(t, c, "GET", i.url("/")); body != "1" {
		t.Errorf("who has no cookie gets %q, %s", body, h.Get("Cache-Status"))
	}
	eventually(t, "the refresh to be asked for", func() bool { return o.asked.Load() == 5 })
	i.fetched()
	for _, cookie := range []string{"", "me"} {
		if _, body, h := request(t, c, "GET", i.url("/"), "Cookie", cookie); body != "5" {
			t.Errorf("after the refresh, cookie %q: %q, %s", cookie, body, h.Get("Cache-Status"))
		}
	}
}
