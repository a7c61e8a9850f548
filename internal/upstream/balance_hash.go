package upstream

import (
	"slices"
	"sort"
)

const (
	// pointsPerTarget is how many points a target of average weight has on the ring. Shares are
	// then even to about 8 %.
	pointsPerTarget = 160
	// maxPoints bounds the ring of an upstream with very many targets.
	maxPoints = 1 << 17
)

// point is a place on the ring. The owner of a key is the target of the first point at or after its
// hash.
type point struct {
	at     uint64
	target uint32 // index in the set
}

// ring is a ketama-like circle. It is made once for a set of targets and shared by the loops,
// because nothing in it depends on health. A search skips a target that is down, so its keys spread
// over the others and come back when it does, and the keys of the others do not move.
type ring []point

func newRing(targets []*Target) ring {
	total, in := 0, 0
	for _, t := range targets {
		if t.weight > 0 {
			total += t.weight
			in++
		}
	}
	if in == 0 {
		return nil
	}
	each := float64(min(pointsPerTarget, max(1, maxPoints/in)))
	var r ring
	for i, t := range targets {
		if t.weight == 0 {
			continue
		}
		seed := HashKey([]byte(t.addr.String()))
		// The number is relative to the mean weight. So, where weights are equal, a target that
		// comes or goes does not change how many points the others have.
		n := max(1, int(each*float64(t.weight)*float64(in)/float64(total)+0.5))
		for k := range n {
			r = append(r, point{at: mix(seed + uint64(k)*0x9e3779b97f4a7c15), target: uint32(i)})
		}
	}
	slices.SortFunc(r, func(a, b point) int {
		if a.at != b.at {
			if a.at < b.at {
				return -1
			}
			return 1
		}
		return int(a.target) - int(b.target)
	})
	return r
}

// consistentHash sends the same key to the same target, from every loop and every gateway with the
// same targets.
type consistentHash struct{ l *Local }

func (b *consistentHash) rebuild() {}

func (b *consistentHash) pick(_ int64, key uint64, tried []*Member) *Member {
	if key == 0 {
		// The request has nothing to hash: any target will do.
		key = b.l.rng.next()
	}
	r := b.l.set.ring
	start := sort.Search(len(r), func(i int) bool { return r[i].at >= key })
	var fallback *Member
	for k := range r {
		i := start + k
		if i >= len(r) {
			i -= len(r)
		}
		m := b.l.members[r[i].target]
		if !m.usable || (len(tried) > 0 && among(m, tried)) {
			continue
		}
		// A target that is new or back takes only the part of its keys that its ramp allows. A key
		// that it has taken stays with it as the part grows.
		if m.ramp < 1 && float64(mix(key+uint64(r[i].target)*0x9e3779b97f4a7c15)>>11)*(1.0/(1<<53)) > m.ramp {
			if fallback == nil {
				fallback = m
			}
			continue
		}
		return m
	}
	return fallback
}
