package kernel

import (
	"cmp"
	"math"
	"slices"
	"syscall"
	"time"

	"plimsoll/internal/reactor"
)

// loop is an event loop that the model runs.
type loop struct {
	*reactor.Loop
	process int
	poller  *poller
	at      int64 // when it gets the processor; never if it has nothing to do
	due     int64 // when it would get it if it were alone
	stalled int64 // it does not get the processor before
	runs    bool  // from Run until its poller is closed
	woken   bool  // something has become ready, or someone wakes it
	done    chan struct{}
}

const never = math.MaxInt64

// poller implements reactor.Poller with the behaviour of epoll: readiness is checked again when the
// loop polls, and each change of an edge-triggered descriptor is reported once.
type poller struct {
	k     *Kernel
	loop  *loop
	ready []*watch
	told  []*watch // what was ready at the last Poll: its array is reused
}

// watch is a descriptor that a poller watches.
type watch struct {
	poller *poller
	file   *file
	fd     int
	token  uint64
	level  bool
	queued bool // in ready
	gone   bool
}

// NewPoller implements reactor.Kernel.
func (k *Kernel) NewPoller(l *reactor.Loop) (reactor.Poller, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ls := &loop{Loop: l, process: k.Process, at: never, done: make(chan struct{})}
	ls.poller = &poller{k: k, loop: ls}
	k.loops = append(k.loops, ls)
	return ls.poller, nil
}

// Run implements reactor.Kernel.
func (k *Kernel) Run(l *reactor.Loop) {
	k.mu.Lock()
	var done chan struct{}
	for _, ls := range k.loops {
		if ls.Loop == l {
			done, ls.runs = ls.done, true
			k.rouse(ls)
		}
	}
	k.mu.Unlock()
	<-done
}

// rouse gives a loop the processor. If several goroutines call it at once, their order does not
// matter.
func (k *Kernel) rouse(ls *loop) {
	ls.woken = true
	k.stir()
}

// scheduleWoken schedules the loops that were woken.
func (k *Kernel) scheduleWoken() {
	for _, ls := range k.loops {
		if ls.woken && ls.runs {
			k.schedule(ls, 0)
		}
		ls.woken = false
	}
}

// schedule gives a loop the processor soon, but not earlier than in nanoseconds from now.
func (k *Kernel) schedule(ls *loop, in int64) {
	at := max(k.Clock()+in, ls.stalled) + int64(Draw(k.rng, k.Profile.Delay))
	if at < ls.at {
		ls.at, ls.due = at, k.Clock()+in
		k.at(at, 0, func() { k.turn(ls, at) })
	}
}

// turn is one turn of a loop, unless it has had the processor earlier.
func (k *Kernel) turn(ls *loop, at int64) {
	k.mu.Lock()
	if ls.at != at {
		k.mu.Unlock()
		return
	}
	ls.at = never
	if k.chance(k.Profile.WallSteps) {
		k.wall = time.Duration(k.rng.Int64N(int64(48*time.Hour))) - 24*time.Hour
	}
	k.running = ls
	k.mu.Unlock()
	sleep, running := ls.Step(at - ls.due)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running = nil
	k.endTurn(ls)
	if !running {
		close(ls.done)
		return
	}
	if k.chance(k.Profile.Stall) {
		ls.stalled = k.Clock() + int64(Draw(k.rng, k.Profile.StallFor))
		k.trace("loop %d does not get the processor for %v", ls.ID,
			time.Duration(ls.stalled-k.Clock()))
	}
	switch {
	case sleep == 0 || len(ls.poller.ready) > 0:
		k.schedule(ls, int64(time.Microsecond))
	case sleep > 0:
		k.schedule(ls, sleep)
	}
}

// The most that one turn may do with one socket. A loop that does more makes its other sockets
// wait. The bytes are 16 reads of 64 KB, a fair turn, and twice as much again for a burst of
// events. Over TLS, a turn's megabyte is 64 records, each forwarded by one call, and a head comes
// before them.
const (
	turnCalls = 72
	turnBytes = 3 << 20
)

// endTurn checks the turn against these bounds.
func (k *Kernel) endTurn(ls *loop) {
	for _, e := range k.touched {
		if e.calls > turnCalls || e.moved > turnBytes {
			k.violate("loop %d made %d calls and moved %d bytes on %s in one turn: "+
				"at most %d and %d are fair to its other connections",
				ls.ID, e.calls, e.moved, e.Name, turnCalls, turnBytes)
		}
		e.calls, e.moved = 0, 0
	}
	k.touched = k.touched[:0]
}

