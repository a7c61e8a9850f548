package admission

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Whatever classes there are, and however long the backlog: the law keeps the order, and a law that
// does not is noticed.
func TestTheOrderOfClassesIsKept(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		o := Options{Delay: time.Duration(1+random.IntN(20)) * time.Millisecond}
		for c := range o.Used {
			o.Used[c] = random.IntN(2) == 0
		}
		p := NewSheddingPlan(o)
		var l Limiter
		var order Order
		for now := int64(1e9); now < 2e9; now += 1 + random.Int64N(2e6) {
			l.Observe(now, random.Int64N(12*int64(o.Delay)))
			for range random.IntN(20) {
				class, waited := uint8(random.IntN(Classes)), random.Int64N(3)*random.Int64N(int64(o.Delay))
				refused := (waited > 0 || l.Behind(p)) && l.Refuse(p, now, class, random.Uint64N(9), waited)
				order.Note(p, now, class, refused, waited > l.Backlog())
			}
		}
	}
}

func TestAnInvertedOrderIsNoticed(t *testing.T) {
	p := NewSheddingPlan(Options{Delay: time.Millisecond, Used: [Classes]bool{0: true, 1: true, 2: true}})
	for name, c := range map[string]struct {
		first, second uint8
		refused       [2]bool
		alone         bool
		inverted      bool
	}{
		"a lower class passes after":           {1, 2, [2]bool{true, false}, false, true},
		"a lower class has passed":             {2, 1, [2]bool{false, true}, false, true},
		"a higher class passes":                {2, 1, [2]bool{true, false}, false, false},
		"one of the same class passes":         {1, 1, [2]bool{true, false}, false, false},
		"two that count as one":                {2, 7, [2]bool{true, false}, false, false},
		"it was refused because it had waited": {1, 2, [2]bool{true, false}, true, false},
	} {
		func() {
			defer func() {
				if noticed := recover() != nil; noticed != c.inverted {
					t.Errorf("%s: noticed %t, want %t", name, noticed, c.inverted)
				}
			}()
			var o Order
			o.Note(p, 5, c.first, c.refused[0], c.alone)
			o.Note(p, 5, c.second, c.refused[1], false)
		}()
	}
}
