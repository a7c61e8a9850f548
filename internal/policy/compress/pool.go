package compress

import (
	"sync/atomic"

	"plimsoll/internal/invariant"
)

// Encoders are the encoders of a process, divided by loop. All policies of all configurations share
// them, and they have a common memory limit.
type Encoders struct {
	loops []loopEncoders
	bound atomic.Int64 // bytes of one loop
}

// loopEncoders are the encoders of one loop. Only that loop accesses them; any goroutine may read
// the sums.
type loopEncoders struct {
	of     *Encoders
	free   [codings][levels][]*encoder // used last, taken first: its memory is in the CPU's cache
	load   load
	events int64        // bytes of encoders of event streams
	used   atomic.Int64 // bytes of encoders at work
	kept   atomic.Int64 // bytes of the free ones
	_      [64]byte
}

// keptMost is how many bytes of free encoders a loop keeps. Encoders that a burst leaves beyond
// that go to the garbage collector.
const keptMost = 8 << 20

// DefaultMemory is how many bytes all encoders of the process may take together.
const DefaultMemory = 256 << 20

// NewEncoders makes the encoders of the given number of loops.
func NewEncoders(loops int) *Encoders {
	all := &Encoders{loops: make([]loopEncoders, loops)}
	for i := range all.loops {
		all.loops[i].of = all
	}
	all.SetMemory(DefaultMemory)
	return all
}

// SetMemory sets the limit in bytes for all encoders, including free ones. Encoders at work are not
// affected. Any goroutine may call it.
func (all *Encoders) SetMemory(bytes int64) { all.bound.Store(bytes / int64(len(all.loops))) }

// Memory is how many bytes encoders take: those at work, and the free ones. Any goroutine may call
// it.
func (all *Encoders) Memory() (used, kept int64) {
	for i := range all.loops {
		used += all.loops[i].used.Load()
		kept += all.loops[i].kept.Load()
	}
	return used, kept
}

// effort returns the level for which a loop has time, and whether it has any time. backlog is the
// loop's, in nanoseconds.
func (all *Encoders) effort(loop int, level Level, now, backlog int64) (Level, bool) {
	l := &all.loops[loop]
	l.load = l.load.next(now, backlog)
	return l.load.lower(level)
}

// take returns an encoder, or nil if the memory limit is reached. Event streams get at most half of
// the memory: they keep their encoders as long as their clients listen, and would leave nothing for
// other responses. Loop only.
func (all *Encoders) take(loop int, c coding, level Level, events bool) *encoder {
	l, memory, bound := &all.loops[loop], rungs[c][level].memory, all.bound.Load()
	if l.used.Load()+memory > bound || events && l.events+memory > bound/2 {
		return nil
	}
	free := &l.free[c][level]
	var e *encoder
	if n := len(*free); n > 0 {
		e = (*free)[n-1]
		(*free)[n-1] = nil
		*free = (*free)[:n-1]
		l.kept.Add(-memory)
	} else {
		l.makeRoom(bound - memory)
		w, err := rungs[c][level].make()
		if err != nil {
			panic("compress: an encoder's fixed options are refused: " + err.Error())
		}
		e = &encoder{w: w, home: l, coding: c, level: level}
	}
	e.w.Reset(e)
	l.used.Add(memory)
	if e.events = events; events {
		l.events += memory
	}
	return e
}

// makeRoom drops free encoders until all take at most most bytes.
func (l *loopEncoders) makeRoom(most int64) {
	for c := range l.free {
		for level := range l.free[c] {
			free := &l.free[c][level]
			for n := len(*free); n > 0 && l.used.Load()+l.kept.Load() > most; n = len(*free) {
				(*free)[n-1] = nil
				*free = (*free)[:n-1]
				l.kept.Add(-rungs[c][level].memory)
			}
		}
	}
}

// give returns an encoder to the pool.
func (l *loopEncoders) give(e *encoder) {
	if invariant.On && e.counts == nil {
		panic("compress: an encoder was given back twice")
	}
	memory := rungs[e.coding][e.level].memory
	l.used.Add(-memory)
	if e.events {
		l.events -= memory
	}
	e.counts = nil
	if kept := l.kept.Load() + memory; kept > keptMost || l.used.Load()+kept > l.of.bound.Load() {
		return
	}
	l.kept.Add(memory)
	l.free[e.coding][e.level] = append(l.free[e.coding][e.level], e)
}
