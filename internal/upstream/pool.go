package upstream

import (
	"slices"

	"plimsoll/internal/invariant"
)

// Conn is the data plane's connection to a target, as a pool sees it. It belongs to one loop.
type Conn interface {
	// Retire closes an idle connection, on its loop. It must not call the pool: the pool has
	// counted it off already.
	Retire()
	// Detach takes an idle connection off its loop, so that another may have it. False means that
	// it cannot (it holds bytes, say) and is still what it was. After true the Conn is not used
	// again.
	Detach() (Parked, bool)
}

// Parked is a connection that belongs to no loop.
type Parked interface {
	// Attach makes it an idle connection of a loop, on which it is called. False means that it was
	// found dead and is closed.
	Attach(loop int) (Conn, bool)
	// Discard closes it. It may be called from any goroutine.
	Discard()
}

// idleConn is a connection that waits for its next request.
type idleConn struct {
	conn  Conn
	since int64
}

// Pool is one loop's idle connections to one target, and its part in the count of those that are
// open. Only the loop may use it.
//
// Idle ones are a stack: the newest goes first, so that a pool that is larger than the load needs
// grows old at its bottom, where the sweep finds it, and so that the connection least likely to
// have been closed by the other side is the one in use.
//
// A connection that carries several requests at once is idle only while it carries none. In use it is
// shared as long as it takes more: Get gives it again and again, until Unshare.
type Pool struct {
	target *Target
	local  *Local
	member *Member
	idle   []idleConn // the oldest first
	shared []Conn     // in use, and take more requests; the last one goes first
	bound  int
	gone   bool
	reused uint64
	slot   slotUse
}

// Get takes a connection: one that is shared, or else the idle one used last. Without one of its own
// it looks where other loops leave theirs. When there is none at all, ask Open. Loop only; it does
// not allocate, and takes a lock only when a spare connection is there.
func (p *Pool) Get(now int64) (Conn, bool) {
	own := len(p.idle) > 0 || len(p.shared) > 0
	if own && !p.limited() {
		return p.reuse(), true
	}
	// What lies there while others wait is theirs, and so is a free slot.
	if p.local.u.queues.waiting.Load() != 0 || !own && p.target.spare.n.Load() == 0 || !p.enter(now) {
		return nil, false
	}
	if own {
		return p.reuse(), true
	}
	if c, ok := p.fetch(now); ok {
		p.reused++
		return c, true
	}
	p.undo(now)
	return nil, false
}

// reuse takes the connection that was shared last, or the idle one that was used last. There is one.
func (p *Pool) reuse() Conn {
	if n := len(p.shared); n > 0 {
		p.reused++
		return p.shared[n-1]
	}
	last := len(p.idle) - 1
	c := p.idle[last].conn
	p.idle[last] = idleConn{}
	p.idle = p.idle[:last]
	p.reused++
	return c
}

// fetch takes a living connection from the spare list. Dead ones are counted off on the way.
func (p *Pool) fetch(now int64) (Conn, bool) {
	for p.target.spare.n.Load() > 0 {
		s, ok := p.target.spare.get()
		if !ok {
			break
		}
		if c, ok := s.Attach(p.local.loop); ok {
			return c, true
		}
		p.ClosedFreed(now)
	}
	return nil, false
}

// Put gives back a connection that is ready for another request. It is kept, or goes to a request
// that waits, or is retired. The caller does not touch it afterwards. Loop only; it does not
// allocate once the stack has grown.
func (p *Pool) Put(c Conn, now int64) {
	p.leave(now)
	p.PutFreed(c, now)
}

// PutFreed is Put for a connection whose slot Free has given back.
func (p *Pool) PutFreed(c Conn, now int64) {
	if p.gone {
		p.retireOne(c)
		return
	}
	p.idle = append(p.idle, idleConn{c, now})
	if own := p.local.own; !own.mayIdle.Load() {
		own.mayIdle.Store(true)
	}
	// The order matters: first the connection is there to be found, then it is asked who waits.
	// Wait does it the other way round, so one of the two sees the other.
	if p.local.u.queues.waiting.Load() != 0 {
		p.local.relieve(p.member, now)
	}
	if len(p.idle) > p.bound {
		p.park(1, false)
	}
}

