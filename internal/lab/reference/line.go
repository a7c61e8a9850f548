package reference

import (
	"math/rand/v2"

	"plimsoll/internal/lab/queue"
	"plimsoll/internal/lab/slo"
)

// precision is the distance, as a share, between the two rates at which a search for a line ends.
const precision = 1e-3

// FindLine finds the true load line: the highest rate at which a service keeps every objective over
// the given number of arrivals. The first fifth is not judged, because the service warms up or
// grows then. The line is 0 if no rate keeps the objectives; highest is the upper end of the
// search.
func (k *Kind) FindLine(objectives slo.SLO, highest float64, arrivals int, seed uint64) float64 {
	if k.Meets(objectives, highest, arrivals, seed) {
		return highest
	}
	low, high := 0.0, highest
	for high-low > precision*high && high > highest/1000 {
		if middle := (low + high) / 2; k.Meets(objectives, middle, arrivals, seed) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// Meets reports whether a new service keeps the objectives at a rate, under Poisson arrivals.
func (k *Kind) Meets(objectives slo.SLO, rate float64, arrivals int, seed uint64) bool {
	service, times := k.New(seed), queue.NewArrivals(rate, true, seed)
	mix := rand.New(rand.NewPCG(seed, 0xbf58476d1ce4e5b9))
	settle := arrivals / 5
	bad := make([]int, len(objectives))
	for i := range arrivals {
		at := times.Next()
		done, status := service.Offer(at, k.Draw(mix))
		if i < settle {
			continue
		}
		for j := range objectives {
			o := &objectives[j]
			if status != Good || o.Limit > 0 && done-at > o.Limit {
				bad[j]++
			}
		}
	}
	for j := range objectives {
		if float64(bad[j]) > objectives[j].Share*float64(arrivals-settle) {
			return false
		}
	}
	return true
}
