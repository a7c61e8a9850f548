package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/upstream"
)

// lines are the client connections of one loop that wait to be read, because the loop has more to do
// than it can: a line for each class that has to wait, first come, first served. A connection is in
// the line of the highest class that it has carried, and one that has carried nothing in a line of
// its own. What they send waits in the kernel, where it costs nothing.
//
// Each turn serves what has no line first: the connections that have carried the highest class, and
// what services answer. Then it serves the lines, for a bounded time: how long those connections wait
// does not depend on how much comes of the others. A refusal costs half of an answer, so without that
// bound clients that ask again at once could use the loop up with nothing but refusals.
type lines struct {
	w       *Worker
	lines   [upstream.Classes + 1]line // of those that have carried nothing, then by class
	waiting int
	due     bool // Run is to be called
	// How long those wait, nanoseconds, who are in the lines of the classes above each class.
	late [upstream.Classes]int64
	cpu  int64 // the loop's processor time, when Run read it or the first came
}

type line struct{ first, last *clientConn }

const (
	// ownPart is what each line has of the time that those before it leave: the next one gets some of
	// it too, so that who waits there is refused in the end, not forgotten.
	ownPart = .75
	// atOnce is how many connections are read until the clock is, which is a system call.
	atOnce = 4
)

// takeTurn puts the connection in its line where it has to wait; it says whether it did. One whose
// client has gone is closed: no further event would tell. What such a client still takes of its last
// response it is left to take.
func (c *clientConn) takeTurn() bool {
	if !c.mustWait() {
		return false
	}
	if c.gone() {
		c.abort(exchange.NoReason)
	} else {
		c.w.lines.add(c)
	}
	return true
}

// gone says that the client has ended, and that no response waits for it to read on.
func (c *clientConn) gone() bool { return c.conn.PeerEnded() && !c.conn.Congested() }

// mustWait says whether what the client sends is to be read in its turn. A head of which a part is
// there does not wait any more.
func (c *clientConn) mustWait() bool {
	a := c.w.view.Admission
	if a == nil || c.flow != nil || c.begun || !a.Waits(c.highest) {
		return false
	}
	return c.w.lines.waiting > 0 || c.w.limiter.Behind(a)
}

func (ls *lines) of(c *clientConn) *line {
	return &ls.lines[(int(c.highest)+1)%len(ls.lines)]
}

// add puts a connection at the end of its line.
func (ls *lines) add(c *clientConn) {
	if !ls.due {
		ls.cpu, ls.due = ls.w.loop.CPU(), true
		ls.w.loop.Defer(ls)
	}
	l := ls.of(c)
	c.inLine, c.inLineFrom, c.lineNext, c.linePrev = true, ls.cpu, nil, l.last
	if l.last == nil {
		l.first = c
	} else {
		l.last.lineNext = c
	}
	l.last = c
	ls.waiting++
}

// next takes a connection out of its line because it is read now, and notes how long it waited.
func (ls *lines) next(c *clientConn) {
	ls.remove(c)
	c.waited = int64(float64(ls.cpu-c.inLineFrom) * ls.w.loop.Stretch())
}

// waited is how long a request of a class counts as having waited: as long as its connection did in
// its line, and no less than those of a higher class. Else few of a low class would be admitted
// while many of a higher one are refused.
func (ls *lines) waited(o *origin, class uint8) int64 {
	return max(o.waited, ls.late[class%upstream.Classes])
}

// remove takes a connection out of its line.
func (ls *lines) remove(c *clientConn) {
	l := ls.of(c)
	if c.linePrev == nil {
		l.first = c.lineNext
	} else {
		c.linePrev.lineNext = c.lineNext
	}
	if c.lineNext == nil {
		l.last = c.linePrev
	} else {
		c.lineNext.linePrev = c.linePrev
	}
	c.inLine, c.lineNext, c.linePrev = false, nil, nil
	ls.waiting--
}

// Run implements reactor.Runner: it serves the lines at the end of a turn, and in the next ones while
// somebody waits. Times are of the processor, stretched as Loop.Backlog does it.
func (ls *lines) Run() {
	a, loop := ls.w.view.Admission, ls.w.loop
	ls.due = false
	if a == nil { // a reload took it away
		ls.serveAll()
		return
	}
	if now := loop.Now(); ls.w.limiter.Due(now) {
		ls.w.limiter.Observe(now, loop.Backlog())
	}
	ls.cpu = loop.CPU()
	until, end := ls.cpu, ls.cpu+int64(float64(a.LineTime())/loop.Stretch())
	late := int64(0)
	for i := range ls.lines {
		until += int64(ownPart * float64(end-until))
		if i > 0 { // the first line is of no class
			ls.late[i-1] = late
		}
		for n := 1; ls.lines[i].first != nil; n++ {
			c := ls.lines[i].first
			ls.next(c)
			if i > 0 {
				late = max(late, c.waited)
			}
			c.readOn()
			if n%atOnce == 0 && loop.CPU() >= until {
				break
			}
		}
	}
	if ls.waiting > 0 {
		ls.due = true
		loop.Defer(ls)
	} else {
		ls.late = [upstream.Classes]int64{}
	}
}

// serveAll reads all who wait.
func (ls *lines) serveAll() {
	ls.late = [upstream.Classes]int64{}
	for i := range ls.lines {
		for ls.lines[i].first != nil {
			c := ls.lines[i].first
			ls.remove(c)
			c.readOn()
		}
	}
}
