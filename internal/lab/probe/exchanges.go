package probe

import "maps"

// data is what the kernel has counted of a TCP connection since it was opened: segments with data
// that were sent and that came, and their bytes. Those sent count when they were acknowledged.
type data struct {
	sent, came           uint32
	sentBytes, cameBytes uint64
	full                 uint32 // bytes that a segment may have
}

// messageMost is how many bytes segments have on average, at most, that are messages of their own:
// questions, and answers to them. It is less than the smallest buffer that bodies are passed on
// through piece by piece (4 KB): nearly all of these are full. A message that takes several
// segments fills more than half of them; so on a network they have half as much as one may have,
// at most.
const messageMost = 3 << 10

// since is what was counted after a look before. An inode that is used again has smaller numbers:
// then all of it was.
func (d data) since(before data) data {
	if before.sent > d.sent || before.came > d.came || before.sentBytes > d.sentBytes ||
		before.cameBytes > d.cameBytes {
		return d
	}
	d.sent -= before.sent
	d.came -= before.came
	d.sentBytes -= before.sentBytes
	d.cameBytes -= before.cameBytes
	return d
}

// exchanges is about how many questions were answered one after the other: the segments that were
// sent, or those that came where these are fewer. None where they are too large on average to be
// messages of their own: what is passed on in pieces goes both ways too, as bodies and with HTTP/2
// what makes room for more of them.
func (d data) exchanges() float64 {
	most := min(uint64(d.full/2), messageMost)
	if d.sentBytes > most*uint64(d.sent) || d.cameBytes > most*uint64(d.came) {
		return 0
	}
	return float64(min(d.sent, d.came))
}

// exchanges adds up what went to and fro on the target's connections, by their other ends. The
// kernel counts it for each connection: what those carried that are over counts as far as it was
// seen.
type exchanges struct {
	by map[string]float64
	// fresh are connections over Unix sockets that were not there in the last census.
	fresh      map[string]float64
	tcp, local seen
}

// seen are the connections of one kind that were the target's in the last census, by their inodes.
// Whole says that none can have been missed: then one that is not among them is new.
type seen struct {
	last, now map[uint64]data
	whole     bool
}

func (s *seen) begin() { s.now = make(map[uint64]data, len(s.last)) }

// end ends a census, which was whole or has missed some: those that it has not seen may be there
// still.
func (s *seen) end(whole bool) {
	if !whole && len(s.last)+len(s.now) <= maxCandidates {
		maps.Copy(s.last, s.now)
		s.whole = false
		return
	}
	s.last, s.whole = s.now, whole
}

// begin begins a census.
func (x *exchanges) begin() {
	if x.by == nil {
		x.by, x.fresh = make(map[string]float64), make(map[string]float64)
		x.tcp.last, x.local.last = make(map[uint64]data), make(map[uint64]data)
	}
	x.tcp.begin()
	x.local.begin()
}

// end ends it: TCP's and Unix sockets were seen whole, or not.
func (x *exchanges) end(tcp, local bool) {
	x.tcp.end(tcp)
	x.local.end(local)
}

// add counts a connection. One that was there before, but was taken for another process's or may
// have been missed, only begins to be counted.
func (x *exchanges) add(s *candidate, others bool) {
	to := s.to()
	switch {
	case s.state != established:
	case s.path != "":
		before, known := x.fresh[to]
		if !known && len(x.fresh) >= maxPaths {
			return
		}
		if _, there := x.local.last[s.inode]; !there && x.local.whole && !others {
			before++
		}
		x.fresh[to] = before
		x.local.now[s.inode] = data{}
	case s.told:
		before, known := x.by[to]
		if !known && len(x.by) >= maxDestinations {
			return
		}
		last, there := x.tcp.last[s.inode]
		if there || x.tcp.whole && !others {
			before += s.data.since(last).exchanges()
		}
		x.by[to] = before
		x.tcp.now[s.inode] = s.data
	}
}
