package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"plimsoll/internal/redis/redistest"
)

// numbered is an origin whose answers differ each time: the path and a number.
func numbered(t *testing.T) *origin {
	var n atomic.Int64
	return newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=1000, stale-if-error=1000")
		w.Header().Set("Surrogate-Key", "all tag"+strings.ReplaceAll(r.URL.Path, "/", "-"))
		fmt.Fprintf(w, "%s %d", r.URL.Path, n.Add(1))
	})
}

// tierPurges are purges of each kind, and what they mean of /a/1, /a/2 and /b.
var tierPurges = map[string]struct {
	purge Purge
	meant string
}{
	"url":    {Purge{URL: "http://shop.test/a/1"}, "/a/1"},
	"tag":    {Purge{Tag: "tag-a-2"}, "/a/2"},
	"prefix": {Purge{Prefix: "http://shop.test/a/"}, "/a/1 /a/2"},
	"all":    {Purge{All: true}, "/a/1 /a/2 /b"},
}

var tierPaths = []string{"/a/1", "/a/2", "/b"}

// all asks for every path, and gives what the answers are.
func (i *instance) all() map[string]string {
	i.t.Helper()
	got := map[string]string{}
	for _, path := range tierPaths {
		status, body, _ := i.shop("GET", path)
		if status != 200 {
			i.t.Errorf("%s: %d", path, status)
		}
		got[path] = body
	}
	return got
}

// received waits until the instance has met so many purges of others.
func (i *instance) received(n int64) {
	i.t.Helper()
	eventually(i.t, "purges of others", func() bool { return i.tier().PurgesReceived >= n })
}

// expectPurged checks that exactly the paths that were meant have new answers.
func expectPurged(t *testing.T, what, meant string, before, after map[string]string) {
	t.Helper()
	for _, path := range tierPaths {
		purged := false
		for word := range strings.FieldsSeq(meant) {
			purged = purged || word == path
		}
		if (before[path] != after[path]) != purged {
			t.Errorf("%s: %s was %q and is %q", what, path, before[path], after[path])
		}
	}
}

func TestAPurgeHoldsInAllInstances(t *testing.T) {
	t.Parallel()
	for name, c := range tierPurges {
		redis := redistest.Start(t).Address()
		if name == "prefix" {
			redis = redistest.Cluster(t)[1].Address()
		}
		o := numbered(t)
		yaml := tiered(o, redis, "")
		one, other := serveTiered(t, yaml), serveTiered(t, yaml)
		before := one.all()
		one.wrote(3)
		if got := other.all(); fmt.Sprint(got) != fmt.Sprint(before) {
			t.Fatalf("%s: the other instance has %v, want %v", name, got, before)
		}
		done, err := one.PurgeCache(c.purge)
		if err != nil || done.Shared == nil || !*done.Shared || done.Problem != "" {
			t.Errorf("%s: %+v, %v", name, done, err)
		}
		// One that comes later has no memory, and finds nothing in Redis that was purged.
		late := serveTiered(t, yaml)
		got := late.all()
		expectPurged(t, name+" in Redis", c.meant, before, got)
		late.wrote(int64(len(strings.Fields(c.meant))))
		other.received(1)
		expectPurged(t, name+" in another memory", c.meant, before, other.all())
		expectPurged(t, name+" in its own", c.meant, before, one.all())
		o.expectAsked(t, int64(3+len(strings.Fields(c.meant))))
	}
}

func TestASoftPurgeMakesStaleInAllInstances(t *testing.T) {
	t.Parallel()
	for name, c := range tierPurges {
		var broken atomic.Bool
		inner := numbered(t)
		o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
			if broken.Load() {
				w.WriteHeader(503)
				return
			}
			inner.Config.Handler.ServeHTTP(w, r)
		})
		yaml := tiered(o, redistest.Start(t).Address(), "")
		one, other := serveTiered(t, yaml), serveTiered(t, yaml)
		before := one.all()
		one.wrote(3)
		other.all()
		c.purge.Soft = true
		if _, err := one.PurgeCache(c.purge); err != nil {
			t.Fatal(err)
		}
		other.received(1)
		late := serveTiered(t, yaml)
		broken.Store(true)
		for who, i := range map[string]*instance{"its own": one, "another": other, "a late one": late} {
			expectPurged(t, name+" at "+who+" when the service fails", "", before, i.all())
		}
		o.expectAsked(t, int64(3+3*len(strings.Fields(c.meant))))
		broken.Store(false)
		expectPurged(t, name+" at a late one", c.meant, before, late.all())
	}
}

