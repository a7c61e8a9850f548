package proxy

import (
	"plimsoll/internal/admission"
	"plimsoll/internal/exchange"
	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// lines holds the client connections of one loop that wait to be read, because the loop has more to
// do than it can. There is a line for each class that has to wait, in order of arrival. A
// connection is in the line of the highest class that it has carried. Those that have carried no
// request have a line of their own, and so have those whose clients have gone. What they send waits
// in the kernel, where it costs nothing.
//
// Each turn first serves what does not wait: the connections that have carried the highest class,
// and the responses to its requests. At the end come the other responses (upstreamConn.givesWay)
// and the lines, these for a bounded time, so that the first ones wait no longer however much comes
// from the others. A refusal costs half as much as an answer. Without the bound clients that come
// again at once could occupy the loop with nothing but refusals.
//
// While requests of a class are refused, the lines of lower classes are held: of each, one
// connection is read in about a heldTime of the loop's processor time. Nearly all of what they send
// would be refused, and each refusal takes the place of half a request of the higher class.
type lines struct {
	w       *Worker
	lines   [goneLine + 1]line // first that of connections without a class, then by class
	waiting int                // connections in all lines
	gone    int                // of these, in goneLine
	due     bool               // Run is to be called
	began   int64              // since when some wait to be read, in the loop's time
	// How long, in nanoseconds, connections in the lines of the classes above each class have
	// waited.
	late [upstream.Classes]int64
	cpu  int64 // the loop's processor time when Run read it, or when the first connection joined
	// Of each line that is held: when the next connection may be read, in the loop's time, and the
	// loop's processor time when it was last found to be held.
	heldUntil, heldAt [goneLine]int64
	timer             reactor.Timer // for the next one, if only lines that are held have any
}

type line struct{ first, last *clientConn }

// goneLine is the line of connections whose clients have gone, which are only to be closed. To close
// one costs as much as a request, and clients that have waited equally long give up at once: 116
// in one turn of 56 ms, of a loop that had a sixth of its processor (bench/own_cpu.py).
const goneLine = upstream.Classes + 1

const (
	// ownPart is the part that each line gets of the time that the lines before it leave. The next
	// line gets some time too, so that connections that wait there are refused in the end and not
	// forgotten.
	ownPart = .75
	// atOnce is how many connections are read before the clock is read, which is a system call.
	atOnce = 4
	// crowd is how many events, about a millisecond's work, make a turn have all but the highest
	// class wait. A loop that shares its processor finds them after each time slice of another
	// program, although its backlog is small.
	crowd = 32
	// crowdTime is for how long, in nanoseconds, nobody is refused because of having waited, if the
	// loop is not behind, nor has refused a request within a second: a crowd that comes once is soon
	// served. The smoothed backlog has the same time constant.
	crowdTime = 30e6
	// heldTime is the loop's processor time, in nanoseconds, for each connection that is read from a
	// line that is held. At 35 µs a request, a sixtieth of the loop's time is for each such line.
	heldTime = 2e6
	// heldMost bounds the time between two of them, in nanoseconds, and so for how long a loop that
	// has nothing else to do goes on holding a line.
	heldMost = 20e6
)

// takeTurn puts the connection into its line if it has to wait, and reports whether it had to. An
// HTTP/2 connection whose client has gone is closed instead: its streams are of all classes.
func (c *clientConn) takeTurn() bool {
	if !c.mustWait() {
		return false
	}
	if c.http2 != nil && c.gone() {
		c.abort(exchange.NoReason)
	} else {
		c.w.lines.add(c)
	}
	return true
}

// gone reports whether the client has ended the connection. One that still takes its last response
// may go on taking it.
func (c *clientConn) gone() bool { return c.conn.PeerEnded() && !c.conn.Congested() }

// leave is called when the client of a connection in a line has gone.
func (c *clientConn) leave() {
	switch {
	case c.http2 != nil:
		c.abort(exchange.NoReason)
	case c.line != goneLine:
		c.w.lines.remove(c)
		c.w.lines.add(c)
	}
}

// takeUp goes on with a connection that has left its line.
func (c *clientConn) takeUp() {
	if c.line == goneLine && c.gone() {
		c.abort(exchange.NoReason)
		return
	}
	c.readOn()
}

// mustWait reports whether the connection has to wait in a line before it is read. It does not if a
// part of a head has come.
func (c *clientConn) mustWait() bool {
	a := c.w.view.Admission
	return a != nil && c.flow == nil && !c.begun && a.Waits(c.highest) && c.w.lines.mustWait(a)
}

// mustWait reports whether what can wait has to. In a turn with many events it has to although the
// loop may not be behind: then the highest class is served first.
func (ls *lines) mustWait(a *admission.SheddingPlan) bool {
	return ls.waiting > ls.gone || ls.w.loop.Events() >= crowd || ls.w.limiter.Behind(a)
}

// number is the line that a connection joins. One of HTTP/2 whose requests are under way joins the
// line that is never held: what waits unread may be the rest of them, or room for their responses.
func (ls *lines) number(c *clientConn) uint8 {
	if h := c.http2; h != nil && (h.open > 0 || h.block != nil) {
		return 0
	}
	if c.gone() {
		return goneLine
	}
	return uint8((int(c.highest) + 1) % goneLine)
}

// add puts a connection at the end of its line.
func (ls *lines) add(c *clientConn) {
	ls.schedule()
	c.line = ls.number(c) // its class may change while it waits, by a stream that a policy resumes
	switch {
	case c.line == goneLine:
		ls.gone++
	case ls.waiting == ls.gone:
		ls.began = ls.w.loop.Now()
	}
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

// schedule has Run called at the end of the turn.
func (ls *lines) schedule() {
	if !ls.due {
		ls.cpu = ls.w.loop.CPU()
		ls.again()
	}
}

// again is schedule without reading the loop's processor time.
func (ls *lines) again() {
	if !ls.due { // what Run reads may have had it called again already
		ls.due = true
		ls.w.loop.Defer(ls)
	}
}

// next takes a connection out of its line in order to read it, and notes how long it waited. While
// its line was held it waited for others, which does not count: whether its request is refused
// depends on what the loop has to do now.
func (ls *lines) next(c *clientConn) {
	ls.remove(c)
	if c.line == goneLine || ls.passing() {
		c.waited = 0
		return
	}
	since := max(c.inLineFrom, ls.heldAt[c.line])
	c.waited = int64(float64(ls.cpu-since) * ls.w.loop.Stretch())
}

// passing reports whether connections wait for a single crowded turn, as far as can be said yet.
// That is not a reason to refuse a request. On a processor that other programs use too, the next
// crowd comes after each of their time slices, and there is less time to see whether it does. With
// the whole crowdTime there, the highest class was late more often (bench/own_cpu.py).
func (ls *lines) passing() bool {
	w, now := ls.w, ls.w.loop.Now()
	a := w.view.Admission
	if a == nil { // a reload took it away, and a timer fires before Run is called
		return true
	}
	since := float64(now-ls.began) * w.loop.Stretch()
	return since < crowdTime && !w.limiter.Behind(a) && !w.limiter.Refusing(now)
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
	if c.line == goneLine {
		ls.gone--
	}
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
		if i > 0 && i < goneLine { // the first line is of no class
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
		c.takeUp()
		if n%most == 0 && loop.CPU() >= until {
			break
		}
	}
	return late
}

// held reports whether a line is held.
func (ls *lines) held(i int) bool {
	return i > 0 && i < goneLine && ls.w.limiter.Holds(ls.w.view.Admission, ls.w.loop.Now(), uint8(i-1))
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
			ls.again()
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
			c.takeUp()
		}
	}
}
