package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// fetched waits until no fetch is under way.
func (i *instance) fetched() {
	i.t.Helper()
	eventually(i.t, "the fetches to end", func() bool {
		return strings.Contains(i.metrics(), "plimsoll_cache_fetches_in_flight 0\n")
	})
}

// However many ask for what is stale and may be served so, one request at a time goes to the
// service, and nobody waits for it.
func TestWhatIsStaleIsServedWhileItIsFetchedAgain(t *testing.T) {
	t.Parallel()
	const clients = 20
	for name, test := range map[string]struct {
		second  string // how the service answers the second time: see below
		then    string // the body that clients get after that
		says    string
		fetches []string // metrics
	}{
		"something new": {"new", "new", "hit; ttl=", []string{
			`plimsoll_cache_fetches_total{result="answered",route="/"} 2`,
			`plimsoll_cache_fetches_total{result="revalidated",route="/"} 0`}},
		"the same": {"304", "old", "hit; ttl=", []string{
			`plimsoll_cache_fetches_total{result="answered",route="/"} 2`,
			`plimsoll_cache_fetches_total{result="revalidated",route="/"} 1`}},
		"a failure": {"503", "old", "detail=stale-while-revalidate", []string{
			`plimsoll_cache_fetches_total{result="answered",route="/"} 2`,
			`plimsoll_cache_fetches_total{result="failed",route="/"} 0`}},
		"nothing": {"cut", "old", "detail=stale-while-revalidate", []string{
			`plimsoll_cache_fetches_total{result="failed",route="/"} 1`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n atomic.Int64
			enter, leave := make(chan bool, 100), make(chan bool)
			o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Etag", `"1"`)
				w.Header().Set("Cache-Control", "max-age=50, stale-while-revalidate=3600")
				switch n.Add(1) {
				case 1:
					w.Header().Set("Age", "100")
					io.WriteString(w, "old")
					return
				case 2:
					enter <- true
					<-leave
				}
				switch {
				case r.Header.Get("If-None-Match") != `"1"`:
					t.Error("the service is asked without the stored tag")
				case test.second == "304":
					w.WriteHeader(304)
				case test.second == "503":
					w.Header().Del("Cache-Control")
					w.WriteHeader(503)
				case test.second == "cut":
					panic(http.ErrAbortHandler)
				default:
					w.Header().Set("Etag", `"2"`)
					io.WriteString(w, "new")
				}
			})
			i := serveClean(t, strings.Replace(cacheConfig(o, "early_refresh: false, jitter: 0%"), "]}}",
				"], retry: {attempts: 0}}}", 1))
			i.sendGET("/").read()
			for range clients {
				g := i.sendGET("/").read()
				if g.status != 200 || g.body != "old" {
					t.Fatalf("a client got %v", g)
				}
				cacheStatus(t, g.fields, "hit; ttl=-", "detail=stale-while-revalidate")
			}
			<-enter
			o.expectAsked(t, 2)
			i.expectMetrics(fmt.Sprintf("plimsoll_cache_requests_total{"+
				`reason="stale-while-revalidate",result="stale",route="/"} %d`, clients),
				fmt.Sprintf(`plimsoll_cache_saved_total{route="/"} %d`, clients))
			var calls []*call
			if test.says == "hit; ttl=" { // who wants something fresh waits for the fetch under way
				calls = append(calls, i.sendGETWith("/", "Cache-Control: no-cache"))
				i.joined(1)
			}
			close(leave)
			for _, g := range readAll(calls) {
				if g.status != 200 || g.body != test.then {
					t.Errorf("who waited got %v", g)
				}
			}
			i.fetched()
			i.expectMetrics(test.fetches...)
			g := i.sendGET("/").read()
			if g.status != 200 || g.body != test.then {
				t.Errorf("after it: %v", g)
			}
			cacheStatus(t, g.fields, test.says)
			i.fetched()
		})
	}
}

// sendGETWith is sendGET with a field.
func (i *instance) sendGETWith(path, field string) *call {
	i.t.Helper()
	c := &call{method: "GET", one: i.dial(), of: &talker{t: i.t, bed: &bed{instance: i}}}
	c.one.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n" + field + "\r\n\r\n")
	return c
}

// What is stale for longer than it may be is not served while it is fetched again, and a background
// fetch that failed is followed by another.
func TestStaleWhileRevalidateHasAnEnd(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=50, stale-while-revalidate=60")
		w.Header().Set("Age", "111")
		fmt.Fprint(w, n.Add(1))
	})
	i := serveClean(t, cacheConfig(o, "jitter: 0%"))
	c := i.client()
	for want := range 3 {
		_, body, h := request(t, c, "GET", i.url("/"))
		if body != fmt.Sprint(want+1) {
			t.Errorf("request %d got %q", want, body)
		}
		cacheStatus(t, h, "fwd=")
	}
}

