// Package reactor runs event loops: readiness, timers, wake-ups, sockets and buffers. It knows
// nothing of protocols or of the gateway. Only a loop's own thread touches what the loop owns.
// Other goroutines pass functions to it with Post; the listeners of other loops pass accepted
// sockets to it in the same way.
//
// In each turn, a loop asks the kernel what is ready, serves it, runs what was posted and deferred,
// and fires timers. It first asks without waiting, by a raw system call that costs the Go scheduler
// nothing. Only if nothing is ready does it wait, through the ordinary system call, which lets the
// runtime give the processor to other goroutines meanwhile. A raw call that waits would stall the
// garbage collector for the whole process. The only one made waits at most 2 ms, and the runtime's
// preemption signal ends it (see sleep).
package reactor

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/internal/invariant"
)

// Loop is one event loop on a thread of its own. Its methods must be called on that thread, unless
// their comments say otherwise.
type Loop struct {
	ID int

	now  int64 // Clock, read once a turn
	made int64 // Clock when Run began

	poll    poller
	slots   []slot
	free    []uint32 // slots that can be used again, last freed first
	timers  wheel
	alarm   alarm
	waiting map[string]*backlog // dials waiting for room in a unix socket's accept queue, by path
	buffers pool
	scratch []byte
	closing []*Listener
	later   []Runner // run at the end of this turn
	spare   []Runner // swapped with later, so that deferred work may defer more

	posts    sync.Mutex
	queue    []func()
	draining []func() // swapped with queue
	posted   int64    // Clock when posts were last run
	pending  atomic.Bool
	sleeping atomic.Bool
	wakers   atomic.Int32 // goroutines that found the loop asleep and have not finished waking it
	over     bool         // Run has returned; guarded by posts
	arrivals []arrival    // sockets that other loops have accepted for this one; guarded by posts
	queued   int          // bytes in the write queues of all connections
	batch    []*Conn      // what Batch gathered
	corks    []*Conn      // corked connections, longest corked first; at most corksAtOnce
	vector   vector       // of SendStored
	after    []Runner     // run once the batch is out
	stopped  bool
	woken    bool // the last sleep ended within briefly
	thread   int  // the thread's id while running, for invariant checks
	stepping bool // Step is on the stack

	closers atomic.Int64 // the length of closing, for other goroutines
	// accepted connections, including those still on their way here; other loops read it to balance
	// accepts
	conns  atomic.Int64
	peers  []*Loop
	stats  Stats
	events int   // of the current turn
	lag    int64 // nanoseconds between the last two looks that found all that was ready
	looked int64 // Clock at the last such look
	work   work
	logger *slog.Logger
}

// Stats are a loop's own statistics. They are read on the loop.
type Stats struct {
	Wall   int64 // nanoseconds since Run began
	Waited int64 // nanoseconds of Wall in which it had nothing to do; it was busy for the rest
	Turns  uint64
	Waits  uint64 // turns that had to wait in the kernel
	Kept   uint64 // waits that began without giving up the loop's processor (P)
}

// Runner is deferred work.
type Runner interface{ Run() }

// slot is what an event's token refers to: a source and a generation. The generation identifies
// events for a descriptor that was closed in the same turn, and perhaps reused, so that they are
// dropped.
type slot struct {
	source     source
	generation uint32
}

// source is something registered with the poller.
type source interface {
	ready(ev readiness)
}

// ScratchSize is how many bytes Scratch has.
const ScratchSize = 64 << 10

// maxEvents is how many events one turn takes from the kernel at most; the next turn takes the
// rest.
const maxEvents = 512

// NewGroup makes n loops that know each other, so that they can share accepted sockets evenly. None
// runs yet.
func NewGroup(n int, logger *slog.Logger) ([]*Loop, error) {
	if n < 1 {
		return nil, fmt.Errorf("a group needs at least one loop, not %d", n)
	}
	loops := make([]*Loop, n)
	for i := range loops {
		l := &Loop{ID: i, logger: logger, scratch: make([]byte, ScratchSize), peers: loops}
		if err := l.poll.open(l); err != nil {
			for _, made := range loops[:i] {
				made.poll.close()
			}
			return nil, fmt.Errorf("event loop %d: %w", i, err)
		}
		l.now = Clock()
		l.timers.init(l.now)
		loops[i] = l
	}
	return loops, nil
}

// epoch is when the clock of all loops began.
var epoch = time.Now()

// Clock is the time in monotonic nanoseconds since the process began, never 0; all loops share it.
// Reading it takes about 40 ns.
func Clock() int64 {
	if model != nil {
		return model.Clock()
	}
	return int64(time.Since(epoch)) + 1
}

// Wall is the time of day.
func Wall() time.Time {
	if model != nil {
		return model.Wall()
	}
	return time.Now()
}

