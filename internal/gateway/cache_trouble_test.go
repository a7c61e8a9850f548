package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// joined waits until so many requests have joined the fetch of another one.
func (i *instance) joined(n int) {
	i.t.Helper()
	eventually(i.t, fmt.Sprintf("%d requests to wait", n), func() bool {
		return strings.Contains(i.metrics(),
			fmt.Sprintf("plimsoll_cache_waits_total{result=\"joined\",route=\"/\"} %d\n", n))
	})
}

// A service that fails gets one request for a key, however many ask. The first client gets what it
// said, the others that it failed, and nobody after them has to go without a fetch that is shared.
func TestAFailingServiceGetsOneRequestAtATimeForAKey(t *testing.T) {
	t.Parallel()
	const clients = 40
	enter, leave := make(chan bool, clients), make(chan bool, clients)
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		enter <- true
		<-leave
		w.WriteHeader(503)
		io.WriteString(w, "in trouble")
	})
	i := serveClean(t, cacheConfig(o, ""))
	for round := range 3 {
		calls := i.allAsk(clients)
		<-enter
		i.joined((round + 1) * (clients - 1))
		leave <- true
		var own, told int
		for _, g := range readAll(calls) {
			switch {
			case g.status != 503 || g.cut:
				t.Errorf("one gets %v", g)
			case g.body == "in trouble":
				own++
			case strings.Contains(g.body, "fetch_failed"):
				told++
			}
		}
		if own != 1 || told != clients-1 {
			t.Errorf("%d clients get the service's own words, and %d are told that it failed", own, told)
		}
		o.expectAsked(t, int64(round+1))
	}
}

// However a fetch fails, those who wait for it are answered alike, once, and nothing is stored.
func TestWhoWaitsForAFetchThatFails(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, says string // before the service ends the connection
		status     int    // 0: it is cut off, or an error where its head had not gone out yet
		keys       string // of the route
		hangs      bool   // it does not end the connection
	}{
		{name: "before the head", status: 502},
		{name: "in the head", says: "HTTP/1.1 200 OK\r\nCache-", status: 502},
		{name: "with nonsense", says: "nonsense\r\n\r\n", status: 502},
		{name: "in a body of known length",
			says: "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 9\r\n\r\nabc"},
		{name: "in chunks",
			says: "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n" +
				"\r\n3\r\nabc\r\n"},
		{name: "by a timeout", keys: ", timeout: 500ms", hangs: true, status: 504},
		{name: "by silence in its body",
			says: "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 9\r\n\r\nabc",
			keys: ", stream_timeout: 500ms", hangs: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			enter, leave := make(chan bool, 100), make(chan bool)
			var asked atomic.Int64
			s := newService(t, func(sc *serviceConn, _ int) {
				for {
					_, _, ok := sc.request()
					switch {
					case !ok:
						return
					case asked.Add(1) > 1:
						sc.write("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n" +
							"Content-Length: 4\r\n\r\ngood")
						continue
					}
					enter <- true
					<-leave
					sc.write(test.says)
					if test.hangs {
						sc.s.block(sc)
					}
					return
				}
			})
			release := sync.OnceFunc(func() { close(leave) })
			t.Cleanup(release) // however the test ends, so that the service does
			b := serveCache(t, s.address(), "[{match: /, upstream: origin, cache: {}"+test.keys+"}]", "")
			var calls []*call
			for range 3 {
				for _, p := range allSpoken[3:] { // of one scheme
					calls = append(calls, b.talk(p).begin("GET", "/"))
				}
			}
			<-enter
			if test.keys == "" {
				b.joined(len(calls) - 1)
			}
			release()
			for n, g := range readAll(calls) {
				switch {
				case g.status == 200 && g.body == "good" && test.keys != "": // it came after the failure
				case test.status == 0 && (g.cut || g.status >= 500), test.status != 0 &&
					g.status == test.status:
				default:
					t.Errorf("client %d gets %v", n, g)
				}
			}
			b.talk(allSpoken[3]).expect(200, "good", "GET", "/")
			if test.keys == "" && asked.Load() != 2 {
				t.Errorf("the service was asked %d times", asked.Load())
			}
		})
	}
}

