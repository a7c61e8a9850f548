package reference

import (
	"math/rand/v2"

	"plimsoll/internal/lab/queue"
	"plimsoll/internal/lab/slo"
)

// precision is how near, as a share, the two rates are between which a search for a line ends.
const precision = 1e-3

// FindLine finds the true load line: the highest rate at which a service that is offered so many
// requests keeps every objective of its kind. The first fifth is not judged: the service warms up,
// or grows, before. It is 0 where no rate keeps them; highest is where the search ends.
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

// Meets says whether a new service keeps the objectives at a rate, under Poisson arrivals.
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
