package upstream

import (
	"fmt"
	"math"
	"time"

	"plimsoll/internal/breaker"
)

// BreakerOptions put a circuit breaker before each target, or one before all of them.
type BreakerOptions struct {
	breaker.Options      // without OnTransition
	Whole           bool // one breaker for the whole upstream
}

// newBreaker makes a breaker from options that were checked already. at is the address of its
// target, empty for the whole upstream.
func (u *Upstream) newBreaker(at string, now int64) *breaker.Breaker {
	o := u.options.Breaker.Options
	o.OnTransition = func(t breaker.Transition) {
		u.trips.Add(1)
		select {
		case u.moved <- transition{at, t}: // to the judge: a loop does not wait for the log
		default:
		}
	}
	b, err := breaker.New(o, now)
	if err != nil {
		panic(err)
	}
	return b
}

// transition is a transition of a breaker that is to be logged.
type transition struct {
	target string // empty for the whole upstream
	breaker.Transition
}

// keptTransitions is how many transitions can wait to be logged. Further ones are only counted.
const keptTransitions = 64

func (u *Upstream) logTransition(t transition) {
	log := u.log
	if t.target != "" {
		log = log.With("target", t.target)
	}
	log.Warn("circuit breaker", "was", t.From.String(), "is", t.To.String(), "why", t.Why.String(),
		"after", time.Duration(t.After).Round(time.Millisecond).String(), "requests", t.Requests,
		"failures", t.Failures, "slow", t.Slow, "in_a_row", t.Consecutive,
		"score", round2(t.Score), "threshold", round2(t.Threshold))
}

func round2(x float64) float64 { return math.Round(x*100) / 100 }

// Admit asks the target's breaker whether a try may be made there. If it returns true, pass the
// ticket to Settle when the try is over, however it ended. If it returns false, another target may
// still admit the try. Loop only; it does not allocate.
func (m *Member) Admit(now int64) (breaker.Ticket, bool) {
	b := m.target.breaker
	if b == nil {
		return breaker.Ticket{}, true
	}
	t := b.Allow(now, m.local.rng.next())
	return t, t.Kind != breaker.Refused
}

// Settle tells the target's breaker how a try ended that Admit let through. latency is in
// nanoseconds. Loop only.
func (m *Member) Settle(now int64, t breaker.Ticket, o Outcome, latency int64) {
	b := m.target.breaker
	if b == nil {
		return
	}
	how := breaker.Failure
	switch o {
	case Success:
		how = breaker.Success
	case Cancelled:
		how = breaker.Cancelled
	}
	b.Done(now, t, how, latency, m.saturation())
}

// saturation estimates which share of the connections that the target may have is in use, as if
// every loop had as many outstanding tries as this one. It does not use the share of the
// concurrency limit: that limit is reached whenever more is offered than the target can do, which
// is no reason to stop sending to it.
func (m *Member) saturation() float64 {
	u := m.local.u
	return min(1, float64(m.outstanding*u.env.Loops)/float64(u.options.MaxConnections))
}

// ForceBreaker sets the state of the breaker of the target at address, for an operator: "open",
// "closed" or "automatic". If the breaker is that of the whole upstream, this applies to all
// targets. It does not outlive a reload that changes the upstream. Any goroutine may call it.
func (u *Upstream) ForceBreaker(address, state string) error {
	command, ok := map[string]breaker.Command{
		"automatic": breaker.Automatic, "open": breaker.ForceOpen, "closed": breaker.ForceClosed,
	}[state]
	if !ok {
		return fmt.Errorf("%q is not what a breaker can be told; write open, closed or automatic", state)
	}
	for _, t := range u.set.Load().targets {
		if t.addr.String() != address {
			continue
		}
		if t.breaker == nil {
			return fmt.Errorf("upstream %s has no breaker: add the key breaker to its config", u.name)
		}
		t.breaker.Force(command, u.env.Now())
		return nil
	}
	return fmt.Errorf("upstream %s has no target %q", u.name, address)
}

// RetryAfter returns in how many nanoseconds the target's breaker may let a try through.
func (m *Member) RetryAfter(now int64) int64 {
	if m.target.breaker == nil {
		return 0
	}
	return m.target.breaker.RetryAfter(now)
}
