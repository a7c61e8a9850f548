package gateway

import (
	"fmt"
	"strings"
	"testing"

	"plimsoll/internal/redis/redistest"
)

func TestAGuardOfASetInRedis(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, fresh)
	redis := redistest.Start(t)
	redis.Do("SADD", "known", "p1", "p 2")
	i := serveClean(t, fmt.Sprintf(`
listeners: [{address: 127.0.0.1:0}]
redis: {main: {addresses: [%q], timeout: 10s}}
upstreams: {origin: {targets: [%q]}}
routes:
  - {match: "/{id}", upstream: origin, guard: {key: "path:id", redis: {name: main, set: known}, every: 1s}}
`, redis.Address(), o.address()))
	eventually(t, "the set to be read", func() bool {
		return strings.Contains(i.metrics(), `plimsoll_guard_keys{route="/{id}"} 2`)
	})
	for path, want := range map[string]int{"/p1": 200, "/p%202": 200, "/q1": 404} {
		if status, body, _ := i.shop("GET", path); status != want {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	if err := i.reload(strings.Replace(cacheConfig(o, ""), "cache: {}", "", 1)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its connections to end", func() bool {
		clients, err := redis.Do("CLIENT", "LIST")
		return err == nil && !strings.Contains(clients, "name=plimsoll")
	})
}

// A reload that changes nothing of the second tier keeps what is stored, and one that changes it
// connects again.
func TestAReloadKeepsTheSecondTier(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, fresh)
	redis := redistest.Start(t)
	yaml := tiered(o, redis.Address(), "")
	i := serveTiered(t, yaml)
	i.shop("GET", "/a")
	i.wrote(1)
	before := i.view().memory
	if err := i.reload(strings.Replace(yaml, "jitter: 0%", "jitter: 1%", 1)); err != nil {
		t.Fatal(err)
	}
	if i.view().memory != before {
		t.Error("a reload that does not change the cache makes another one")
	}
	if err := i.reload(strings.Replace(yaml, "timeout: 10s", "timeout: 9s", 1)); err != nil {
		t.Fatal(err)
	}
	i.connected()
	if _, _, h := i.shop("GET", "/a"); !strings.Contains(h.Get("Cache-Status"), "detail=redis") {
		t.Errorf("with another tier it is %s", h.Get("Cache-Status"))
	}
	o.expectAsked(t, 1)
	if err := i.reload(cacheConfig(o, "")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all connections to end", func() bool {
		clients, err := redis.Do("CLIENT", "LIST")
		return err == nil && !strings.Contains(clients, "name=plimsoll")
	})
}
