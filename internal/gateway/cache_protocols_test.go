package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// The cache over every protocol: clients of all of them are served alike, from one memory.

const cached = "[{match: /, upstream: origin, cache: {stale_if_error: 100s}}]"

// ways runs a test for each protocol, with a path that is that test's alone.
func (b *bed) ways(t *testing.T, test func(t *testing.T, b *bed, p spoken, path string)) {
	for n, p := range allSpoken {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			own := *b.instance
			own.t = t
			test(t, &bed{&own, b.ca}, p, fmt.Sprintf("/%d", n))
		})
	}
}

func TestStoredResponsesAnswerAlikeOverEveryProtocol(t *testing.T) {
	t.Parallel()
	body := letters(100_000)
	s := newService(t, replying(func(r *http.Request, _ string) string {
		fields := "Cache-Control: max-age=1000\r\nETag: \"1\"\r\n" +
			"Last-Modified: Mon, 02 Mar 2026 10:00:00 GMT\r\n"
		if strings.HasSuffix(r.URL.Path, "/none") {
			return "HTTP/1.1 404 No\r\n" + fields + "Content-Length: 4\r\n\r\nnone"
		}
		return fmt.Sprintf("HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s", fields, len(body), body)
	}))
	g := serveCache(t, s.address(), cached, "")
	g.ways(t, func(t *testing.T, b *bed, p spoken, path string) {
		c := b.talk(p)
		g := c.expect(200, body, "GET", path)
		cacheStatus(t, g.fields, "fwd=uri-miss", "stored")
		for _, test := range []struct {
			method string
			fields []string
			status int
			body   string
			says   string // a field and its value
		}{
			{method: "GET", status: 200, body: body, says: "Content-Length: 100000"},
			{method: "HEAD", status: 200, says: "Content-Length: 100000"},
			{method: "GET", fields: []string{"Range", "bytes=10-70000"}, status: 206, body: body[10:70001],
				says: "Content-Range: bytes 10-70000/100000"},
			{method: "GET", fields: []string{"Range", "bytes=-5"}, status: 206, body: body[99995:],
				says: "Content-Length: 5"},
			{method: "GET", fields: []string{"Range", "bytes=1-2", "If-Range", `"2"`}, status: 200,
				body: body, says: `Etag: "1"`},
			{method: "GET", fields: []string{"Range", "bytes=100000-"}, status: 416,
				says: "Content-Range: bytes */100000"},
			{method: "GET", fields: []string{"If-None-Match", `W/"1"`}, status: 304, says: `Etag: "1"`},
			{method: "GET", fields: []string{"If-Modified-Since", "Mon, 02 Mar 2026 10:00:00 GMT"},
				status: 304, says: `Etag: "1"`},
			{method: "GET", fields: []string{"If-Match", `"1"`}, status: 200, body: body,
				says: "Content-Length: 100000"},
			{method: "HEAD", fields: []string{"If-None-Match", `"1"`}, status: 304, says: `Etag: "1"`},
			{method: "GET", fields: []string{"Cache-Control", "only-if-cached"}, status: 200,
				body: body, says: `Etag: "1"`},
		} {
			g := c.expect(test.status, test.body, test.method, path, test.fields...)
			cacheStatus(t, g.fields, "hit; ttl=")
			name, value, _ := strings.Cut(test.says, ": ")
			if got := g.fields.Get(name); got != value {
				t.Errorf("%s %v: %s is %q, want %q", test.method, test.fields, name, got, value)
			}
			if g.fields.Get("Age") == "" {
				t.Errorf("%s %v: no Age", test.method, test.fields)
			}
		}
		c.expect(404, "none", "GET", path+"/none")
		g = c.expect(404, "none", "GET", path+"/none")
		cacheStatus(t, g.fields, "hit")
		if g = c.ask("GET", path+"/other", "Cache-Control", "only-if-cached"); g.status != 504 {
			t.Errorf("only-if-cached of what is not stored: %v", g)
		}
		if n := strings.Count(s.saw(), "GET "+path+" "); n != 1 {
			t.Errorf("the service was asked %d times", n)
		}
	})
}

// What one protocol's client caused to be stored answers those of the others, and one fetch is for
// all.
func TestOneFetchIsForTheClientsOfAllProtocols(t *testing.T) {
	t.Parallel()
	body := letters(200_000)
	enter, leave := make(chan bool, 10), make(chan bool)
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=1000")
		fmt.Fprint(w, body[:70_000])
		http.NewResponseController(w).Flush()
		enter <- true
		<-leave
		fmt.Fprint(w, body[70_000:])
	})
	b := serveCache(t, o.address(), cached, "")
	var calls []*call
	for n, p := range allSpoken {
		calls = append(calls, b.talk(p).begin("GET", "/"), b.talk(p).begin("GET", "/"))
		if n < 2 {
			<-enter // the first of each scheme
		}
	}
	eventually(t, "all but two wait for these", func() bool {
		return strings.Contains(b.metrics(),
			fmt.Sprintf(`plimsoll_cache_waits_total{result="joined",route="/"} %d`, len(calls)-2))
	})
	close(leave)
	for _, g := range readAll(calls) {
		if g.status != 200 || g.body != body || g.cut {
			t.Errorf("one gets %v", g)
		}
	}
	for _, p := range allSpoken {
		cacheStatus(t, b.talk(p).expect(200, body, "GET", "/").fields, "hit")
	}
	o.expectAsked(t, 2)
}

