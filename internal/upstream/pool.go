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
	// Detach takes an idle connection off its loop, so that another loop can take it. It returns
	// false, and changes nothing, if the connection cannot move, for example because it holds bytes
	// that were read. After true the caller must not use the Conn again.
	Detach() (Parked, bool)
}

// Parked is a connection that belongs to no loop.
type Parked interface {
	// Attach makes the connection an idle one of a loop. It is called on that loop. It returns
	// false if it found the connection dead, and has closed it.
	Attach(loop int) (Conn, bool)
	// Discard closes the connection. It may be called from any goroutine.
	Discard()
}

// idleConn is a connection that waits for its next request.
type idleConn struct {
	conn  Conn
	since int64
}

// Pool holds one loop's idle connections to one target, and counts the connections that the loop
// opens and closes. Only the loop may use it.
//
// The idle connections are a stack, and the one used last is taken first. So the connections that
// the load does not need grow old at the bottom, where the sweep finds them, and the connection in
// use is the one that the target is least likely to have closed.
//
// A connection that carries several requests at once is idle only while it carries none. While it
// is in use and takes more requests it is shared: Get returns it again and again, until Unshare.
type Pool struct {
	target *Target
	local  *Local
	member *Member
	idle   []idleConn // the oldest first
	shared []Conn     // in use, and take more requests; the last one is taken first
	bound  int
	gone   bool
	reused uint64
	slot   slotUse
}

