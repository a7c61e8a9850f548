package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"plimsoll/internal/redis/redistest"
)

// valve is a connection to a server that can be shut: then it passes nothing on, and nobody is
// told.
type valve struct {
	net.Listener
	to    string
	mu    sync.Mutex
	open  *sync.Cond
	shut  bool
	conns []net.Conn
}

func newValve(t *testing.T, to string) *valve {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v := &valve{Listener: l, to: to}
	v.open = sync.NewCond(&v.mu)
	go v.accept()
	t.Cleanup(func() {
		l.Close()
		v.set(false)
		v.cut()
	})
	return v
}

func (v *valve) address() string { return v.Addr().String() }

func (v *valve) accept() {
	for {
		from, err := v.Accept()
		if err != nil {
			return
		}
		to, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", v.to)
		if err != nil {
			from.Close()
			continue
		}
		v.mu.Lock()
		v.conns = append(v.conns, from, to)
		v.mu.Unlock()
		go v.pass(from, to)
		go v.pass(to, from)
	}
}

func (v *valve) pass(from, to net.Conn) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		v.mu.Lock()
		for v.shut {
			v.open.Wait()
		}
		v.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// set shuts the valve, or opens it.
func (v *valve) set(shut bool) {
	v.mu.Lock()
	v.shut = shut
	v.open.Broadcast()
	v.mu.Unlock()
}

// cut ends all connections.
func (v *valve) cut() {
	v.mu.Lock()
	conns := v.conns
	v.conns = nil
	v.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}

// A Redis that says nothing costs the first request its time limit, and those after it nothing: the
// breaker is open, and what tries Redis again is not a request that waits.
func TestASlowRedisCostsItsTimeLimitOnce(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, fresh)
	v := newValve(t, redistest.Start(t).Address())
	i := serveTiered(t, strings.Replace(tiered(o, v.address(), ""), "timeout: 10s", "timeout: 300ms", 1))
	v.set(true)
	for n := range 20 {
		i.expectFresh(fmt.Sprint("/", n))
	}
	o.expectAsked(t, 20)
	if late, alone := i.lookups("timeout"), i.lookups("open"); late != 1 || alone < 15 {
		t.Errorf("%d requests have waited, and %d have not; want 1, and all others", late, alone)
	}
	v.set(false)
	v.cut()
	n := 100
	eventually(t, "Redis to be asked again", func() bool {
		n++
		i.shop("GET", fmt.Sprint("/", n))
		return i.lookups("absent") > 0
	})
}

func TestARedisThatIsGoneIsDoneWithout(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, fresh)
	redis := redistest.Start(t)
	i := serveTiered(t, tiered(o, redis.Address(), ", lock: 5s"))
	redis.Kill()
	for n := range 10 {
		i.expectFresh(fmt.Sprint("/", n))
	}
	o.expectAsked(t, 10)
	redis.Run()
	n := 100
	eventually(t, "responses to be written again", func() bool {
		n++
		i.shop("GET", fmt.Sprint("/", n))
		return i.tier().Written > 0
	})
	other := serveTiered(t, tiered(o, redis.Address(), ""))
	eventually(t, "another instance to have one of them", func() bool {
		n++
		i.shop("GET", fmt.Sprint("/", n))
		_, _, h := other.shop("GET", fmt.Sprint("/", n))
		return strings.Contains(h.Get("Cache-Status"), "redis")
	})
}

func TestARedisThatWasNeverThereIsDoneWithout(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, fresh)
	i := serveClean(t, tiered(o, "127.0.0.1:1", ", lock: 5s"))
	for range 2 {
		for n := range 10 {
			i.expectFresh(fmt.Sprint("/", n))
		}
	}
	o.expectAsked(t, 10)
}

