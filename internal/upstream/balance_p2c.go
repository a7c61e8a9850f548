package upstream

// p2c (power of two choices) draws two different members by weight and picks the one of lower cost.
// It needs no scan, and, unlike picking the best of all members, it does not send the next request
// of every loop to the same target.
type p2c struct{ draw }

// tie is the part of the first draw's cost that the second's must be below. A smaller difference is
// noise, and keeping the first draw then keeps the shares as the weights say.
const tie = 1 - 1.0/8

func (b *p2c) pick(now int64, _ uint64, tried []*Member) *Member {
	members := b.l.usable
	if len(tried) > 0 {
		return b.cheapest(now, tried)
	}
	if len(members) == 1 {
		return members[0]
	}
	i := b.index()
	j := b.other(i)
	first, second := members[i], members[j]
	if second.cost(now) < first.cost(now)*tie {
		return second
	}
	return first
}

// other draws a member that is not i. It stops drawing by weight after three draws of i, so that it
// does not draw for ever if i has nearly all of the weight.
func (b *p2c) other(i int) int {
	n := len(b.l.usable)
	if n == 2 {
		return 1 - i
	}
	for range 3 {
		if j := b.index(); j != i {
			return j
		}
	}
	return (i + 1 + b.l.rng.below(n-1)) % n
}

// cheapest scans for the untried member of lowest cost, beginning at a random one. Only retries use
// it.
func (b *p2c) cheapest(now int64, tried []*Member) *Member {
	var best *Member
	lowest := 0.0
	n := len(b.l.usable)
	start := b.l.rng.below(n)
	for k := range n {
		m := b.l.usable[(start+k)%n]
		if among(m, tried) {
			continue
		}
		if cost := m.cost(now); best == nil || cost < lowest {
			best, lowest = m, cost
		}
	}
	return best
}
