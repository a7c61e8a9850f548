package proxy

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"plimsoll/internal/cidr"
)

// Quota bounds the connections of one listener, in all and from each client address, over all
// loops. It outlives a reload that does not remove the listener. It is used when a connection is
// accepted and when it ends, not for requests. Any goroutine may use it.
type Quota struct {
	max        atomic.Int64 // 0 for no bound
	perAddress atomic.Int64 // 0 for no bound
	open       atomic.Int64

	mu sync.Mutex
	// count has the open connections by address, and so at most as many entries as connections.
	count map[netip.Addr]int32
}

// Limit sets the bounds; 0 is none. Connections that are open stay.
func (q *Quota) Limit(max, perAddress int) {
	q.max.Store(int64(max))
	q.perAddress.Store(int64(perAddress))
}

// Open returns how many connections are open.
func (q *Quota) Open() int64 { return q.open.Load() }

// refusal says why a connection was not admitted.
type refusal uint8

const (
	admitted refusal = iota
	tooMany
	tooManyOfAddress
)

// take counts a connection, or returns why it is refused. counted says whether it was counted for
// its address. The caller passes that to give, because the bound may be switched on while
// connections are open.
func (q *Quota) take(a netip.Addr) (r refusal, counted bool) {
	if n := q.open.Add(1); q.max.Load() > 0 && n > q.max.Load() {
		q.open.Add(-1)
		return tooMany, false
	}
	per := q.perAddress.Load()
	if per == 0 {
		return admitted, false
	}
	key := cidr.Client(a)
	q.mu.Lock()
	defer q.mu.Unlock()
	if int64(q.count[key]) >= per {
		q.open.Add(-1)
		return tooManyOfAddress, false
	}
	if q.count == nil {
		q.count = make(map[netip.Addr]int32)
	}
	q.count[key]++
	return admitted, true
}

func (q *Quota) give(a netip.Addr, counted bool) {
	q.open.Add(-1)
	if !counted {
		return
	}
	key := cidr.Client(a)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count[key]--; q.count[key] <= 0 {
		delete(q.count, key)
	}
}
