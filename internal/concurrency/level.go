package concurrency

import "math"

// level is what was seen while the limit stood still: windows added up.
type level struct {
	time     float64 // seconds
	inflight float64 // integral over time
	done     float64
	latency  float64 // seconds, of those done
}

func (a *level) add(b level) {
	a.time += b.time
	a.inflight += b.inflight
	a.done += b.done
	a.latency += b.latency
}

// forget makes the level weigh no more than so many completions, so that it follows slow changes.
func (a *level) forget(most float64) {
	if a.done > most {
		f := most / a.done
		a.time, a.inflight, a.done, a.latency = a.time*f, a.inflight*f, a.done*f, a.latency*f
	}
}

func (a *level) throughput() float64 { return a.done / a.time }
func (a *level) mean() float64       { return a.inflight / a.time }

// response is the mean latency of those completed, in seconds.
func (a *level) response() float64 { return a.latency / a.done }

// noise estimates the variance of the logarithm of throughput, times the number of completions it
// was measured by. It is about the squared coefficient of variation of service times.
type noise struct {
	spread float64
	last   level
}

const (
	leastSpread = 0.02
	mostSpread  = 8
)

// learn compares a level with the one before it, both at the same limit.
func (s *noise) learn(now level) {
	if s.last.done > 0 && now.done > 0 {
		d := math.Log(now.throughput() / s.last.throughput())
		sample := d * d / (1/now.done + 1/s.last.done)
		s.spread += 0.1 * (min(sample, 4*s.spread+0.1) - s.spread)
		s.spread = min(max(s.spread, leastSpread), mostSpread)
	}
	s.last = now
}

// variance is that of the logarithm of the ratio of two levels' throughputs.
func (s *noise) variance(a, b level) float64 {
	return s.spread * (1/a.done + 1/b.done)
}
