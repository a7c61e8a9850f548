package upstream

import (
	"math"
	"math/bits"
	"slices"
	"sync/atomic"

	"plimsoll/internal/invariant"
)

// Requests that find every connection of their targets in use, or every place that a target's
// concurrency limit leaves (slots.go), or the upstream's bound (bound.go), wait on their loop. Lower
// SLA classes are served first, and the clients of a class in rotation (room.go): one client with a
// thousand requests neither keeps the others waiting nor fills the room. What they wait for can become
// free on another loop, and then this loop must learn of it. The steps:
//
//   - A loop that begins to wait says so (queues.waiting, and its queue's rank and length), and
//     then looks whether there is something after all. A loop that frees something first makes it
//     free, and then looks whether somebody waits. All of these are sequentially consistent
//     atomics, so one of the two sees the other: no wake-up is lost.
//   - Who frees something serves its own requests, unless another loop has one of a lower class, or
//     a client of another loop has waited longer by more than fairnessGap: moving a connection
//     between loops costs something, so it is not done for a few milliseconds, and nobody starves.
//     A client has waited since its first request came, or since it was served the last time,
//     whichever is later.
//   - A connection that carries many requests (Pool.Share) does not move. A loop that has one, and that
//     is kept back only by loops that have none and can get none (queue.stuck), serves its own
//     requests: nobody else could use what is free.
//   - Something to be moved is left in the target's spare list (or is closed, which leaves the
//     permission to open another), and the loop whose request is to be served first is woken. A woken
//     loop that has served all its requests wakes the next, and so does one that finds nothing of
//     use. Each loop has at most one wake-up posted.
//   - Idle connections on other loops hold places too: a loop that begins to wait asks loops that
//     may have some to give them up.
//   - Newcomers that would take from under those who wait are refused by Pool.Open and wait as well.
//
// A change of a target wakes every loop whose requests wait: it came back, or was the last that
// could have served them. The sweep serves once a second whatever the above overlooked.
//
// Rejected: one shared queue under a lock. It is simpler, and moves nearly every connection to
// another loop exactly when there is too much to do.

// Waiting is a request that waits. Its methods are called on its loop, exactly one of them, once,
// unless it was removed, and never from within its own Wait.
type Waiting interface {
	// Ready gives a connection of a member, or, when c is nil, the permission to open one: then
	// Closed is owed as after Open.
	Ready(now int64, m *Member, c Conn)
	// Refused says that there will be none.
	Refused(now int64, why Unavailable)
}

// Waiter is a place in the queue. It is part of the request, so that waiting does not allocate. The
// zero value with Owner set is ready for use, and may be used again after it left the queue.
type Waiter struct {
	Owner  Waiting
	Client uint64 // a hash of whose request it is: requests of one value share a bucket
	Class  uint8  // its SLA class: lower ones are served first; less than Classes
	// nanoseconds that it may wait, where the target's concurrency is limited; 0 for no bound
	Patience   int64
	local      *Local
	prev, next *Waiter
	since      int64
}

// Waiting is how many requests wait, on all loops. Any goroutine.
func (u *Upstream) Waiting() int {
	if u.queues.waiting.Load() == 0 {
		return 0
	}
	return u.queues.wanted(-1)
}

// AnyWaits says whether a request waits, on any loop, whose Client is one that lacks says true of.
// Where clients share a bucket on another loop it takes one of them to be. Loop only.
func (l *Local) AnyWaits(lacks func(client uint64) bool) bool {
	if l.waiters.any(func(w *Waiter) bool { return lacks(w.Client) }) {
		return true
	}
	for i := range l.u.queues.each {
		if i != l.loop && l.u.queues.each[i].anyWaits(lacks) {
			return true
		}
	}
	return false
}

// anyWaits is AnyWaits for another loop. What that loop changes meanwhile is seen or is not: who
// asks comes again.
func (q *queue) anyWaits(lacks func(client uint64) bool) bool {
	filled := q.filled.Load()
	if filled == 0 {
		return false
	}
	clients := q.clients.Load()
	for ; filled != 0; filled &= filled - 1 {
		client := clients[bits.TrailingZeros64(filled)].Load()
		if client == several || lacks(client) {
			return true
		}
	}
	return false
}

