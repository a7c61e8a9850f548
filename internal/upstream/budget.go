package upstream

import "time"

const (
	budgetSlots = 10
	budgetSlot  = int64(time.Second) / budgetSlots
	// budgetFloor is how many retries a second are always allowed, over all loops, so that a quiet
	// service may retry at all.
	budgetFloor = 10.0
)

// budget bounds a loop's retries to a share of its requests in the last second, so that retries
// cannot become a storm: with ten seconds instead, those of the good ones would pay for a second of
// nothing but retries. Each request also pays for its share of a retry once: else the retries would
// follow the busiest second of a load that varies. The floor is for quiet services alone. It is a
// bucket that refills, and what it gives counts against the share.
type budget struct {
	share    float64
	paid     float64 // retries that requests have paid for
	requests [budgetSlots]uint32
	retries  [budgetSlots]uint32
	slot     int64 // the tenth of a second that index slot%budgetSlots counts

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
	b.paid += b.share
}

func (b *budget) retry(now int64) bool {
	b.advance(now)
	var requests, retries uint64
	for i := range b.requests {
		requests += uint64(b.requests[i])
		retries += uint64(b.retries[i])
	}
	most := b.share * float64(requests)
	b.paid = min(b.paid, most)
	if float64(retries+1) <= most && b.paid > 1-1e-6 {
		b.paid--
	} else {
		if float64(retries+1) > b.most {
			return false
		}
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

// advance empties the slots that a second has passed over.
func (b *budget) advance(now int64) {
	slot := max(now/budgetSlot, 0)
	if slot-b.slot >= budgetSlots {
		clear(b.requests[:])
		clear(b.retries[:])
		b.slot = slot
	}
	for b.slot < slot {
		b.slot++
		b.requests[b.slot%budgetSlots], b.retries[b.slot%budgetSlots] = 0, 0
	}
}