// Now is Clock at the beginning of this turn. It does not move during a turn.
func (l *Loop) Now() int64 { return l.now }

// Scratch is ScratchSize bytes that any code on the loop may use until it returns to the loop or
// calls another handler.
func (l *Loop) Scratch() []byte { return l.scratch }

// Stats returns the loop's current statistics.
func (l *Loop) Stats() Stats {
	s := l.stats
	s.Wall = Clock() - l.made
	return s
}

// Turn is the number of the current turn. Loop only.
func (l *Loop) Turn() uint64 { return l.stats.Turns }

// Events is how many events the current turn found. Loop only.
func (l *Loop) Events() int { return l.events }

// Connections is how many accepted connections the loop holds, including those that another loop
// has accepted for it and that are still on their way. Any goroutine may call it.
func (l *Loop) Connections() int64 { return l.conns.Load() }

// Closing is how many of the loop's listeners still accept what was in their queues when they were
// closed. Any goroutine may call it.
func (l *Loop) Closing() int64 { return l.closers.Load() }

// Post has the loop call f in its next turn. Any goroutine may call it. It returns at once. Once
// the loop has stopped, f is dropped. The queue is unbounded, so the caller must bound its calls
// (say to one per request, handshake or scrape).
func (l *Loop) Post(f func()) {
	l.posts.Lock()
	if l.over {
		l.posts.Unlock()
		return
	}
	l.queue = append(l.queue, f)
	l.posts.Unlock()
	l.rouse()
}

// rouse makes the loop run, in its next turn, what was posted. Any goroutine may call it.
func (l *Loop) rouse() {
	l.pending.Store(true)
	if !l.sleeping.Load() {
		return
	}
	l.wakers.Add(1)
	if l.sleeping.CompareAndSwap(true, false) {
		l.poll.wake()
	}
	l.wakers.Add(-1)
}

// Call has the loop call f and waits until f has returned, or for at most limit if f has not begun
// by then. It reports whether f was called. It must not be called on a loop.
func (l *Loop) Call(limit time.Duration, f func()) bool {
	done := make(chan struct{})
	var state atomic.Int32 // 0 waiting, 1 taken by the loop, 2 given up
	l.Post(func() {
		if state.CompareAndSwap(0, 1) {
			f()
			close(done)
		}
	})
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		if state.CompareAndSwap(0, 2) {
			return false
		}
		<-done
		return true
	}
}

// Defer makes r run after every event of this turn, so that a source with much to do is fair to the
// others. What deferred work, a posted function or a timer defers runs in the next turn, which then
// does not wait.
func (l *Loop) Defer(r Runner) { l.later = append(l.later, r) }

// AfterBatch makes r run once everything that Batch has gathered so far has been sent.
func (l *Loop) AfterBatch(r Runner) { l.after = append(l.after, r) }

// Stop makes Run return after the current turn. Loop only. Sources that are still registered stay
// open, except for closing listeners.
func (l *Loop) Stop() { l.stopped = true }

