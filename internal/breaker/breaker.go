package breaker

import "sync/atomic"

// skew is by how many nanoseconds one caller's now may be older than another's before that means
// that the clock was set back. Loops read the clock once a turn.
const skew = int64(1e9)

// Kind says what a ticket allows.
type Kind uint8

const (
	Refused Kind = iota // the call must not be made; Done need not be called and does nothing
	Normal              // the call may be made
	Trial               // the call may be made, and its outcome decides the breaker's next state
)

// Ticket is the answer of Allow. The caller passes it to Done once. The zero Ticket is a refusal.
type Ticket struct {
	stamp      uint64 // the stamp in a trial's slot
	generation uint32
	slot       uint8
	Kind       Kind
}

// Outcome is how a call ended.
type Outcome uint8

const (
	Success   Outcome = iota
	Failure           // a failure of the service, not of the client or the gateway
	Cancelled         // the client abandoned the call, which counts neither way
)

// Breaker is a circuit breaker. Make one with New. Its methods may be called by any number of
// goroutines. They do not wait for each other and do not allocate.
type Breaker struct {
	rules  rules
	report func(Transition)
	m      *machine // shared with breakers that have inherited it
}

// machine is the mutable state. Fields that only the holder of the pen writes are atomics because
// all goroutines read them.
type machine struct {
	word    atomic.Uint64 // a word: state, generation and pen
	command atomic.Uint32 // the operator's pending command plus 1; 0 for none
	since   atomic.Int64  // when the state began; written by the holder of the pen
	_       [40]byte      // padding: keeps the counters of Done off the cache line that Allow reads

	streak atomic.Int64 // failures in a row
	ring   ring
	ramp   ramp
	trials trials
	gauge  *gauge // nil without the adaptive mode
}

// word packs what must be read atomically: the generation, the state and the pen, from high to low
// bits.
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

// serving reports whether the rules apply to calls, so that they are counted.
func (w word) serving() bool { s := w.state(); return s == Closed || s == Ramping }

func (m *machine) load() word { return word(m.word.Load()) }

// New makes a closed breaker. The error names every option that is out of bounds, or has no effect
// without another.
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

// Allow says whether a call may be made now. random is uniform over uint64. It decides which calls
// are admitted while ramping, so a fixed sequence of numbers gives reproducible answers.
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

// Done reports how the call of ticket t ended. latency is how long it took, in nanoseconds.
// saturation is the share of the connections to the service that was in use, 0 to 1; only the
// adaptive mode reads it. Done is called once per ticket. A ticket that is never returned costs
// nothing, except that a trial keeps its slot until TrialFor is over.
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
	// Turn before the call is counted. Otherwise, after an idle hour, it would be dropped with the
	// old slices.
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

// Inherit takes over the whole state of old, including its generation and its trials under way.
// From then on, both are the same breaker, each with its own OnTransition, so Done for a call that
// began on old may be called on either. It is for a reload that leaves the breaker's options
// unchanged: if they differ in anything but OnTransition, Inherit does nothing. It must be called
// before b is used.
func (b *Breaker) Inherit(old *Breaker) {
	if b.rules == old.rules {
		b.m = old.m
	}
}

// elapsed is now minus then. It saturates instead of overflowing, because a clock may jump
// arbitrarily far.
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

// outside reports whether now is neither within length after start nor within skew before it. It is
// a single comparison, because it runs in every call: a now that lies further back wraps to a large
// number.
func outside(now, start, length int64) bool {
	return uint64(now-start+skew) >= uint64(length+skew)
}
