package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// asked is a request of a test, and what is to come of it.
type asked struct {
	path, fields string // a field, "Name: value"
	says         string // in Cache-Status; "" for no such field
	sees         string // in the query and the fields that the service sees
}

// What each option of a route's cache does, as its clients see it. The digits of a ttl that are
// compared leave a slow machine a hundred seconds.
func TestTheOptionsOfARoutesCache(t *testing.T) {
	t.Parallel()
	const old = "Last-Modified: 10000 s ago"
	const miss, hit = "fwd=uri-miss", "hit; ttl="
	for keys, test := range map[string]struct {
		says   string // the service, a field
		status int    // 200
		asks   []asked
	}{
		"ttl: 100s": {asks: []asked{{says: miss}, {says: hit}}},
		"ttl: 0s":   {asks: []asked{{says: miss}, {says: miss}}},
		"ttl: 100s, statuses: {404: 2000s}": {status: 404,
			asks: []asked{{says: miss}, {says: "hit; ttl=19"}}},
		"statuses: {503: 200s}": {status: 503, asks: []asked{{says: "stored"}, {says: hit}}},
		"max_ttl: 1000s": {says: "Cache-Control: max-age=20000",
			asks: []asked{{says: miss}, {says: "hit; ttl=9"}}},
		"heuristic: 10%":                       {says: old, asks: []asked{{says: miss}, {says: "hit; ttl=9"}}},
		"heuristic: 100%, heuristic_max: 500s": {says: old, asks: []asked{{says: miss}, {says: "hit; ttl=4"}}},
		"ttl: 99s": {asks: []asked{{says: miss},
			{fields: "Cache-Control: no-cache", says: "detail=request-no-cache"}}},
		"ttl: 99s, ignore_client_directives: true": {asks: []asked{{says: miss},
			{fields: "Cache-Control: no-cache", says: hit}, {fields: "Pragma: no-cache", says: hit}}},
		"ttl: 98s":                    {says: "Set-Cookie: a=b", asks: []asked{{says: "set-cookie"}, {says: miss}}},
		"ttl: 98s, set_cookie: strip": {says: "Set-Cookie: a=b", asks: []asked{{says: miss}, {says: hit}}},
		"ttl: 98s, set_cookie: keep":  {says: "Set-Cookie: a=b", asks: []asked{{says: miss}, {says: hit}}},
		"ttl: 97s": {says: "CDN-Cache-Control: max-age=500",
			asks: []asked{{says: miss}, {says: "hit; ttl=4"}}},
		"ttl: 97s, targeted: [My-Control]": {says: "My-Control: max-age=600",
			asks: []asked{{says: miss}, {says: "hit; ttl=5"}}},
		"ttl: 9700s, targeted: []": {says: "CDN-Cache-Control: max-age=500",
			asks: []asked{{says: miss}, {says: "hit; ttl=96"}}},
		"ttl: 96s, key: {headers: [X-Kind]}": {asks: []asked{
			{fields: "X-Kind: a", says: miss, sees: "X-Kind: a"}, {fields: "X-Kind: b", says: miss},
			{fields: "X-Kind: a", says: hit}, {says: miss}}},
		"ttl: 96s, key: {forward: [X-Kind]}": {asks: []asked{
			{fields: "X-Kind: a", says: miss, sees: "X-Kind: a"}, {fields: "X-Kind: b", says: hit}}},
		"ttl: 96s, key: {drop: [Accept]}": {asks: []asked{
			{fields: "Accept: a/b", says: miss}, {fields: "Accept: c/d", says: hit}}},
		"ttl: 96s": {asks: []asked{{fields: "Accept: a/b", says: miss, sees: "Accept: a/b"},
			{fields: "Accept: c/d", says: miss}}},
		"ttl: 95s, key: {sort_query: true}": {asks: []asked{
			{path: "?b=1&a=2", says: miss, sees: "a=2&b=1"}, {path: "?a=2&b=1", says: hit}}},
		"ttl: 95s": {asks: []asked{{path: "?b=1&a=2", says: miss}, {path: "?a=2&b=1", says: miss}}},
		"ttl: 95s, key: {drop_query: ['utm_*']}": {asks: []asked{
			{path: "?a=2&utm_x=1", says: miss, sees: "a=2"}, {path: "?a=2&utm_y=3", says: hit}}},
		"ttl: 94s, status_name: mine": {asks: []asked{{says: "mine; fwd=uri-miss"}, {says: "mine; hit"}}},
		"ttl: 94s, status_name: ''":   {asks: []asked{{}, {}}},
	} {
		t.Run(keys, func(t *testing.T) {
			t.Parallel()
			saw := make(chan string, 10)
			o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
				all := r.URL.RawQuery + "\n"
				for name, values := range r.Header {
					all += name + ": " + strings.Join(values, ",") + "\n"
				}
				saw <- all
				name, value, ok := strings.Cut(test.says, ": ")
				if test.says == old { // when it is asked: the test may wait before it begins
					value = time.Now().Add(-10000 * time.Second).UTC().Format(http.TimeFormat)
				}
				if ok {
					w.Header().Set(name, value)
				}
				w.WriteHeader(max(test.status, 200))
				fmt.Fprint(w, "body")
			})
			i := serveClean(t, cacheConfig(o, "jitter: 0%, early_refresh: false, "+keys))
			for n, a := range test.asks {
				var fields []string
				if name, value, ok := strings.Cut(a.fields, ": "); ok {
					fields = []string{name, value}
				}
				_, body, h := request(t, i.client(), "GET", i.url("/"+a.path), fields...)
				if body != "body" {
					t.Errorf("request %d: %q", n, body)
				}
				if cacheStatus(t, h, a.says); a.says == "" && h.Get("Cache-Status") != "" {
					t.Errorf("request %d: Cache-Status: %s", n, h.Get("Cache-Status"))
				}
				if a.sees != "" {
					if all := <-saw; !strings.Contains(all, a.sees) || strings.Contains(all, "utm_") {
						t.Errorf("request %d: the service sees %s", n, all)
					}
				}
				hits := strings.Contains(h.Get("Cache-Status"), "hit")
				if got := h.Get("Set-Cookie") != ""; got && strings.Contains(keys, "strip") && hits {
					t.Errorf("request %d: the cookie of another client", n)
				} else if !got && strings.Contains(keys, "keep") {
					t.Errorf("request %d: no cookie", n)
				}
			}
		})
	}
}

