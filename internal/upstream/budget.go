package upstream

import "time"

const (
	budgetSlots = 40
	budgetSlot  = int64(time.Second) / budgetSlots
	// budgetFloor is how many retries a second are always allowed, over all loops, so that a quiet
	// service may retry at all.
	budgetFloor = 10.0
	// saved is the part of a second's share that can be saved in a calm time, for a failure that
	// comes all at once. If all of it were saved, a storm of 20 s would have 1.202 times the
	// requests that are offered; with half of it, 1.1998 times.
	saved = .5
)

// budget bounds a loop's retries to a share of its requests in the last second, so that retries
// cannot become a storm. With a window of ten seconds instead, the requests of the calm seconds
// would pay for a second of nothing but retries. Each request also pays for its share of a retry
// only once: else the retries would follow the busiest second of a load that varies. The floor is
// for quiet services alone. It is a token bucket, and the retries that it allows count against the
// share.
//
// Time is counted in slots, and a second begins and ends within one. No second that ends with a
// retry may have more retries than its share. So only the requests of whole slots within the second
// count, but the retries of every slot that it touches. With one window for both, retries at its
// start and just after its end were two shares in one second. The cost is that a long storm gets a
// fortieth less than the share.
type budget struct {
	share    float64
	paid     float64                 // retries that requests have paid for
	requests [budgetSlots]uint32     // by slot, of the last second
	retries  [budgetSlots + 1]uint32 // likewise, and one slot more
	asked    int64                   // the sum of requests
	retried  int64                   // the sum of retries
	slot     int64                   // the slot under way

	tokens, rate, most float64
	filled             int64
}

// newBudget makes one loop's budget, which begins at the time now.
func newBudget(share float64, loops int, now int64) budget {
	rate := budgetFloor / float64(loops)
	// A bucket smaller than one retry would never allow any.
	most := max(rate, 1)
	return budget{share: share, slot: max(now/budgetSlot, 0), rate: rate, most: most, tokens: most,
		filled: now}
}

func (b *budget) request(now int64) {
	b.advance(now)
	b.requests[b.slot%budgetSlots]++
	b.asked++
	b.paid += b.share
}

func (b *budget) retry(now int64) bool {
	b.advance(now)
	most := b.share * float64(b.asked)
	b.paid = min(b.paid, most*saved)
	if float64(b.retried+1) <= most+1e-6 && b.paid > 1-1e-6 {
		b.paid--
	} else {
		// The retries counted are those of a second and one slot more, so the floor may be exceeded
		// by one.
		if float64(b.retried) > b.most {
			return false
		}
		b.tokens = min(b.most, b.tokens+float64(now-b.filled)/1e9*b.rate)
		b.filled = now
		if b.tokens < 1 {
			return false
		}
		b.tokens--
	}
	b.retries[b.slot%(budgetSlots+1)]++
	b.retried++
	return true
}

// advance makes the slot of the time now the one under way, and empties the slots that the window
// has left behind.
func (b *budget) advance(now int64) {
	slot := max(now/budgetSlot, 0)
	if slot-b.slot > budgetSlots {
		clear(b.requests[:])
		clear(b.retries[:])
		b.asked, b.retried, b.slot = 0, 0, slot
	}
	for b.slot < slot {
		b.slot++
		requests, retries := &b.requests[b.slot%budgetSlots], &b.retries[b.slot%(budgetSlots+1)]
		b.asked, b.retried = b.asked-int64(*requests), b.retried-int64(*retries)
		*requests, *retries = 0, 0
	}
}
