package upstream

// roundRobin is nginx's smooth weighted round robin. At each pick every member gains credit by its
// share, and the one with the most credit is picked and pays what all have gained. Weights 5, 1, 1
// give a a b a c a a and not a a a a a b c.
type roundRobin struct {
	l      *Local
	of     []*Member // the members that the two below belong to
	credit []int64   // dense: the pick reads every one
	gain   []int64
	total  int64
	begun  bool
}

// rebuild keeps the credit of members that stay, so that a change elsewhere does not restart the
// round.
func (b *roundRobin) rebuild() {
	for i, m := range b.of {
		m.current = b.credit[i]
	}
	b.of = append(b.of[:0], b.l.usable...)
	b.credit, b.gain, b.total = b.credit[:0], b.gain[:0], 0
	for _, m := range b.l.usable {
		gain := max(int64(m.share*1024+0.5), 1)
		b.credit = append(b.credit, m.current)
		b.gain = append(b.gain, gain)
		b.total += gain
	}
	if !b.begun && len(b.gain) > 0 {
		b.begun = true
		// Loops that all began with the same member would all send to the same target at once.
		for range b.l.loop % len(b.gain) {
			b.pick(0, 0, nil)
		}
	}
}

func (b *roundRobin) pick(_ int64, _ uint64, tried []*Member) *Member {
	best := -1
	richest := int64(0)
	for i, gain := range b.gain {
		b.credit[i] += gain
		if (best < 0 || b.credit[i] > richest) && (len(tried) == 0 || !among(b.l.usable[i], tried)) {
			best, richest = i, b.credit[i]
		}
	}
	if best < 0 {
		// All were tried. No member pays, so take back what they gained.
		for i, gain := range b.gain {
			b.credit[i] -= gain
		}
		return nil
	}
	b.credit[best] -= b.total
	return b.l.usable[best]
}
