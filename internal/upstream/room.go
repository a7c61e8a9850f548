package upstream

import "math/bits"

// Classes is how many SLA classes there may be, 0 being served first.
const Classes = 10

// waitList is a doubly linked list through the waiters, the oldest first.
type waitList struct {
	head, tail *Waiter
	n          int
}

func (q *waitList) push(w *Waiter) {
	w.prev, w.next = q.tail, nil
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
	q.n++
}

func (q *waitList) remove(w *Waiter) {
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	q.n--
}

// waitRoom holds the waiting requests of a loop, by class.
type waitRoom struct {
	n       int
	rank    int64  // of the request that is to be served next; never when none waits
	filled  uint64 // a bit for each bucket in which a request of any class waits
	classes [Classes]*classRoom
}

// buckets is the number of queues that the clients of a class share. Clients whose hashes select
// the same queue are served as if they were one client.
const buckets = 64

// classRoom holds the waiting requests of a class, by bucket.
//
// A bucket is served in order of arrival until its oldest request has waited for half of its
// patience. From then on the newest request goes first. Under overload, a queue in order of arrival
// would serve only requests that have waited for nearly as long as any client waits for an answer.
// With the newest first, most of the requests that are served at all are served at once, and the
// others are refused early. Order of arrival returns only once no request has been seen to wait for
// half of its patience for the length of a whole patience. If it returned when the oldest request
// is refused, every other request would be served in order, after half of its patience, and that is
// too late where the answer takes the other half.
type classRoom struct {
	n      int
	last   int    // the bucket that was served last
	filled uint64 // a bit for each queue that is not empty
	queues [buckets]bucket

	since   int64 // when the wait of the bucket longest began; never when no request waits
	longest int   // the bucket that has waited longest
}

// bucket is the queue of the clients whose hashes select it.
type bucket struct {
	waitList
	served int64 // when it was last served
	newest int64 // until when the newest request goes first
}

// since returns when the wait of the queue, which is not empty, began.
func (q *bucket) since() int64 { return max(q.head.since, q.served) }

// overdue reports whether the oldest request of the queue, which is not empty, has waited for more
// than half of its patience. If so it notes until when the newest request goes first.
func (q *bucket) overdue(now int64) bool {
	patience := q.head.Patience
	if patience <= 0 || now-q.head.since <= patience/2 {
		return false
	}
	q.newest = now + patience
	return true
}

// bucketOf returns the bucket of a client. The high bits of the product depend on all of the hash.
func bucketOf(client uint64) int { return int(client * 0x9e3779b97f4a7c15 >> 58) }

// rankShift makes room for a time under a class: 2.3 years of nanoseconds.
const rankShift = 56

// push adds a request and reports whether it is the only one in its bucket, counting all classes.
func (r *waitRoom) push(w *Waiter) (first bool) {
	c := r.classes[w.Class]
	if c == nil { // most upstreams never need it
		c = &classRoom{since: never}
		r.classes[w.Class] = c
	}
	c.push(w)
	r.n++
	bit := uint64(1) << bucketOf(w.Client)
	first = r.filled&bit == 0
	r.filled |= bit
	r.findRank()
	return first
}

func (r *waitRoom) remove(w *Waiter) {
	r.classes[w.Class].remove(w)
	r.n--
	r.filled = 0
	for _, c := range r.classes {
		if c != nil {
			r.filled |= c.filled
		}
	}
	r.findRank()
}

// findRank sets the rank, by which loops are ordered: the class of the request to be served next in
// its high bits, and below it the time since which the bucket that has waited longest waits.
func (r *waitRoom) findRank() {
	r.rank = never
	if class := r.firstClass(); class >= 0 {
		r.rank = int64(class)<<rankShift | r.classes[class].since
	}
}

// firstClass returns the lowest class in which a request waits, -1 if none waits.
func (r *waitRoom) firstClass() int {
	for i, c := range r.classes {
		if c != nil && c.n > 0 {
			return i
		}
	}
	return -1
}

// next returns the request to be served now. At least one must wait; the caller removes the
// request.
func (r *waitRoom) next(now int64) *Waiter { return r.classes[r.firstClass()].next(now) }

// oldest returns the request that has waited longest, nil if none waits.
func (r *waitRoom) oldest() (w *Waiter) {
	for _, c := range r.classes {
		if c == nil {
			continue
		}
		if o := c.oldest(); o != nil && (w == nil || o.since < w.since) {
			w = o
		}
	}
	return w
}

