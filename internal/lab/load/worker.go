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

// worker is one loop's share of a run: a schedule, connections, and what waits for them. Everything
// in it is touched on its loop only.
//
//	opening → ready → running → closing
//
// It opens its connections and says so; the run tells it when to start; it runs until no request
// may begin any more and all that were begun have ended; it closes what is open, and its loop
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
	end      int64         // no request begins from here on; never without a Duration
	next     int64         // when the next arrival is due; never when none is known
	ask      int64         // when to ask a streamed schedule again; never when there is no need
	alarmAt  int64         // the earliest time at which work has something to do
	lastDue  int64         // of the arrivals so far

	conns    []conn
	toOpen   queue // waits for its turn to open
	idle     queue // may carry another request; first in, first out: see free
	waiting  backlog
	thinking thoughts
	users    int // sessions under way in a closed loop, at most places
	places   int // requests that all connections can carry at once
	limit    reactor.Timer
	boundary reactor.Timer

	opening   int   // attempts under way
	undecided int   // connections whose first attempt is not over
	shaking   int   // goroutines that do a handshake
	open      int   // connections that can carry requests, or do
	lastOpen  int64 // when there was none of them any more
	inFlight  int
	wakeUp    bool // Defer has been called
	exhausted bool // the schedule has no more
	cut       bool // the run was ended early

	quic        *quic.Transport // of HTTP/3; nil before the first connection
	quicClosing sync.WaitGroup  // connections of it that are being closed

	out       []byte // the request that is being sent
	parser    http1.Response
	response  head.Response // of HTTP/2
	arena     []byte        // the bytes of a head of HTTP/2
	spareOnes *stream       // that carry nothing
	answer    Answer
	freeHeld  *held
	heldBytes int
	bodyBytes atomic.Int64 // of the bodies that are held now; those of HTTP/3 are on goroutines

	part   *part // the window that is being counted
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
	// arrivalsAtOnce bounds how many arrivals are begun before answers are looked at again.
	arrivalsAtOnce = 256
	// askAgain is how long to wait before a streamed schedule is asked again, in nanoseconds.
	askAgain = 1_000_000
	// lateArrival is how late the loop may take an arrival before that counts against the
	// generator, in nanoseconds.
	lateArrival = 10_000_000
)

// prepare makes the worker's connections and opens them. It is posted.
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

// openNext begins as many attempts as may be under way.
func (w *worker) openNext() {
	if w.phase == closing {
		return
	}
	for w.toOpen.count > 0 &&
		(w.opening < maxOpening || w.phase == running && w.run.Target.TLS == nil) {
		w.toOpen.pop().dial()
	}
}

// reopen puts a connection without a socket among those to open. The caller goes on with openNext.
func (w *worker) reopen(c *conn) {
	c.state = queued
	w.toOpen.push(c)
}

// decided counts first attempts. When the last one is over, or so many failed that the others need
// not try, the run is told.
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

// begin starts the run's clock. It is posted.
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
		// All were opened at once, and must not all end at once.
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

// Run implements reactor.Runner: the alarm has rung, or deferred work goes on.
func (w *worker) Run() {
	w.wakeUp = false
	if w.phase != running {
		return
	}
	w.now = reactor.Clock()
	w.work()
	w.afterEvent()
}

// afterEvent does what has become due while an event was served, so that a turn with hundreds of
// events makes no arrival late.
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

// setAlarm has work called when it has something to do.
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

// offer gives a request that is due to an idle connection, or has it wait for one.
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

// takeIdle is a connection that may carry another request, or nil.
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

// pushIdle lets a connection be found by takeIdle, if it may carry another request.
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

// leaveIdle has a connection not be found any more.
func (w *worker) leaveIdle(c *conn) {
	if c.idle {
		c.idle = false
		w.idle.remove(c)
	}
}

// renew closes connections that are too old, so that no request has to wait for a new one.
func (w *worker) renew() {
	for n := w.idle.count; n > 0; n-- {
		c := w.popIdle()
		c.retire()
		w.pushIdle(c)
	}
}

// free gives an open connection to what has waited longest, as far as it has room, and lets it be
// idle with the room that is left.
//
// Idle connections are used first in, first out. The last one used would be warmer in the caches,
// here and there; but at low rates a few connections would then carry everything, and a target that
// deals its connections out to workers would show what a few of its workers can do.
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

// startUsers begins a closed loop: every connection sends.
func (w *worker) startUsers() {
	for n := w.idle.count; n > 0; n-- {
		w.popIdle().reuse(true)
	}
}

// think has a session go on at a time. A session that would go on after the run's end ends now; but
// for a closed loop's, whose user would begin another one, and who so thinks until the end.
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

// watchBacklog gives up in time what waits without success, though no connection becomes free.
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

// closed counts a connection that was open and is not any more.
func (w *worker) closed() {
	if w.open--; w.open == 0 {
		w.lastOpen = w.now
	}
}

// giveUp ends a request that was never sent, because no connection became free for it.
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

// attemptFailed notes that a connection could not be made. What depended on it fails with it: all
// that wait when no connection is open, as nothing else could carry them, and else what has waited
// longest. In a closed loop it is the connection's own request.
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

// unsent counts a request that was never sent. Its session is begun all the same, so that the next
// arrival gets its own, and its kind of request is known.
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
