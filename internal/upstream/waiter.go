package upstream

import (
	"math"
	"math/bits"
	"slices"
	"sync/atomic"

	"plimsoll/internal/invariant"
)

// A request waits on its loop if all connections to its targets are in use, or if the limit of a
// target (slots.go) or of the upstream (bound.go) is reached. Lower SLA classes are served first,
// and the clients of a class in rotation (room.go), so that one client with a thousand requests
// neither keeps the others waiting nor fills the room. A connection, slot or place can become free
// on another loop than that of the request, so loops have to tell each other:
//
//   - A loop whose request begins to wait publishes that (queues.waiting, and the rank and length
//     of its queue), and then looks once more whether something is free. A loop that frees
//     something first makes it free, and then looks whether requests wait. All of these are
//     sequentially consistent atomics, so at least one of the two sees the other: no wake-up is
//     lost.
//   - A loop that frees something serves its own requests, unless a request of a lower class waits
//     on another loop, or a client there has waited longer by more than fairnessGap. Moving a
//     connection between loops costs something, so it is not done for a few milliseconds; and no
//     client starves. A client's wait counts from when its first request came, or from when it was
//     last served, whichever is later.
//   - A connection that carries many requests (Pool.Share) does not move. If a loop has one, and
//     all loops that go before it neither have a connection nor can get one (queue.stuck), it
//     serves its own requests: no other loop could use what is free.
//   - A connection to be moved is left in the target's spare list (or is closed, which permits
//     another one to be opened), and the loop whose request is to be served first is woken. A woken
//     loop that has served all its requests, or that can use nothing of what is free, wakes the
//     next. Each loop has at most one wake-up posted.
//   - Idle connections on other loops count as well: a loop whose request begins to wait asks the
//     loops that may have some to give them up.
//   - A new request may not overtake those that wait: Pool.Open refuses it, and it waits as well.
//
// A change of a target wakes every loop whose requests wait, because the target can be used again,
// or was the last that could have served them. Whatever all this overlooks, the sweep serves within
// a second.
//
// Rejected: one shared queue under a lock. It is simpler, but moves nearly every connection to
// another loop exactly when there is too much to do.

// Waiting is the owner of a Waiter: a request that waits. Exactly one of its methods is called,
// once and on its loop, unless the Waiter was removed. Neither is called from within its own Wait.
type Waiting interface {
	// Ready hands over a connection of a member, or, if c is nil, the permission to open one: then
	// the request must call Closed as after Open.
	Ready(now int64, m *Member, c Conn)
	// Refused says that the request gets no connection, and why.
	Refused(now int64, why Unavailable)
}

// Waiter is a place in the queue. It is a field of the request, so that waiting does not allocate.
// A zero value with Owner set is ready for use, and may be used again once it has left the queue.
type Waiter struct {
	Owner  Waiting
	Client uint64 // a hash of the client: requests with the same value share a bucket
	Class  uint8  // the SLA class: lower ones are served first; less than Classes
	// how many nanoseconds it may wait, where the target's concurrency is limited; 0 for no bound
	Patience   int64
	local      *Local
	prev, next *Waiter
	since      int64
}

// Waiting returns how many requests wait, on all loops. Any goroutine may call it.
func (u *Upstream) Waiting() int {
	if u.queues.waiting.Load() == 0 {
		return 0
	}
	return u.queues.wanted(-1)
}

// AnyWaits reports whether a request waits, on any loop, for whose Client lacks returns true. If
// several clients share a bucket on another loop, AnyWaits assumes that lacks is true for one of
// them. Loop only.
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

// anyWaits is AnyWaits for the queue of another loop. It may miss what that loop changes meanwhile;
// the caller asks again later.
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
	rank        atomic.Int64 // of the request to be served first (waitRoom.rank); never if none
	length      atomic.Int64
	filled      atomic.Uint64                          // a bit for each bucket that is not empty
	clients     atomic.Pointer[[buckets]atomic.Uint64] // by bucket; nil before the first
	mayIdle     atomic.Bool                            // the loop may have idle connections
	wakePosted  atomic.Bool
	yieldPosted atomic.Bool
	stuck       atomic.Bool // when the loop last looked, it had no connection, nor room for one
	_           [64]byte
}

// several stands for the client of a bucket in which requests of more than one client wait.
const several = 0

// note publishes the client whose request joins a bucket; first says that no other request waits in
// the bucket. A bucket that several clients shared counts as shared until it is empty.
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

// post wakes the loop l, unless a wake-up is posted to it already.
func (q *queue) post(l *Local) {
	if q.wakePosted.CompareAndSwap(false, true) {
		l.u.env.Post(l.loop, l.wakeFn)
	}
}

// postYield asks the loop l for its idle connections, if it may have some.
func (q *queue) postYield(l *Local) {
	if q.mayIdle.Load() && q.yieldPosted.CompareAndSwap(false, true) {
		l.u.env.Post(l.loop, l.yieldFn)
	}
}

// queues holds the queues of all loops.
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

// firstLoop returns the loop, other than the loop but, whose request is to be served first, and the
// rank of that request; -1 and never if none waits. If movable is false it leaves out the loops
// that are stuck: they lack a connection, or room for one.
func (q *queues) firstLoop(but int, movable bool) (loop int, rank int64) {
	loop, rank = -1, never
	for i := range q.each {
		if r := q.each[i].rank.Load(); i != but && r < rank && (movable || !q.each[i].stuck.Load()) {
			loop, rank = i, r
		}
	}
	return loop, rank
}

