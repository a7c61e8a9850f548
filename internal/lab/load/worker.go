package load

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"

	"plimsoll/internal/head"
	"plimsoll/internal/http1"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/pace"
	"plimsoll/internal/reactor"
	"plimsoll/internal/tlsio"
)

// worker is one loop's share of a run: a schedule, connections, and the requests that wait for
// them. All of it is used on its loop only, except where noted.
//
//	opening → ready → running → closing
//
// It opens its connections and reports that. The run tells it when to start. It runs until no more
// requests may begin and all that were begun have ended. Then it closes what is open, and its loop
// stops.
type worker struct {
	run      *run
	loop     *reactor.Loop
	tls      *tlsio.Loop
	id       int
	phase    phase
	player   Player
	schedule pace.Schedule // nil in a closed loop
	now      int64         // Clock, read at each event
	start    int64         // Clock at the run's beginning
	end      int64         // no request begins from here on; never if there is no Duration
	next     int64         // when the next arrival is due; never if unknown
	ask      int64         // when to ask a streamed schedule again; never if not needed
	alarmAt  int64         // the earliest time at which work has something to do
	lastDue  int64         // when the latest arrival so far was due

	conns    []conn
	toOpen   queue // wait for their turn to open
	idle     queue // may carry another request; first in, first out: see free
	waiting  backlog
	thinking thoughts
	users    int // sessions under way in a closed loop, at most places
	places   int // requests that all connections can carry at once
	limit    reactor.Timer
	boundary reactor.Timer

	opening   int   // attempts under way
	undecided int   // connections whose first attempt is not over
	shaking   int   // goroutines in a handshake
	open      int   // connections that carry or can carry requests
	lastOpen  int64 // when the last of them closed
	inFlight  int
	wakeUp    bool // Defer has been called
	exhausted bool // the schedule has no more arrivals
	cut       bool // the run was ended early

	quic        *quic.Transport // HTTP/3's; nil before the first connection
	quicClosing sync.WaitGroup  // connections of it that are closing

	out       []byte // the request being sent
	parser    http1.Response
	response  head.Response // HTTP/2's
	arena     []byte        // the bytes of a head of HTTP/2
	spareOnes *stream       // unused streams
	answer    Answer
	freeHeld  *held
	heldBytes int
	bodyBytes atomic.Int64 // of the bodies held now; HTTP/3 goroutines change it too

	part   *part // the window being counted
	flipAt int64
	spare  chan *part
	tally
}

type phase uint8

const (
	opening phase = iota
	ready
	running
	closing
)

const (
	// never is later than any time of the clock.
	never = math.MaxInt64 / 2
	// arrivalsAtOnce limits how many arrivals are begun before answers are read again.
	arrivalsAtOnce = 256
	// askAgain is how long to wait before asking a streamed schedule again, in nanoseconds.
	askAgain = 1_000_000
	// lateArrival is how late the loop may take an arrival before it counts against the generator,
	// in nanoseconds.
	lateArrival = 10_000_000
)

// prepare makes the worker's connections and opens them. It must be posted to the loop.
func (w *worker) prepare() {
	if w.run.Spare {
		w.loop.SleepThrough()
	}
	for i := range w.conns {
		c := &w.conns[i]
		c.w, c.state, c.turn = w, queued, i
		w.run.speak(c)
		w.toOpen.push(c)
	}
	w.undecided = len(w.conns)
	w.openNext()
}

// openNext starts as many attempts as may be under way.
func (w *worker) openNext() {
	if w.phase == closing {
		return
	}
	for w.toOpen.count > 0 &&
		(w.opening < maxOpening || w.phase == running && w.run.Target.TLS == nil) {
		w.toOpen.pop().dial()
	}
}

// reopen queues a connection without a socket for opening. The caller goes on with openNext.
func (w *worker) reopen(c *conn) {
	c.state = queued
	w.toOpen.push(c)
}

// decided counts first attempts. When the last one is over, or so many have failed that the others
// need not try, it tells the run.
func (w *worker) decided(c *conn, ok bool) {
	if w.phase != opening {
		return
	}
	w.undecided--
	if !ok && w.made == 0 && w.failedOpening >= giveUpAfter {
		for w.toOpen.count > 0 {
			w.toOpen.pop().state = resting
			w.undecided--
		}
	}
	if w.undecided == 0 {
		w.phase = ready
		w.run.opened <- opened{w.open, w.openError}
	}
}

// begin starts the run's clock. It must be posted to the loop.
func (w *worker) begin(start int64) {
	w.phase, w.start, w.end = running, start, never
	w.now = reactor.Clock()
	if w.run.Duration > 0 {
		w.end = start + int64(w.run.Duration)
	}
	w.next, w.ask = start, never
	if w.schedule != nil {
		w.advance()
	}
	w.startCost()
	w.flipAt = start + int64(w.run.Window)
	w.loop.SetTimer(&w.boundary, w, w.flipAt)
	for i := range w.conns {
		c := &w.conns[i]
		// All were opened at once, and must not all expire at once.
		c.opened = start - int64(w.run.Lifetime)*int64(i)/int64(len(w.conns))
		if c.state == resting {
			c.rest()
		}
	}
	w.setAlarm()
}

