package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// origin is a service behind a cache: a handler, and how often it was asked.
type origin struct {
	*httptest.Server
	asked atomic.Int64
}

func newOrigin(t *testing.T, h http.HandlerFunc) *origin {
	t.Helper()
	o := &origin{}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.asked.Add(1)
		h(w, r)
	}))
	t.Cleanup(o.Close)
	return o
}

func (o *origin) address() string { return strings.TrimPrefix(o.URL, "http://") }

// expectAsked checks how often the service was asked.
func (o *origin) expectAsked(t *testing.T, want int64) {
	t.Helper()
	if n := o.asked.Load(); n != want {
		t.Errorf("the service was asked %d times, want %d", n, want)
	}
}

// cacheConfig is a gateway whose routes store what o answers; keys are those of the route's cache.
func cacheConfig(o *origin, keys string) string {
	return fmt.Sprintf(`
listeners: [{address: 127.0.0.1:0}]
upstreams: {origin: {targets: [%q]}}
routes: [{match: /, upstream: origin, cache: {%s}}]
`, o.address(), keys)
}

// request does a request and gives its status, its body and its header.
func request(t *testing.T, c *http.Client, method, url string, fields ...string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := readString(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, body, res.Header
}

// cacheStatus checks that Cache-Status says each of words.
func cacheStatus(t *testing.T, h http.Header, words ...string) {
	t.Helper()
	said := h.Get("Cache-Status")
	for _, word := range words {
		if !strings.Contains(said, word) {
			t.Errorf("Cache-Status: %s, want %s in it", said, word)
		}
	}
}

func TestAFreshResponseIsServedWithoutItsService(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=100")
		w.Header().Set("Etag", `"1"`)
		io.WriteString(w, "what there is at "+r.URL.Path)
	})
	i := serveClean(t, cacheConfig(o, ""))
	c := i.client()
	status, body, h := request(t, c, "GET", i.url("/a"))
	if status != 200 || body != "what there is at /a" {
		t.Fatalf("%d %q", status, body)
	}
	cacheStatus(t, h, "fwd=uri-miss", "stored")
	for range 3 {
		status, body, h = request(t, c, "GET", i.url("/a"))
		if status != 200 || body != "what there is at /a" || h.Get("Age") == "" || h.Get("Etag") != `"1"` {
			t.Fatalf("%d %q %v", status, body, h)
		}
		cacheStatus(t, h, "hit", "ttl=")
	}
	status, body, h = request(t, c, "HEAD", i.url("/a"))
	if status != 200 || body != "" || h.Get("Content-Length") != "19" {
		t.Errorf("HEAD: %d %q %v", status, body, h)
	}
	if status, _, h = request(t, c, "GET", i.url("/a"), "If-None-Match", `"1"`); status != 304 ||
		h.Get("Content-Length") != "" {
		t.Errorf("a condition: %d %v", status, h)
	}
	status, body, h = request(t, c, "GET", i.url("/a"), "Range", "bytes=5-9")
	if status != 206 || body != "there" || h.Get("Content-Range") != "bytes 5-9/19" {
		t.Errorf("a range: %d %q %v", status, body, h)
	}
	o.expectAsked(t, 1)
	i.expectMetrics(
		`plimsoll_cache_requests_total{reason="fresh",result="hit",route="/"} 6`,
		`plimsoll_cache_requests_total{reason="uri-miss",result="miss",route="/"} 1`,
	)
}

func TestManyWhoAskForOneThingCauseOneFetch(t *testing.T) {
	t.Parallel()
	const clients = 200
	enter, leave := make(chan bool, clients), make(chan bool)
	large := strings.Repeat("0123456789abcdef", 20_000)
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		enter <- true
		w.Header().Set("Cache-Control", "max-age=100")
		io.WriteString(w, large[:100_000])
		http.NewResponseController(w).Flush()
		<-leave
		io.WriteString(w, large[100_000:])
	})
	i := serveClean(t, cacheConfig(o, ""))
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			if status, body, _ := request(t, c, "GET", i.url("/one")); status != 200 || body != large {
				t.Errorf("%d, %d bytes", status, len(body))
			}
		})
	}
	<-enter
	eventually(t, "all but one wait for the first", func() bool {
		return strings.Contains(i.metrics(),
			fmt.Sprintf(`plimsoll_cache_waits_total{result="joined",route="/"} %d`, clients-1))
	})
	close(leave)
	all.Wait()
	o.expectAsked(t, 1)
}

func TestWhatIsPrivateGoesToItsOwnClientAlone(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "private")
		http.SetCookie(w, &http.Cookie{Name: "session", Value: fmt.Sprint(n.Add(1))})
		io.WriteString(w, strings.Repeat(r.Header.Get("Cookie")+"|", 50_000))
	})
	i := serveClean(t, cacheConfig(o, ""))
	c := i.client()
	for try := range 3 {
		me := fmt.Sprintf("user=%d", try)
		status, body, h := request(t, c, "GET", i.url("/me"), "Cookie", me)
		if status != 200 || body != strings.Repeat(me+"|", 50_000) ||
			h.Get("Set-Cookie") != fmt.Sprintf("session=%d", try+1) {
			t.Errorf("%d %.20q %v", status, body, h)
		}
	}
	o.expectAsked(t, 3)
}

func TestAFetchThatFailsAnswersAllWhoWait(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	i := serveClean(t, cacheConfig(o, ""))
	status, body, _ := request(t, i.client(), "GET", i.url("/"))
	if status != 502 || !strings.Contains(body, "upstream_reset") {
		t.Errorf("%d %q", status, body)
	}
}

func TestStaleIsServedWhenTheServiceFails(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			w.WriteHeader(503)
			return
		}
		w.Header().Set("Cache-Control", "max-age=0, stale-if-error=100")
		w.Header().Set("Etag", `"1"`)
		io.WriteString(w, "old")
	})
	i := serveClean(t, cacheConfig(o, ""))
	c := i.client()
	request(t, c, "GET", i.url("/"))
	broken.Store(true)
	status, body, h := request(t, c, "GET", i.url("/"))
	if status != 200 || body != "old" {
		t.Fatalf("%d %q", status, body)
	}
	cacheStatus(t, h, "hit", "stale-if-error")
	o.expectAsked(t, 2)
}

func TestAnUnsafeRequestOutdatesWhatIsStored(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=100")
		fmt.Fprint(w, n.Add(1))
	})
	i := serveClean(t, cacheConfig(o, ""))
	c := i.client()
	request(t, c, "GET", i.url("/x"))
	request(t, c, "POST", i.url("/x"))
	if _, body, _ := request(t, c, "GET", i.url("/x")); body != "3" {
		t.Errorf("after POST: %q", body)
	}
}

func TestResponsesThatVary(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=100")
		w.Header().Set("Vary", "Accept-Encoding")
		io.WriteString(w, r.Header.Get("Accept-Encoding"))
	})
	i := serveClean(t, cacheConfig(o, ""))
	c := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(c.CloseIdleConnections)
	for range 2 {
		for sent, want := range map[string]string{"": "", "gzip": "gzip",
			"gzip;q=0.7, br;q=0.5": "gzip, br;q=0.9",
			"identity, gzip;q=0.1": "", "x-mad": ""} {
			if _, body, h := request(t, c, "GET", i.url("/v"), "Accept-Encoding", sent); body != want {
				t.Errorf("%q gives %q, want %q; %s", sent, body, want, h.Get("Cache-Status"))
			}
		}
	}
	o.expectAsked(t, 3)
}