// Get takes a connection for a request: a shared one, or else the idle one used last. If the loop
// has neither, it looks in the target's spare list. If Get returns false, ask Open. Loop only; it
// does not allocate, and takes a lock only when there is a spare connection.
func (p *Pool) Get(now int64) (Conn, bool) {
	own := len(p.idle) > 0 || len(p.shared) > 0
	if own && !p.limited() {
		return p.reuse(), true
	}
	// While requests wait, spare connections and free slots are for them.
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

// reuse takes the connection that was shared last, or else the idle one that was used last. The
// caller has checked that there is one of them.
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

// Put gives back a connection that is ready for another request, together with its slot. The pool
// keeps the connection, gives it to a request that waits, or retires it. The caller must not use it
// afterwards. Loop only; it does not allocate once the stack has grown.
func (p *Pool) Put(c Conn, now int64) {
	p.leave(now)
	p.PutFreed(c, now)
}

// PutFreed is Put for a connection whose slot Free has given back already.
func (p *Pool) PutFreed(c Conn, now int64) {
	if p.gone {
		p.retireOne(c)
		return
	}
	p.idle = append(p.idle, idleConn{c, now})
	if own := p.local.own; !own.mayIdle.Load() {
		own.mayIdle.Store(true)
	}
	// The order matters: first the connection can be found, then this loop looks whether requests
	// wait. Wait does it the other way round, so at least one of the two sees the other.
	if p.local.u.queues.waiting.Load() != 0 {
		p.local.relieve(p.member, now)
	}
	if len(p.idle) > p.bound {
		p.park(1, false)
	}
}

// surplus moves a connection that cannot stay here to the spare list, or closes it if it cannot
// move or the list has no room. wanted says that a request of another loop waits for it.
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

// Share lists a connection that is in use, or being opened, and takes further requests. The caller
// calls Free at the end of each of its requests but the last, and Unshare and Put at the end of the
// last. Share does not serve requests that wait itself, but in a later turn of the loop. Loop only.
func (p *Pool) Share(c Conn) {
	if invariant.On && slices.Contains(p.shared, c) {
		panic("upstream: a connection was shared twice")
	}
	p.shared = append(p.shared, c)
	if p.local.waiters.n > 0 {
		p.local.own.post(p.local)
	}
}

// Unshare removes a connection that takes no more requests from the list of shared ones. It returns
// false if the connection was not on the list. Loop only.
func (p *Pool) Unshare(c Conn) bool {
	at := slices.Index(p.shared, c)
	if at < 0 {
		return false
	}
	p.shared = slices.Delete(p.shared, at, at+1)
	return true
}

// Drop removes an idle connection that the other side has closed, and counts it off; the caller
// closes it. It returns false if the connection was not idle in this pool. Loop only.
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

// Open reports whether one more connection to the target may be opened, and counts it if so: the
// caller must then call Closed if the connection could not be opened, or when it is closed in use.
// While other requests wait, Open returns false, and a new request has to wait as well. Loop only;
// it does not allocate.
func (p *Pool) Open(now int64) bool {
	return p.local.u.queues.waiting.Load() == 0 && p.enterAndReserve(now)
}

// limited reports whether a request needs more than a connection: a slot at the target or a place
// at the upstream.
func (p *Pool) limited() bool { return p.slot.slots != nil || p.local.u.bound != nil }

// enter takes a slot at the target and a place at the upstream, both or none. It looks for a free
// place first, so that it has to give the slot back only if another loop takes the place meanwhile.
// A loop that began to wait in between has seen the slot taken, so enter wakes it.
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

// available reports whether enter would succeed now.
func (p *Pool) available() bool { return p.slot.available() && p.local.hasPlace() }

// enterAndReserve takes a slot and a place, and counts a connection to be opened: all of them or
// none.
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

// room reports whether there may be one more connection.
func (p *Pool) room() bool { return p.target.open.Load() < p.local.u.mostConnections() }

// mostConnections is how many connections to one target there may be. With HTTP/2 it is at least
// one for each loop: a connection that carries many requests is hardly ever idle, and so does not
// move to another loop.
func (u *Upstream) mostConnections() int64 {
	if u.options.Protocol == HTTP2 {
		return int64(max(u.options.MaxConnections, u.env.Loops))
	}
	return int64(u.options.MaxConnections)
}

// undo gives back a slot and a place for which there was no connection after all, because another
// loop took it first. A loop that began to wait in between has seen the slot taken, so undo wakes
// it.
func (p *Pool) undo(now int64) {
	p.leave(now)
	p.wakeOthers()
}

// wakeOthers wakes the loop, other than this one, whose request is to be served first.
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

// leaveSlot gives a slot back. If the limit has grown, it wakes all loops whose requests wait: the
// slot that is given back would let only one of these requests go on.
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

// Closed counts off a connection that was in use or being opened, and gives its slot back. A
// request that waits may open another connection instead. Loop only.
func (p *Pool) Closed(now int64) {
	p.leave(now)
	p.ClosedFreed(now)
}

// Free gives back the slot of a request whose connection stays in use. The connection either
// carries other requests, or a stream that has no end of its own (a tunnel, for example) and is not
// the kind of work that the target's limit is for. Loop only.
func (p *Pool) Free(now int64) {
	p.leave(now)
	if p.limited() && p.local.u.queues.waiting.Load() != 0 {
		p.local.relieve(p.member, now)
	}
}

// ClosedFreed counts off a connection that holds no slot. A request that waits may open another
// connection instead. Loop only.
func (p *Pool) ClosedFreed(now int64) {
	p.count(-1)
	if p.local.u.queues.waiting.Load() != 0 {
		p.local.relieve(p.member, now)
	}
}

// take finds a connection for a request that waited. It returns (nil, true) if the caller may open
// one.
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

// connectable reports whether there is a connection to take, or room to open one.
func (p *Pool) connectable() bool {
	return len(p.idle) > 0 || len(p.shared) > 0 || p.transferable()
}

// transferable reports whether any loop could get a connection now: a spare one, or by opening one.
func (p *Pool) transferable() bool { return p.target.spare.n.Load() > 0 || p.room() }

// ready reports whether take would succeed, as far as one can know without calling it.
func (p *Pool) ready() bool {
	return p.available() && p.connectable()
}

// park moves at most n connections from the bottom of the stack to the spare list, and returns how
// many left the stack. It closes those for which the list has no room. wanted says that requests of
// other loops wait for them: then there is always room.
func (p *Pool) park(n int, wanted bool) int {
	n = min(n, len(p.idle))
	for _, c := range p.idle[:n] {
		p.surplus(c.conn, c.since, wanted)
	}
	p.cut(n)
	return n
}

// cut removes the n oldest connections from the stack.
func (p *Pool) cut(n int) {
	if n == 0 {
		return
	}
	kept := copy(p.idle, p.idle[n:])
	clear(p.idle[kept:])
	p.idle = p.idle[:kept]
}

// sweep closes connections that were idle too long. Of the others it keeps one, and moves those not
// used for surplusAge to the spare list while that has room.
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
		wanted := p.local.u.queues.waiting.Load() > 0
		p.count(-int64(p.target.spare.expire(before, wanted)))
	}
}

// retire closes the idle connections. Those in use are closed when they are put back.
func (p *Pool) retire() {
	p.gone = true
	for _, c := range p.idle {
		p.retireOne(c.conn)
	}
	p.cut(len(p.idle))
}