// advance asks the schedule for the next arrival.
func (w *worker) advance() {
	due, ok := w.schedule.Next()
	w.next, w.ask = never, never
	if ok {
		if due = max(due, 0); due < never-w.start && w.start+due < w.end {
			w.next = w.start + due
		}
		return
	}
	if s, streamed := w.schedule.(pace.Streamed); streamed && s.Pending() {
		w.ask = w.now + askAgain
		return
	}
	if !w.exhausted {
		w.exhausted = true
		w.run.exhaust()
	}
}

// Run implements reactor.Runner: the alarm fired, or deferred work goes on.
func (w *worker) Run() {
	w.wakeUp = false
	if w.phase != running {
		return
	}
	w.now = reactor.Clock()
	w.work()
	w.afterEvent()
}

// afterEvent begins what has become due while an event was handled, so that a turn with hundreds of
// events delays no arrival.
func (w *worker) afterEvent() {
	if w.phase != running {
		return
	}
	if w.now >= w.alarmAt {
		w.work()
	}
	w.turnPage()
	w.settle()
}

// work begins what is due, and sets the alarm for what comes next.
func (w *worker) work() {
	if w.schedule == nil && w.next <= w.now && w.next < never {
		w.next = never
		w.startUsers()
	}
	for budget := arrivalsAtOnce; ; budget-- {
		if w.ask <= w.now {
			w.advance()
		}
		thought := w.thinking.due()
		if min(w.next, thought) > w.now {
			break
		}
		if budget == 0 {
			w.alarmAt = never
			if !w.wakeUp {
				w.wakeUp = true
				w.loop.Defer(w)
			}
			return
		}
		if thought < w.next {
			w.offer(w.thinking.Pop())
			continue
		}
		due := w.next
		if due >= w.flipAt {
			w.flip(due)
		}
		w.advance()
		w.arrivals++
		w.lastDue = due
		if w.now-due > lateArrival {
			w.late++
		}
		w.offer(waiting{due: due})
		w.now = reactor.Clock()
	}
	if w.now >= w.end {
		w.dropThoughts()
	}
	w.setAlarm()
}

// setAlarm sets the alarm to the next time at which work has something to do.
func (w *worker) setAlarm() {
	w.alarmAt = min(w.next, w.ask, w.thinking.due())
	if w.end > w.now {
		w.alarmAt = min(w.alarmAt, w.end)
	}
	if w.alarmAt == never {
		w.loop.StopAlarm()
		return
	}
	w.loop.SetAlarm(w.alarmAt, w)
}

// offer passes a request that is due to an idle connection, or queues it.
func (w *worker) offer(a waiting) {
	w.part.due++
	if c := w.takeIdle(); c != nil {
		fresh := a.session == nil
		if fresh {
			a.session = w.player.Begin()
		}
		c.begin(a.session, a.due).onTime = fresh
		w.pushIdle(c)
		return
	}
	if w.waiting.full() {
		w.giveUp(w.waiting.pop())
	}
	w.waiting.push(a)
	if w.waiting.count == 1 {
		w.watchBacklog()
	}
}

// takeIdle returns a connection that may carry another request, or nil.
func (w *worker) takeIdle() *conn {
	for w.idle.count > 0 {
		c := w.popIdle()
		if c.usable() {
			return c
		}
		c.retire()
	}
	return nil
}

// pushIdle makes a connection available to takeIdle, if it may carry another request.
func (w *worker) pushIdle(c *conn) {
	if !c.idle && c.usable() {
		c.idle = true
		w.idle.push(c)
	}
}

func (w *worker) popIdle() *conn {
	c := w.idle.pop()
	c.idle = false
	return c
}

// leaveIdle removes a connection from takeIdle's choice.
func (w *worker) leaveIdle(c *conn) {
	if c.idle {
		c.idle = false
		w.idle.remove(c)
	}
}

// renew closes connections that are too old before a request would have to wait for a new one.
func (w *worker) renew() {
	for n := w.idle.count; n > 0; n-- {
		c := w.popIdle()
		c.retire()
		w.pushIdle(c)
	}
}

// free gives an open connection the requests that have waited longest, as far as it has room, and
// makes it idle if room is left.
//
// Idle connections are used first in, first out. The last one used would be warmer in the caches of
// both sides. But at low rates a few connections would then carry everything, and a target that
// distributes its connections over workers would show only what a few of its workers can do.
func (w *worker) free(c *conn) {
	for w.waiting.count > 0 && c.usable() {
		a := w.waiting.pop()
		if w.now-a.due >= int64(w.run.Timeout) {
			w.giveUp(a)
			continue
		}
		if a.session == nil {
			a.session = w.player.Begin()
		}
		c.begin(a.session, a.due)
	}
	for w.schedule == nil && w.phase == running && w.users < w.places && w.now >= w.start &&
		w.now < w.end && c.usable() {
		w.users++
		w.arrivals++
		w.part.due++
		c.begin(w.player.Begin(), w.now).prompt = true
	}
	w.pushIdle(c)
}

