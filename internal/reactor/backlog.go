package reactor

import (
	"errors"
	"syscall"
	"time"
)

// The pause between two tries to connect to a unix socket whose accept queue is full, in
// nanoseconds. It doubles after each try that finds no room. The timer wheel rounds it up by one or
// two of its ticks.
const (
	leastDialPause = int64(time.Millisecond)
	mostDialPause  = int64(50 * time.Millisecond)
)

// dialsPerTurn is how many waiting connections one turn connects, or fails, at most.
const dialsPerTurn = 64

// backlog is the queue of a loop's connections that wait for room in the accept queue of one unix
// socket.
//
// When the accept queue is full, TCP sends its SYN again, but connect(2) on a unix socket fails
// with EAGAIN, and no event reports room. So the loop tries again. It tries only the connection
// that has waited longest, and the next one only once that one has succeeded or failed. So a try
// that finds no room costs one system call however many connections wait, and they connect in
// order.
//
// A backlog is in its loop's map, and its timer runs, exactly as long as a connection waits in it.
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

// noRoom reports whether err says that connect(2) found the accept queue full. For families other
// than unix, EAGAIN means something else.
func noRoom(to Address, err error) bool { return to.Path != "" && errors.Is(err, syscall.EAGAIN) }

// queueFor makes c, whose socket is fd, wait for room in the accept queue of address to.
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

// leave takes the place out of its backlog. If it was the last one, the backlog ends.
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

// settle ends a connection's wait. It is connected, which its first event reports, or has failed
// with err.
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
