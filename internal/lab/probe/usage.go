package probe

// usage is the processor time that processes or threads had used at a look, in ticks.
type usage[K comparable] struct {
	of map[K]float64
	// newest is when the youngest that any look has found began.
	newest uint64
}

// usageAfter is what a look fills that comes after another one, or after nil.
func usageAfter[K comparable](last *usage[K]) *usage[K] {
	u := &usage[K]{of: make(map[K]float64)}
	if last != nil {
		u.newest = last.newest
	}
	return u
}

func (u *usage[K]) add(key K, ticks float64, start uint64) {
	u.of[key] = ticks
	u.newest = max(u.newest, start)
}

// since is what has been used after the look: by one that is new whatever it has used. One that was
// there and could not be read, as where no descriptor was left, has used nothing that is known.
func (u *usage[K]) since(key K, ticks float64, start uint64) float64 {
	before, known := u.of[key]
	if !known && start <= u.newest {
		return 0
	}
	return max(ticks-before, 0)
}