func TestStaleResponsesOverEveryProtocol(t *testing.T) {
	t.Parallel()
	var failing sync.Map
	s := newService(t, replying(func(r *http.Request, _ string) string {
		if _, fails := failing.Load(r.URL.Path); fails {
			return "HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nnone"
		}
		if r.Header.Get("If-None-Match") != "" {
			return "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nCache-Control: max-age=0\r\n" +
				"X-New: yes\r\n\r\n"
		}
		return "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nCache-Control: max-age=0\r\nContent-Length: 5\r\n\r\nstale"
	}))
	g := serveCache(t, s.address(), cached, "")
	g.ways(t, func(t *testing.T, b *bed, p spoken, path string) {
		c := b.talk(p)
		c.expect(200, "stale", "GET", path)
		g := c.expect(200, "stale", "GET", path)
		cacheStatus(t, g.fields, "fwd=stale", "fwd-status=304")
		if g.fields.Get("X-New") != "yes" {
			t.Errorf("the 304 is not merged: %v", g)
		}
		failing.Store(path, true)
		g = c.expect(200, "stale", "GET", path)
		cacheStatus(t, g.fields, "hit", "stale-if-error")
		g = c.expect(206, "al", "GET", path, "Range", "bytes=2-3")
		cacheStatus(t, g.fields, "hit", "stale-if-error")
		cacheStatus(t, c.expect(304, "", "GET", path, "If-None-Match", `"1"`).fields, "hit", "stale-if-error")
	})
}

// Interim responses and trailers of a fetch that is stored are not passed on, to those who wait for it and
// to those who come later alike, and do no harm. One that is for its client alone has its trailers.
func TestInterimResponsesAndTrailersOfAFetch(t *testing.T) {
	t.Parallel()
	s := newService(t, replying(func(r *http.Request, _ string) string {
		control := "max-age=100"
		if strings.HasSuffix(r.URL.Path, "/private") {
			control = "private"
		}
		return "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" +
			"HTTP/1.1 200 OK\r\nCache-Control: " + control +
			"\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 1\r\n" +
			"Content-Length: 9\r\n\r\n"
	}))
	g := serveCache(t, s.address(), cached, "")
	g.ways(t, func(t *testing.T, b *bed, p spoken, path string) {
		c := b.talk(p)
		for _, path := range []string{path, path} {
			g := c.expect(200, "body", "GET", path)
			if len(g.trailers) > 0 || g.interims > 0 {
				t.Errorf("%s: %v", path, g)
			}
		}
		g := c.expect(200, "body", "GET", path+"/private")
		if len(g.trailers) != 1 || g.trailers.Get("X-Sum") != "1" || g.interims > 0 {
			t.Errorf("what is private: %v", g)
		}
	})
}

// A long body that may not be stored goes to its own client, whole; and what breaks off is not
// passed off as whole.
func TestPrivateBodiesOverEveryProtocol(t *testing.T) {
	t.Parallel()
	body := letters(700_000)
	s := newService(t, func(sc *serviceConn, _ int) {
		for {
			r, _, ok := sc.request()
			if !ok {
				return
			}
			head := "HTTP/1.1 200 OK\r\nCache-Control: private\r\nSet-Cookie: a=" +
				r.Header.Get("Cookie") + "\r\n"
			if sc.write(head + "Content-Length: 700000\r\n\r\n" +
				body[:600_000]); strings.HasSuffix(r.URL.Path, "/short") {
				return
			}
			sc.write(body[600_000:])
		}
	})
	g := serveCache(t, s.address(), cached, "")
	g.ways(t, func(t *testing.T, b *bed, p spoken, path string) {
		c := b.talk(p)
		for _, me := range []string{"me", "you"} {
			g := c.expect(200, body, "GET", path, "Cookie", me)
			if got := g.fields.Get("Set-Cookie"); got != "a="+me {
				t.Errorf("%s gets %q", me, got)
			}
		}
		for range 2 {
			if g := b.talk(p).begin("GET", path+"/short").read(); !g.cut || !strings.HasPrefix(body, g.body) {
				t.Errorf("what broke off is %v", g)
			}
		}
	})
}

// A body that is too long to be stored passes through, for all who asked in time.
func TestBodiesThatAreTooLongToBeStored(t *testing.T) {
	t.Parallel()
	body := letters(3 << 20)
	var asked atomic.Int64
	answer, leave := make(chan bool), make(chan bool)
	s := newService(t, func(sc *serviceConn, _ int) {
		for {
			r, _, ok := sc.request()
			if !ok {
				return
			}
			asked.Add(1)
			framed := fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body))
			end := ""
			if strings.HasSuffix(r.URL.Path, "/length") {
				<-answer // nobody joins behind such a head
			}
			if strings.HasSuffix(r.URL.Path, "/chunked") {
				framed, end = fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", len(body)),
					"\r\n0\r\n\r\n"
			}
			sc.write("HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\n" + framed + body[:1000])
			<-leave
			if !sc.write(body[1000:] + end) {
				return
			}
		}
	})
	b := serveCache(t, s.address(), "[{match: /, upstream: origin, cache: {}}]", "cache: {memory: 8MB}")
	var calls []*call
	for _, path := range []string{"/chunked", "/length"} {
		for _, p := range allSpoken {
			calls = append(calls, b.talk(p).begin("GET", path))
		}
	}
	// Whether the length is announced or not, there is one fetch for each path and scheme.
	eventually(t, "all wait or are served", func() bool { return asked.Load() == 4 })
	b.joined(len(calls) - 4)
	close(answer)
	close(leave)
	for n, g := range readAll(calls) {
		if g.status != 200 || g.body != body || g.cut {
			t.Errorf("client %d gets %v", n, g)
		}
	}
	before := asked.Load()
	cacheStatus(t, b.talk(allSpoken[0]).expect(200, body, "GET", "/length").fields, "detail=no-room")
	b.talk(allSpoken[0]).expect(200, body, "GET", "/chunked")
	if asked.Load() != before+2 {
		t.Error("it was stored")
	}
}
