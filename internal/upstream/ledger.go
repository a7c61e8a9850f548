package upstream

import (
	"fmt"
	"time"

	"plimsoll/internal/invariant"
)

// ledger checks a loop's retries against what the configuration allows, without the budget's own
// counts: in no second that ends with a retry are there more of them than the share of its requests,
// or than the loop's part of the floor and the one that goes beyond it. Only with invariant.On.
type ledger struct {
	requests, retries []int64 // when
}

func (l *ledger) request(now int64) {
	l.requests = append(since(l.requests, now-int64(time.Second)), now)
}

// Retried notes that a request is tried again at its upstream's cost: nobody has said that it was not
// begun, and it did not meet a stale connection. Loop only.
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

// since leaves out the times that are before from.
func since(times []int64, from int64) []int64 {
	for len(times) > 0 && times[0] < from {
		times = times[1:]
	}
	return times
}
