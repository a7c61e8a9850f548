package inflight

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"plimsoll/internal/hash"
)

func secret(seed uint64) *hash.Secret { return hash.NewSecret(rand.New(rand.NewPCG(seed, 1)).Uint64) }

// In a table with room for all, counts are those of a plain map, whatever comes and goes.
func TestATableCountsAsAMapDoes(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		const most, values = 3, 40
		table := newTable(1<<16, secret(seed))
		model, places := map[string]int{}, map[string][]uint64{}
		for range 5000 {
			v := fmt.Sprint(r.IntN(values))
			if n := len(places[v]); n > 0 && r.IntN(2) == 0 {
				i := r.IntN(n)
				table.give(places[v][i])
				places[v] = slices.Delete(places[v], i, i+1)
				model[v]--
				continue
			}
			place, sharing, ok := table.take([]byte(v), most)
			if sharing {
				break // the secret of this seed lets two meet; the next seeds have other ones
			}
			if ok != (model[v] < most) {
				t.Fatalf("seed %d: %s has %d of %d and got %t", seed, v, model[v], most, ok)
			}
			if ok {
				model[v]++
				places[v] = append(places[v], place)
			}
		}
		used := 0
		for _, n := range model {
			if n > 0 {
				used++
			}
		}
		if n := table.used(); n > used || n < used-1 {
			t.Errorf("seed %d: %d places are in use, want %d", seed, n, used)
		}
		for _, list := range places {
			for _, p := range list {
				table.give(p)
			}
		}
		expectEmpty(t, table)
	}
}

func expectEmpty(t *testing.T, table *table) {
	t.Helper()
	for i := range table.sets {
		if word := table.sets[i].Load(); word != 0 {
			t.Fatalf("set %d is %x when all is given back", i, word)
		}
	}
}

// With more values than places each request is still counted once, and no count passes the bound.
func TestInAFullTableValuesShareTheirPlaces(t *testing.T) {
	table := newTable(2, secret(1)) // one set
	var places []uint64
	shared := 0
	for i := range 30 {
		place, sharing, ok := table.take(fmt.Append(nil, i), 4)
		if sharing {
			shared++
		}
		if ok {
			places = append(places, place)
		}
	}
	if len(places) != 8 || shared < 22 {
		t.Errorf("%d requests have places and %d share one, want 8 and more than 22", len(places), shared)
	}
	for _, p := range places {
		table.give(p)
	}
	expectEmpty(t, table)
}

func TestThePlacesCountToTheirEnd(t *testing.T) {
	table := newTable(2, secret(1))
	var places []uint64
	for _, v := range []string{"a", "b"} { // both ways of the one set, with tags of their own
		for n := range MaxPerValue + 1 {
			place, _, ok := table.take([]byte(v), MaxPerValue)
			if ok != (n < MaxPerValue) {
				t.Fatalf("%s: the request after %d got %t", v, n, ok)
			}
			if ok {
				places = append(places, place)
			}
		}
	}
	for _, p := range places {
		table.give(p)
	}
	expectEmpty(t, table)
}

// Several loops take and give the same few values: at no moment are more under way than the bound
// allows, and at the end none is.
func TestBoundsAreExactOverLoops(t *testing.T) {
	const loops, values, most = 4, 3, 2
	table := newTable(1<<10, secret(3))
	var underWay [values]atomic.Int64
	var all sync.WaitGroup
	for loop := range loops {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(loop), 4))
			for range 20_000 {
				v := r.IntN(values)
				place, _, ok := table.take([]byte{byte(v)}, most)
				if !ok {
					continue
				}
				if n := underWay[v].Add(1); n > most {
					t.Errorf("%d requests of value %d are under way, %d are the most", n, v, most)
				}
				underWay[v].Add(-1)
				table.give(place)
			}
		})
	}
	all.Wait()
	expectEmpty(t, table)
}

func BenchmarkTakeAndGive(b *testing.B) {
	table := newTable(defaultValues, secret(1))
	value := []byte("192.0.2.1")
	b.Run("alone", func(b *testing.B) {
		for b.Loop() {
			place, _, _ := table.take(value, 100)
			table.give(place)
		}
	})
	b.Run("contended", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if place, _, ok := table.take(value, 100); ok {
					table.give(place)
				}
			}
		})
	})
}