// An instance that was cut off from Redis meets what it has missed when it is connected again.
func TestAnInstanceThatWasAwayMeetsThePurgesThatItMissed(t *testing.T) {
	t.Parallel()
	for name, c := range tierPurges {
		o := numbered(t)
		redis := redistest.Start(t).Address()
		v := newValve(t, redis)
		one, away := serveTiered(t, tiered(o, redis, "")), serveTiered(t, tiered(o, v.address(), ""))
		before := one.all()
		one.wrote(3)
		away.all()
		v.set(true)
		if _, err := one.PurgeCache(c.purge); err != nil {
			t.Fatal(err)
		}
		expectPurged(t, name+" while it is away", "", before, away.all())
		v.set(false)
		v.cut()
		away.received(1)
		after := away.all()
		expectPurged(t, name+" when it is back", c.meant, before, after)
	}
}

// What cannot be found out any more is forgotten whole.
func TestAnInstanceForgetsAllWhenTheHistoryIsLost(t *testing.T) {
	t.Parallel()
	o := numbered(t)
	redis := redistest.Start(t)
	i := serveTiered(t, tiered(o, redis.Address(), ""))
	before := i.all()
	i.wrote(3)
	redis.Do("DEL", "plimsoll:cache:{purges}:state")
	if _, err := i.PurgeCache(Purge{Tag: "nothing"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it to forget", func() bool { return i.tier().Forgotten == 1 })
	expectPurged(t, "a new history", strings.Join(tierPaths, " "), before, i.all())

	i.wrote(6)
	v := newValve(t, redis.Address())
	away := serveTiered(t, tiered(o, v.address(), ""))
	away.all()
	v.set(true)
	if _, err := i.PurgeCache(Purge{Tag: "nothing"}); err != nil {
		t.Fatal(err)
	}
	redis.Do("DEL", "plimsoll:cache:{purges}:log")
	v.set(false)
	v.cut()
	eventually(t, "the other to forget", func() bool { return away.tier().Forgotten == 1 })
}

func TestAPurgeWithoutRedisSaysThatItHoldsHereAlone(t *testing.T) {
	t.Parallel()
	o := numbered(t)
	redis := redistest.Start(t).Address()
	v := newValve(t, redis)
	brief := strings.Replace(tiered(o, v.address(), ""), "timeout: 10s", "timeout: 500ms", 1)
	one, other := serveTiered(t, brief), serveTiered(t, tiered(o, redis, ""))
	before := one.all()
	one.wrote(3)
	other.all()
	v.set(true)
	done, err := one.PurgeCache(Purge{Tag: "all"})
	if err != nil || done.Shared == nil || *done.Shared ||
		!strings.Contains(done.Problem, "this instance alone") {
		t.Errorf("%+v, %v", done, err)
	}
	expectPurged(t, "here", strings.Join(tierPaths, " "), before, one.all())
	expectPurged(t, "elsewhere", "", before, other.all())
	v.set(false)
	v.cut()
	other.received(1)
	expectPurged(t, "elsewhere, when Redis is there", strings.Join(tierPaths, " "), before, other.all())
}

// What an unsafe request outdates is not served from Redis by the instance that it went through, at
// once, and soon by none.
func TestAnUnsafeRequestOutdatesWhatIsInRedis(t *testing.T) {
	t.Parallel()
	o := numbered(t)
	yaml := tiered(o, redistest.Start(t).Address(), "")
	one, other := serveTiered(t, yaml), serveTiered(t, yaml)
	for n := range 20 {
		path := fmt.Sprint("/", n)
		_, first, _ := one.shop("GET", path)
		one.wrote(int64(3*n + 1))
		if _, body, _ := other.shop("GET", path); body != first {
			t.Fatalf("%q, want %q", body, first)
		}
		one.shop("POST", path)
		_, second, _ := one.shop("GET", path)
		if second == first {
			t.Fatalf("after POST it is %q", second)
		}
		other.received(int64(n + 1))
		if _, body, _ := other.shop("GET", path); body == first {
			t.Fatalf("after POST it is %q elsewhere", body)
		}
		one.shop("GET", path+"x") // whatever its answer was fetched with, this one's is written
		one.wrote(int64(3*n + 3))
	}
}
