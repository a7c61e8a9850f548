package main

import (
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"
)

// stock is how many pieces of each article are left.
type stock interface {
	take(article int) (left int64, ok bool)
}

func newStock(changed bool) stock {
	if !changed {
		l := &ledger{left: map[string]int64{}}
		for i := range articles {
			l.left[fmt.Sprint("article-", i)] = pieces
		}
		return l
	}
	c := &counters{}
	for i := range c.left {
		c.left[i].Store(pieces)
	}
	return c
}

// ledger is the first day: one map, one lock, and under it an audit trail of the last sales that is
// sealed again with each of them.
type ledger struct {
	mu    sync.Mutex
	left  map[string]int64
	trail [4 << 10]byte
	seal  uint64
}

func (l *ledger) take(article int) (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := fmt.Sprint("article-", article)
	if l.left[name] == 0 {
		return 0, false
	}
	l.left[name]--
	copy(l.trail[len(name):], l.trail[:])
	copy(l.trail[:], name)
	h := fnv.New64a()
	h.Write(l.trail[:])
	l.seal = h.Sum64()
	return l.left[name], true
}

// counters are one for each article, on cache lines of their own. Sales are audited from the
// payments.
type counters struct {
	left [articles]struct {
		atomic.Int64
		_ [56]byte
	}
}

func (c *counters) take(article int) (int64, bool) {
	left := c.left[article].Add(-1)
	if left < 0 {
		c.left[article].Add(1)
		return 0, false
	}
	return left, true
}
