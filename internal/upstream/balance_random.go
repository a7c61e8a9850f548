package upstream

// random picks a member by weight and looks at nothing else.
type random struct{ draw }

func (b *random) pick(_ int64, _ uint64, tried []*Member) *Member {
	i := b.index()
	if len(tried) == 0 {
		return b.l.usable[i]
	}
	// This is a retry. The first four draws keep to the weights; then the next untried member will
	// do.
	for range 4 {
		if m := b.l.usable[i]; !among(m, tried) {
			return m
		}
		i = b.index()
	}
	n := len(b.l.usable)
	for k := range n {
		if m := b.l.usable[(i+k)%n]; !among(m, tried) {
			return m
		}
	}
	return nil
}