// startUsers starts a closed loop: every connection sends.
func (w *worker) startUsers() {
	for n := w.idle.count; n > 0; n-- {
		w.popIdle().reuse(true)
	}
}

// think continues a session at a later time. A session that would continue after the run's end ends
// now. The exception is a closed loop: its user would start another session, so it thinks until the
// end instead.
func (w *worker) think(s Session, due int64) {
	if w.now >= w.end || w.schedule != nil && due >= w.end ||
		w.exhausted && due > w.lastDue+int64(w.run.Timeout) {
		w.sessionOver(s)
		return
	}
	if w.thinking.Len() >= w.waiting.limit {
		w.part.due++
		w.example(measure.NotSent,
			"more sessions think at once than may wait for a connection", nil)
		w.unsent(waiting{due, s}, measure.NotSent)
		return
	}
	w.thinking.Push(waiting{due, s})
	if due < w.alarmAt {
		w.alarmAt = due
		w.loop.SetAlarm(due, w)
	}
}

func (w *worker) dropThoughts() {
	for w.thinking.Len() > 0 {
		w.sessionOver(w.thinking.Pop().session)
	}
}

// sessionOver ends a session whose last request has ended.
func (w *worker) sessionOver(s Session) {
	s.End()
	w.users--
}

// watchBacklog sets a timer that gives up waiting requests in time, even if no connection becomes
// free.
func (w *worker) watchBacklog() {
	if w.waiting.count > 0 {
		w.loop.SetTimer(&w.limit, w, w.waiting.oldest().due+int64(w.run.Timeout))
	}
}

// Expire implements reactor.Expirer.
func (w *worker) Expire(t *reactor.Timer, _ int64) {
	if w.phase != running {
		return
	}
	w.now = reactor.Clock()
	if t == &w.limit {
		for w.waiting.count > 0 && w.now-w.waiting.oldest().due >= int64(w.run.Timeout) {
			w.giveUp(w.waiting.pop())
		}
		w.watchBacklog()
	}
	w.afterEvent()
	if t == &w.boundary && w.phase == running {
		if w.run.Lifetime > 0 {
			w.renew()
		}
		w.loop.SetTimer(&w.boundary, w, min(w.flipAt, w.now+int64(w.run.Window)))
	}
}

// closed counts a connection that was open and has closed.
func (w *worker) closed() {
	if w.open--; w.open == 0 {
		w.lastOpen = w.now
	}
}

// giveUp ends a request that was never sent because no connection became free for it.
func (w *worker) giveUp(a waiting) {
	kind := measure.NotSent
	why := "no connection became free in time, as all were waiting for answers"
	if w.run.Streams > 0 {
		why = "no stream became free in time, as all were waiting for answers, " +
			"or the target allows too few"
	}
	if w.open == 0 && a.due >= w.lastOpen {
		kind, why = measure.ConnectFailed, "no connection was open, and none could be made in time"
	}
	w.example(kind, why, nil)
	w.unsent(a, kind)
}

// attemptFailed records that a connection could not be made, and fails the requests that depended
// on it. If no connection is open, these are all waiting requests, as nothing else could carry
// them. Otherwise it is the one that has waited longest. In a closed loop it is the connection's
// own request.
func (w *worker) attemptFailed(err error) {
	if w.openError == nil {
		w.openError = err
	}
	if reactor.OutOfResources(err) {
		w.ownLimit = err
	}
	if w.phase != running {
		w.failedOpening++
		return
	}
	if w.examples[measure.ConnectFailed] == "" {
		w.example(measure.ConnectFailed, "no connection", err)
	}
	w.now = reactor.Clock()
	if w.schedule == nil && w.waiting.count == 0 && w.now >= w.start && w.now < w.end {
		w.arrivals++
		w.users++
		w.part.due++
		w.unsent(waiting{due: w.now}, measure.ConnectFailed)
		return
	}
	for w.waiting.count > 0 {
		w.unsent(w.waiting.pop(), measure.ConnectFailed)
		if w.open > 0 {
			return
		}
	}
}

// unsent counts a request that was never sent. It begins the session anyway, so that the next
// arrival gets its own session and the kind of request is known.
func (w *worker) unsent(a waiting, kind measure.Kind) {
	if a.session == nil {
		a.session = w.player.Begin()
	}
	name := 0
	if w.kinds != nil {
		var r Request
		w.out, r = a.session.Request(w.out[:0])
		name = r.Name
	}
	w.ended(kind, name, w.now-a.due, 0)
	w.sessionOver(a.session)
}
