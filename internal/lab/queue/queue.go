// Package queue simulates a queue with several workers in virtual time: how a service with a known
// capacity handles requests. The reference servers are built on it, their true load line is
// computed from it, and the model predicts a line with it. It must not know sockets or clocks.
package queue

import "math/rand/v2"

// Station is a queue in front of equally fast workers, served in order of arrival.
type Station struct {
	// Workers is how many requests are served at once, at least 1.
	Workers int
	// Service draws the service time of a request, in nanoseconds.
	Service func(r *rand.Rand) int64
	// Room is how many requests may wait; further ones are refused at once. Negative means no
	// limit.
	Room int
}

// Constant returns a constant service time.
func Constant(ns int64) func(*rand.Rand) int64 { return func(*rand.Rand) int64 { return ns } }

// Exponential returns an exponentially distributed service time with a mean.
func Exponential(mean int64) func(*rand.Rand) int64 {
	return func(r *rand.Rand) int64 { return int64(r.ExpFloat64() * float64(mean)) }
}

// Queue is a station at work. It must not be used concurrently. Its callers supply the time.
type Queue struct {
	station Station
	rng     *rand.Rand
	free    Times // when each worker is free
	starts  Times // when each waiting request starts; not kept if Room is unlimited
}

// New returns an empty queue.
func New(s Station, seed uint64) *Queue {
	return &Queue{station: s, rng: serviceRandom(seed), free: Times{at: make([]int64, s.Workers)}}
}

func serviceRandom(seed uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
}

// Offer adds a request that arrives now, not before the previous one, and returns when it will be
// done: in a queue served in order of arrival, everything is decided at the arrival (Kiefer and
// Wolfowitz, 1955). ok is false if there is no room.
func (q *Queue) Offer(now int64) (done int64, ok bool) {
	start := max(now, q.free.First())
	// Waiting requests matter only if the room is limited.
	if room := q.station.Room; room >= 0 {
		q.starts.DropUntil(now)
		if start > now {
			if q.starts.Len() >= room {
				return 0, false
			}
			q.starts.Put(start)
		}
	}
	done = start + q.station.Service(q.rng)
	q.free.Drop()
	q.free.Put(done)
	return done, true
}

// Add adds a worker that is free from now on.
func (q *Queue) Add(now int64) { q.free.Put(now) }
