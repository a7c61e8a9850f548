package reactor

import (
	"errors"
	"syscall"
	"time"
)

// The pause between two tries to connect to a unix socket whose accept queue is full, in
// nanoseconds. It doubles each time that there was no room. The timer wheel rounds it up by one or
// two of its ticks.
const (
	leastDialPause = int64(time.Millisecond)
	mostDialPause  = int64(50 * time.Millisecond)
)

// dialsPerTurn bounds how many waiting connections one turn connects, or fails.
const dialsPerTurn = 64

// backlog is the connections of one loop that wait for room in the accept queue of one unix socket.
//
// Where TCP would send its SYN again, connect(2) refuses a unix socket with EAGAIN when the queue
// is full, and no event tells of room. So the loop tries again. Only the connection that has waited
// longest is tried, and the next one only once that is settled: a try without room costs one system
// call however many wait, and newcomers overtake nobody.
//
// A backlog is in its loop's table exactly as long as somebody waits, and its timer runs exactly as
// long.
type backlog struct {
	loop        *Loop
	to          Address
	timer       Timer
	pause       int64
	first, last *place
}

// place is a connection's place in a backlog. The connection has a socket that the poller does not
// know yet.
type place struct {
	conn       *Conn
	backlog    *backlog
	next, prev *place
}

// noRoom says that connect(2) found the accept queue full. For other families than unix EAGAIN
// means something else.
func noRoom(to Address, err error) bool { return to.Path != "" && errors.Is(err, syscall.EAGAIN) }

// queueFor makes c, whose socket is fd, wait for room at an address.
func (l *Loop) queueFor(to Address, c *Conn, fd int, h Handler) {
	l.check()
	b := l.waiting[to.Path]
	if b == nil {
		if l.waiting == nil {
			l.waiting = make(map[string]*backlog)
		}
		b = &backlog{loop: l, to: to, pause: leastDialPause}
		l.waiting[to.Path] = b
		l.SetTimer(&b.timer, b, l.now+b.pause)
	}
	p := &place{conn: c, backlog: b, prev: b.last}
	if b.last == nil {
		b.first = p
	} else {
		b.last.next = p
	}
	b.last = p
	c.loop, c.handler, c.fd, c.flags, c.failed, c.place = l, h, int32(fd), connecting, 0, p
}

// leave gives the place up. The last one ends the backlog.
func (p *place) leave() {
	b := p.backlog
	if p.prev == nil {
		b.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		b.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.conn.place = nil
	if b.first == nil {
		b.loop.ReleaseTimer(&b.timer)
		delete(b.loop.waiting, b.to.Path)
	}
}

// Expire implements Expirer: it tries again.
func (b *backlog) Expire(_ *Timer, now int64) {
	for n := 0; b.first != nil && n < dialsPerTurn; n++ {
		c := b.first.conn
		err := connect(int(c.fd), b.to)
		if noRoom(b.to, err) {
			b.pause = min(2*b.pause, mostDialPause)
			break
		}
		b.pause = leastDialPause
		c.settle(err)
	}
	if b.first != nil {
		b.loop.SetTimer(&b.timer, b, now+b.pause)
	}
}

// settle ends the waiting of a connection: it is connected, which its first event tells, or has
// failed with err.
func (c *Conn) settle(err error) {
	if err == nil {
		var slot uint32
		if slot, err = c.loop.register(int(c.fd), c, edge); err == nil {
			c.slot = slot
			c.place.leave()
			return
		}
	}
	h := c.handler
	c.Close()
	h.Connected(err)
}