// queue is what other loops see of a loop's waiting requests. Only its loop writes it, except for
// the posted flags.
type queue struct {
	_           [64]byte
	rank        atomic.Int64 // of the request to be served first (waitRoom.rank); never when nobody waits
	length      atomic.Int64
	filled      atomic.Uint64                          // the bits of those whose requests wait
	clients     atomic.Pointer[[buckets]atomic.Uint64] // whose requests wait in each; nil before the first
	mayIdle     atomic.Bool                            // the loop may have idle connections
	wakePosted  atomic.Bool
	yieldPosted atomic.Bool
	stuck       atomic.Bool // there was no connection, nor room for one, when the loop looked the last time
	_           [64]byte
}

// several stands for the client of a bucket in which requests of more than one client wait.
const several = 0

// note makes it seen whose request joins a bucket; first says that it is alone there. A bucket that
// was shared counts as shared until it is empty.
func (q *queue) note(client uint64, first bool) {
	clients := q.clients.Load()
	if clients == nil {
		clients = new([buckets]atomic.Uint64)
		q.clients.Store(clients)
	}
	c := &clients[bucketOf(client)]
	switch was := c.Load(); {
	case was == client:
	case first:
		c.Store(client)
	case was != several:
		c.Store(several)
	}
}

// post wakes the loop, unless it is about to be.
func (q *queue) post(l *Local) {
	if q.wakePosted.CompareAndSwap(false, true) {
		l.u.env.Post(l.loop, l.wakeFn)
	}
}

// postYield asks the loop for its idle connections, where it may have some.
func (q *queue) postYield(l *Local) {
	if q.mayIdle.Load() && q.yieldPosted.CompareAndSwap(false, true) {
		l.u.env.Post(l.loop, l.yieldFn)
	}
}

// queues are those of all loops.
type queues struct {
	waiting atomic.Int32 // how many loops have requests that wait; nearly always zero
	each    []queue
	paces   [Classes]pace
}

func (q *queues) init(loops int) {
	q.each = make([]queue, loops)
	for i := range q.each {
		q.each[i].rank.Store(never)
	}
}

// firstLoop is the loop, but for one, whose request is to be served first; movable false leaves out
// those that only a connection could help, or room for one.
func (q *queues) firstLoop(but int, movable bool) (loop int, rank int64) {
	loop, rank = -1, never
	for i := range q.each {
		if r := q.each[i].rank.Load(); i != but && r < rank && (movable || !q.each[i].stuck.Load()) {
			loop, rank = i, r
		}
	}
	return loop, rank
}

// wanted is how many requests wait on other loops.
func (q *queues) wanted(but int) int {
	n := int64(0)
	for i := range q.each {
		if i != but {
			n += q.each[i].length.Load()
		}
	}
	return int(min(n, math.MaxInt32))
}

// wakeFirst wakes the loop, but for one, whose request is to be served first, and where that is stuck
// the first that is not: what has become free may be a slot, which only this one can use.
func (q *queues) wakeFirst(u *Upstream, but int) {
	q.wake(u, but, true)
	q.wake(u, but, false)
}

// wake is one of wakeFirst's two.
func (q *queues) wake(u *Upstream, but int, movable bool) {
	if loop, _ := q.firstLoop(but, movable); loop >= 0 {
		q.each[loop].post(u.locals[loop])
	}
}

// wakeAll wakes every loop that has requests that wait, because which targets may be used has
// changed, and every other loop that may have idle connections to those targets.
func (q *queues) wakeAll(u *Upstream) {
	if q.waiting.Load() == 0 {
		return
	}
	for i := range q.each {
		if q.each[i].rank.Load() != never {
			q.each[i].post(u.locals[i])
		} else {
			q.each[i].postYield(u.locals[i])
		}
	}
}

