package limit

import (
	"fmt"
	"slices"
)

// ledger checks a limit's decisions, in the order in which they are made, against the limit itself.
// No token may be made, even when places change owners or a reload hands them on, and none may be
// lost. It knows a limit's numbers and the requests that passed, and nothing about words, tables
// and generations. It is used only with invariant.Sequential, because it keeps every value.
type ledger struct {
	of map[string]*account
	// shared says that a value found no place. If it gets one later, its state may start with what
	// other values used of the bucket that they shared (reserve.go).
	shared bool
}

// account is what is known about one value since its limit got its present numbers.
type account struct {
	params *params
	// everything says that all counted requests are known: nothing of the value passed before.
	everything bool
	due        float64 // bucket: when it is full, or the next turn, in nanoseconds
	window     int64   // windows: the last one's index, and what passed in it and in the one before
	count      int64
	before     int64
	passed     []int64 // log: the times
}

// Rounding errors in nanoseconds: tokens are rounded up to parts of a nanosecond, and a log's times
// to its ticks.
const (
	roundings = 1e4
	ticks     = 2 << logTick
)

// note records a decision, and panics if it violates the limit.
func (g *ledger) note(s *spot, now int64) {
	p := s.outcome.params
	if s.remote != nil || p == nil {
		return
	}
	if g.of == nil {
		g.of = map[string]*account{}
	}
	a := g.of[string(s.value)]
	switch {
	case a == nil:
		a = &account{params: p, everything: true}
		g.of[string(s.value)] = a
	case !a.params.same(p) || a.params.since != p.since:
		// The tokens taken still count, but it is unknown for how many of the new ones.
		*a = account{params: p}
	}
	g.shared = g.shared || s.spilled
	holds := a.weigh(s.outcome.cost, now)
	switch {
	case s.pass && holds > 0:
		panic(fmt.Sprintf("limit: a token was made: %q passes a %v of %d in %v and a burst of %d",
			s.value, p.algorithm, p.rate.Count, p.rate.Per, p.burst))
	case !s.pass && holds < 0 && a.everything && !g.shared:
		panic(fmt.Sprintf("limit: a token was lost: %q is refused by a %v of %d in %v and a burst of %d",
			s.value, p.algorithm, p.rate.Count, p.rate.Per, p.burst))
	case s.pass:
		a.take(s.outcome.cost, now)
	}
}

// weigh says what the limit requires for a request: 1 if it must not pass, -1 if it must pass, and
// 0 if rounding decides.
func (a *account) weigh(cost, now int64) int {
	p := a.params
	switch p.algorithm {
	case TokenBucket, GCRA:
		return beyond(a.after(cost, now)-float64(now), float64(p.burst)*p.interval())
	case LeakyBucket:
		return beyond(max(a.due, float64(now))-float64(now), float64(p.depth)/units)
	case SlidingLog:
		within := func(time int64) int64 {
			n := int64(1)
			for _, at := range a.passed {
				if at > now-time {
					n++
				}
			}
			return n
		}
		switch {
		case within(p.period-ticks) > p.rate.Count/p.cost:
			return 1
		case within(p.period+ticks) <= p.rate.Count/p.cost:
			return -1
		}
		return 0
	}
	a.turn(now)
	switch {
	case a.count+cost > p.rate.Count:
		return 1
	case p.algorithm == FixedWindow || a.count+a.before+cost <= p.rate.Count:
		return -1
	}
	return 0 // the models check how much of the window before counts: see model_test.go
}

// beyond compares a time with its bound.
func beyond(time, bound float64) int {
	switch {
	case time > bound+roundings:
		return 1
	case time < bound-roundings:
		return -1
	}
	return 0
}

// take counts a request that passed.
func (a *account) take(cost, now int64) {
	switch a.params.algorithm {
	case TokenBucket, GCRA, LeakyBucket:
		a.due = a.after(cost, now)
	case SlidingLog:
		a.passed = append(slices.DeleteFunc(a.passed, func(at int64) bool {
			return at < now-2*a.params.period
		}), now)
	default:
		a.turn(now)
		a.count += cost
	}
}

// after is when the bucket is full again, or when the next turn comes, after a request.
func (a *account) after(cost, now int64) float64 {
	return max(a.due, float64(now)) + float64(cost)*a.params.interval()
}

// turn advances to the window of a time.
func (a *account) turn(now int64) {
	switch here := now / a.params.period; {
	case here <= a.window:
	case here == a.window+1:
		a.window, a.before, a.count = here, a.count, 0
	default:
		a.window, a.before, a.count = here, 0, 0
	}
}

// interval is the time between two tokens in nanoseconds.
func (p *params) interval() float64 { return float64(p.rate.Per) / float64(p.rate.Count) }
