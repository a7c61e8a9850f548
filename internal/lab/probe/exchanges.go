package probe

import (
	"maps"
	"slices"
	"strings"
)

// data is the kernel's counts for a TCP connection since it was opened: segments with data, sent
// and received, and their bytes. Sent bytes count once they are acknowledged.
type data struct {
	sent, came           uint32
	sentBytes, cameBytes uint64
	full                 uint32 // maximum bytes of a segment
}

// messageMost is the maximum average size, in bytes, of segments that are messages of their own:
// questions and their answers. It is less than the smallest buffer through which bodies are copied
// piece by piece (4 KB), because such buffers are nearly always full. A message of several segments
// fills more than half of them, so over a network the limit is also half of what a segment may
// hold.
const messageMost = 3 << 10

// since returns what was counted after an earlier look. An inode that was reused has smaller
// counts; then it returns all of them.
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

// questionLeast is the minimum average size, in bytes, of questions that large answers come to. It
// is above the 26 bytes of two of HTTP/2's window updates, 48 with TLS, which go to and fro with
// bodies in pieces.
const questionLeast = 72

// exchanges estimates how many questions were answered one after the other: the number of segments
// sent or received, whichever is smaller. It is 0 if those sent are too large on average to be
// messages of their own, as bodies in pieces are, or those received are, and no questions come
// between them. A row of a database may be large. What a store is sent is a question.
func (d data) exchanges(store bool) float64 {
	most := min(uint64(d.full/2), messageMost)
	if d.sentBytes > most*uint64(d.sent) || !store &&
		d.cameBytes > most*uint64(d.came) && d.sentBytes < questionLeast*uint64(d.sent) {
		return 0
	}
	return float64(min(d.sent, d.came))
}

// exchanges adds up the exchanges on the target's connections, by remote address. The kernel counts
// per connection, so a connection that has closed counts as far as it was seen.
type exchanges struct {
	by map[string]float64
	// received are the bytes that came, for the same addresses.
	received map[string]float64
	// ahead are the segments that the connections of this census have sent more than received.
	ahead map[string]float64
	// stores are the addresses at which a store was found to listen.
	stores map[string]bool
	// fresh counts connections over Unix sockets that were not in the last census.
	fresh      map[string]float64
	tcp, local seen
}

// seen holds the target's connections of one kind in the last census, by inode. whole reports that
// none can have been missed; then a connection that is not among them is new.
type seen struct {
	last, now map[uint64]data
	whole     bool
}

func (s *seen) begin() { s.now = make(map[uint64]data, len(s.last)) }

// end ends a census. If it was not whole, connections that it missed may still exist, so they are
// kept.
func (s *seen) end(whole bool) {
	if !whole && len(s.last)+len(s.now) <= maxCandidates {
		maps.Copy(s.last, s.now)
		s.whole = false
		return
	}
	s.last, s.whole = s.now, whole
}

// begin starts a census.
func (x *exchanges) begin() {
	if x.by == nil {
		x.by, x.received = make(map[string]float64), make(map[string]float64)
		x.fresh = make(map[string]float64)
		x.tcp.last, x.local.last = make(map[uint64]data), make(map[uint64]data)
	}
	x.ahead = make(map[string]float64)
	x.tcp.begin()
	x.local.begin()
}

// end ends a census. tcp and local report whether all TCP and all Unix sockets were seen.
func (x *exchanges) end(tcp, local bool) {
	x.tcp.end(tcp)
	x.local.end(local)
}

// add counts a connection. A connection that may have existed before, missed or taken for another
// process's, is only counted from now on.
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
			more := s.data.since(last)
			before += more.exchanges(x.stores[to] || storePort(to))
			x.received[to] += float64(more.cameBytes)
		}
		x.by[to] = before
		x.ahead[to] += float64(s.data.sent) - float64(s.data.came)
		x.tcp.now[s.inode] = s.data
	}
}

// storeNames are the names of the processes of stores whose protocols have a question for each answer,
// and storePorts their usual ports. diagnose knows more stores, of which some speak HTTP.
var (
	storeNames = []string{
		"postgres", "mysqld", "mariadbd", "redis-server", "valkey-server", "keydb-server",
		"memcached", "mongod",
	}
	storePorts = []string{":5432", ":3306", ":6379", ":11211", ":27017"}
)

// storePort reports whether an address has a port of such a store.
func storePort(to string) bool {
	return slices.ContainsFunc(storePorts, func(port string) bool { return strings.HasSuffix(to, port) })
}

// found notes which program listens at an address. Its caller bounds the addresses.
func (x *exchanges) found(to, program string) {
	if !slices.Contains(storeNames, program) {
		return
	}
	if x.stores == nil {
		x.stores = make(map[string]bool)
	}
	x.stores[to] = true
}
