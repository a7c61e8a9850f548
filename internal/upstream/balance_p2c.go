package upstream

// p2c draws two different members by weight and takes the one of lower cost. It needs no scan, and
// unlike the best of all it does not send every loop's next request to the same target.
type p2c struct{ draw }

// tie is how much cheaper the second draw must be. Costs that are nearly equal are noise; letting
// the first draw stand there keeps the shares as the weights say.
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

// other draws a member that is not i. A member with nearly all of the weight is not drawn around
// for ever.
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

// cheapest scans, from a random place on, for the untried member of lowest cost. Only retries come
// here.
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
