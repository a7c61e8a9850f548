// Package concurrency finds how many requests may be inside a service at once. It adapts one limit
// to one service, from the traffic that passes, so that the service works at its full capacity with
// almost no queue inside it. The queue is then in the gateway, where it is ordered by class and
// bounded in time. Nothing about the service's capacity is configured.
//
// It rests on a few facts. Little's law says n = X·R: the number of requests inside is the
// throughput times the latency. A service with N workers has a knee at n = N, plus the requests
// that are on the network. Below the knee the latency is the baseline, R = S0, and X = n/S0. Above
// it the throughput is the capacity, X = C, and R = n/C. No latency is ever lower than S0.
//
// While the limit binds, n is the limit L, so the latency alone says nothing about S0: R = 100 ms
// with L = 20 fits 20 workers that take 100 ms, and 2 workers that take 10 ms. The elasticity of
// throughput to the limit, e = dlnX/dlnL, distinguishes the two. It is 1 below the knee and 0 above
// it.
//
// So Gradient remembers the throughput that it saw at each limit, and looks for the knee that
// explains all of it best. For every knee within six times the limit, it computes how likely the
// observations are under X = min(n, knee)/S0. The limit moves to the median of that distribution
// plus a reserve. Everything else follows:
//
//   - When throughput rose with the limit, all higher knees are equally likely, and the limit goes
//     up, by a quarter or a half in a step. When it did not, all lower knees are equally likely.
//     The limit then goes down, by an eighth or one request in a step, until throughput falls with
//     it. That shows where the knee is, and the limit returns.
//   - Observations are forgotten with time, so the limit goes down a step now and then, until the
//     throughput shows that the knee is where it was. Nothing else lowers the limit to probe. Every
//     two seconds or more, a step up looks for a higher knee. It costs a short queue.
//   - An observed level that no knee and no baseline can reconcile with the present throughput is
//     out of date and is dropped. If that happens to the present level itself, the service has
//     changed and all levels are dropped.
//   - Observations while the limit does not bind give S0 directly. They count as one more
//     observation, whose weight falls once the limit binds.
//   - The weight of an observation depends on the noise of throughput, which is measured too.
//
// The usual control laws (Vegas, gradient limits, BBR) keep S0 as a filtered minimum of latency.
// The first version did that, with small trials that raised the minimum when throughput fell with
// the limit. It was dropped: with the noise of some dozen completions the minimum drifts down, the
// limit follows it, and each repair costs throughput. One sum over all observations needs no such
// repairs.
//
// The package knows numbers and nothing else: no clock, no queue, no goroutine.
package concurrency

import (
	"fmt"
	"math"
	"time"
)

// Mode chooses a law.
type Mode uint8

const (
	// Gradient finds the knee from latency and throughput. It needs no target.
	Gradient Mode = iota
	// AIMD holds latency at a target: it raises the limit by one while the target is met, and
	// lowers it by a tenth when it is not or when requests fail. It is easy to predict, and only as
	// good as its target.
	AIMD
)

// Options are what can be set. The zero value of each means its default.
type Options struct {
	Mode Mode

	Min     int // the limit is never lower; 1 by default
	Max     int // the limit is never higher; 10,000 by default
	Initial int // the limit at first; by default 20, or the nearest value from Min to Max

	// Tolerance is the least part of the knee that Gradient adds as a reserve; 0.05 by default. The
	// reserve of a small service is larger: 0.5 plus 0.6 times the square root of the knee. A
	// larger reserve costs latency inside the service, a smaller one costs throughput when service
	// times vary.
	Tolerance float64

	// Target is the latency that AIMD keeps. It has no default.
	Target time.Duration
}

// Window is the traffic between two moments. Windows follow each other without gaps.
type Window struct {
	Start, End   int64   // monotonic ns
	Completed    int     // requests that the service answered successfully
	LatencySum   int64   // ns from sending to the answer, over all completed; only AIMD needs it
	InflightMean float64 // requests inside the service, averaged over time
	Limited      bool    // a request waited for a slot, or was refused because there was none
	Failed       int     // requests that the service failed
}

// State is what a law has concluded, for display.
type State struct {
	Limit        int
	Baseline     time.Duration // S0, the latency without a queue; 0 while unknown
	BaselineAge  time.Duration // since an observation last confirmed or changed it
	Capacity     float64       // requests a second; 0 while unknown
	CapacityLow  float64       // lower bound of the 95 % confidence interval of Capacity
	CapacityHigh float64
	CapacityAge  time.Duration // since the limit last bound
	Decision     string        // the last decision, in words
}

// Law adapts one limit. It is not safe for concurrent use.
type Law struct {
	options Options
	law     interface {
		observe(w Window)
		state() State
	}
	limit float64
}

// New makes a law. It fails if an option is out of its range.
func New(o Options) (*Law, error) {
	o.Min = cmpOr(o.Min, 1)
	o.Max = cmpOr(o.Max, max(10_000, o.Min))
	o.Initial = cmpOr(o.Initial, min(max(20, o.Min), o.Max))
	if o.Tolerance == 0 {
		o.Tolerance = 0.05
	}
	switch {
	case o.Min < 1:
		return nil, fmt.Errorf("concurrency: the minimum is %d: it must be at least 1", o.Min)
	case o.Max < o.Min:
		return nil, fmt.Errorf("concurrency: the maximum %d is below the minimum %d: raise it", o.Max, o.Min)
	case o.Initial < o.Min || o.Initial > o.Max:
		return nil, fmt.Errorf("concurrency: the initial limit %d is not within %d to %d: move it there",
			o.Initial, o.Min, o.Max)
	case !(o.Tolerance > 0 && o.Tolerance <= 1):
		return nil, fmt.Errorf("concurrency: the tolerance is %g: it must be above 0 and at most 1",
			o.Tolerance)
	case o.Mode == AIMD && o.Target <= 0:
		return nil, fmt.Errorf("concurrency: AIMD has the target %v: set one above 0", o.Target)
	case o.Mode > AIMD:
		return nil, fmt.Errorf("concurrency: there is no mode %d: choose Gradient or AIMD", o.Mode)
	}
	l := &Law{options: o, limit: float64(o.Initial)}
	if o.Mode == AIMD {
		l.law = &aimd{Law: l}
	} else {
		l.law = newGradient(l)
	}
	return l, nil
}

func cmpOr(value, otherwise int) int {
	if value == 0 {
		return otherwise
	}
	return value
}

// Observe takes the next window, of 50 to 100 ms, and returns the new limit.
func (l *Law) Observe(w Window) int {
	if w.End > w.Start {
		l.law.observe(w)
	}
	return l.Limit()
}

// Limit is how many requests may be inside the service at once.
func (l *Law) Limit() int { return int(math.Round(l.limit)) }

// Explain returns what the law has concluded and its last decision.
func (l *Law) Explain() State {
	s := l.law.state()
	s.Limit = l.Limit()
	return s
}

// set moves the limit, within Min and Max.
func (l *Law) set(limit float64) {
	l.limit = min(max(limit, float64(l.options.Min)), float64(l.options.Max))
}
