package load

import "plimsoll/internal/lab/heap"

// waiting is a request that is due and has no connection: the next one of a session, or the first
// one of an arrival whose session has not begun.
type waiting struct {
	due     int64
	session Session // nil if it has not begun
}

// Before implements heap.Ordered.
func (w waiting) Before(o waiting) bool { return w.due < o.due }

// backlog is a ring of waiting requests, oldest first. It grows up to its limit and never shrinks.
type backlog struct {
	ring  []waiting
	first int
	count int
	limit int
}

// firstRing is the initial size of a ring. Like all ring sizes it is a power of two.
const firstRing = 256

// full reports whether the limit is reached.
func (b *backlog) full() bool { return b.count >= b.limit }

// push adds the newest request. The backlog must not be full.
func (b *backlog) push(w waiting) {
	if b.count == len(b.ring) {
		larger := make([]waiting, max(firstRing, 2*len(b.ring)))
		n := copy(larger, b.ring[b.first:])
		copy(larger[n:], b.ring[:b.first])
		b.ring, b.first = larger, 0
	}
	b.ring[(b.first+b.count)&(len(b.ring)-1)] = w
	b.count++
}

// oldest returns the request that has waited longest. The backlog must not be empty.
func (b *backlog) oldest() *waiting { return &b.ring[b.first] }

// pop removes the request that has waited longest. The backlog must not be empty.
func (b *backlog) pop() waiting {
	w := b.ring[b.first]
	b.ring[b.first].session = nil
	b.first = (b.first + 1) & (len(b.ring) - 1)
	b.count--
	return w
}

// thoughts is a heap of thinking sessions, with the earliest next request on top. The timer wheel
// would be cheaper, but 4 ms late, and that would count as the target's response time.
type thoughts struct{ heap.Heap[waiting] }

// due returns when the first session's request is due; never if no session thinks.
func (t *thoughts) due() int64 {
	if t.Len() == 0 {
		return never
	}
	return t.Top().due
}

// queue is a list of connections. A connection is in at most one queue.
type queue struct {
	first, last *conn
	count       int
}

func (q *queue) push(c *conn) {
	c.before, c.behind = q.last, nil
	if q.last == nil {
		q.first = c
	} else {
		q.last.behind = c
	}
	q.last = c
	q.count++
}

// pop removes the first connection; nil if there is none.
func (q *queue) pop() *conn {
	c := q.first
	if c != nil {
		q.remove(c)
	}
	return c
}

// remove removes c, which must be in the queue.
func (q *queue) remove(c *conn) {
	if c.before == nil {
		q.first = c.behind
	} else {
		c.before.behind = c.behind
	}
	if c.behind == nil {
		q.last = c.before
	} else {
		c.behind.before = c.before
	}
	c.before, c.behind = nil, nil
	q.count--
}