// surplus finds a place between the loops for a connection that cannot stay, or retires it. wanted
// says that another loop's request waits for it.
func (p *Pool) surplus(c Conn, since int64, wanted bool) {
	if wanted || p.target.spare.room() {
		if s, ok := c.Detach(); ok {
			if !p.target.spare.put(s, since, wanted) {
				s.Discard()
				p.count(-1)
			}
			return
		}
	}
	p.retireOne(c)
}

// retireOne closes a connection and counts it off.
func (p *Pool) retireOne(c Conn) {
	c.Retire()
	p.count(-1)
}

func (p *Pool) count(by int64) {
	if n := p.target.open.Add(by); invariant.On && n < 0 {
		panic("upstream: a connection was counted off twice, or never opened")
	}
}

// Share lists a connection that is in use, or being opened, and takes further requests. Each of them
// that is over owes a Free; the last one, Unshare and Put. Requests that wait are served in another
// turn of the loop. Loop only.
func (p *Pool) Share(c Conn) {
	if invariant.On && slices.Contains(p.shared, c) {
		panic("upstream: a connection was shared twice")
	}
	p.shared = append(p.shared, c)
	if p.local.waiters.n > 0 {
		p.local.own.post(p.local)
	}
}

// Unshare takes a connection that takes no more requests off the list. False means that it was not on
// it. Loop only.
func (p *Pool) Unshare(c Conn) bool {
	at := slices.Index(p.shared, c)
	if at < 0 {
		return false
	}
	p.shared = slices.Delete(p.shared, at, at+1)
	return true
}

// Drop takes out an idle connection that the other side has closed, and counts it off; the caller
// closes it. False means that it was not idle here. Loop only.
func (p *Pool) Drop(c Conn, now int64) bool {
	for i := range p.idle {
		if p.idle[i].conn == c {
			copy(p.idle[i:], p.idle[i+1:])
			p.idle[len(p.idle)-1] = idleConn{}
			p.idle = p.idle[:len(p.idle)-1]
			p.ClosedFreed(now)
			return true
		}
	}
	return false
}

// Open asks whether one more connection to the target may be opened, and counts it when it may: the
// caller then owes a Closed when it could not be opened, or is closed in use. While requests wait
// for a connection, newcomers get none: they wait too. Loop only; it does not allocate.
func (p *Pool) Open(now int64) bool {
	return p.local.u.queues.waiting.Load() == 0 && p.enterAndReserve(now)
}

// limited says whether a request needs more than a connection: a slot, or a place.
func (p *Pool) limited() bool { return p.slot.slots != nil || p.local.u.bound != nil }

// enter takes a slot at the target and a place at the upstream, both or none. Whether there is a
// place is asked first, so that a slot is given back again only where another loop was quicker. One
// that has begun to wait meanwhile saw the slot taken, and is woken.
func (p *Pool) enter(now int64) bool {
	if !p.local.hasPlace() || !p.slot.enter(now) {
		return false
	}
	if p.local.takePlace() {
		return true
	}
	p.leaveSlot(now)
	p.wakeOthers()
	return false
}

// available says whether enter would succeed now.
func (p *Pool) available() bool { return p.slot.available() && p.local.hasPlace() }

// enterAndReserve takes a slot and a place for a connection, both or none.
func (p *Pool) enterAndReserve(now int64) bool {
	if !p.room() || !p.enter(now) {
		return false
	}
	if p.reserve() {
		return true
	}
	p.undo(now)
	return false
}

// room says whether there may be one more connection.
func (p *Pool) room() bool { return p.target.open.Load() < p.local.u.mostConnections() }

// mostConnections is how many connections there may be to one target. Each loop needs one of its own
// where one carries many requests: such a connection is hardly ever idle, and does not move.
func (u *Upstream) mostConnections() int64 {
	if u.options.Protocol == HTTP2 {
		return int64(max(u.options.MaxConnections, u.env.Loops))
	}
	return int64(u.options.MaxConnections)
}

// undo gives back a slot for which no connection was found after all: another loop was quicker. A
// loop that has begun to wait meanwhile saw the slot taken, and is woken.
func (p *Pool) undo(now int64) {
	p.leave(now)
	p.wakeOthers()
}

