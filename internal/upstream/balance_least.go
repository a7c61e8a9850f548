package upstream

// leastRequests picks the member with the fewest outstanding requests of this loop relative to its
// share. It starts from one drawn by weight and leaves it only for a better one, so ties follow the
// weights. An idle member ends the search at once.
type leastRequests struct{ draw }

func (b *leastRequests) pick(_ int64, _ uint64, tried []*Member) *Member {
	var best *Member
	lowest := 0.0
	start := b.index()
	n := len(b.l.usable)
	for k := range n {
		i := start + k
		if i >= n {
			i -= n
		}
		m := b.l.usable[i]
		if len(tried) > 0 && among(m, tried) {
			continue
		}
		if m.outstanding == 0 {
			return m
		}
		if load := float64(m.outstanding) * m.inv; best == nil || load < lowest {
			best, lowest = m, load
		}
	}
	return best
}
