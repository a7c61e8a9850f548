package concurrency

import "math"

// between describes the time from one tick to another.
func (w *world) between(from, to float64) sums {
	a, b := w.history[max(0, int(math.Round(from/tickEvery))-1)], w.history[min(len(w.history), int(math.Round(to/tickEvery)))-1]
	return sums{
		at: b.at - a.at, arrived: b.arrived - a.arrived, refused: b.refused - a.refused,
		completed: b.completed - a.completed, latency: b.latency - a.latency,
		work: b.work - a.work, waiting: b.waiting - a.waiting, inflight: b.inflight - a.inflight,
	}
}

// used is the part of a service's capacity that did work. It is goodput over capacity without the
// noise of drawn service times.
func (s sums) used(v service) float64 { return s.work / s.at / float64(v.workers) }

// wait is the mean wait inside the service, in seconds, by Little's law.
func (s sums) wait(v service) float64 { return s.waiting / s.at / v.capacity() }

// limitsBetween are the lowest and the highest limit from one time to another.
func (w *world) limitsBetween(from, to float64) (low, high int) {
	low = math.MaxInt
	for _, l := range w.limits[int(from/tickEvery):min(len(w.limits), int(to/tickEvery))] {
		low, high = min(low, l), max(high, l)
	}
	return low, high
}

// settled is how long after a change the second began from which on the service's capacity is used
// and almost nothing waits inside it; -1 when that is never.
func (w *world) settled(change, until float64, v service) float64 {
	for t := change; t+1 <= until+1e-9; t += tickEvery {
		if s := w.between(t, t+1); s.used(v) >= 0.95 && s.wait(v) <= max(v.mean, 0.010) {
			return t - change
		}
	}
	return -1
}

// still is a limit that does not move.
type still int

func (s still) Observe(Window) int { return int(s) }
func (s still) Limit() int         { return int(s) }

// ideal is the limit that someone would set who knows the service.
func ideal(s service) still {
	knee := s.capacity() * (s.mean + s.delay)
	return still(math.Ceil(knee + max(1, math.Sqrt(knee))))
}
