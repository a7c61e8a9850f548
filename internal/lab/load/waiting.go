package load

import "plimsoll/internal/lab/heap"

// waiting is a request that is due and has no connection: a session's next one, or the first one of
// an arrival whose session has not begun.
type waiting struct {
	due     int64
	session Session // nil when it has not begun
}

// Before implements heap.Ordered.
func (w waiting) Before(o waiting) bool { return w.due < o.due }

// backlog is a ring of what waits, oldest first. It grows up to its limit and then stays as large
// as it became.
type backlog struct {
	ring  []waiting
	first int
	count int
	limit int
}

// firstRing is the size that a ring begins with, a power of two as all its sizes are.
const firstRing = 256

// full says that the limit is reached.
func (b *backlog) full() bool { return b.count >= b.limit }

// push adds the newest; the backlog is not full.
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

// oldest is what has waited longest; the backlog is not empty.
func (b *backlog) oldest() *waiting { return &b.ring[b.first] }

// pop takes out what has waited longest; the backlog is not empty.
func (b *backlog) pop() waiting {
	w := b.ring[b.first]
	b.ring[b.first].session = nil
	b.first = (b.first + 1) & (len(b.ring) - 1)
	b.count--
	return w
}

// thoughts is a heap of sessions that think, the one whose next request is due first on top. The
// timer wheel would be cheaper and 4 ms late, and that would count as the target's response time.
type thoughts struct{ heap.Heap[waiting] }

// due is when the first of them is; never when nobody thinks.
func (t *thoughts) due() int64 {
	if t.Len() == 0 {
		return never
	}
	return t.Top().due
}

// queue is connections one after the other; a connection is in one queue at most.
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

// pop takes out the first; nil when there is none.
func (q *queue) pop() *conn {
	c := q.first
	if c != nil {
		q.remove(c)
	}
	return c
}

// remove takes out c, which is in the queue.
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
