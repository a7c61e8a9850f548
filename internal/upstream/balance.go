package upstream

// balancer chooses among a loop's usable members. It belongs to its loop.
type balancer interface {
	// rebuild reads the loop's usable members and their shares again.
	rebuild()
	// pick returns a usable member that is not in tried, or nil if all are. At least one member
	// must be usable. For key see Local.Pick.
	pick(now int64, key uint64, tried []*Member) *Member
}

func newBalancer(p Policy, l *Local) balancer {
	switch p {
	case RoundRobin:
		return &roundRobin{l: l}
	case LeastRequests:
		return &leastRequests{draw: draw{l: l}}
	case Random:
		return &random{draw: draw{l: l}}
	case Hash:
		return &consistentHash{l: l}
	}
	return &p2c{draw: draw{l: l}}
}

// among reports whether m is in tried, which is short.
func among(m *Member, tried []*Member) bool {
	for _, t := range tried {
		if t == m {
			return true
		}
	}
	return false
}

// draw picks members at random by weight in constant time, with Walker's alias table. One random
// word gives both the column (its upper half) and the coin (its lower half).
type draw struct {
	l       *Local
	coin    []uint64 // the column's own part, out of 2³²
	alias   []int32
	columns []float64
	work    []int32
}

func (d *draw) rebuild() {
	n := len(d.l.usable)
	if cap(d.coin) < n {
		d.coin, d.alias = make([]uint64, n), make([]int32, n)
		d.columns, d.work = make([]float64, n), make([]int32, n)
	}
	d.coin, d.alias, d.columns, d.work = d.coin[:n], d.alias[:n], d.columns[:n], d.work[:n]
	// Small columns are stacked from the left of work, large ones from its right.
	small, large := 0, n
	for i, m := range d.l.usable {
		d.columns[i] = 1 / m.inv
		if d.columns[i] < 1 {
			d.work[small] = int32(i)
			small++
		} else {
			large--
			d.work[large] = int32(i)
		}
	}
	for small > 0 && large < n {
		small--
		s, g := d.work[small], d.work[large]
		d.coin[s], d.alias[s] = uint64(d.columns[s]*(1<<32)), g
		d.columns[g] -= 1 - d.columns[s]
		if d.columns[g] < 1 {
			large++
			d.work[small] = g
			small++
		}
	}
	// The columns that are left are full, except for rounding.
	for _, rest := range [][]int32{d.work[:small], d.work[large:]} {
		for _, i := range rest {
			d.coin[i], d.alias[i] = 1<<32, i
		}
	}
}

// index draws one of the usable members and returns its index.
func (d *draw) index() int {
	r := d.l.rng.next()
	i := int((r >> 32) * uint64(len(d.coin)) >> 32)
	if r&(1<<32-1) < d.coin[i] {
		return i
	}
	return int(d.alias[i])
}