// hopeless returns the oldest request of the bucket that w is about to join, if newer requests go
// before it: it will not be served unless the load falls. Else it returns nil.
func (r *waitRoom) hopeless(w *Waiter, now int64) *Waiter {
	c := r.classes[w.Class]
	if c == nil {
		return nil
	}
	if q := &c.queues[bucketOf(w.Client)]; q.n > 0 && q.overdue(now) {
		return q.head
	}
	return nil
}

// of returns how many requests of a class wait here.
func (r *waitRoom) of(class uint8) int {
	if c := r.classes[class]; c != nil {
		return c.n
	}
	return 0
}

// excess returns the request to be refused instead of w when more requests of w's class wait than
// can be served: in the bucket with the most requests, the one that would be served last. It
// returns nil, so that w itself is refused, if no bucket has more requests than w's would have with
// it.
func (r *waitRoom) excess(w *Waiter, now int64) *Waiter {
	c := r.classes[w.Class]
	if c == nil {
		return nil
	}
	newest := c.newestOfLargest(c.queues[bucketOf(w.Client)].n + 1)
	if newest == nil {
		return nil
	}
	if q := &c.queues[bucketOf(newest.Client)]; q.overdue(now) {
		return q.head
	}
	return newest
}

// leastWanted returns the request to be refused instead of w when the room is full: the newest one
// in the largest bucket of the highest class in which requests wait. That class must be higher than
// w's, or else the same, and the bucket larger than w's would be with it. Else leastWanted returns
// nil, so that w itself is refused.
func (r *waitRoom) leastWanted(w *Waiter) *Waiter {
	for class := Classes - 1; class >= int(w.Class); class-- {
		c := r.classes[class]
		if c == nil || c.n == 0 {
			continue
		}
		least := 0
		if class == int(w.Class) {
			least = c.queues[bucketOf(w.Client)].n + 1
		}
		return c.newestOfLargest(least)
	}
	return nil
}

// any reports whether a request waits for which f returns true.
func (r *waitRoom) any(f func(*Waiter) bool) bool {
	for _, c := range r.classes {
		if c == nil {
			continue
		}
		for left := c.filled; left != 0; left &= left - 1 {
			for w := c.queues[bits.TrailingZeros64(left)].head; w != nil; w = w.next {
				if f(w) {
					return true
				}
			}
		}
	}
	return false
}

func (c *classRoom) push(w *Waiter) {
	t := bucketOf(w.Client)
	q := &c.queues[t]
	q.push(w)
	if q.head == w && q.since() < c.since {
		c.since, c.longest = q.since(), t
	}
	c.filled |= 1 << t
	c.n++
}

func (c *classRoom) remove(w *Waiter) {
	t := bucketOf(w.Client)
	q := &c.queues[t]
	if q.remove(w); q.head == nil {
		c.filled &^= 1 << t
	}
	c.n--
	if t == c.longest {
		c.findLongest()
	}
}

func (c *classRoom) findLongest() {
	c.since = never
	for left := c.filled; left != 0; left &= left - 1 {
		t := bits.TrailingZeros64(left)
		if since := c.queues[t].since(); since < c.since {
			c.since, c.longest = since, t
		}
	}
}

// next returns the request to be served now, from the buckets in rotation.
func (c *classRoom) next(now int64) *Waiter {
	ahead := bits.RotateLeft64(c.filled, -c.last-1)
	c.last = (c.last + 1 + bits.TrailingZeros64(ahead)) % buckets
	q := &c.queues[c.last]
	q.served = now
	if q.overdue(now) || now < q.newest {
		return q.tail
	}
	return q.head
}

func (c *classRoom) oldest() (w *Waiter) {
	for left := c.filled; left != 0; left &= left - 1 {
		if head := c.queues[bits.TrailingZeros64(left)].head; w == nil || head.since < w.since {
			w = head
		}
	}
	return w
}

// newestOfLargest returns the newest request of the bucket with the most requests, or nil if no
// bucket has more than most.
func (c *classRoom) newestOfLargest(most int) (w *Waiter) {
	for t := range c.queues {
		if q := &c.queues[t]; q.n > most {
			most, w = q.n, q.tail
		}
	}
	return w
}
