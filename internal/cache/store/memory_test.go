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

	"github.com/maypok86/otter/v2"

	"plimsoll/internal/cache/store"
	"plimsoll/internal/invariant"
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

func TestMemoryStaysWithinItsBoundUnderChurn(t *testing.T) {
	if invariant.On {
		t.Log("the arena is ordinary memory under the race detector, so the store's own count alone is checked")
	}
	const bound = 48 << 20
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
			for n := 0; stored < 6*bound; n++ {
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
			runtime.ReadMemStats(&now)
			t.Logf("between %.3f and %.3f of the bound are held, the process has %.3f more; %+v", float64(low)/bound, float64(high)/bound,
				float64(resident()-rss)/bound, s.Stats())
			if low < bound*9/10 || high > bound*11/10 {
				t.Errorf("held %d to %d bytes of %d", low, high, bound)
			}
			if !invariant.On {
				if more := resident() - rss; rss > 0 && more > bound*12/10 {
					t.Errorf("the process has grown by %d bytes, and %d were allowed", more, int64(bound))
				}
				if heap := int64(now.HeapInuse) - int64(before.HeapInuse); heap > bound*12/10 {
					t.Errorf("the heap has grown by %d bytes", heap)
				}
			}
			for _, e := range held {
				e.Release()
			}
		})
	}
}

func TestMemoryAnEntryTakesBesideItsBlocksIsCounted(t *testing.T) {
	if invariant.On {
		t.Log("measured without the race detector, which has the arena on the heap")
		return
	}
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
		t.Errorf("an entry takes %.0f bytes of heap, and the garbage collector lets as much again pile up; counted are 900", live)
	}
}

// zipf draws keys as they are asked for on the web: the k-th of n with a probability of 1/k.
type zipf struct {
	sums []float64
	r    *rand.Rand
}

func newZipf(n int, seed uint64) *zipf {
	z := &zipf{sums: make([]float64, n), r: rand.New(rand.NewPCG(seed, 1))}
	sum := 0.0
	for k := range n {
		sum += 1 / float64(k+1)
		z.sums[k] = sum
	}
	return z
}

func (z *zipf) next() int {
	at := z.r.Float64() * z.sums[len(z.sums)-1]
	low, high := 0, len(z.sums)-1
	for low < high {
		if middle := (low + high) / 2; z.sums[middle] < at {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

func TestHitRatioIsThatOfThePolicyAlone(t *testing.T) {
	const (
		keys   = 40_000
		asked  = 250_000
		length = 3000
	)
	ours, alone := 0.0, 0.0
	for seed := range uint64(2) {
		s := open(t, store.Options{Bytes: 16 << 20})
		z := newZipf(keys, seed)
		hits := 0
		one := body(1, length)
		for range asked {
			key := []byte(strconv.Itoa(z.next()))
			if e := s.Lookup(key); e != nil {
				hits++
				e.Release()
				continue
			}
			f, _ := s.Begin(key)
			f.Head(headOf(string(key), 1, length))
			f.Append(one)
			f.Finish()
		}
		entries := s.Stats().Entries
		ours += float64(hits) / asked

		// The same trace through otter alone, which may hold as many entries.
		o := otter.Must(&otter.Options[string, []byte]{
			MaximumWeight: uint64(entries), Weigher: func(string, []byte) uint32 { return 1 },
			Executor: func(f func()) { f() },
		})
		z = newZipf(keys, seed)
		hits = 0
		for range asked {
			key := strconv.Itoa(z.next())
			if _, ok := o.GetIfPresent(key); ok {
				hits++
			} else {
				o.Set(key, nil)
			}
		}
		alone += float64(hits) / asked
		t.Logf("seed %d: %d of %d keys held", seed, entries, keys)
	}
	t.Logf("hit ratio %.4f, otter alone %.4f", ours/2, alone/2)
	if ours/2 < alone/2-0.003 {
		t.Errorf("the hit ratio is %.4f, and %.4f with otter alone", ours/2, alone/2)
	}
}