// Wait queues a request for the next connection of any usable target, and returns None, or the
// reason why it may not wait. The caller has got neither a connection nor the permission to open
// one from the member it picked. Loop only; it allocates only at a loop's first.
func (l *Local) Wait(w *Waiter, now int64) Unavailable {
	switch {
	case l.closed:
		return Closed
	case l.why != None:
		return l.why
	}
	// Whether it may stay is asked before anybody goes for it.
	pace := &l.u.queues.paces[w.Class]
	if pace.hopeless(now, w.Patience) {
		// Those that are too many may wait on other loops, all of one client: a few may wait on each.
		if other := l.waiters.excess(w, now); other != nil {
			l.hopeless++
			l.refuse(other, now, Overloaded)
		} else if l.waiters.of(w.Class) >= paceFew {
			l.hopeless++
			l.refused++
			return Overloaded
		}
	}
	if l.waiters.n >= l.u.options.MaxPending {
		newest := l.waiters.leastWanted(w)
		if newest == nil {
			l.refused++
			return QueueFull
		}
		l.refuse(newest, now, QueueFull)
	}
	if hopeless := l.waiters.hopeless(w, now); hopeless != nil {
		l.refuse(hopeless, now, Overloaded)
	}
	l.waits++
	w.local, w.since = l, now
	pace.join(now, w.Patience)
	l.own.note(w.Client, l.waiters.push(w))
	if invariant.On && l.waiters.n > l.u.options.MaxPending {
		panic("upstream: more requests wait than may")
	}
	before := l.own.rank.Load()
	l.announce()
	l.noteStuck()
	// The first of this loop may use what is free and those behind it may not, be it that they are
	// of a higher class than one of another loop.
	if l.own.rank.Load() < before && l.anyReady() {
		l.own.post(l)
	}
	for i := range l.u.queues.each {
		if i != l.loop {
			l.u.queues.each[i].postYield(l.u.locals[i])
		}
	}
	l.u.checkNews()
	return None
}

// Remove takes a request out of the queue, because its client left or its time is up. False means
// that it was not in it. Loop only.
func (w *Waiter) Remove() bool {
	if w.local == nil {
		return false
	}
	// If the loop was woken for this request, the wake-up will find nobody and pass the news on. If
	// it was woken before, and had no use for what is free, those that this one kept back may have.
	l := w.local
	before := l.own.rank.Load()
	l.leave(w)
	if l.own.rank.Load() > before {
		l.u.queues.wakeFirst(l.u, l.loop)
	}
	l.u.checkNews()
	return true
}

// leave takes a waiter out of the list and tells the other loops.
func (l *Local) leave(w *Waiter) {
	l.waiters.remove(w)
	l.u.queues.paces[w.Class].waiting.Add(-1)
	w.local = nil
	l.announce()
}

// announce tells the other loops how many wait here, and since when.
func (l *Local) announce() {
	rank := l.waiters.rank
	l.own.length.Store(int64(l.waiters.n))
	if l.own.filled.Load() != l.waiters.filled {
		l.own.filled.Store(l.waiters.filled)
	}
	was := l.own.rank.Load()
	if was == rank {
		return
	}
	l.own.rank.Store(rank)
	if was == never {
		l.u.queues.waiting.Add(1)
	} else if rank == never {
		l.u.queues.waiting.Add(-1)
	}
}

func (l *Local) anyReady() bool {
	for _, m := range l.usable {
		if m.ready() {
			return true
		}
	}
	return false
}

// first says whether one of this loop's requests is to be served next, with what any loop could use
// (movable) or with what this one alone can.
func (l *Local) first(movable bool) bool {
	if l.waiters.n == 0 {
		return false
	}
	_, rank := l.u.queues.firstLoop(l.loop, movable)
	return rank == never || l.own.rank.Load()-fairnessGap <= rank
}

// mayServe says whether this loop's requests may be served with what is free at a member.
func (l *Local) mayServe(m *Member) bool {
	return l.first(true) || len(m.shared) > 0 && l.first(false)
}

// noteStuck makes it seen whether a connection is what this loop's requests lack. Those that they kept
// back until now may be served then, with what these cannot use.
func (l *Local) noteStuck() {
	stuck := l.waiters.n > 0 && !slices.ContainsFunc(l.usable, (*Member).connectable)
	if stuck == l.own.stuck.Load() {
		return
	}
	l.own.stuck.Store(stuck)
	if stuck {
		l.u.queues.wake(l.u, l.loop, false)
	}
}

// relieve uses what has become free at a member: for this loop's own requests, or for another
// loop's.
func (l *Local) relieve(m *Member, now int64) {
	if l.serving {
		l.again = true
		return
	}
	if elder := l.u.elder(); elder != nil {
		m.park(l.u.queues.wanted(l.loop), true)
		elder.queues.wakeFirst(elder, -1)
		return
	}
	first := l.first(true)
	l.serving = true
	served := l.relieveFrom(m, now)
	l.serving = false
	if l.again {
		l.serve(now)
		return
	}
	if first {
		if served {
			l.stepBack()
		} else { // it may be a slot that others have a connection for
			l.u.queues.wake(l.u, l.loop, false)
		}
		return
	}
	m.park(l.u.queues.wanted(l.loop), true)
	l.u.queues.wakeFirst(l.u, l.loop)
}

