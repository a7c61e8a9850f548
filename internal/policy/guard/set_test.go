package guard

import (
	"fmt"
	"testing"
	"time"

	"plimsoll/internal/redis"
	"plimsoll/internal/redis/redistest"
)

// setOptions read a set of a server.
func setOptions(t *testing.T, address string) Options {
	t.Helper()
	c, err := redis.New(redis.Options{Name: "test", Addresses: []string{address}, Timeout: 10 * time.Second,
		Now: func() int64 { return 1 }, User: "tests"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Release)
	return Options{Key: "path:id", Redis: c, Set: "known", Every: 5 * time.Millisecond}
}

func add(t *testing.T, server *redistest.Server, from, to int) {
	t.Helper()
	for n := from; n < to; n += 500 {
		words := []string{"SADD", "known"}
		for k := n; k < min(to, n+500); k++ {
			words = append(words, fmt.Sprint("p", k))
		}
		if _, err := server.Do(words...); err != nil {
			t.Fatal(err)
		}
	}
}

func TestASetInRedisIsReadWholeAndAgain(t *testing.T) {
	for name, server := range map[string]*redistest.Server{
		"server": redistest.Start(t), "cluster": redistest.Cluster(t)[2],
	} {
		where := server
		if name == "cluster" { // the server that has the slot
			where = owner(t, server)
		}
		add(t, where, 0, 5000)
		p, err := New(setOptions(t, server.Address()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		s := p.state
		has := func(key string) bool {
			f := s.filter.Load()
			return f != nil && f.has(s.hash([]byte(key)))
		}
		redistest.Eventually(t, "the set to be read", func() bool { return s.filter.Load() != nil })
		for n := range 5000 {
			if !has(fmt.Sprint("p", n)) {
				t.Fatalf("%s: p%d is not known", name, n)
			}
		}
		passed := 0
		for n := range 5000 {
			if has(fmt.Sprint("q", n)) {
				passed++
			}
		}
		if passed > 250 { // 1 % of them are 50
			t.Errorf("%s: %d of 5000 unknown keys pass", name, passed)
		}
		add(t, where, 5000, 5001)
		redistest.Eventually(t, "the new key to be known", func() bool { return has("p5000") })
		where.Do("DEL", "known")
		redistest.Eventually(t, "the empty set to be refused", func() bool {
			return p.Status().(Status).Error != ""
		})
		if !has("p5000") {
			t.Errorf("%s: an empty set has taken the list's place", name)
		}
	}
}

// owner is the server of a cluster that has the set's slot.
func owner(t *testing.T, any *redistest.Server) *redistest.Server {
	t.Helper()
	answer, err := any.Do("SADD", "known", "p0")
	if err != nil {
		t.Fatal(err)
	}
	var slot, port int
	if n, _ := fmt.Sscanf(answer, "MOVED %d 127.0.0.1:%d", &slot, &port); n < 2 {
		return any
	}
	return any.Beside(port)
}

func TestASetThatIsTooLargeOrNoneIsRefused(t *testing.T) {
	server := redistest.Start(t)
	add(t, server, 0, 3000)
	server.Do("SET", "text", "x")
	server.Do("SADD", "long", string(make([]byte, maxKey+1)))
	for name, o := range map[string]Options{
		"more than max_keys": {Set: "known", MaxKeys: 2999}, "another type": {Set: "text"},
		"no set": {Set: "none"}, "a long key": {Set: "long"},
	} {
		base := setOptions(t, server.Address())
		base.Set, base.MaxKeys = o.Set, o.MaxKeys
		p, err := New(base)
		if err != nil {
			t.Fatal(err)
		}
		redistest.Eventually(t, name, func() bool { return p.Status().(Status).Error != "" })
		if p.state.filter.Load() != nil {
			t.Errorf("%s is a list", name)
		}
		p.Close()
	}
	base := setOptions(t, server.Address())
	base.MaxKeys = 3000
	p, err := New(base)
	if err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "as many as there may be", func() bool { return p.state.filter.Load() != nil })
	p.Close()
}
