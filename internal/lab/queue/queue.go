// Package queue simulates a queue with several workers in virtual time: what a service with a known
// capacity does to the requests that it gets. The reference servers are built on it, their true
// load line is computed from it, and the model predicts a line with it. It must know no sockets and
// no clocks.
package queue

import "math/rand/v2"

// Station is a queue in front of workers of equal speed, served in the order of arrival.
type Station struct {
	// Workers is how many requests are served at once, at least 1.
	Workers int
	// Service draws the time one request takes, in nanoseconds.
	Service func(r *rand.Rand) int64
	// Room is how many requests may wait; one more is refused at once. Negative means no bound.
	Room int
}

// Constant is a service time that is always the same.
func Constant(ns int64) func(*rand.Rand) int64 { return func(*rand.Rand) int64 { return ns } }

// Exponential is a service time that is exponentially distributed around a mean.
func Exponential(mean int64) func(*rand.Rand) int64 {
	return func(r *rand.Rand) int64 { return int64(r.ExpFloat64() * float64(mean)) }
}

// Queue is a station at work. It is a value of one owner; time is what its callers say it is.
type Queue struct {
	station Station
	rng     *rand.Rand
	free    []int64 // when each worker is free, a heap: the earliest first
	// when each of those that wait will be begun, in order; not kept where Room means no bound
	starts ring
}

// New makes an empty queue.
func New(s Station, seed uint64) *Queue {
	return &Queue{station: s, rng: serviceRandom(seed), free: make([]int64, s.Workers)}
}

func serviceRandom(seed uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
}

// Offer has a request arrive, not before the one offered last, and says when it will be done:
// everything that is served in the order of arrival is decided at the arrival (Kiefer and
// Wolfowitz, 1955). ok is false when there is no room.
func (q *Queue) Offer(now int64) (done int64, ok bool) {
	start := max(now, q.free[0])
	// Who waits matters only where the room is bounded.
	if room := q.station.Room; room >= 0 {
		q.starts.dropUntil(now)
		if start > now {
			if q.starts.len() >= room {
				return 0, false
			}
			q.starts.push(start)
		}
	}
	done = start + q.station.Service(q.rng)
	q.free[0] = done
	q.sink()
	return done, true
}

// Add adds a worker, who is free from now on.
func (q *Queue) Add(now int64) {
	q.free = append(q.free, now)
	for i := len(q.free) - 1; i > 0 && q.free[i] < q.free[(i-1)/2]; i = (i - 1) / 2 {
		q.free[i], q.free[(i-1)/2] = q.free[(i-1)/2], q.free[i]
	}
}

// sink puts the heap in order after its first element has grown.
func (q *Queue) sink() {
	free, i := q.free, 0
	moved := free[0]
	for {
		c := 2*i + 1
		if c >= len(free) {
			break
		}
		if c+1 < len(free) && free[c+1] < free[c] {
			c++
		}
		if free[c] >= moved {
			break
		}
		free[i] = free[c]
		i = c
	}
	free[i] = moved
}

// ring is a queue of moments in ascending order.
type ring struct {
	at    []int64
	first int
}

func (r *ring) len() int { return len(r.at) - r.first }

func (r *ring) push(at int64) {
	if r.first > 1024 && r.first > len(r.at)/2 {
		r.at = r.at[:copy(r.at, r.at[r.first:])]
		r.first = 0
	}
	r.at = append(r.at, at)
}

// dropUntil forgets the moments that are not after now.
func (r *ring) dropUntil(now int64) {
	for r.first < len(r.at) && r.at[r.first] <= now {
		r.first++
	}
}
