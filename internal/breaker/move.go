package breaker

// Command is an operator's command to a breaker.
type Command uint8

const (
	// Automatic ends a forced state. After ForceOpen, the breaker begins with trials, because the
	// service was not called meanwhile. After ForceClosed, it begins closed, with empty counters.
	Automatic Command = iota
	ForceOpen
	ForceClosed
)

// Force carries out an operator's command. If another goroutine is in the middle of a transition,
// that goroutine carries it out right after the transition.
func (b *Breaker) Force(c Command, now int64) {
	b.m.command.Store(uint32(c) + 1)
	b.look(now)
}

// move is an action that is due, for the holder of the pen to carry out.
type move struct {
	kind moveKind
	to   State
	why  Reason
}

type moveKind uint8

const (
	stay    moveKind = iota
	obey             // carry out the operator's command
	windows          // move the windows on
	anchor           // the clock was set back: restart waiting times
	climb            // take the ramp's next step
	enter            // enter another state
)

// look carries out what is due until nothing is, or another goroutine holds the pen; that goroutine
// will look again. look is lock-free: a failed compare-and-swap means that another goroutine has
// taken the pen or made a transition.
func (b *Breaker) look(now int64) {
	m := b.m
	for {
		w := m.load()
		if w&pen != 0 || b.due(w, now).kind == stay {
			return
		}
		if !m.word.CompareAndSwap(uint64(w), uint64(w|pen)) {
			continue
		}
		// due is called again: another goroutine may have acted before this one took the pen.
		next := b.do(w, b.due(w, now), now)
		m.word.Store(uint64(next))
	}
}

// due returns the next move in the state of w.
func (b *Breaker) due(w word, now int64) move {
	m := b.m
	if m.command.Load() != 0 {
		return move{kind: obey}
	}
	switch w.state() {
	case Open:
		switch d := elapsed(now, m.since.Load()); {
		case d < -skew:
			return move{kind: anchor}
		case d >= b.rules.openFor:
			return move{enter, HalfOpen, OpenTimeOver}
		}
	case HalfOpen:
		switch won, failed := m.trials.verdict(w.generation()); {
		case failed:
			return move{enter, Open, TrialFailed}
		case won >= b.rules.successes && b.rules.ramp > 0:
			return move{enter, Ramping, TrialsSucceeded}
		case won >= b.rules.successes:
			return move{enter, Closed, TrialsSucceeded}
		}
	case Closed:
		return b.dueServing(w, now)
	case Ramping:
		if next := b.dueServing(w, now); next.kind != stay {
			return next
		}
		return m.ramp.due(&b.rules, now)
	}
	return move{}
}

func (b *Breaker) dueServing(w word, now int64) move {
	if b.turnDue(now) {
		return move{kind: windows}
	}
	if why := b.broken(w); why != 0 {
		return move{enter, Open, why}
	}
	return move{}
}

// turnDue reports whether a window or a slice of the ring has ended.
func (b *Breaker) turnDue(now int64) bool {
	return b.rules.windowed && b.m.ring.due(now) ||
		b.m.gauge != nil && b.m.gauge.due(&b.rules.law, now)
}

// broken is the rule that is broken; 0 if none is.
func (b *Breaker) broken(w word) Reason {
	m, r := b.m, &b.rules
	if r.consecutive > 0 && m.streak.Load() >= r.consecutive {
		return ConsecutiveFailures
	}
	if r.windowed {
		n := m.ring.sum()
		if n.requests >= b.least(w, r.minRequests) {
			switch {
			case r.failures > 0 && n.failures*million > r.failures*n.requests:
				return FailureRatio
			case r.slow > 0 && n.slow*million > r.slow*n.requests:
				return SlowRatio
			}
		}
	}
	if m.gauge != nil && m.gauge.over() {
		return Score
	}
	return 0
}

// least is how many calls a window must have to be judged; n while closed. While ramping, fewer
// calls arrive, so n shrinks with the admitted share, but not below Successes: as many calls as
// began the ramp may end it.
func (b *Breaker) least(w word, n uint64) uint64 {
	if w.state() != Ramping {
		return n
	}
	return min(n, max(b.rules.successes, uint64(b.m.ramp.share(&b.rules)*float64(n))))
}

// do carries out a move and returns the word to store. The caller holds the pen.
func (b *Breaker) do(w word, next move, now int64) word {
	m := b.m
	switch next.kind {
	case obey:
		return b.obey(w, Command(m.command.Swap(0)-1), now)
	case windows:
		b.turnWindows(w, now)
	case anchor:
		m.since.Store(now)
		m.ramp.since.Store(now)
	case climb:
		m.ramp.climb(now)
	case enter:
		return b.enter(w, next.to, next.why, now)
	}
	return w
}

// turn moves the windows on, unless another goroutine holds the pen. It reports whether it did; the
// caller must then call look later.
func (b *Breaker) turn(w word, now int64) bool {
	if w&pen != 0 || !b.m.word.CompareAndSwap(uint64(w), uint64(w|pen)) {
		return false
	}
	b.turnWindows(w, now)
	b.m.word.Store(uint64(w))
	return true
}

// turnWindows moves the windows on. The caller holds the pen.
func (b *Breaker) turnWindows(w word, now int64) {
	m, l := b.m, &b.rules.law
	if b.rules.windowed {
		m.ring.turn(now)
	}
	if m.gauge != nil && m.gauge.due(l, now) {
		m.gauge.turn(l, now, b.least(w, l.minRequests))
	}
}

func (b *Breaker) obey(w word, c Command, now int64) word {
	from := w.state()
	to := from
	switch {
	case c == ForceOpen:
		to = ForcedOpen
	case c == ForceClosed:
		to = ForcedClosed
	case from == ForcedOpen:
		to = HalfOpen
	case from == ForcedClosed:
		to = Closed
	}
	if to == from {
		return w
	}
	return b.enter(w, to, Operator, now)
}

// enter makes a transition, and reports it with the numbers that led to it.
func (b *Breaker) enter(w word, to State, why Reason, now int64) word {
	m, from := b.m, w.state()
	t := Transition{
		From: from, To: to, Why: why,
		At: now, After: max(0, elapsed(now, m.since.Load())),
		Status: b.read(w, now),
	}
	generation := w.generation()
	if from != Ramping || to != Closed {
		generation++
		b.clear(generation, to, now)
	}
	if m.gauge != nil {
		m.gauge.learn(&b.rules.law, from, to, why, t.Status.Score)
		t.Status.Threshold = m.gauge.threshold()
	}
	m.since.Store(now)
	t.Generation = generation
	if b.report != nil {
		b.report(t)
	}
	return makeWord(generation, to)
}

// clear resets what a new generation in state to counts.
func (b *Breaker) clear(generation uint32, to State, now int64) {
	m := b.m
	switch to {
	case HalfOpen:
		m.trials.reset(generation)
	case Closed, Ramping:
		m.streak.Store(0)
		m.ring.reset(now)
		m.ramp.reset(&b.rules, now)
		if m.gauge != nil {
			m.gauge.reset(now)
		}
	}
}