// wanted returns how many requests wait on the loops other than but.
func (q *queues) wanted(but int) int {
	n := int64(0)
	for i := range q.each {
		if i != but {
			n += q.each[i].length.Load()
		}
	}
	return int(min(n, math.MaxInt32))
}

// wakeFirst wakes the loop, other than the loop but, whose request is to be served first. If that
// loop is stuck, wakeFirst also wakes the first one that is not: a slot may have become free, which
// a loop without a connection cannot use.
func (q *queues) wakeFirst(u *Upstream, but int) {
	q.wake(u, but, true)
	q.wake(u, but, false)
}

// wake wakes the loop that firstLoop returns, if there is one.
func (q *queues) wake(u *Upstream, but int, movable bool) {
	if loop, _ := q.firstLoop(but, movable); loop >= 0 {
		q.each[loop].post(u.locals[loop])
	}
}

// wakeAll wakes every loop whose requests wait, and asks the others for their idle connections. It
// is called when the set of usable targets, or a limit, has changed. It does nothing if no request
// waits.
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
// reason why the request may not wait. The caller has got neither a connection nor the permission
// to open one from the member that it picked. Loop only; it allocates only for the first request of
// a class on a loop.
func (l *Local) Wait(w *Waiter, now int64) Unavailable {
	switch {
	case l.closed:
		return Closed
	case l.why != None:
		return l.why
	}
	// Decide whether the request may stay before another one has to go for it.
	pace := &l.u.queues.paces[w.Class]
	if pace.hopeless(now, w.Patience) {
		// The excess requests may all wait on other loops, so a few may always wait on each loop.
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
	// A request that now comes first on this loop may use what is free even if those behind it may
	// not, for example because another loop has a request of a lower class than theirs.
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

// Remove takes a request out of the queue, because its client left or its time is up. It returns
// false if the request was not in the queue. Loop only.
func (w *Waiter) Remove() bool {
	if w.local == nil {
		return false
	}
	// If the loop was woken for this request, the wake-up finds no request and wakes another loop.
	// If it was woken before, and could not use what is free, the requests of other loops that this
	// one kept back may be able to.
	l := w.local
	before := l.own.rank.Load()
	l.leave(w)
	if l.own.rank.Load() > before {
		l.u.queues.wakeFirst(l.u, l.loop)
	}
	l.u.checkNews()
	return true
}

// leave takes a waiter out of the room and tells the other loops.
func (l *Local) leave(w *Waiter) {
	l.waiters.remove(w)
	l.u.queues.paces[w.Class].waiting.Add(-1)
	w.local = nil
	l.announce()
}

// announce tells the other loops how many requests wait here, and the rank of the first.
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

// first reports whether a request of this loop is to be served next: before those of all other
// loops if movable is true, because any loop could use what is free; else only before those of
// loops that are not stuck.
func (l *Local) first(movable bool) bool {
	if l.waiters.n == 0 {
		return false
	}
	_, rank := l.u.queues.firstLoop(l.loop, movable)
	return rank == never || l.own.rank.Load()-fairnessGap <= rank
}

// mayServe reports whether this loop's requests may be served with what is free at a member.
func (l *Local) mayServe(m *Member) bool {
	return l.first(true) || len(m.shared) > 0 && l.first(false)
}

// noteStuck publishes whether this loop is stuck: its requests lack a connection, and there is no
// room for one. When it becomes stuck it wakes the next loop, whose requests it kept back until now
// and which may be able to use what is free.
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

// relieve uses what has become free at a member for the requests of this loop, or leaves it to
// those of another loop.
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
		if !l.serve(now) { // what became free may be for a loop that comes before this one
			l.u.queues.wakeFirst(l.u, l.loop)
		}
		return
	}
	if first {
		if served {
			l.stepBack()
		} else { // a slot may be free for which another loop has a connection
			l.u.queues.wake(l.u, l.loop, false)
		}
		return
	}
	m.park(l.u.queues.wanted(l.loop), true)
	l.u.queues.wakeFirst(l.u, l.loop)
}

// relieveFrom serves one of this loop's requests with what is free at a member. If the upstream has
// a bound, it may serve the request at another member instead: what has become free may be a place,
// which can be used at any target.
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

// grant gives the connection c of member m, or the permission to open one, to the request that is
// to be served next.
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

// serve gives the waiting requests whatever is free at any member, and reports whether it served
// one. A request that is served may free something at once. Another round of the loop below finds
// it, and no recursion, however many requests do so.
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

// handOver moves idle connections to the spare lists for the requests that wait on other loops, and
// wakes the loop whose request is to be served first. Each member leaves as many connections as
// there are such requests in all, because it is not known yet which target will have a free slot
// when they are taken. Two loops that both serve past a stuck one do not wake each other, and
// neither wakes one before it that could use nothing: that would go on for ever (passBy).
func (l *Local) handOver() {
	wanted := l.u.queues.wanted(l.loop)
	if wanted == 0 {
		return
	}
	free := false
	for _, m := range l.usable {
		free = m.park(wanted, true) > 0 || m.available() && m.transferable() || free
	}
	if free {
		l.u.queues.wake(l.u, l.loop, true)
	}
	if !l.first(false) {
		l.u.queues.wake(l.u, l.loop, false)
	}
}

// find looks for something free at each usable member once, beginning with the member where it last
// found something. It returns the member and what Pool.take returned.
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

// expire refuses the requests that have waited too long, and all of them if no target is usable.
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

// refuseAll refuses the requests that wait now. A request that waits again from within Refused
// stays in the queue.
func (l *Local) refuseAll(now int64, why Unavailable) {
	for range l.waiters.n {
		w := l.waiters.oldest()
		if w == nil {
			return
		}
		l.refuse(w, now, why)
	}
}
