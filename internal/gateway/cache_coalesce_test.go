package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestARangeOfAResponseThatStillComesSaysItsWholeLength(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	leave := make(chan bool)
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=0")
		w.Header().Set("Etag", fmt.Sprintf(`"%d"`, n.Add(1)))
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "012345")
		if n.Load() > 1 {
			http.NewResponseController(w).Flush()
			<-leave
		}
		io.WriteString(w, "6789")
	})
	defer close(leave)
	i := serveClean(t, cacheConfig(o, ""))
	c := i.client()
	request(t, c, "GET", i.url("/"))
	status, body, h := request(t, c, "GET", i.url("/"), "Range", "bytes=2-4")
	if status != 206 || body != "234" || h.Get("Content-Range") != "bytes 2-4/10" {
		t.Errorf("%d %q %v", status, body, h)
	}
}

func TestWhatAPolicyBehindTheCacheRemovesStillTellsVariantsApart(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=100")
		w.Header().Set("Vary", "Accept-Encoding")
		io.WriteString(w, "plain"+r.Header.Get("Accept-Encoding"))
	})
	config := strings.Replace(cacheConfig(o, ""), "cache:",
		"request_headers: {remove: [Accept-Encoding]}, cache:", 1)
	i := serveClean(t, config)
	c := i.client()
	for range 3 {
		if status, body, _ := request(t, c, "GET", i.url("/"), "Accept-Encoding",
			"gzip"); status != 200 || body != "plain" {
			t.Errorf("%d %q", status, body)
		}
	}
	o.expectAsked(t, 1)
}

func TestAResponseThatVariesNoLongerAnswersItsOwnRequest(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) == 1 {
			w.Header().Set("Vary", "Accept-Encoding")
			w.Header().Set("Cache-Control", "max-age=0")
		} else {
			w.Header().Set("Cache-Control", "max-age=100")
		}
		w.Header().Set("Etag", fmt.Sprintf(`"%d"`, n.Load()))
		io.WriteString(w, strings.Repeat("x", 300_000))
	})
	i := serveClean(t, cacheConfig(o, ""))
	c := i.client()
	for range 3 {
		if status, body, _ := request(t, c, "GET", i.url("/"), "Accept-Encoding",
			"gzip"); status != 200 || len(body) != 300_000 {
			t.Errorf("%d, %d bytes", status, len(body))
		}
	}
	o.expectAsked(t, 2)
}

func TestWhoComesAfterAnUnsafeRequestGetsNothingFromBeforeIt(t *testing.T) {
	t.Parallel()
	enter, leave := make(chan bool, 1), make(chan bool)
	var posted atomic.Bool
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=100")
		switch {
		case r.Method == "POST":
			posted.Store(true)
		case posted.Load():
			io.WriteString(w, "new")
		default:
			enter <- true
			<-leave
			io.WriteString(w, "old")
		}
	})
	i := serveClean(t, cacheConfig(o, ""))
	var first sync.WaitGroup
	first.Go(func() {
		if status, body, _ := request(t, i.client(), "GET", i.url("/")); status != 200 || body != "old" {
			t.Errorf("who came before: %d %q", status, body)
		}
	})
	<-enter
	c := i.client()
	request(t, c, "POST", i.url("/"))
	if _, body, _ := request(t, c, "GET", i.url("/")); body != "new" {
		t.Errorf("who comes after it: %q", body)
	}
	close(leave)
	first.Wait()
	if _, body, h := request(t, c, "GET", i.url("/")); body != "new" || h.Get("Age") == "" {
		t.Errorf("what is stored then: %q %v", body, h)
	}
	o.expectAsked(t, 3)
}

// What is coming in for others, and is no longer fresh, or was there before a client that reloads,
// does not answer a request that comes later.
func TestAResponseThatStillComesAnswersOnlyWhomAStoredOneWould(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ said, wants string }{
		"it is never fresh":  {"no-cache", ""},
		"the client reloads": {"max-age=100", "no-cache"},
	} {
		enter, leave := make(chan bool, 1), make(chan bool)
		var n atomic.Int64
		o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", test.said)
			w.Header().Set("Etag", `"1"`)
			if fmt.Fprint(w, n.Add(1)); n.Load() == 1 {
				http.NewResponseController(w).Flush()
				enter <- true
				<-leave
			}
		})
		i := serveClean(t, cacheConfig(o, ""))
		first, err := i.client().Get(i.url("/"))
		if err != nil {
			t.Fatal(err)
		}
		<-enter
		fields := []string{}
		if test.wants != "" {
			fields = []string{"Cache-Control", test.wants}
		}
		if _, body, _ := request(t, i.client(), "GET", i.url("/"), fields...); body != "2" {
			t.Errorf("%s: who comes later gets %q", name, body)
		}
		close(leave)
		if body, err := io.ReadAll(first.Body); string(body) != "1" || err != nil {
			t.Errorf("%s: the first gets %q, %v", name, body, err)
		}
		first.Body.Close()
	}
}

func TestAQueryThatIsDroppedWholeIsNone(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=100")
		io.WriteString(w, r.RequestURI)
	})
	i := serveClean(t, cacheConfig(o, "key: {drop_query: [utm]}"))
	for _, path := range []string{"/a?utm=1", "/a", "/a?utm=2"} {
		if _, body, _ := request(t, i.client(), "GET", i.url(path)); body != "/a" {
			t.Errorf("%s: %s", path, body)
		}
	}
	o.expectAsked(t, 1)
	if _, err := i.PurgeCache(Purge{URL: i.url("/a")}); err != nil {
		t.Fatal(err)
	}
	request(t, i.client(), "GET", i.url("/a?utm=3"))
	o.expectAsked(t, 2)
}

func TestACrowdForOneColdKeyCausesOneFetch(t *testing.T) {
	t.Parallel()
	const clients = 2000
	leave := make(chan bool)
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=100")
		<-leave
		io.WriteString(w, "here it is")
	})
	i := serveClean(t, cacheConfig(o, "wait: 1h"))
	address := strings.TrimPrefix(i.url(""), "http://")
	conns := make([]net.Conn, clients)
	for n := range conns {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "GET /one HTTP/1.1\r\nHost: a\r\n\r\n")
		conns[n] = c
	}
	eventually(t, "all but one wait for the first", func() bool {
		return strings.Contains(i.metrics(),
			fmt.Sprintf(`plimsoll_cache_waits_total{result="joined",route="/"} %d`, clients-1))
	})
	close(leave)
	for n, c := range conns {
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("client %d: %v", n, err)
		}
		if body, err := io.ReadAll(res.Body); string(body) != "here it is" || err != nil {
			t.Fatalf("client %d: %q, %v", n, body, err)
		}
	}
	o.expectAsked(t, 1)
}