// One of the clients that get a hot response has it fetched again before it is stale, so that
// nobody waits for that. Without early_refresh the first one waits who comes when it is.
func TestAHotResponseIsFetchedAgainBeforeItIsStale(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		<-time.After(300 * time.Millisecond) // it is slow: the slower, the earlier it is asked again
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("Age", "58")
		fmt.Fprint(w, r.URL.Path)
	})
	i := serveClean(t, `
listeners: [{address: 127.0.0.1:0}]
upstreams: {origin: {targets: ["`+o.address()+`"]}}
routes:
  - {name: early, match: "/early/", upstream: origin, cache: {jitter: 0%}}
  - {name: late, match: "/late/", upstream: origin, cache: {jitter: 0%, early_refresh: false}}
`)
	c := i.client()
	// again asks for a path until the service was asked once more, and says whether a client
	// waited.
	again := func(path string) (waited bool) {
		request(t, c, "GET", i.url(path))
		before := o.asked.Load()
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(patience); o.asked.Load() == before && !waited; <-tick.C {
			_, _, h := request(t, c, "GET", i.url(path))
			waited = !strings.Contains(h.Get("Cache-Status"), "hit; ttl=")
			if time.Now().After(deadline) {
				t.Fatal("it is never fetched again")
			}
		}
		i.fetched()
		return waited
	}
	early := `plimsoll_cache_fetches_total{result="early",route="%s"} %d`
	n := 0
	onceInFive(t, "it is fetched before it is stale", func() bool {
		n++
		return !again(fmt.Sprintf("/early/%d", n)) &&
			strings.Contains(i.metrics(), fmt.Sprintf(early, "early", 1)+"\n")
	})
	if !again("/late/1") {
		t.Error("without early_refresh it is fetched before it is stale")
	}
	i.expectMetrics(fmt.Sprintf(early, "late", 0))
}

// max_waiters bounds those who wait for one fetch. Further ones go to the service on their own, and
// what they get is not stored.
func TestThoseBeyondMaxWaitersGoOnTheirOwn(t *testing.T) {
	t.Parallel()
	const most, beyond = 5, 7
	enter, leave := make(chan bool, 100), make(chan bool)
	var n atomic.Int64
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		mine := n.Add(1)
		enter <- true
		<-leave
		w.Header().Set("Cache-Control", "max-age=100")
		fmt.Fprint(w, mine)
	})
	i := serveClean(t, cacheConfig(o, "")+fmt.Sprintf("cache: {max_waiters: %d}\n", most))
	calls := i.allAsk(1)
	<-enter
	calls = append(calls, i.allAsk(most-1)...)
	i.joined(most - 1)
	alone := i.allAsk(beyond)
	for range beyond {
		<-enter
	}
	close(leave)
	for _, g := range readAll(calls) {
		if g.status != 200 || g.body != "1" {
			t.Errorf("who waits for the first fetch gets %v", g)
		}
	}
	bodies := map[string]bool{}
	for _, g := range readAll(alone) {
		bodies[g.body] = true
		if g.status != 200 || g.body == "1" || strings.Contains(g.fields.Get("Cache-Status"), "stored") {
			t.Errorf("one beyond gets %v", g)
		}
	}
	if len(bodies) != beyond {
		t.Errorf("%d answers for %d clients beyond", len(bodies), beyond)
	}
	o.expectAsked(t, beyond+1)
	if g := i.sendGET("/").read(); g.body != "1" {
		t.Errorf("what is stored is %v", g)
	}
	i.expectMetrics(fmt.Sprintf(`plimsoll_cache_requests_total{reason="uri-miss",result="pass",route="/"} %d`,
		beyond), fmt.Sprintf(`plimsoll_cache_waits_total{result="joined",route="/"} %d`, most-1))
}

// How old what is served is, and how long fetches take, is counted in buckets.
func TestAgesAndTimesOfFetchesAreCounted(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=1000000")
		w.Header().Set("Age", r.URL.Path[1:])
		io.WriteString(w, "x")
	})
	i := serveClean(t, cacheConfig(o, "early_refresh: false, jitter: 0%"))
	c := i.client()
	for _, path := range []string{"/100", "/100", "/100", "/700000"} {
		request(t, c, "GET", i.url(path))
	}
	const age = `plimsoll_cache_served_age_seconds`
	i.expectMetrics(
		age+`_bucket{route="/",le="60"} 0`, age+`_bucket{route="/",le="300"} 3`,
		age+`_bucket{route="/",le="604800"} 3`, age+`_bucket{route="/",le="+Inf"} 4`,
		age+`_count{route="/"} 4`, `plimsoll_cache_fetch_seconds_count{route="/"} 2`)
}
