package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"plimsoll/internal/policy/cache/tier"
	"plimsoll/internal/redis/redistest"
)

// tiered is cacheConfig with a second tier in a Redis; more are keys of cache.redis.
func tiered(o *origin, redis, more string) string {
	const two = "redis: {main: {addresses: [%q]}}\ncache: {redis: {name: main, timeout: 10s%s}}\n"
	return fmt.Sprintf(two, redis, more) + cacheConfig(o, "jitter: 0%, early_refresh: false")
}

// serveTiered runs a gateway and waits until it knows what was purged.
func serveTiered(t *testing.T, yaml string) *instance {
	t.Helper()
	i := serveClean(t, yaml)
	i.connected()
	return i
}

// connected waits until the gateway hears of purges, and has met all there were.
func (i *instance) connected() {
	i.t.Helper()
	eventually(i.t, "the tier to be connected", func() bool {
		s := i.tier()
		return s.Known && s.Subscribed
	})
}

// tier is what the gateway's second tier says of itself.
func (i *instance) tier() tier.Stats { return i.view().memory.Tier().Stats() }

// expectFresh asks for a path, and checks that the answer is that of fresh.
func (i *instance) expectFresh(path string) {
	i.t.Helper()
	if status, body, _ := i.shop("GET", path); status != 200 || body != "what there is at "+path {
		i.t.Errorf("%s: %d %q", path, status, body)
	}
}

// wrote waits until the gateway has written so many responses to Redis.
func (i *instance) wrote(n int64) {
	i.t.Helper()
	eventually(i.t, "responses to be written", func() bool { return i.tier().Written >= n })
}

// lookups is how many look-ups had an outcome.
func (i *instance) lookups(outcome string) int {
	i.t.Helper()
	series := `plimsoll_cache_redis_lookups_total{result="` + outcome + `"} `
	for _, line := range strings.Split(i.metrics(), "\n") {
		if rest, ok := strings.CutPrefix(line, series); ok {
			n, err := strconv.Atoi(rest)
			if err != nil {
				i.t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

// shop asks for a path of http://shop.test, which is the same at all instances.
func (i *instance) shop(method, path string, fields ...string) (int, string, http.Header) {
	i.t.Helper()
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, i.address(0))
		},
	}
	return request(i.t, &http.Client{Transport: transport}, method, "http://shop.test"+path, fields...)
}

// fresh answers with its path, and is fresh for long.
func fresh(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=1000")
	w.Header().Set("Surrogate-Key", "tag-"+strings.Trim(r.URL.Path, "/"))
	io.WriteString(w, "what there is at "+r.URL.Path)
}

func TestAnotherInstanceServesWhatOneHasStored(t *testing.T) {
	t.Parallel()
	for name, servers := range map[string]func() []*redistest.Server{
		"server":  func() []*redistest.Server { return []*redistest.Server{redistest.Start(t)} },
		"cluster": func() []*redistest.Server { return redistest.Cluster(t) },
	} {
		large := strings.Repeat("large ", 50_000)
		o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Age", "40")
			w.Header().Set("Etag", `"1"`)
			if r.URL.Path == "/large" {
				w.Header().Set("Cache-Control", "max-age=1000")
				io.WriteString(w, large)
				return
			}
			fresh(w, r)
		})
		yaml := tiered(o, servers()[0].Address(), "")
		one, other := serveTiered(t, yaml), serveTiered(t, yaml)
		for _, path := range []string{"/a", "/b", "/large"} {
			one.shop("GET", path)
		}
		one.wrote(3)
		for _, path := range []string{"/a", "/b", "/large"} {
			want := "what there is at " + path
			if path == "/large" {
				want = large
			}
			status, body, h := other.shop("GET", path)
			age, _ := strconv.Atoi(h.Get("Age"))
			if status != 200 || body != want || age < 40 || age > 400 || h.Get("Etag") != `"1"` {
				t.Errorf("%s: %s: %d %.50q %v", name, path, status, body, h)
			}
			cacheStatus(t, h, "hit", "ttl=", "detail=redis")
			if _, _, h = other.shop("GET", path); strings.Contains(h.Get("Cache-Status"), "redis") {
				t.Errorf("%s: the next one is %s", name, h.Get("Cache-Status"))
			}
		}
		o.expectAsked(t, 3)
		if n := other.lookups("hit"); n != 3 {
			t.Errorf("%s: %d hits are counted, want 3", name, n)
		}
		other.expectMetrics(`plimsoll_cache_redis_lookup_seconds_bucket{le="+Inf"} 3`)
	}
}
