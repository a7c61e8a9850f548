package upstream

import (
	"context"
	"math"
	"math/bits"
	"strings"
	"sync/atomic"

	"plimsoll/internal/breaker"
)

// Bits of a target's state word. A target with none of them is usable.
const (
	stateDown     uint32 = 1 << iota // the light check says so
	stateDeepDown                    // the deep check says so
	stateEjected                     // its answers to real traffic were bad
	stateDrained                     // an operator took it out
	stateGone                        // it is no longer one of the upstream's targets
)

// stateChecked are the bits that active checks set.
const stateChecked = stateDown | stateDeepDown

// Target is one address of an upstream, shared by all loops.
//
// Loops read state and readyAt when the upstream's version has changed, and fails at the end of
// each request; all three change rarely. The fields that loops write often are on cache lines of
// their own. The rest is guarded by Upstream.mu.
type Target struct {
	addr   Address
	weight int

	state   atomic.Uint32
	fails   atomic.Int32 // failures in a row
	readyAt atomic.Int64 // when it was last made usable, from which slow start counts

	_        [64]byte
	open     atomic.Int64  // connections, over all loops and the spare list, being dialled included
	requests atomic.Uint64 // since the last evaluation of success rates, added to once a second by each loop
	failures atomic.Uint64
	_        [64]byte
	spare    spare
	slots    *slots           // nil where the concurrency is not limited
	breaker  *breaker.Breaker // nil where there is none

	// Guarded by Upstream.mu:
	light, deep streak
	ejectedAt   int64
	ejectedTill int64
	ejectRow    int // ejections in a row
	ejections   uint64
	changed     int64
	why         string             // the last change
	reasons     [5]string          // of each state bit, while it is set
	stop        context.CancelFunc // of its health checks
}

// neverReady is a value of readyAt so long ago that no slow start is under way.
const neverReady = math.MinInt64 / 2

// Address is where the target listens.
func (t *Target) Address() Address { return t.addr }

// Weight is the weight in the config, or that of the name that the target is an address of.
func (t *Target) Weight() int { return t.weight }

// eligible reports whether the target could be used if it were well. The panic threshold is a share
// of the eligible targets, and panic uses only these.
func (t *Target) eligible(state uint32) bool {
	return t.weight > 0 && state&(stateDrained|stateGone) == 0
}

// set is an immutable list of targets.
type set struct {
	targets []*Target
	ring    ring // only for policy hash
}

// explain returns why the target is not usable, or, if it is, the reason of the last change. The
// caller holds Upstream.mu.
func (t *Target) explain() string {
	state := t.state.Load()
	if state == 0 {
		return t.why
	}
	var all []string
	for state != 0 {
		all = append(all, t.reasons[bits.TrailingZeros32(state)])
		state &= state - 1
	}
	return strings.Join(all, "; ")
}

// stateName returns the state in words. Of several reasons it names the most lasting.
func stateName(state uint32, weight int) string {
	switch {
	case state&stateGone != 0:
		return "gone"
	case state&stateDrained != 0:
		return "drained"
	case weight == 0:
		return "weight 0"
	case state&stateDown != 0:
		return "down"
	case state&stateDeepDown != 0:
		return "deep check down"
	case state&stateEjected != 0:
		return "ejected"
	}
	return "up"
}

// streak decides from the single results of a health check whether a target is up or down.
type streak struct {
	asked     bool // there was at least one result
	down      bool
	failures  int // in a row
	successes int // in a row
	last      string
	at        int64
}

// add counts one result and reports whether it changed down. A target is up before the first
// result.
func (s *streak) add(now int64, err error, unhealthyAfter, healthyAfter int) bool {
	s.asked, s.at = true, now
	if err != nil {
		s.last = err.Error()
		s.failures, s.successes = s.failures+1, 0
		if !s.down && s.failures >= unhealthyAfter {
			s.down = true
			return true
		}
		return false
	}
	s.last = "ok"
	s.failures, s.successes = 0, s.successes+1
	if s.down && s.successes >= healthyAfter {
		s.down = false
		return true
	}
	return false
}
