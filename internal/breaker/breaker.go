package breaker

import "sync/atomic"

// skew is how much older than another's a caller's now may be before it means that the clock was
// set back: loops read the clock once a turn.
const skew = int64(1e9)

// Kind says what a ticket allows.
type Kind uint8

const (
	Refused Kind = iota // the call must not be made; Done need not be called and does nothing
	Normal              // the call may be made
	Trial               // the call may be made, and the breaker's next state hangs on how it ends
)

// Ticket is the answer to Allow. Its holder gives it back once, to Done. The zero Ticket is a
// refusal.
type Ticket struct {
	stamp      uint64 // what a trial has written in its slot
	generation uint32
	slot       uint8
	Kind       Kind
}

// Outcome is how a call ended.
type Outcome uint8

const (
	Success   Outcome = iota
	Failure           // the service's failure, and nobody else's
	Cancelled         // the client gave the call up: it counts neither way
)

// Breaker is a circuit breaker; make one with New. Its methods are safe for use by any number of
// goroutines, do not wait for each other and do not allocate.
type Breaker struct {
	rules  rules
	report func(Transition)
	m      *machine // shared with the breaker that inherited it
}

// machine is what changes. Fields that only the holder of the pen writes are atomics because
// everybody reads them.
type machine struct {
	word    atomic.Uint64 // word: state, generation and pen
	command atomic.Uint32 // what the operator wants and nobody has done yet: a Command plus 1
	since   atomic.Int64  // when the state began; written by the pen
	_       [40]byte      // what Allow reads stays in the caches of all CPUs while Done counts

	streak atomic.Int64 // failures without a success between
	ring   ring
	ramp   ramp
	trials trials
	gauge  *gauge // nil without the adaptive mode
}

// word packs what must be read at once: the generation, the state and the pen, from high to low.
type word uint64

const (
	pen       = word(1)
	stateBits = 7
)

func makeWord(generation uint32, s State) word {
	return word(generation)<<8 | word(s)<<1
}
func (w word) state() State       { return State(w >> 1 & stateBits) }
func (w word) generation() uint32 { return uint32(w >> 8) }

// serving says whether calls are admitted by the rules, and so are counted.
func (w word) serving() bool { s := w.state(); return s == Closed || s == Ramping }

func (m *machine) load() word { return word(m.word.Load()) }

// New makes a breaker that is closed. Every option that is out of bounds, or has no effect without
// another, is named in the error.
func New(o Options, now int64) (*Breaker, error) {
	r, err := o.compile()
	if err != nil {
		return nil, err
	}
	m := &machine{}
	m.word.Store(uint64(makeWord(1, Closed)))
	m.since.Store(now)
	m.ring.init(r.window, now)
	m.trials.slots = make([]atomic.Uint64, r.trials)
	if r.adaptive {
		m.gauge = newGauge(&r.law, now)
	}
	return &Breaker{rules: r, report: o.OnTransition, m: m}, nil
}

// Allow says whether a call may be made now. random is a number from the whole range of uint64; it
// chooses who is admitted while ramping, and a caller that passes a fixed sequence gets the same
// answers again.
func (b *Breaker) Allow(now int64, random uint64) Ticket {
	w := b.m.load()
	if w.state() != Closed {
		b.look(now)
		w = b.m.load()
	}
	switch w.state() {
	case Closed, ForcedClosed:
		return Ticket{Kind: Normal, generation: w.generation()}
	case HalfOpen:
		return b.try(w, now)
	case Ramping:
		if b.m.ramp.admits(&b.rules, now, random) {
			return Ticket{Kind: Normal, generation: w.generation()}
		}
	}
	return Ticket{}
}

// Done says how the call of ticket t ended: after latency nanoseconds, while saturation of the
// connections to the service was in use (0 to 1; only the adaptive mode reads it). It is called
// once a ticket. A ticket that never comes back costs nothing, but a trial's slot until TrialFor is
// over.
func (b *Breaker) Done(now int64, t Ticket, o Outcome, latency int64, saturation float64) {
	if t.Kind == Trial {
		b.tried(now, t, o, latency)
		return
	}
	if t.Kind != Normal || o > Failure {
		return
	}
	m := b.m
	w := m.load()
	if w.generation() != t.generation || !w.serving() {
		return
	}
	// Before the call is counted: after an idle hour it would be swept out with the old slices.
	turned := b.turnDue(now) && b.turn(w, now)
	failed := o == Failure
	if b.rules.windowed {
		m.ring.count(failed, b.rules.slowIsSlow && latency > b.rules.slowOver)
	}
	if m.gauge != nil {
		m.gauge.count(failed, latency, saturation)
	}
	if failed {
		m.streak.Add(1)
	} else {
		if m.streak.Load() != 0 {
			m.streak.Store(0)
		}
		m.ramp.prove()
	}
	if turned || w.state() == Ramping || b.broken(w) != 0 {
		b.look(now)
	}
}

// Inherit takes over everything that old knows, its generation and its trials under way included:
// from then on both are the same breaker, each with its own OnTransition, so a call that began on
// old may be done on either. It is for a reload that changed nothing of the meaning: when the
// options differ in anything but OnTransition, it does nothing. It must be called before b is used.
func (b *Breaker) Inherit(old *Breaker) {
	if b.rules == old.rules {
		b.m = old.m
	}
}

// elapsed is now minus then, without overflow: a clock may leap as far as it likes.
func elapsed(now, then int64) int64 {
	d := now - then
	switch {
	case now >= then && d < 0:
		return 1<<63 - 1
	case now < then && d > 0:
		return -1 << 63
	}
	return d
}

// outside says whether now is neither within length after start nor within the skew before it. It
// is one comparison, because every call asks it: what lies further back wraps to a large number.
func outside(now, start, length int64) bool {
	return uint64(now-start+skew) >= uint64(length+skew)
}