// Run runs the loop until Stop is called. It locks the goroutine to its thread.
func (l *Loop) Run() {
	if model != nil {
		model.Run(l)
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if invariant.On {
		l.thread = threadID()
	}
	defer l.end()
	l.made = Clock()
	l.looked = l.made
	for !l.stopped {
		n := l.poll.poll()
		l.now = Clock()
		l.look(n)
		if n == 0 && len(l.later) == 0 && !l.pending.Load() {
			n = l.wait()
		}
		l.turn(n)
	}
}

// look records how long the events it found may have waited. If there may be more events than one
// turn takes, the rest keep waiting, and looked stays as it was.
func (l *Loop) look(n int) {
	if n < maxEvents {
		l.lag, l.looked = l.now-l.looked, l.now
		return
	}
	l.lag = max(l.lag, l.now-l.looked)
}

// turn serves n events, then whatever else is due.
func (l *Loop) turn(n int) {
	l.stats.Turns++
	l.events = n
	l.ring()
	l.dispatch(n)
	l.sendBatch()
	l.runLater()
	if l.pending.Load() {
		l.runPosts()
	}
	l.timers.advance(l.now)
	l.sendBatch()
}

// batchSize is for how many connections at most a batch gathers messages. It limits how long the
// first of them waits.
const batchSize = 32

// sendBatch sends what Batch gathered, then runs what AfterBatch registered. Both may gather more.
func (l *Loop) sendBatch() {
	for len(l.batch)+len(l.after) > 0 {
		for i := 0; i < len(l.batch); i++ {
			c := l.batch[i]
			l.batch[i] = nil
			if c.flags&batched == 0 {
				continue // the connection was closed meanwhile
			}
			c.flags &^= batched
			if sent, open := c.drain(); open && !sent {
				c.handler.Readable()
			}
		}
		l.batch = l.batch[:0]
		for i := 0; i < len(l.after); i++ {
			r := l.after[i]
			l.after[i] = nil
			r.Run()
		}
		l.after = l.after[:0]
	}
}

// end closes the poller and drops posted functions that have not run. A Post that found the loop
// asleep may still be about to wake it, and must not write to a descriptor number that has been
// reused, so end waits for such calls first. They hold no lock while they wake the loop, so that
// the loop never waits for the goroutine that woke it.
func (l *Loop) end() {
	l.posts.Lock()
	arrived := l.arrivals
	l.over, l.queue, l.draining, l.arrivals = true, nil, nil, nil
	l.posts.Unlock()
	for _, a := range arrived {
		a.socket.Close()
	}
	for len(l.closing) > 0 {
		l.closing[0].end()
	}
	for l.wakers.Load() > 0 {
		runtime.Gosched()
	}
	l.poll.close()
	l.thread = 0
	if l.alarm.fine {
		setTimerSlack(0)
	}
}

// wait blocks until something is ready, a timer is due or a function is posted. The order matters:
// sleeping is announced before the last look at pending, and Post sets pending before it looks at
// sleeping, so one of the two sees the other.
func (l *Loop) wait() int {
	l.sleeping.Store(true)
	if l.pending.Load() {
		l.sleeping.Store(false)
		return 0
	}
	before := l.now
	var n int
	if sleep, spin := l.sleepFor(); spin {
		l.sleeping.Store(false)
		n = l.spin()
	} else {
		n = l.sleep(sleep)
		l.sleeping.Store(false)
		l.now = Clock()
		l.woken = l.now-before < briefly
	}
	l.stats.Waits++
	l.stats.Waited += l.now - before
	l.lag, l.looked = 0, l.now
	return n
}

func (l *Loop) dispatch(n int) {
	for i := 0; i < n; i++ {
		token, ev := l.poll.event(i)
		index, generation := uint32(token), uint32(token>>32)
		if int(index) >= len(l.slots) {
			continue
		}
		if s := &l.slots[index]; s.generation == generation && s.source != nil {
			s.source.ready(ev)
		}
		if len(l.batch) >= batchSize {
			l.sendBatch()
		}
	}
}

func (l *Loop) runLater() {
	if len(l.later) == 0 {
		return
	}
	l.later, l.spare = l.spare[:0], l.later
	for i, r := range l.spare {
		l.spare[i] = nil
		r.Run()
		if len(l.batch) >= batchSize {
			l.sendBatch()
		}
	}
}

func (l *Loop) runPosts() {
	l.pending.Store(false)
	l.posted = l.now
	l.posts.Lock()
	l.queue, l.draining = l.draining[:0], l.queue
	arrived := l.arrivals
	l.arrivals = nil
	l.posts.Unlock()
	for _, a := range arrived {
		a.acceptor.Accepted(l, a.socket)
	}
	for i, f := range l.draining {
		l.draining[i] = nil
		f()
	}
}

// register adds fd to the poller and returns its slot.
func (l *Loop) register(fd int, s source, mode interest) (uint32, error) {
	l.check()
	var index uint32
	if n := len(l.free); n > 0 {
		index, l.free = l.free[n-1], l.free[:n-1]
	} else {
		index = uint32(len(l.slots))
		l.slots = append(l.slots, slot{})
	}
	sl := &l.slots[index]
	sl.source = s
	if err := l.poll.add(fd, uint64(sl.generation)<<32|uint64(index), mode); err != nil {
		l.forget(index)
		return 0, err
	}
	return index, nil
}

// forget frees a slot. Its events are dropped, including those already fetched. The kernel removes
// a descriptor from the poller when it is closed.
func (l *Loop) forget(index uint32) {
	l.check()
	sl := &l.slots[index]
	sl.source = nil
	sl.generation++
	l.free = append(l.free, index)
}

// tight reports whether the loop's write queues together hold so much that each one may hold only
// TightWater.
func (l *Loop) tight() bool { return l.queued >= LoopQueue }

// highWater is the current high mark of each write queue.
func (l *Loop) highWater() int {
	if l.tight() {
		return TightWater
	}
	return HighWater
}

// Piece is how many bytes should be read or produced at a time for a write queue. It is at most
// ScratchSize.
func (l *Loop) Piece() int {
	if l.tight() {
		return TightWater
	}
	return ScratchSize
}

// check panics, where invariants are on, if it is called outside the loop's thread. It is small
// enough to be inlined.
func (l *Loop) check() {
	if invariant.On {
		l.mustBeInside()
	}
}

func (l *Loop) mustBeInside() {
	if model != nil && l.made != 0 && !l.stepping || l.thread != 0 && l.thread != threadID() {
		panic(fmt.Sprintf("reactor: loop %d touched from outside its thread", l.ID))
	}
}