// What a service answers to a revalidation: what was stored is right, or stored no longer.
func TestWhatServicesSayToARevalidation(t *testing.T) {
	t.Parallel()
	const (
		fresh = "Cache-Control: max-age=60\r\n"
		wrong = "Content-Length: 5\r\n" + fresh + "\r\nwrong"
	)
	for _, test := range []struct {
		name, says string
		ends       bool
		status     int    // of the answer to who asked
		body       string // likewise
		then       string // of the next; "new": it is fetched
		field      string // that the next has
	}{
		{name: "304", says: "HTTP/1.1 304 No\r\nETag: \"1\"\r\nX-New: 1\r\n" + fresh + "\r\n",
			status: 200, body: "old", then: "old", field: "X-New"},
		{name: "304 of another tag", says: "HTTP/1.1 304 No\r\nETag: \"2\"\r\n" + fresh + "\r\n",
			status: 200, body: "new", then: "new"},
		{name: "304 with no-store", says: "HTTP/1.1 304 No\r\nETag: \"1\"\r\nCache-Control: no-store\r\n\r\n",
			status: 200, body: "new", then: "new"},
		{name: "304 with a cookie", says: "HTTP/1.1 304 No\r\nETag: \"1\"\r\nSet-Cookie: a=b\r\n" + fresh + "\r\n",
			status: 200, body: "new", then: "new"},
		{name: "304 that varies by everything", says: "HTTP/1.1 304 No\r\nETag: \"1\"\r\nVary: *\r\n" + fresh + "\r\n",
			status: 200, body: "new", then: "new"},
		{name: "a length that is too long", ends: true, then: "new",
			says: "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n" + fresh + "\r\nwrong"},
		{name: "chunks that break off", ends: true, then: "new",
			says: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + fresh + "\r\n5\r\nwrong\r\n"},
		{name: "nonsense", ends: true, says: "nonsense\r\n\r\n", status: 502, then: "new"},
		{name: "206", says: "HTTP/1.1 206 Part\r\nContent-Range: bytes 0-4/9\r\n" + wrong, status: 206,
			body: "wrong", then: "new"},
		{name: "Vary of no name", says: "HTTP/1.1 200 OK\r\nVary: a b\r\n" + wrong, status: 200,
			body: "wrong", then: "new"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan int, 1)
			asked <- 0
			s := newService(t, func(sc *serviceConn, _ int) {
				for {
					if _, _, ok := sc.request(); !ok {
						return
					}
					n := <-asked
					asked <- n + 1
					switch n {
					case 0:
						sc.write("HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 3\r\nCache-Control: max-age=0\r\n\r\nold")
					case 1:
						if sc.write(test.says); test.ends {
							return
						}
					default:
						sc.write("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nCache-Control: no-store\r\n\r\nnew")
					}
				}
			})
			b := serveCache(t, s.address(), "[{match: /, upstream: origin, cache: {}}]", "")
			c := b.talk(allSpoken[3])
			c.expect(200, "old", "GET", "/")
			g := c.begin("GET", "/").read()
			if test.status != 0 && (g.cut || g.status != test.status || test.body != "" && g.body != test.body) ||
				test.status == 0 && !g.cut && g.status < 500 {
				t.Errorf("who revalidates gets %v", g)
			}
			g = c.expect(200, test.then, "GET", "/")
			if test.field != "" && g.fields.Get(test.field) == "" {
				t.Errorf("%v, want %s", g, test.field)
			}
		})
	}
}
