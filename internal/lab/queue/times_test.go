package queue_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"plimsoll/internal/lab/queue"
)

// However far from the end a time belongs, and however many have been dropped before.
func TestTimesAreInAscendingOrder(t *testing.T) {
	for _, spread := range []int64{1, 10, 100, 10_000} {
		r := rand.New(rand.NewPCG(1, uint64(spread)))
		var times queue.Times
		var want []int64
		now := int64(0)
		for range 20_000 {
			now += r.Int64N(20)
			at := now + r.Int64N(spread)
			times.Put(at)
			to, _ := slices.BinarySearch(want, at)
			want = slices.Insert(want, to, at)
			switch r.IntN(4) {
			case 0:
				times.Drop()
				want = want[1:]
			case 1:
				times.DropUntil(now)
				for len(want) > 0 && want[0] <= now {
					want = want[1:]
				}
			}
			if times.Len() != len(want) {
				t.Fatalf("spread %d: %d times, not %d", spread, times.Len(), len(want))
			}
			if len(want) > 0 && times.First() != want[0] {
				t.Fatalf("spread %d: the first is %d, not %d", spread, times.First(), want[0])
			}
		}
	}
}
