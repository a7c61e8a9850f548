//go:build !race

package store_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"plimsoll/internal/cache/store"
)

// resident is the process' resident memory in bytes, 0 where the system does not say.
func resident() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// size draws the length of a body: mostly small, some large, as on the web.
func size(r *rand.Rand, scale int) int {
	switch r.IntN(20) {
	case 0:
		return r.IntN(scale * 200)
	case 1, 2, 3:
		return r.IntN(scale * 20)
	}
	return r.IntN(scale)
}

func TestMemoryAllocatedStaysWithinTheBoundUnderChurn(t *testing.T) {
	const bound = 48 << 20
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for _, scale := range []int{100, 1000, 8000} {
		t.Run(fmt.Sprint(scale), func(t *testing.T) {
			debug.FreeOSMemory()
			var before, now runtime.MemStats
			runtime.ReadMemStats(&before)
			rss := resident()
			s := open(t, store.Options{Bytes: bound})
			r := rand.New(rand.NewPCG(uint64(scale), 2))
			var held []*store.Entry
			stored, low, high := int64(0), int64(bound), int64(0)
			for n := 0; stored < 4*bound; n++ {
				length := size(r, scale)
				if put(t, s, fmt.Sprint("key number ", n), uint64(n), length) {
					stored += int64(length) + 1500
				}
				if r.IntN(100) == 0 { // a client that takes its time
					if e := s.Lookup([]byte(fmt.Sprint("key number ", n))); e != nil {
						held = append(held, e)
					}
				}
				if len(held) > 20 {
					held[0].Release()
					held = held[1:]
				}
				if n%512 == 0 && stored > 2*bound {
					st := s.Stats()
					low, high = min(low, st.Bytes), max(high, st.Bytes)
				}
			}
			// When the collector runs, and how much later on a busy machine, is not the store's:
			// what it left is given back, and garbage counts as much as is alive, which a percentage
			// of 100 allows.
			debug.FreeOSMemory()
			runtime.ReadMemStats(&now)
			garbage := int64(now.HeapAlloc) - int64(before.HeapAlloc)
			more := resident() - rss + garbage
			t.Logf("between %.3f and %.3f of the bound are held, the process has %.3f more, %.3f of it garbage; %+v",
				float64(low)/bound, float64(high)/bound,
				float64(more)/bound, float64(garbage)/bound, s.Stats())
			if low < bound*9/10 || high > bound*11/10 {
				t.Errorf("held %d to %d bytes of %d", low, high, bound)
			}
			if rss > 0 && more > bound*12/10 {
				t.Errorf("the process has grown by %d bytes, and %d were allowed", more, int64(bound*12/10))
			}
			for _, e := range held {
				e.Release()
			}
		})
	}
}

func TestMemoryAllocatedForAnEntryIsCounted(t *testing.T) {
	s := open(t, store.Options{Bytes: 256 << 20})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const n = 50_000
	for i := range n {
		put(t, s, fmt.Sprint("https://example.com/some/path/", i), uint64(i), 100)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	live := float64(after.HeapAlloc-before.HeapAlloc) / n
	t.Logf("%.0f bytes of heap an entry", live)
	if 2*live > 900*1.1 || 2*live < 900*0.8 {
		t.Errorf("an entry takes %.0f bytes of heap, and garbage as much again; counted are 900", live)
	}
}

func TestAHitAllocatesNothing(t *testing.T) {
	s := open(t, store.Options{Bytes: 4 << 20})
	put(t, s, "a key of usual length, such as a URI", 1, 100_000)
	key := []byte("a key of usual length, such as a URI")
	var room [4][]byte
	if n := testing.AllocsPerRun(1000, func() {
		e := s.Lookup(key)
		if len(e.Slices(room[:0], 0, e.Length())) == 0 {
			t.Error("nothing there")
		}
		e.Release()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(1000, func() { s.Lookup(key[1:]) }); n != 0 {
		t.Errorf("%v allocations for a miss", n)
	}
}
