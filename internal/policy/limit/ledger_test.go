package limit

import (
	"strings"
	"testing"
)

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
