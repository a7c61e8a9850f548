package rules

import "math"

// EarlyRefresh reports whether this hit should refresh a hot answer before it is stale, so that no
// client ever waits for it (Vattani et al., "Optimal probabilistic cache stampede prevention",
// 2015). ttl is for how long the answer is still fresh and cost is how long fetching it took, both
// in nanoseconds. beta is how eagerly to refresh: 1 is usual, 0 means never. random is uniform in
// (0,1]. The shorter ttl is and the more hits there are, the more likely one of them is chosen.
// Rarely requested answers are not refreshed early: their next hit comes when they are stale.
func EarlyRefresh(ttl, cost int64, beta, random float64) bool {
	if beta <= 0 || cost <= 0 || ttl <= 0 || random <= 0 {
		return false
	}
	return -float64(cost)*beta*math.Log(random) >= float64(ttl)
}

// Jitter shortens an answer's lifetime by up to share, so that answers that arrived together do not
// become stale together. random is uniform in [0,1). Jitter never lengthens a lifetime.
func (s *Stored) Jitter(share, random float64) {
	if share <= 0 {
		return
	}
	s.Lifetime -= int64(float64(s.Lifetime) * min(share, 1) * random)
}
