//go:build !race

package store_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/maypok86/otter/v2"

	"plimsoll/internal/cache/store"
)

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

// trace is a fixed sequence of requests for keys as on the web.
func trace(ask func(key string) (hit bool)) (ratio float64) {
	const keys, asked = 10_000, 60_000
	z := newZipf(keys, 1)
	hits := 0
	for range asked {
		if ask(strconv.Itoa(z.next())) {
			hits++
		}
	}
	return float64(hits) / asked
}

// The policy seeds its hashes again in each cache. Most caches are within a tenth of a percent of the
// others, and one in fifty is a whole percent behind, ours or not. So medians are compared.
func TestHitRatioIsThatOfThePolicyAlone(t *testing.T) {
	const length, runs = 1500, 5
	one := body(1, length)
	var entries int64
	ours := medianOf(runs, func() float64 {
		s := open(t, store.Options{Bytes: 2_700_000})
		ratio := trace(func(key string) bool {
			if e := s.Lookup([]byte(key)); e != nil {
				e.Release()
				return true
			}
			f, _ := s.Begin([]byte(key), []byte(key))
			f.Head(headOf(key, 1, length))
			f.Append(one)
			f.Finish()
			return false
		})
		entries = s.Stats().Entries
		return ratio
	})
	// Otter alone may hold as many entries.
	alone := medianOf(runs, func() float64 {
		o := otter.Must(&otter.Options[string, []byte]{
			MaximumWeight: uint64(entries), Weigher: func(string, []byte) uint32 { return 1 },
			Executor: func(f func()) { f() },
		})
		return trace(func(key string) bool {
			_, ok := o.GetIfPresent(key)
			if !ok {
				o.Set(key, nil)
			}
			return ok
		})
	})
	t.Logf("%d keys of 10,000 are held; hit ratio %.4f, otter alone %.4f", entries, ours, alone)
	if ours < alone-0.003 {
		t.Errorf("the hit ratio is %.4f, and %.4f with otter alone", ours, alone)
	}
}

func medianOf(runs int, of func() float64) float64 {
	all := make([]float64, runs)
	for i := range all {
		all[i] = of()
	}
	slices.Sort(all)
	return all[runs/2]
}
