//go:build !race

// One goroutine makes these many decisions, and the race detector has nothing to find.

package limit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll/internal/exchange"
)

// Whatever comes, of however many clients, and over reloads: no decision is another than the law's.
func TestTheLedgerAgreesWithEveryAlgorithm(t *testing.T) {
	sequentially(t)
	for a := TokenBucket; a <= SlidingLog; a++ {
		b := newBench(t, of(a))
		random := rand.New(rand.NewPCG(uint64(a), 1))
		passed, refused := 0, 0
		for i := range 20_000 {
			b.now += random.Int64N(int64(2 * time.Millisecond))
			clients := 5
			if i > 10_000 {
				clients = 60 // more than there is room for
			}
			client := fmt.Sprintf("192.0.2.%d", random.IntN(clients))
			if verdict := b.ask(client); verdict == "pass" || verdict == "wait" {
				passed++
			} else {
				refused++
			}
			if i%5000 == 4999 {
				next, err := New(Options{Limits: []Limit{of(a)}, Env: exchange.Env{Loops: 4}})
				if err != nil {
					t.Fatal(err)
				}
				next.Inherit(b.Policy)
				b.Policy = next
			}
		}
		if passed == 0 || refused == 0 {
			t.Errorf("%v: %d passed and %d were refused: nothing was tested", a, passed, refused)
		}
	}
}

// How full a table may be until values share buckets; docs/protection-limits.md has the figures.
func TestATableIsExactUntilItIsNearlyFull(t *testing.T) {
	const places = 1 << 16
	k := newKeyed(t, sample(TokenBucket, 10), places)
	shared, asked := 0, 0
	for _, share := range []struct {
		full float64
		most int // values in a bucket with others so far
	}{{0.5, 0}, {0.75, 40}, {0.9, 1500}} {
		for ; asked < int(share.full*places); asked++ {
			if _, spilled := k.ask(fmt.Sprint("v", asked), 1e9); spilled {
				shared++
			}
		}
		t.Logf("of %d values for %d places %d share a bucket", asked, places, shared)
		if shared > share.most {
			t.Errorf("of %d values for %d places %d share a bucket, want at most %d", asked, places, shared, share.most)
		}
	}
}
