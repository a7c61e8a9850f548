package upstream

import "time"

const (
	budgetSlots = 10
	budgetSlot  = int64(time.Second)
	// budgetFloor is how many retries a second are always allowed, over all loops, so that a quiet
	// service may retry at all.
	budgetFloor = 10.0
)

// budget bounds a loop's retries to a share of its requests over ten seconds, so that retries
// cannot become a storm. Retries spend the share first; the floor is a bucket that refills and is
// only touched when the share is spent.
type budget struct {
	share    float64
	requests [budgetSlots]uint32
	retries  [budgetSlots]uint32
	slot     int64 // the second that index slot%budgetSlots counts

	tokens, rate, most float64
	filled             int64
}

// newBudget is a budget that begins now. Begun at any other time it would forget its first requests
// at the first advance.
func newBudget(share float64, loops int, now int64) budget {
	rate := budgetFloor / float64(loops)
	// A bucket smaller than one retry would never allow any.
	most := max(rate, 1)
	return budget{share: share, slot: max(now/budgetSlot, 0), rate: rate, most: most, tokens: most, filled: now}
}

func (b *budget) request() { b.requests[b.slot%budgetSlots]++ }

func (b *budget) retry(now int64) bool {
	b.advance(now)
	var requests, retries uint64
	for i := range b.requests {
		requests += uint64(b.requests[i])
		retries += uint64(b.retries[i])
	}
	if float64(retries+1) > b.share*float64(requests) {
		b.tokens = min(b.most, b.tokens+float64(now-b.filled)/1e9*b.rate)
		b.filled = now
		if b.tokens < 1 {
			return false
		}
		b.tokens--
	}
	b.retries[b.slot%budgetSlots]++
	return true
}

// advance empties the slots that ten seconds have passed over. Requests count into the slot of the
// last advance, which is a second old at most, because the loop's sweep advances it too.
func (b *budget) advance(now int64) {
	second := max(now/budgetSlot, 0)
	if second-b.slot >= budgetSlots {
		clear(b.requests[:])
		clear(b.retries[:])
		b.slot = second
	}
	for b.slot < second {
		b.slot++
		b.requests[b.slot%budgetSlots], b.retries[b.slot%budgetSlots] = 0, 0
	}
}
