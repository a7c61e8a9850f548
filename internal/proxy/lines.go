package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// lines holds the client connections of one loop that wait to be read, because the loop has more to
// do than it can. There is a line for each class that has to wait, in order of arrival. A
// connection is in the line of the highest class that it has carried. Those that have carried no
// request have a line of their own. What they send waits in the kernel, where it costs nothing.
//
// Each turn first serves what is in no line: the connections that have carried the highest class,
// and the responses of services. Then it serves the lines for a bounded time, so that the first
// ones wait no longer however much comes from the others. A refusal costs half as much as an
// answer. Without the bound clients that come again at once could occupy the loop with nothing but
// refusals.
//
// While requests of a class are refused, the lines of lower classes are held: of each, one
// connection is read in about a heldTime of the loop's processor time. Nearly all of what they send
// would be refused, and each refusal takes the place of half a request of the higher class.
type lines struct {
	w       *Worker
	lines   [upstream.Classes + 1]line // first that of connections without a class, then by class
	waiting int
	due     bool // Run is to be called
	// How long, in nanoseconds, connections in the lines of the classes above each class have
	// waited.
	late [upstream.Classes]int64
	cpu  int64 // the loop's processor time when Run read it, or when the first connection joined
	// Of each line that is held: when the next connection may be read, in the loop's time, and the
	// loop's processor time when it was last found to be held.
	heldUntil, heldAt [upstream.Classes + 1]int64
	timer             reactor.Timer // for the next one, if only lines that are held have any
}

type line struct{ first, last *clientConn }

const (
	// ownPart is the part that each line gets of the time that the lines before it leave. The next
	// line gets some time too, so that connections that wait there are refused in the end and not
	// forgotten.
	ownPart = .75
	// atOnce is how many connections are read before the clock is read, which is a system call.
	atOnce = 4
	// heldTime is the loop's processor time, in nanoseconds, for each connection that is read from a
	// line that is held. At 35 µs a request, a sixtieth of the loop's time is for each such line.
	heldTime = 2e6
	// heldMost bounds the time between two of them, in nanoseconds, and so for how long a loop that
	// has nothing else to do goes on holding a line.
	heldMost = 20e6
)

// takeTurn puts the connection into its line if it has to wait, and reports whether it had to. If
// its client has gone, takeTurn closes the connection instead, because no further event would come.
// But a client that still takes its last response may go on taking it.
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

// gone reports whether the client has ended the connection, and no response waits for it to read
// on.
func (c *clientConn) gone() bool { return c.conn.PeerEnded() && !c.conn.Congested() }

// mustWait reports whether the connection has to wait in a line before it is read. It does not if a
// part of a head has come.
func (c *clientConn) mustWait() bool {
	a := c.w.view.Admission
	if a == nil || c.flow != nil || c.begun || !a.Waits(c.highest) {
		return false
	}
	return c.w.lines.waiting > 0 || c.w.limiter.Behind(a)
}

// number is the line that a connection joins. One of HTTP/2 whose requests are under way joins the
// line that is never held: what waits unread may be the rest of them, or room for their responses.
func (ls *lines) number(c *clientConn) uint8 {
	if h := c.http2; h != nil && (h.open > 0 || h.block != nil) {
		return 0
	}
	return uint8((int(c.highest) + 1) % len(ls.lines))
}

// add puts a connection at the end of its line.
func (ls *lines) add(c *clientConn) {
	if !ls.due {
		ls.cpu, ls.due = ls.w.loop.CPU(), true
		ls.w.loop.Defer(ls)
	}
	c.line = ls.number(c) // its class may change while it waits, by a stream that a policy resumes
	l := &ls.lines[c.line]
	c.inLine, c.inLineFrom, c.lineNext, c.linePrev = true, ls.cpu, nil, l.last
	if l.last == nil {
		l.first = c
	} else {
		l.last.lineNext = c
	}
	l.last = c
	ls.waiting++
}

// next takes a connection out of its line in order to read it, and notes how long it waited. While
// its line was held it waited for others, which does not count: whether its request is refused
// depends on what the loop has to do now.
func (ls *lines) next(c *clientConn) {
	ls.remove(c)
	since := max(c.inLineFrom, ls.heldAt[c.line])
	c.waited = int64(float64(ls.cpu-since) * ls.w.loop.Stretch())
}

// waited returns how long, in nanoseconds, a request of a class counts as having waited: as long as
// its connection waited in its line, and no less than those of higher classes. Otherwise a few
// requests of a low class would be admitted while many of a higher one are refused.
func (ls *lines) waited(o *origin, class uint8) int64 {
	return max(o.waited, ls.late[class%upstream.Classes])
}

// remove takes a connection out of its line.
func (ls *lines) remove(c *clientConn) {
	l := &ls.lines[c.line]
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
	if ls.waiting--; ls.waiting == 0 {
		ls.w.loop.ReleaseTimer(&ls.timer)
	}
}

// Run implements reactor.Runner. It serves the lines at the end of a turn, and again in the next
// turns while connections wait. Times are of the processor, stretched as in Loop.Backlog.
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
		late = max(late, ls.serve(i, until))
	}
	ls.goOn()
}

// serve reads connections of one line until the loop's processor time is until, and returns the
// longest time that one of a class has waited. Of a line that is held it reads one, if it is time.
func (ls *lines) serve(i int, until int64) (late int64) {
	loop, most := ls.w.loop, atOnce
	if ls.lines[i].first != nil && ls.held(i) {
		ls.heldAt[i] = ls.cpu
		if loop.Now() < ls.heldUntil[i] {
			return 0
		}
		ls.heldUntil[i] = loop.Now() + ls.heldPause()
		until, most = 0, 1
	}
	for n := 1; ls.lines[i].first != nil; n++ {
		c := ls.lines[i].first
		ls.next(c)
		if i > 0 {
			late = max(late, c.waited)
		}
		c.readOn()
		if n%most == 0 && loop.CPU() >= until {
			break
		}
	}
	return late
}

// held reports whether a line is held.
func (ls *lines) held(i int) bool {
	return i > 0 && ls.w.limiter.Holds(ls.w.view.Admission, ls.w.loop.Now(), uint8(i-1))
}

// heldPause is about the time, in nanoseconds, in which a busy loop gets heldTime of its processor.
func (ls *lines) heldPause() int64 { return min(int64(heldTime*ls.w.loop.Stretch()), heldMost) }

// goOn has Run called again if connections wait: in the next turn, or after a pause if all of them
// are held. Otherwise a loop with little else to do would do nothing but refuse those.
func (ls *lines) goOn() {
	if ls.waiting == 0 {
		ls.late = [upstream.Classes]int64{}
		return
	}
	for i := range ls.lines {
		if ls.lines[i].first != nil && !ls.held(i) {
			ls.due = true
			ls.w.loop.Defer(ls)
			return
		}
	}
	ls.late = [upstream.Classes]int64{} // of this turn; the next one may be far
	ls.w.loop.SetTimer(&ls.timer, ls, ls.w.loop.Now()+ls.heldPause())
}

// Expire implements reactor.Expirer: it is time for a connection that is held.
func (ls *lines) Expire(*reactor.Timer, int64) {
	if !ls.due {
		ls.Run()
	}
}

// serveAll reads all connections that wait.
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
