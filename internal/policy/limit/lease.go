package limit

import (
	"sync/atomic"
	"time"
)

// A lease is what an instance has taken from a value's limit in Redis and not used yet. Its state
// is one word in a table, like any other state, so taking from it is a compare-and-swap:
//
//	stock      count requests may pass until a time
//	refilling  the same, and more requests were asked for
//	asking     nothing is left; one request asks for more, and has until a time to get them
//	refused    Redis had nothing left; nobody asks before a time
//
// After its time, a state is idle, and the next request asks Redis. The time only grows, so no word
// comes back, as word.go requires.
//
// The size of the next lease depends on how the last one was used. It starts at 1, doubles up to
// the batch if a lease was used up in half of its time, and starts at 1 again if a lease expired.
// So no more expires than was used before. A client that sends a request now and then asks for one
// at a time and loses nothing. From a size of 4 on, a half-used lease is refilled in the
// background, and no request waits for that. The stock and the requests asked for are together
// never more than a batch.
const (
	leaseStock = iota
	leaseAsking
	leaseRefused
	leaseRefilling

	leaseTickBits  = 20
	leaseTimeBits  = 38
	leaseCountBits = 16
	leaseSizeBits  = 5

	// maxBatch is the largest lease, in requests.
	maxBatch = 10_000
	// leaseTime is how long an unused lease lasts.
	leaseTime = int64(time.Second)
)

type lease struct {
	kind  uint64
	until int64 // nanoseconds, in whole ticks
	count int64 // requests that may pass
	size  uint  // the last lease had 1<<size requests
}

func unpackLease(w uint64) lease {
	if !isLive(w) {
		return lease{}
	}
	n := uint64(payload(w))
	return lease{
		size:  uint(n & (1<<leaseSizeBits - 1)),
		count: int64(n >> leaseSizeBits & (1<<leaseCountBits - 1)),
		until: int64(n>>(leaseSizeBits+leaseCountBits)&(1<<leaseTimeBits-1)) << leaseTickBits,
		kind:  n >> (leaseSizeBits + leaseCountBits + leaseTimeBits),
	}
}

// pack rounds the time up, so that a state never ends in the tick in which it began.
func (l lease) pack() uint64 {
	ticks := uint64(ceil(l.until, 1<<leaseTickBits))
	return live | l.kind<<(leaseSizeBits+leaseCountBits+leaseTimeBits) |
		ticks<<(leaseSizeBits+leaseCountBits) | uint64(l.count)<<leaseSizeBits | uint64(l.size)
}

// leaseVerdict is the decision of a lease about a request.
type leaseVerdict uint8

const (
	leasePasses  leaseVerdict = iota
	leaseRefills              // it passes, and a refill is asked for in the background
	leaseRefuses
	leaseAsks  // the request asks Redis for a batch
	leaseAlone // the request asks only for itself: another already asks for a batch
)

// step applies a request to a lease. asked is the deadline for an answer of Redis.
func (l lease) step(now, asked int64, batch int64) (next lease, v leaseVerdict) {
	if l.until > max(asked, now+leaseTime)+skew { // the clock went back
		l.until = now
	}
	if l.until > now {
		switch l.kind {
		case leaseRefused:
			return l, leaseRefuses
		case leaseAsking:
			return l, leaseAlone
		}
		if l.count > 0 {
			l.count--
			return l.refill(now, batch)
		}
		if l.kind == leaseRefilling {
			return l, leaseAlone
		}
		if l.until-now > leaseTime/2 && 1<<l.size < batch {
			l.size++
		}
	} else {
		l.size = 0
	}
	l.kind, l.until, l.count = leaseAsking, asked, 0
	return l, leaseAsks
}

// refill starts refilling a lease after a request passed, if the lease is half used.
func (l lease) refill(now, batch int64) (next lease, v leaseVerdict) {
	if l.kind == leaseRefilling || l.size < 2 || 2*l.count > l.most(batch) {
		return l, leasePasses
	}
	if l.until-now > leaseTime*3/4 && 1<<l.size < batch {
		l.size++
	}
	l.kind = leaseRefilling
	return l, leaseRefills
}

// most is the size of the lease in requests.
func (l lease) most(batch int64) int64 { return min(batch, 1<<l.size) }

// refilled is the lease after the answer to a refill. Its stock remains.
func (l lease) refilled(granted int64, now, batch int64) lease {
	l.kind = leaseStock
	if granted > 0 {
		l.count, l.until = min(l.count+granted, batch), now+leaseTime
	} else {
		l.size = 0
	}
	return l
}

// answered is the lease after an answer. One of the granted requests belongs to the request that
// asked.
func (l lease) answered(granted int64, wait, now int64) lease {
	l.kind, l.until, l.count = leaseStock, now+leaseTime, max(0, granted-1)
	if granted == 0 {
		l.kind, l.until, l.size = leaseRefused, now+min(wait, leaseTime), 0
	}
	return l
}

// leases are the leases of a limit, by value.
type leases struct {
	table *table
	rules atomic.Pointer[params] // for the table: it tells which states are idle
	rest  *own
}

func newLeases(values int) *leases {
	l := &leases{table: newTable(values, 0)}
	l.rules.Store(&params{algorithm: leaseWords})
	l.rest = newOwn(&l.rules)
	return l
}

// locate fills p with a value's place. It returns false if there is none; the request then asks
// only for itself.
func (l *leases) locate(p *place, h, g uint64, value []byte, now int64) bool {
	if len(value) == 0 {
		l.rest.at(p)
		return true
	}
	p.params = &l.rules
	return l.table.enter(p, h, g, &l.rules, now, 0)
}

// take takes a request from the lease, or says which kind of call to Redis is needed. word is the
// lease's word after that.
func (l *leases) take(p *place, h, g uint64, value []byte, now, asked, batch int64) (
	v leaseVerdict, at lease, word uint64,
) {
	for {
		if !l.locate(p, h, g, value, now) {
			return leaseAlone, lease{}, 0
		}
		w := p.state.Load()
		if !p.own(w) {
			continue
		}
		at, v := unpackLease(w).step(countsFrom(w, now), asked, batch)
		if v == leaseRefuses || v == leaseAlone {
			return v, at, w
		}
		if word = at.pack(); p.state.CompareAndSwap(w, word) {
			return v, at, word
		}
	}
}

// refillLease adds the answer of a refill to the lease. If the lease has expired meanwhile, the
// answer is lost. After an error, other requests may try.
func (p *place) refillLease(granted int64, err error, now, batch int64) {
	for {
		w := p.state.Load()
		l := unpackLease(w)
		if !isLive(w) || !p.own(w) || l.kind != leaseRefilling {
			return
		}
		if err != nil {
			l.kind = leaseStock
		} else {
			l = l.refilled(granted, now, batch)
		}
		if p.state.CompareAndSwap(w, l.pack()) {
			return
		}
	}
}

// giveBackLease returns a request to a lease that has the same owner and has not expired. It skips
// a lease that is being refilled, because that will be full.
func (p *place) giveBackLease(now, batch int64) {
	for {
		w := p.state.Load()
		l := unpackLease(w)
		if !isLive(w) || !p.own(w) || l.kind != leaseStock || l.until <= now || l.count >= batch {
			return
		}
		l.count++
		if p.state.CompareAndSwap(w, l.pack()) {
			return
		}
	}
}
