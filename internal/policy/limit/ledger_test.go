package limit

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/invariant"
)

// sequentially turns the ledgers on for a test.
func sequentially(t *testing.T) {
	was := invariant.Sequential
	invariant.Sequential = true
	t.Cleanup(func() { invariant.Sequential = was })
}

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

func TestATokenThatIsMadeOrLostIsNoticed(t *testing.T) {
	sequentially(t)
	for a := TokenBucket; a <= SlidingLog; a++ {
		if a != SlidingWindow { // of which the models say more than the ledger
			noticed(t, a, "a token was lost", func(p *params) *spot {
				return &spot{value: []byte("v"), outcome: outcome{params: p, cost: 1}}
			}, 1)
		}
		noticed(t, a, "a token was made", func(p *params) *spot {
			return &spot{value: []byte("v"), outcome: outcome{params: p, cost: 1, pass: true}}
		}, 50)
	}
}

// noticed gives a ledger so many decisions in one moment, one of which is wrong.
func noticed(t *testing.T, a Algorithm, what string, decision func(*params) *spot, times int) {
	t.Helper()
	b := newBench(t, of(a))
	l := b.Policy.limits[0]
	defer func() {
		if said, _ := recover().(string); !strings.Contains(said, what) {
			t.Errorf("%v: the ledger says %q, want that %s", a, said, what)
		}
	}()
	for range times {
		l.ledger.note(decision(l.params), b.now)
	}
}
