package upstream

import (
	"fmt"
	"time"

	"plimsoll/internal/invariant"
)

// ledger checks a loop's retries against what the configuration allows, without using the budget's
// own counts. A second that ends with a retry must not have more retries than the share of its
// requests, or, if that is more, the loop's part of the floor and one more. Only with invariant.On.
type ledger struct {
	requests, retries []int64 // when each was made, in nanoseconds
}

func (l *ledger) request(now int64) {
	l.requests = append(since(l.requests, now-int64(time.Second)), now)
}

// Retried notes a retry that counts against the budget of the upstream. A retry does not count if
// the target said that it had not begun the request, or if the try met a stale connection. Loop
// only.
func (l *Local) Retried(now int64) {
	if !invariant.On {
		return
	}
	b := &l.ledger
	b.requests = since(b.requests, now-int64(time.Second))
	b.retries = append(since(b.retries, now-int64(time.Second)), now)
	share := l.u.options.RetryBudget * float64(len(b.requests))
	floor := max(budgetFloor/float64(l.u.env.Loops), 1)
	if n, most := len(b.retries), max(share, floor+1); float64(n) > most+1e-6 {
		panic(fmt.Sprintf("upstream: loop %d retries %d times in a second with %d requests, "+
			"a budget of %v allows %.1f", l.loop, n, len(b.requests), l.u.options.RetryBudget, most))
	}
}

// since returns times without those before from. times must be in order.
func since(times []int64, from int64) []int64 {
	for len(times) > 0 && times[0] < from {
		times = times[1:]
	}
	return times
}
