package gateway

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"plimsoll/internal/redis/redistest"
)

// locks is what the instance has counted of locks.
func (i *instance) locks() (taken, awaited, served int64) {
	s := i.tier()
	return s.LocksTaken, s.LocksAwaited, s.LocksServed
}

// held is an origin that answers when leave is closed, and says in enter that it was asked.
func heldOrigin(t *testing.T, said string) (o *origin, enter, leave chan bool) {
	enter, leave = make(chan bool, 100), make(chan bool)
	return newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		enter <- true
		<-leave
		w.Header().Set("Cache-Control", said)
		io.WriteString(w, "what there is at "+r.URL.Path)
	}), enter, leave
}

func TestOneInstanceFetchesForAll(t *testing.T) {
	t.Parallel()
	o, enter, leave := heldOrigin(t, "max-age=100")
	yaml := tiered(o, redistest.Start(t).Address(), ", lock: 1m")
	one, other := serveTiered(t, yaml), serveTiered(t, yaml)
	var all sync.WaitGroup
	ask := func(i *instance) {
		all.Go(func() {
			if status, body, _ := i.shop("GET", "/a"); status != 200 || body != "what there is at /a" {
				t.Errorf("%d %q", status, body)
			}
		})
	}
	ask(one)
	<-enter
	for range 5 {
		ask(other)
	}
	eventually(t, "the other instance to wait", func() bool {
		_, awaited, _ := other.locks()
		return awaited == 1
	})
	close(leave)
	all.Wait()
	o.expectAsked(t, 1)
	if _, _, served := other.locks(); served != 1 {
		t.Errorf("%d were served by the one that fetched, want 1", served)
	}
	// The lock is let go of: nobody waits a minute for what was purged.
	if _, err := one.PurgeCache(Purge{All: true}); err != nil {
		t.Fatal(err)
	}
	other.received(1)
	other.shop("GET", "/a")
	o.expectAsked(t, 2)
}

// What may not be stored is fetched by each for itself, as soon as that is known.
func TestTheLockIsLetGoOfWhenNothingIsStored(t *testing.T) {
	t.Parallel()
	o, enter, leave := heldOrigin(t, "private")
	redis := redistest.Start(t)
	yaml := tiered(o, redis.Address(), ", lock: 1m")
	one, other := serveTiered(t, yaml), serveTiered(t, yaml)
	var all sync.WaitGroup
	all.Go(func() { one.shop("GET", "/a") })
	<-enter
	const each = "for _, k in ipairs(redis.call('KEYS', '*lock:*')) do redis.call('PERSIST', k) end " +
		"return tostring(#redis.call('KEYS', '*lock:*'))"
	if n, err := redis.Do("EVAL", each, "0"); n != "1" || err != nil { // which no time ends from here on
		t.Fatalf("%s locks, %v; want 1", n, err)
	}
	all.Go(func() { other.shop("GET", "/a") })
	eventually(t, "the other instance to wait", func() bool {
		_, awaited, _ := other.locks()
		return awaited == 1
	})
	close(leave)
	all.Wait()
	o.expectAsked(t, 2)
	eventually(t, "the lock to go", func() bool {
		n, err := redis.Do("EVAL", each, "0")
		return err == nil && n == "0"
	})
}

// An owner that dies lets go of its lock when its time is over.
func TestTheLockOfADeadInstanceEnds(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, fresh)
	redis := redistest.Start(t)
	yaml := tiered(o, redis.Address(), ", lock: 300ms")
	i := serveTiered(t, yaml)
	i.shop("GET", "/a")
	i.wrote(1)
	name := strings.Replace(entries(t, redis)[0], "cache:", "cache:lock:", 1)
	if _, err := i.PurgeCache(Purge{All: true}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its own lock to go", func() bool {
		n, err := redis.Do("EXISTS", name)
		return err == nil && n == "0"
	})
	// Somebody has it who never comes back; and does not let go of it in time either.
	redis.Do("SET", name, "dead")
	if status, body, _ := i.shop("GET", "/a"); status != 200 || body != "what there is at /a" {
		t.Errorf("%d %q", status, body)
	}
	if _, awaited, served := i.locks(); awaited != 1 || served != 0 {
		t.Errorf("%d have waited, and %d were served", awaited, served)
	}
	o.expectAsked(t, 2)
	if who, _ := redis.Do("GET", name); who != "dead" {
		t.Errorf("the lock is %q's: it was released, or taken, by one who did not have it", who)
	}
}
