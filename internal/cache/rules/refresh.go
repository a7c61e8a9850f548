package rules

import "math"

// EarlyRefresh says whether this hit is the one that refreshes a hot answer before it is stale, so
// that nobody ever waits for it (Vattani et al., "Optimal probabilistic cache stampede prevention",
// 2015). ttl is how long the answer is still fresh and cost how long fetching it took, nanoseconds;
// beta is how eagerly it is refreshed, 1 being usual and 0 never; random is an even number in (0,1].
// The later it is and the more hits there are, the likelier one of them is chosen. What is rarely
// asked for is not: its next hit comes when it is stale.
func EarlyRefresh(ttl, cost int64, beta, random float64) bool {
	if beta <= 0 || cost <= 0 || ttl <= 0 || random <= 0 {
		return false
	}
	return -float64(cost)*beta*math.Log(random) >= float64(ttl)
}

// Jitter takes up to share of an answer's lifetime off, so that what came together does not become
// stale together; random is an even number in [0,1). It never lengthens a lifetime.
func (s *Stored) Jitter(share, random float64) {
	if share <= 0 {
		return
	}
	s.Lifetime -= int64(float64(s.Lifetime) * min(share, 1) * random)
}
