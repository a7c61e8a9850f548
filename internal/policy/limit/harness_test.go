package limit

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/internal/hash"
	"plimsoll/internal/invariant"
)

// sequentially turns the ledgers on for a test.
func sequentially(t *testing.T) {
	was := invariant.Sequential
	invariant.Sequential = true
	t.Cleanup(func() { invariant.Sequential = was })
}

func drawNumbers(t *rapid.T, a Algorithm) numbers {
	cost := rapid.Int64Range(1, 3).Draw(t, "cost")
	n := numbers{algorithm: a, cost: cost}
	n.rate.Count = rapid.Int64Range(cost, 12).Draw(t, "count")
	n.rate.Per = time.Duration(rapid.SampledFrom([]int64{1e6, 7e6, 1e9, 60e9, 12_345_677}).Draw(t, "per"))
	switch a {
	case LeakyBucket:
		n.wait = time.Duration(rapid.Int64Range(1, 3*int64(n.rate.Per)).Draw(t, "wait"))
		n.queue = rapid.Int64Range(1, 6).Draw(t, "queue")
	case TokenBucket, GCRA:
		n.burst = rapid.Int64Range(cost, 15).Draw(t, "burst")
	}
	return n
}

var allAlgorithms = []Algorithm{TokenBucket, GCRA, LeakyBucket, FixedWindow, SlidingWindow, SlidingLog}

// bound is the most that may pass in any time of such a length.
func bound(n numbers, p *params, length int64) int64 {
	period := int64(n.rate.Per)
	switch n.algorithm {
	case FixedWindow:
		return p.quota * (length/period + 2)
	case SlidingWindow:
		return p.quota * (length/period + 2)
	case SlidingLog:
		return p.quota * (length/period + 1)
	case LeakyBucket:
		return (length+1)*units/p.take + 1 // a turn is at the next whole nanosecond
	default:
		return (p.depth+length*units)/p.take + 1
	}
}

// keyed is a store with a table, and what asks it.
type keyed struct {
	*store
	secret *hash.Secret
}

func newKeyed(t testing.TB, n numbers, values int) keyed {
	t.Helper()
	p, err := newParams(n)
	if err != nil {
		t.Fatal(err)
	}
	return keyed{newStore(p, true, values), fixedSecret()}
}

func fixedSecret() *hash.Secret { return hash.NewSecret(rand.New(rand.NewPCG(1, 2)).Uint64) }

// ask is one decision; spilled says that the value shares a bucket.
func (k keyed) ask(value string, now int64) (pass, spilled bool) {
	pass, _, spilled = k.askFor(value, now)
	return pass, spilled
}

// askFor also says how long the request waits.
func (k keyed) askFor(value string, now int64) (pass bool, wait int64, spilled bool) {
	var p place
	o := outcome{gone: true}
	for o.gone {
		spilled = k.locate(&p, k.secret, []byte(value), now)
		o = p.take(now)
	}
	return o.pass, o.wait, spilled
}

func sample(a Algorithm, count int64) numbers {
	n := numbers{algorithm: a, rate: Rate{count, time.Minute}, cost: 1}
	switch a {
	case TokenBucket, GCRA:
		n.burst = count
	case LeakyBucket:
		// A queue of one less, so that as many pass at once, now or later.
		n.queue, n.wait = count-1, time.Minute
	}
	return n
}

const second = int64(time.Second)