func TestAFullRedisIsDoneWithout(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, fresh)
	redis := redistest.Start(t)
	yaml := tiered(o, redis.Address(), "")
	i := serveTiered(t, yaml)
	i.shop("GET", "/before")
	i.wrote(1)
	for _, setting := range [][]string{{"maxmemory-policy", "noeviction"}, {"maxmemory", "1"}} {
		if answer, err := redis.Do("CONFIG", "SET", setting[0], setting[1]); answer != "OK" || err != nil {
			t.Fatal(answer, err)
		}
	}
	for n := range 10 {
		i.expectFresh(fmt.Sprint("/", n))
	}
	eventually(t, "Redis to have taken nothing", func() bool { return i.tier().Refused == 10 })
	other := serveTiered(t, yaml)
	if _, _, h := other.shop("GET", "/before"); !strings.Contains(h.Get("Cache-Status"), "detail=redis") {
		t.Errorf("what it has is not read: %s", h.Get("Cache-Status"))
	}
	done, err := i.PurgeCache(Purge{Tag: "tag-before"})
	if err != nil || done.Shared == nil || *done.Shared || done.Problem == "" {
		t.Errorf("a purge that a full Redis cannot take says %+v, %v", done, err)
	}
	if _, _, h := i.shop("GET", "/before"); strings.Contains(h.Get("Cache-Status"), "hit") {
		t.Errorf("what was purged here is served here: %s", h.Get("Cache-Status"))
	}
	redis.Do("CONFIG", "SET", "maxmemory", "0")
	eventually(t, "the purge to reach the other instance", func() bool {
		_, _, h := other.shop("GET", "/before")
		return !strings.Contains(h.Get("Cache-Status"), "hit")
	})
}

// entries are the names of the cached values in a Redis.
func entries(t *testing.T, redis *redistest.Server) []string {
	t.Helper()
	const all = "return table.concat(redis.call('KEYS', 'plimsoll:cache:*'), ' ')"
	text, err := redis.Do("EVAL", all, "0")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, name := range strings.Fields(text) {
		if !strings.Contains(name, "{") && !strings.Contains(name, "lock:") {
			list = append(list, name)
		}
	}
	return list
}

func TestWhatCannotBeReadIsAMiss(t *testing.T) {
	t.Parallel()
	for result, spoil := range map[string][]string{
		"garbage":       {"SET", "", "not what anybody has written, but long enough to be something"},
		"other_version": {"SETRANGE", "", "3", "\x7f"},
		"too_long":      {"SETRANGE", "", "3000000", "x"},
		"absent":        {"DEL", ""},
	} {
		o := newOrigin(t, fresh)
		redis := redistest.Start(t)
		yaml := tiered(o, redis.Address(), "")
		one, other := serveTiered(t, yaml), serveTiered(t, yaml)
		one.shop("GET", "/a")
		one.wrote(1)
		names := entries(t, redis)
		if len(names) != 1 {
			t.Fatalf("there are %q", names)
		}
		spoil[1] = names[0]
		if _, err := redis.Do(spoil...); err != nil {
			t.Fatal(err)
		}
		other.expectFresh("/a")
		o.expectAsked(t, 2)
		if n := other.lookups(result); n != 1 {
			t.Errorf("%s is counted %d times", result, n)
		}
		other.wrote(1)
		third := serveTiered(t, yaml)
		third.shop("GET", "/a")
		o.expectAsked(t, 2)
	}
}

func TestAValueOfAnotherTypeOrKeyIsAMiss(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, fresh)
	redis := redistest.Start(t)
	yaml := tiered(o, redis.Address(), "")
	one, other := serveTiered(t, yaml), serveTiered(t, yaml)
	one.shop("GET", "/a")
	one.wrote(1)
	first := entries(t, redis)[0]
	one.shop("GET", "/b")
	one.wrote(2)
	for _, name := range entries(t, redis) {
		if name != first {
			redis.Do("COPY", first, name, "REPLACE")
		}
	}
	redis.Do("DEL", first)
	redis.Do("LPUSH", first, "x")
	for path, result := range map[string]string{"/a": "garbage", "/b": "other_key"} {
		other.expectFresh(path)
		if n := other.lookups(result); n != 1 {
			t.Errorf("%s is counted %d times", result, n)
		}
	}
	o.expectAsked(t, 4)
}