// A fetch is nobody's: it goes on when the client leaves for which it was begun, whether that one
// waits or reads, and whatever it speaks.
func TestAFetchGoesOnWhenItsClientLeaves(t *testing.T) {
	t.Parallel()
	body := letters(200_000)
	enter, leave := make(chan bool, 100), make(chan bool)
	s := newService(t, func(sc *serviceConn, _ int) {
		for {
			r, _, ok := sc.request()
			if !ok {
				return
			}
			head := fmt.Sprintf("HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\n"+
				"Content-Length: %d\r\n\r\n", len(body))
			if strings.HasSuffix(r.URL.Path, "/reads") {
				sc.write(head + body[:1000])
				head = ""
			}
			enter <- true
			<-leave
			if head == "" {
				sc.write(body[1000:])
			} else {
				sc.write(head + body)
			}
		}
	})
	b := serveCache(t, s.address(), cached, "")
	var others []*call
	for n, p := range allSpoken {
		for _, path := range []string{fmt.Sprintf("/%d/waits", n), fmt.Sprintf("/%d/reads", n)} {
			owner := b.talk(p).begin("GET", path)
			<-enter
			others = append(others, b.talk(p).begin("GET", path))
			b.joined(len(others))
			owner.leave()
		}
	}
	close(leave)
	for n, g := range readAll(others) {
		if g.status != 200 || g.body != body || g.cut {
			t.Errorf("client %d gets %v", n, g)
		}
	}
	for n, p := range allSpoken {
		g := b.talk(p).expect(200, body, "GET", fmt.Sprintf("/%d/waits", n))
		cacheStatus(t, g.fields, "hit")
	}
}

// A body without an end is given up when its last client has gone, and is not stored.
func TestABodyWithoutAnEndIsGivenUpWithItsLastClient(t *testing.T) {
	t.Parallel()
	ended := make(chan bool, 10)
	s := newService(t, func(sc *serviceConn, _ int) {
		sc.request()
		piece := fmt.Sprintf("%x\r\n%s\r\n", 50_000, letters(50_000))
		sc.write("HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nTransfer-Encoding: chunked\r\n\r\n")
		for sc.write(piece) {
		}
		ended <- true
	})
	b := serveCache(t, s.address(), cached, "cache: {memory: 4MB}")
	for _, p := range allSpoken {
		c := b.talk(p).begin("GET", "/")
		if c.two != nil {
			c.two.c.wait("some of the body", func() bool { return len(c.two.body) > 1<<20 })
		} else if c.thr != nil {
			for len(c.thr.body) < 1<<20 {
				if err := c.thr.frame(); err != nil {
					t.Fatal(err)
				}
			}
		} else if _, err := io.CopyN(io.Discard, c.one.r, 1<<20); err != nil {
			t.Fatal(err)
		}
		c.leave()
		<-ended
	}
	b.expectMetrics("plimsoll_cache_entries 0")
}

// A slow client holds up others that read the same body, which is too long to be stored, for some
// time and no longer.
func TestASlowReaderOfASharedBodyIsGivenUp(t *testing.T) {
	t.Parallel()
	body := letters(20 << 20)
	enter, leave := make(chan bool, 10), make(chan bool)
	s := newService(t, func(sc *serviceConn, _ int) {
		for {
			if _, _, ok := sc.request(); !ok {
				return
			}
			sc.write("HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\n" +
				"Transfer-Encoding: chunked\r\n\r\n1\r\n" + body[:1] + "\r\n")
			enter <- true
			<-leave
			if !sc.write(fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body)-1, body[1:])) {
				return
			}
		}
	})
	// An eighth of the time is what a slow one may take.
	b := serveCache(t, s.address(), "[{match: /, upstream: origin, stream_timeout: 16s, cache: {}}]",
		"cache: {memory: 4MB}")
	slow := b.talkSlowly(allSpoken[3]).begin("GET", "/")
	<-enter
	fast := b.talk(allSpoken[3]).begin("GET", "/")
	b.joined(1)
	close(leave)
	if g := fast.read(); g.body != body || g.cut {
		t.Errorf("the fast one gets %v", g)
	}
	if g := slow.read(); !g.cut || len(g.body) > 4096 || !strings.HasPrefix(body, g.body) {
		t.Errorf("the slow one gets %v", g)
	}
}
