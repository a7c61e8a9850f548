package upstream

import "time"

const (
	budgetSlots = 40
	budgetSlot  = int64(time.Second) / budgetSlots
	// budgetFloor is how many retries a second are always allowed, over all loops, so that a quiet
	// service may retry at all.
	budgetFloor = 10.0
	// saved is the part of a second's share that a calm time saves for a failure that comes at
	// once. With all of it, a storm of 20 s has 1.202 of the requests that are offered; with half,
	// 1.1998.
	saved = .5
)

// budget bounds a loop's retries to a share of its requests in the last second, so that retries
// cannot become a storm: with ten seconds instead, those of the good ones would pay for a second of
// nothing but retries. Each request also pays for its share of a retry once: else the retries would
// follow the busiest second of a load that varies. The floor is for quiet services alone. It is a
// bucket that refills, and what it gives counts against the share.
//
// Time is counted in slots, and the window's edges lie within them. So that no second that ends with
// a retry has more of them than its share, the requests that count are those of the whole slots
// within it, and the retries those of every slot that it touches. With one window for both, retries
// at its start and just after its end were two shares in one second. A long storm gets a fortieth
// less than the share for it.
type budget struct {
	share    float64
	paid     float64                 // retries that requests have paid for
	requests [budgetSlots]uint32     // of the slot under way and those before it, together up to a second
	retries  [budgetSlots + 1]uint32 // and of one more
	asked    int64                   // the sum of requests
	retried  int64                   // the sum of retries
	slot     int64                   // the one under way

	tokens, rate, most float64
	filled             int64
}

// newBudget is a budget that begins now.
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
		// What counts is of a slot more than a second, so the floor's share of that may be one more.
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

// advance empties the slots that the window has left behind.
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