// wakeOthers wakes the loop, but for this one, whose request is to be served first.
func (p *Pool) wakeOthers() {
	if p.local.u.queues.waiting.Load() != 0 {
		p.local.u.queues.wakeFirst(p.local.u, p.local.loop)
	}
}

// leave gives a slot and a place back.
func (p *Pool) leave(now int64) {
	p.local.givePlace()
	p.leaveSlot(now)
}

// leaveSlot gives a slot back. When there are more than before, those who wait are told: what freed
// this one serves one of them only.
func (p *Pool) leaveSlot(now int64) {
	if p.slot.exit(now) && p.local.u.queues.waiting.Load() != 0 {
		p.local.u.queues.wakeAll(p.local.u)
	}
}

func (p *Pool) reserve() bool {
	most := p.local.u.mostConnections()
	for {
		n := p.target.open.Load()
		if n >= most {
			return false
		}
		if p.target.open.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Closed counts off a connection that was in use or being opened. A request that waits may take its
// place. Loop only.
func (p *Pool) Closed(now int64) {
	p.leave(now)
	p.ClosedFreed(now)
}

// Free gives the slot of a request back whose connection goes on: with other requests, or because what
// it carries from now on has no end of its own, and is not work that the target's limit is about. Loop
// only.
func (p *Pool) Free(now int64) {
	p.leave(now)
	if p.limited() && p.local.u.queues.waiting.Load() != 0 {
		p.local.relieve(p.member, now)
	}
}

// ClosedFreed counts off a connection that holds no slot. A request that waits may take its place.
// Loop only.
func (p *Pool) ClosedFreed(now int64) {
	p.count(-1)
	if p.local.u.queues.waiting.Load() != 0 {
		p.local.relieve(p.member, now)
	}
}

// take finds a connection, or the permission to open one (nil, true), for a request that waited.
func (p *Pool) take(now int64) (Conn, bool) {
	if !p.connectable() || !p.enter(now) {
		return nil, false
	}
	if len(p.idle) > 0 || len(p.shared) > 0 {
		return p.reuse(), true
	}
	if c, ok := p.fetch(now); ok {
		p.reused++
		return c, true
	}
	if p.reserve() {
		return nil, true
	}
	p.undo(now)
	return nil, false
}

// connectable says whether there is a connection, or room for one.
func (p *Pool) connectable() bool {
	return len(p.idle) > 0 || len(p.shared) > 0 || p.target.spare.n.Load() > 0 || p.room()
}

// ready says whether take would find something, as far as one can know without taking it.
func (p *Pool) ready() bool {
	return p.available() && p.connectable()
}

// park moves connections from the bottom of the stack to the spare list, at most n, and returns how
// many left the stack. Those for which there is no room are retired. When they are wanted by
// requests of other loops there always is.
func (p *Pool) park(n int, wanted bool) int {
	n = min(n, len(p.idle))
	for _, c := range p.idle[:n] {
		p.surplus(c.conn, c.since, wanted)
	}
	p.cut(n)
	return n
}

// cut forgets the n oldest.
func (p *Pool) cut(n int) {
	if n == 0 {
		return
	}
	kept := copy(p.idle, p.idle[n:])
	clear(p.idle[kept:])
	p.idle = p.idle[:kept]
}

// sweep closes connections that were idle too long, and parks those beyond one that have not been
// used for a while.
func (p *Pool) sweep(now int64) {
	before := now - int64(p.local.u.options.IdleTimeout)
	old := 0
	for old < len(p.idle) && p.idle[old].since < before {
		p.retireOne(p.idle[old].conn)
		old++
	}
	p.cut(old)
	moved := 0
	for moved < len(p.idle)-1 && p.idle[moved].since < now-surplusAge && p.target.spare.room() {
		s, ok := p.idle[moved].conn.Detach()
		if !ok {
			break
		}
		if !p.target.spare.put(s, p.idle[moved].since, false) {
			s.Discard()
			p.count(-1)
		}
		moved++
	}
	p.cut(moved)
	if p.target.spare.n.Load() > 0 {
		p.count(-int64(p.target.spare.expire(before)))
	}
}

// retire closes what is idle; what is busy is closed when it is put back.
func (p *Pool) retire() {
	p.gone = true
	for _, c := range p.idle {
		p.retireOne(c.conn)
	}
	p.cut(len(p.idle))
}