// relieveFrom serves one of this loop's requests with what is free at a member or, where places at
// any target are what they may lack, at another.
func (l *Local) relieveFrom(m *Member, now int64) (served bool) {
	if l.mayServe(m) && m.usable && !m.gone {
		c, ok := m.take(now)
		if ok {
			l.grant(now, m, c)
		}
		if l.waiters.n > 0 {
			m.slot.noteLimited()
		}
		served = ok
	}
	if l.u.bound != nil && !served && !l.again && l.waiters.n > 0 {
		other, c, ok := l.find(now)
		if ok {
			l.grant(now, other, c)
		}
		served = ok
	}
	return served
}

// grant gives the request to be served next what was found for it.
func (l *Local) grant(now int64, m *Member, c Conn) {
	w := l.waiters.next(now)
	for class := uint8(0); invariant.On && class < w.Class; class++ {
		if l.waiters.of(class) > 0 {
			panic("upstream: a request is served while one of a lower class waits on its loop")
		}
	}
	l.u.queues.paces[w.Class].served.Add(1)
	l.leave(w)
	w.Owner.Ready(now, m, c)
}

// serve gives the waiting requests whatever there is at any member, and says whether that was
// anything. A request that is served may free something at once; that is found by another round
// here and not by recursion, however many do so.
func (l *Local) serve(now int64) (served bool) {
	if l.serving {
		l.again = true
		return true
	}
	l.serving = true
	for l.waiters.n > 0 {
		l.again = false
		m, c, ok := l.find(now)
		if ok {
			l.grant(now, m, c)
			served = true
		} else if !l.again {
			break
		}
	}
	l.serving, l.again = false, false
	l.noteStuck()
	if !l.first(true) {
		l.handOver()
	}
	if served {
		l.stepBack()
	}
	return served
}

// handOver leaves idle connections where requests that wait on other loops find them, and wakes the
// loop whose request is to be served first. Each member leaves as many as are wanted in all: which
// of them has a slot when they are taken is not known yet. Loops that both serve past a stuck one do
// not wake each other, which would go on for ever.
func (l *Local) handOver() {
	wanted := l.u.queues.wanted(l.loop)
	if wanted == 0 {
		return
	}
	for _, m := range l.usable {
		m.park(wanted, true)
	}
	l.u.queues.wake(l.u, l.loop, true)
	if !l.first(false) {
		l.u.queues.wake(l.u, l.loop, false)
	}
}

// find looks at each usable member once, going on where it last found something.
func (l *Local) find(now int64) (*Member, Conn, bool) {
	n, any, own := len(l.usable), l.first(true), l.first(false)
	for k := range n {
		i := (l.cursor + k) % n
		if !any && !(own && len(l.usable[i].shared) > 0) {
			continue
		}
		if c, ok := l.usable[i].take(now); ok {
			l.cursor = i
			return l.usable[i], c, true
		}
	}
	return nil, nil, false
}

// expire refuses those that have waited too long, and all when no target is left that could serve
// them.
func (l *Local) expire(now int64) {
	if l.why != None {
		l.refuseAll(now, l.why)
		return
	}
	before := now - int64(l.u.options.PendingTimeout)
	for w := l.waiters.oldest(); w != nil && w.since <= before; w = l.waiters.oldest() {
		l.refuse(w, now, WaitedTooLong)
	}
}

func (l *Local) refuse(w *Waiter, now int64, why Unavailable) {
	before := l.own.rank.Load()
	l.leave(w)
	l.refused++
	if l.own.rank.Load() > before {
		l.stepBack()
	}
	w.Owner.Refused(now, why)
}

// refuseAll refuses those that wait now; one that waits again from within Refused is not met again.
func (l *Local) refuseAll(now int64, why Unavailable) {
	for range l.waiters.n {
		w := l.waiters.oldest()
		if w == nil {
			return
		}
		l.refuse(w, now, why)
	}
}