func TestResponsesThatVaryAreFoundByOtherInstances(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=100")
		w.Header().Set("Vary", "Accept-Encoding")
		io.WriteString(w, "for "+r.Header.Get("Accept-Encoding"))
	})
	yaml := tiered(o, redistest.Start(t).Address(), "")
	one, other := serveTiered(t, yaml), serveTiered(t, yaml)
	for _, encoding := range []string{"gzip", "br"} {
		one.shop("GET", "/", "Accept-Encoding", encoding)
	}
	one.wrote(2)
	for range 2 {
		for _, encoding := range []string{"br", "gzip"} {
			if _, body, _ := other.shop("GET", "/", "Accept-Encoding", encoding); body != "for "+encoding {
				t.Errorf("for %s it is %q", encoding, body)
			}
		}
	}
	o.expectAsked(t, 2)
	_, body, _ := other.shop("GET", "/", "Accept-Encoding", "zstd")
	if body != "for zstd" || other.lookups("absent_variant") != 1 {
		t.Errorf("for zstd it is %q", body)
	}
	o.expectAsked(t, 3)
}

// What is stale in Redis serves where the rules let it, and only there.
func TestWhatIsStaleInRedisIsUsedAsTheRulesAllow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		said     string
		broken   bool
		status   int
		body     string
		statuses []string
	}{
		"revalidated":    {"max-age=1, stale-if-error=1000", false, 200, "old", []string{"fwd-status=304"}},
		"stale-if-error": {"max-age=1, stale-if-error=1000", true, 200, "old", []string{"stale-if-error"}},
		"while": {"max-age=1, stale-while-revalidate=1000", true, 200, "old",
			[]string{"detail=redis"}},
	} {
		var broken atomic.Bool
		o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
			if broken.Load() {
				w.WriteHeader(503)
				return
			}
			w.Header().Set("Age", "500")
			w.Header().Set("Cache-Control", c.said)
			w.Header().Set("Etag", `"1"`)
			if r.Header.Get("If-None-Match") == `"1"` {
				w.WriteHeader(304)
				return
			}
			io.WriteString(w, "old")
		})
		yaml := tiered(o, redistest.Start(t).Address(), "")
		one, other := serveTiered(t, yaml), serveTiered(t, yaml)
		one.shop("GET", "/")
		one.wrote(1)
		broken.Store(c.broken)
		status, body, h := other.shop("GET", "/")
		if status != c.status || body != c.body {
			t.Errorf("%s: %d %q", name, status, body)
		}
		cacheStatus(t, h, c.statuses...)
	}
}

// A class that may get nothing stale gets the service's failure, also where what is stale comes from
// Redis.
func TestWhatIsStaleInRedisIsNotForAClassThatMayNotGetIt(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			w.WriteHeader(503)
			io.WriteString(w, "broken")
			return
		}
		w.Header().Set("Age", "500")
		w.Header().Set("Cache-Control", "max-age=1, stale-if-error=1000")
		io.WriteString(w, "old")
	})
	yaml := tiered(o, redistest.Start(t).Address(), "") + "classes: {P1: {degrade: []}}\n"
	one, other := serveTiered(t, yaml), serveTiered(t, yaml)
	one.shop("GET", "/")
	one.wrote(1)
	broken.Store(true)
	if status, body, _ := other.shop("GET", "/"); status != 503 || body != "broken" {
		t.Errorf("a class that may get nothing stale gets %d %q, want what the service says", status, body)
	}
	o.expectAsked(t, 2) // once more, and not again for what nobody may get
}

func TestAClientThatReloadsIsNotServedFromRedis(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, fresh)
	yaml := tiered(o, redistest.Start(t).Address(), "")
	one, other := serveTiered(t, yaml), serveTiered(t, yaml)
	one.shop("GET", "/a")
	one.wrote(1)
	other.shop("GET", "/a", "Cache-Control", "min-fresh=5000")
	o.expectAsked(t, 2)
	other.shop("GET", "/a", "Cache-Control", "no-cache")
	o.expectAsked(t, 3)
}
