package queue

import "math/rand/v2"

// Arrivals is a stream of arrivals in virtual time. It must not be used concurrently.
type Arrivals struct {
	rng   *rand.Rand // nil for even spacing
	gap   float64    // mean nanoseconds between two arrivals
	at    float64
	begun bool
}

// NewArrivals makes a stream with a rate in requests per second, which must be above 0: Poisson if
// exponential, otherwise evenly spaced. The same seed gives the same stream at every rate, only
// scaled, so that rates can be compared without the noise of separate draws.
func NewArrivals(rate float64, exponential bool, seed uint64) *Arrivals {
	a := &Arrivals{gap: 1e9 / rate}
	if exponential {
		a.rng = arrivalsRandom(seed)
	}
	return a
}

func arrivalsRandom(seed uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, 0xda942042e4dd58b5))
}

// Next returns when the next request arrives, in nanoseconds.
func (a *Arrivals) Next() int64 {
	switch {
	case a.rng != nil:
		a.at += a.rng.ExpFloat64() * a.gap
	case a.begun:
		a.at += a.gap
	}
	a.begun = true
	return int64(a.at)
}

// The search for a line: the maximum number of doublings to find a rate that is too high, and the
// share of the rate at which halving the distance ends.
const (
	lineDoublings = 64
	linePrecision = 2e-4
)

// Line returns the true load line of a station: the highest rate, in requests per second, at which
// at most share of the requests are refused or answered more than limit nanoseconds after their
// arrival. A limit of 0 counts only refusals. Each rate is tried with arrivals requests (200,000
// put the line within about 1 %), not counting the first tenth, and all rates with the same random
// numbers. The line is 0 if no load is light enough, and the workers' capacity if limit is 0 and
// the room is unbounded.
func Line(
	s Station, exponentialArrivals bool, limit int64, share float64, arrivals int, seed uint64,
) float64 {
	t := newTrial(s, exponentialArrivals, limit, share, max(arrivals, 100), seed)
	capacity := float64(s.Workers) * 1e9 / meanService(s, seed)
	if limit == 0 && s.Room < 0 {
		return capacity
	}
	low, high := 0.0, capacity/2
	for i := 0; t.meets(high); i++ {
		if i == lineDoublings {
			return high
		}
		low, high = high, 2*high
	}
	// Below a millionth of the capacity requests are alone: what is too slow there is too slow at
	// any rate.
	if low == 0 && !t.meets(capacity/1e6) {
		return 0
	}
	for high-low > linePrecision*high {
		if middle := (low + high) / 2; t.meets(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// meanService estimates the mean service time in nanoseconds from draws.
func meanService(s Station, seed uint64) float64 {
	const draws = 20_000
	r, sum := rand.New(rand.NewPCG(seed, 0x2545f4914f6cdd1d)), 0.0
	for range draws {
		sum += float64(s.Service(r))
	}
	return max(sum/draws, 1)
}

// trial is one station under one objective. All rates are tried with the same random numbers, which
// are drawn only once, because drawing takes longer than queueing.
type trial struct {
	station  Station
	seed     uint64
	limit    int64
	share    float64
	gaps     []float64 // between arrivals, as shares of the mean gap; nil for even spacing
	services []int64   // nanoseconds, as many as any rate has needed so far
	arrivals int
	next     int // index into services, at the rate being tried
}

func newTrial(
	s Station, exponential bool, limit int64, share float64, arrivals int, seed uint64,
) *trial {
	t := &trial{
		station:  s,
		seed:     seed,
		limit:    limit,
		share:    share,
		arrivals: arrivals,
		services: make([]int64, 0, arrivals),
	}
	if exponential {
		r := arrivalsRandom(seed)
		t.gaps = make([]float64, arrivals)
		for i := range t.gaps {
			t.gaps[i] = r.ExpFloat64()
		}
	}
	draw := s.Service
	r := serviceRandom(seed)
	t.station.Service = func(*rand.Rand) int64 {
		if t.next == len(t.services) {
			t.services = append(t.services, draw(r))
		}
		t.next++
		return t.services[t.next-1]
	}
	return t
}

// meets reports whether a rate meets the objective.
func (t *trial) meets(rate float64) bool {
	t.next = 0
	q, gap, at := New(t.station, t.seed), 1e9/rate, 0.0
	settle := t.arrivals / 10
	allowed := t.share * float64(t.arrivals-settle)
	bad := 0
	for i := range t.arrivals {
		switch {
		case t.gaps != nil:
			at += t.gaps[i] * gap
		case i > 0:
			at += gap
		}
		done, ok := q.Offer(int64(at))
		if i < settle || ok && (t.limit == 0 || done-int64(at) <= t.limit) {
			continue
		}
		if bad++; float64(bad) > allowed {
			return false
		}
	}
	return true
}
