package probe

// usage is the processor time that processes or threads had used at a look, in ticks.
type usage[K comparable] struct {
	of map[K]float64
	// newest is the latest start time that any look has found.
	newest uint64
}

// usageAfter returns an empty usage for the look after last, which may be nil.
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

// since returns what a key has used after the look. A new process or thread counts with all that it
// has used. One that existed but could not be read, for example for lack of descriptors, counts as
// 0.
func (u *usage[K]) since(key K, ticks float64, start uint64) float64 {
	before, known := u.of[key]
	if !known && start <= u.newest {
		return 0
	}
	return max(ticks-before, 0)
}
