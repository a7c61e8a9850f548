package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// A service that takes no more requests gets one for a key at a time. The client whose request it was gets
// its 429; the others, who have sent one request each, are told that the service takes no more.
func TestAServiceThatTakesNoMoreGetsOneRequestAtATime(t *testing.T) {
	t.Parallel()
	const clients = 12
	enter, leave := make(chan bool, clients), make(chan bool, clients)
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		enter <- true
		<-leave
		w.Header().Set("Retry-After", "70")
		w.WriteHeader(429)
		io.WriteString(w, "too many")
	})
	i := serveClean(t, cacheConfig(o, ""))
	for round := range 2 {
		calls := i.allAsk(clients)
		<-enter
		i.joined((round + 1) * (clients - 1))
		leave <- true
		own := 0
		for _, g := range readAll(calls) {
			after := g.fields.Get("Retry-After")
			switch {
			case g.status == 429 && g.body == "too many" && after == "70":
				own++
			case g.status != 503 || !strings.Contains(g.body, "fetch_limited"),
				after != "5" && after != "6" && after != "7":
				t.Errorf("one gets %v", g)
			}
		}
		if own != 1 {
			t.Errorf("%d clients get the service's own words", own)
		}
		o.expectAsked(t, int64(round+1))
	}
}

// 429 is not a failure for which stale-if-error stands.
func TestAServiceThatTakesNoMoreIsNotServedStaleFor(t *testing.T) {
	t.Parallel()
	var limited atomic.Bool
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		if limited.Load() {
			w.WriteHeader(429)
			return
		}
		w.Header().Set("Cache-Control", "max-age=0, stale-if-error=100")
		io.WriteString(w, "old")
	})
	i := serveClean(t, cacheConfig(o, ""))
	request(t, i.client(), "GET", i.url("/"))
	limited.Store(true)
	if status, body, _ := request(t, i.client(), "GET", i.url("/")); status != 429 {
		t.Errorf("%d %q", status, body)
	}
}

// What is left uncompressed because there was no encoder is stored for a moment, and then fetched whole: a
// 304 would keep it as it is.
func TestWhatIsNotCompressedForWantOfAnEncoderIsNotKept(t *testing.T) {
	t.Parallel()
	content := words(20_000)
	var validated atomic.Bool
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		validated.Store(validated.Load() || r.Header.Get("If-None-Match") != "")
		w.Header().Set("Cache-Control", "max-age=1000")
		w.Header().Set("Etag", `"a"`)
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, content)
	})
	i := serveClean(t, strings.Replace(cacheConfig(o, ""),
		"cache:", "compress: {adapt: false}, cache:", 1))
	i.encoders.SetMemory(0)
	c := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(c.CloseIdleConnections)
	_, body, h := request(t, c, "GET", i.url("/"), "Accept-Encoding", "gzip")
	if body != content || h.Get("Content-Encoding") != "" {
		t.Fatalf("%v", h)
	}
	_, _, h = request(t, c, "GET", i.url("/"), "Accept-Encoding", "gzip")
	var ttl int
	_, rest, _ := strings.Cut(h.Get("Cache-Status"), "hit; ttl=")
	if _, err := fmt.Sscan(rest, &ttl); err != nil || ttl > 10 {
		t.Errorf("Cache-Status: %s, want a hit with a ttl of 10 at most", h.Get("Cache-Status"))
	}
	i.encoders.SetMemory(64 << 20)
	status, body, h := request(t, c, "GET", i.url("/"), "Accept-Encoding", "gzip", "Cache-Control", "no-cache")
	if status != 200 || h.Get("Content-Encoding") != "gzip" || decoded(t, "gzip", body) != content {
		t.Errorf("%d %v", status, h)
	}
	if validated.Load() {
		t.Error("what is to be fetched whole was revalidated")
	}
	_, _, h = request(t, c, "GET", i.url("/"), "Accept-Encoding", "gzip")
	if cacheStatus(t, h, "hit"); h.Get("Content-Encoding") != "gzip" {
		t.Errorf("%v", h)
	}
}

// A client that forbids transformations gets nothing that the gateway has compressed, stored or not.
func TestNoTransformOfARequestKeepsCompressionAway(t *testing.T) {
	t.Parallel()
	content := words(20_000)
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=1000")
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprint(w, content)
	})
	i := serveClean(t, strings.Replace(cacheConfig(o, ""),
		"cache:", "compress: {adapt: false}, cache:", 1))
	c := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(c.CloseIdleConnections)
	for range 2 {
		_, body, h := request(t, c, "GET", i.url("/"), "Accept-Encoding", "gzip")
		if h.Get("Content-Encoding") != "gzip" || decoded(t, "gzip", body) != content {
			t.Errorf("%v", h)
		}
		_, body, h = request(t, c, "GET", i.url("/"), "Accept-Encoding", "gzip", "Cache-Control", "no-transform")
		if h.Get("Content-Encoding") != "" || body != content {
			t.Errorf("with no-transform: %v", h)
		}
	}
	o.expectAsked(t, 2)
}
