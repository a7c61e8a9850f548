// Package reactor runs event loops: readiness, timers, wake-ups, sockets and buffers. It knows no
// protocol and no gateway. Everything a loop owns is touched by that loop's thread only. Others
// hand it functions with Post; a listener of another loop hands it accepted sockets in the same
// way.
//
// In each turn, a loop asks the kernel what is ready, serves it, runs what was posted and deferred,
// and fires timers. It first asks without waiting, by a raw system call that costs the Go scheduler
// nothing. Only if nothing is ready does it wait, through the ordinary system call that lets the
// runtime take the processor away meanwhile. A raw call that could wait would stall the garbage
// collector for the whole process, so none is ever made.
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

// Loop is one event loop on a thread of its own. Its methods are for that thread, but for Post,
// Stop and Connections.
type Loop struct {
	ID int

	now  int64 // Clock, read once a turn
	made int64 // Clock when Run began

	poll    poller
	slots   []slot
	free    []uint32 // slots that can be used again, last freed first
	timers  wheel
	alarm   alarm
	waiting map[string]*backlog // for room in a unix socket's accept queue, by its path
	buffers pool
	scratch []byte
	closing []*Listener
	later   []Runner // run at the end of this turn
	spare   []Runner // later's other half, so that running may defer

	posts    sync.Mutex
	queue    []func()
	draining []func() // queue's other half
	posted   int64    // Clock when posts were last run
	pending  atomic.Bool
	sleeping atomic.Bool
	wakers   atomic.Int32 // goroutines between finding the loop asleep and having woken it
	over     bool         // Run has returned; guarded by posts
	arrivals []arrival    // sockets that other loops have accepted for this one; guarded by posts
	queued   int          // bytes in the write queues of all connections
	batch    []*Conn      // what Batch gathered
	corks    []*Conn      // those that gather for Push, longest first; at most corksAtOnce
	vector   vector       // of SendStored
	after    []Runner     // run once the batch is out
	stopped  bool
	woken    bool // soon, the last time that it slept
	thread   int  // the thread's id while running, for invariant checks
	stepping bool // Step is on the stack

	closers atomic.Int64 // the length of closing, for others
	// accepted connections, those on their way here too; read by other loops that balance accepts
	conns  atomic.Int64
	peers  []*Loop
	stats  Stats
	lag    int64 // between two looks at all that is ready, nanoseconds
	looked int64 // when the last one was
	work   work
	logger *slog.Logger
}

// Stats are what a loop knows of itself. They are read on the loop.
type Stats struct {
	Wall   int64 // nanoseconds since Run began
	Waited int64 // nanoseconds of them in which it had nothing to do; the rest it was busy
	Turns  uint64
	Waits  uint64 // turns that had to wait in the kernel
	Kept   uint64 // of these, those that began without giving the loop's processor away
}

// Runner is deferred work.
type Runner interface{ Run() }

// slot is what an event finds: the one that registered, and a generation, so that an event for a
// descriptor that was closed in the same turn, and perhaps opened again, is recognised and dropped.
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

// maxEvents bounds how many events one turn takes from the kernel; the rest comes with the next
// turn.
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

// Scratch is ScratchSize bytes that anyone on the loop may use until it returns to the loop or
// calls into another handler.
func (l *Loop) Scratch() []byte { return l.scratch }

// Stats is a copy of what the loop knows of itself now.
func (l *Loop) Stats() Stats {
	s := l.stats
	s.Wall = Clock() - l.made
	return s
}

// Turn is the number of the present turn. Only the loop may ask.
func (l *Loop) Turn() uint64 { return l.stats.Turns }

// Connections is how many accepted connections the loop holds, those too that another loop has
// accepted for it and that are still on their way. Any goroutine may ask.
func (l *Loop) Connections() int64 { return l.conns.Load() }

// Closing is how many of the loop's listeners still accept what was in their queues when they were
// closed. Any goroutine may ask.
func (l *Loop) Closing() int64 { return l.closers.Load() }

// Post has the loop call f in its next turn. Any goroutine may call it. It returns at once; after
// the loop has stopped f is dropped. The queue has no bound of its own: the caller must have one
// (a request, a handshake, a scrape).
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

// rouse makes the loop look at what was posted, in its next turn. Any goroutine may call it.
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

// Call has the loop call f and waits until it has, or for at most limit; it says whether f was
// called. It must not be called on a loop.
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

// Defer has r run after every event that was ready: fairness for those who have more to do. What is
// deferred by deferred work, a posted function or a timer runs in the next turn, which then does
// not wait.
func (l *Loop) Defer(r Runner) { l.later = append(l.later, r) }

// AfterBatch has r run once all that Batch gathered until now has gone out.
func (l *Loop) AfterBatch(r Runner) { l.after = append(l.after, r) }

// Stop ends Run after the present turn. It must be called on the loop; sources that are still
// registered stay open, but for listeners that are closing.
func (l *Loop) Stop() { l.stopped = true }

// Run is the loop's life. It locks the goroutine to its thread and returns after Stop.
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

// look notes how long what has become ready may have waited. One look may find more than a turn
// takes: then what is left waits on, and so does the note.
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

// batchSize bounds how many connections' messages wait for each other, and with them how long the
// first of them waits.
const batchSize = 32

// sendBatch sends what Batch gathered, then runs what waited for that. Both may gather more.
func (l *Loop) sendBatch() {
	for len(l.batch)+len(l.after) > 0 {
		for i := 0; i < len(l.batch); i++ {
			c := l.batch[i]
			l.batch[i] = nil
			if c.flags&batched == 0 {
				continue // closed meanwhile
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

// end closes the poller and drops what was posted and not run. A Post that found the loop asleep
// may still be about to wake it, and must not write to a descriptor that has become somebody
// else's. It holds no lock meanwhile, so that a wake-up never makes the loop wait for the
// goroutine that woke it.
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

// wait blocks until something is ready, a timer is due or somebody posts. The order matters:
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

// register makes fd known to the poller and returns the slot that stands for it.
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

// forget makes the slot's events, those already fetched too, go nowhere. The poller forgets a
// descriptor when it is closed.
func (l *Loop) forget(index uint32) {
	l.check()
	sl := &l.slots[index]
	sl.source = nil
	sl.generation++
	l.free = append(l.free, index)
}

// tight says that the write queues of the loop hold so much that each may hold little.
func (l *Loop) tight() bool { return l.queued >= LoopQueue }

// highWater is the high mark of each write queue now.
func (l *Loop) highWater() int {
	if l.tight() {
		return TightWater
	}
	return HighWater
}

// Piece is how many bytes should be read, or made, at a time for a write queue: at most
// ScratchSize.
func (l *Loop) Piece() int {
	if l.tight() {
		return TightWater
	}
	return ScratchSize
}

// check finds code that touches a loop from outside. It is small enough to be inlined.
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
