package breaker

// State is what a breaker does with calls.
type State uint8

const (
	Closed       State = iota // admits every call
	Open                      // refuses every call
	HalfOpen                  // admits trials
	Ramping                   // admits a rising share
	ForcedOpen                // refuses every call until the operator changes that
	ForcedClosed              // admits every call and counts none
)

var stateNames = [...]string{"closed", "open", "half-open", "ramping", "forced-open", "forced-closed"}

func (s State) String() string { return name(stateNames[:], uint8(s)) }

// Reason is why a transition was made.
type Reason uint8

const (
	ConsecutiveFailures Reason = iota + 1
	FailureRatio
	SlowRatio
	Score
	OpenTimeOver
	TrialFailed
	TrialsSucceeded
	RampOver
	Operator
)

var reasonNames = [...]string{
	"none", "consecutive-failures", "failure-ratio", "slow-ratio", "score", "open-time-over",
	"trial-failed", "trials-succeeded", "ramp-over", "operator",
}

func (r Reason) String() string { return name(reasonNames[:], uint8(r)) }

func name(names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return "unknown"
}

// Status is a breaker's state at one moment.
type Status struct {
	State      State
	Generation uint32
	Since      int64   // when the state began, by the clock of the caller who began it
	Share      float64 // share of calls admitted, 0 to 1; 0 in half-open, which counts trials

	Consecutive                 int64  // failures in a row
	Requests, Failures, Slow    uint64 // in the window of the ratios
	Ratio, SlowRatio            float64
	TrialsUnderWay              int
	TrialsSucceeded             uint64
	Score, Threshold            float64 // these and the rest are of the adaptive mode
	Latency, Errors, Saturation float64
}

// Transition is a change of state with the numbers that led to it.
type Transition struct {
	From, To State
	Why      Reason
	At       int64 // when, on the caller's clock
	After    int64 // how long From lasted, in nanoseconds
	// Status holds the numbers from before the transition, except that Generation is the one that
	// begins, and Threshold is the value learnt from the transition.
	Status
}

// State returns the breaker's status. It changes nothing: after the open time, the state is still
// open until the next Allow. If transitions follow each other without pause, the status may mix
// numbers of two states.
func (b *Breaker) State(now int64) Status {
	const attempts = 8
	var s Status
	for range attempts {
		w := b.m.load()
		s = b.read(w, now)
		if w&pen == 0 && b.m.load() == w {
			break
		}
	}
	return s
}

// read gathers the numbers of the state in w.
func (b *Breaker) read(w word, now int64) Status {
	m := b.m
	s := Status{State: w.state(), Generation: w.generation(), Since: m.since.Load()}
	switch s.State {
	case Closed, ForcedClosed:
		s.Share = 1
	case Ramping:
		s.Share = m.ramp.share(&b.rules)
	case HalfOpen:
		s.TrialsUnderWay = m.trials.outstanding()
		s.TrialsSucceeded, _ = m.trials.verdict(s.Generation)
	}
	if w.serving() {
		s.Consecutive = m.streak.Load()
		if b.rules.windowed {
			n := m.ring.at(now)
			s.Requests, s.Failures, s.Slow = n.requests, n.failures, n.slow
			s.Ratio = float64(n.failures) / float64(max(1, n.requests))
			s.SlowRatio = float64(n.slow) / float64(max(1, n.requests))
		}
	}
	if g := m.gauge; g != nil {
		s.Threshold = g.limit.load()
		if w.serving() {
			s.Score = g.score.load()
			s.Latency, s.Errors = g.smooth[latencySignal].load(), g.smooth[errorSignal].load()
			s.Saturation = g.smooth[saturationSignal].load()
		}
	}
	return s
}

// RetryAfter is how many nanoseconds it takes until a call may be admitted. It is 0 when one may be
// admitted now, the rest of the open time when open, and, when all slots of half-open are taken,
// the time until the first trial loses its slot. For forced open, which does not end by itself, it
// is OpenFor.
func (b *Breaker) RetryAfter(now int64) int64 {
	m := b.m
	switch m.load().state() {
	case ForcedOpen:
		return b.rules.openFor
	case Open:
		d := elapsed(now, m.since.Load())
		if d < 0 {
			return b.rules.openFor
		}
		return max(0, b.rules.openFor-d)
	case HalfOpen:
		wait := b.rules.trialFor
		for i := range m.trials.slots {
			stamp := m.trials.slots[i].Load()
			if stamp&taken == 0 {
				return 0
			}
			wait = min(wait, b.left(stamp, now))
		}
		return wait
	}
	return 0
}
