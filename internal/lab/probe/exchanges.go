package probe

// exchanges adds up what went to and fro on the target's connections, by their other ends. The
// kernel counts it for each connection: what those carried that are over counts as far as it was
// seen.
type exchanges struct {
	by        map[string]float64
	last, now map[uint64]uint32 // of each connection, by its inode
	// fresh are connections over Unix sockets that were not there in the last census.
	fresh map[string]float64
}

// begin begins a census.
func (x *exchanges) begin() {
	if x.by == nil {
		x.by, x.fresh = make(map[string]float64), make(map[string]float64)
	}
	x.last, x.now = x.now, make(map[uint64]uint32, len(x.now))
}

// add counts a connection. An inode that is used again has a smaller number.
func (x *exchanges) add(s *candidate) {
	to := s.to()
	if s.path != "" && s.state == established && (len(x.fresh) < maxPaths || x.fresh[to] > 0) {
		if _, there := x.last[s.inode]; !there {
			x.fresh[to]++
		}
		x.now[s.inode] = 0
	}
	if !s.told || s.state != established {
		return
	}
	if _, known := x.by[to]; !known && len(x.by) >= maxDestinations {
		return
	}
	more := s.exchanges
	if before := x.last[s.inode]; before <= more {
		more -= before
	}
	x.by[to] += float64(more)
	x.now[s.inode] = s.exchanges
}