// touch counts calls on a socket and the bytes they moved, in the present turn. Outside a turn,
// when goroutines do TLS handshakes, nothing is counted.
func (k *Kernel) touch(e *Endpoint, calls, bytes int) {
	if k.running == nil {
		return
	}
	if e.calls == 0 && e.moved == 0 {
		k.touched = append(k.touched, e)
	}
	e.calls += calls
	e.moved += bytes
}

// Timers returns how many timers the loops of a process have set, and how many loops it has.
func (k *Kernel) Timers(process int) (timers, loops int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, ls := range k.loops {
		if ls.process == process {
			timers += ls.Timers()
			loops++
		}
	}
	return timers, loops
}

// Add implements reactor.Poller.
func (p *poller) Add(fd int, token uint64, level bool) error {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	f := p.k.files[fd].file
	switch {
	case f == nil:
		return syscall.EBADF
	case f.watch(p, fd) >= 0:
		return syscall.EEXIST
	}
	w := &watch{poller: p, file: f, fd: fd, token: token, level: level}
	f.watches = append(f.watches, w)
	if w.event() != (reactor.Event{Token: token}) {
		w.wake()
	}
	return nil
}

// Remove implements reactor.Poller.
func (p *poller) Remove(fd int) {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	f := p.k.files[fd].file
	if f == nil {
		return
	}
	if i := f.watch(p, fd); i >= 0 {
		f.watches[i].gone = true
		f.watches = slices.Delete(f.watches, i, i+1)
	}
}

// watch is the index in f.watches of the poller's watch for a descriptor; -1 if there is none.
func (f *file) watch(p *poller, fd int) int {
	return slices.IndexFunc(f.watches, func(w *watch) bool { return w.poller == p && w.fd == fd })
}

// wake informs the watchers of a file of a change.
func (k *Kernel) wake(f *file) {
	if f == nil {
		return
	}
	for _, w := range f.watches {
		w.wake()
	}
}

// wake adds the file to those that the poller checks next.
func (w *watch) wake() {
	if !w.queued {
		w.poller.keep(w)
	}
	w.poller.k.rouse(w.poller.loop)
}

// Poll implements reactor.Poller. It draws the order of the ready files. Sometimes it reports only
// some of them in this turn, as if the rest had become ready a little later.
func (p *poller) Poll(events []reactor.Event) (n int) {
	k := p.k
	k.mu.Lock()
	defer k.mu.Unlock()
	ready := p.ready
	p.ready, p.told = p.told[:0], ready
	slices.SortFunc(ready, func(a, b *watch) int { return cmp.Compare(a.fd, b.fd) })
	k.rng.Shuffle(len(ready), func(i, j int) { ready[i], ready[j] = ready[j], ready[i] })
	most := len(events)
	if len(ready) > 1 && k.chance(k.Profile.Subset) {
		most = 1 + k.rng.IntN(len(ready))
	}
	for _, w := range ready {
		w.queued = false
		if w.gone {
			continue
		}
		ev := w.event()
		switch {
		case ev == (reactor.Event{Token: w.token}):
		case n == most:
			p.keep(w)
		default:
			events[n] = ev
			n++
			if w.level {
				p.keep(w)
			}
		}
	}
	return n
}

// keep leaves a file among the ready ones for the next turn.
func (p *poller) keep(w *watch) {
	w.queued = true
	p.ready = append(p.ready, w)
}

// Wake implements reactor.Poller.
func (p *poller) Wake() {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	p.k.rouse(p.loop)
}

// Close implements reactor.Poller.
func (p *poller) Close() {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	p.loop.runs = false
}

// event is the present state of the file.
func (w *watch) event() reactor.Event {
	ev := reactor.Event{Token: w.token}
	if l := w.file.listens; l != nil {
		ev.Readable = len(l.queue) > 0
		return ev
	}
	e := w.file.socket
	if e.connecting {
		return ev
	}
	ev.PeerEnded = e.ended || e.deaf || e.broken
	ev.Readable = len(e.in) > 0 || ev.PeerEnded
	ev.Writable = e.writable()
	e.wantsRoom = e.wantsRoom || !ev.Writable
	ev.Broken = e.failure != 0 || e.broken || e.unconnected() || ev.PeerEnded && e.finished
	return ev
}
