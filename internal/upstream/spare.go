package upstream

import (
	"slices"
	"sync"
	"sync/atomic"
)

// spare is where loops leave idle connections of a target for each other, so that many loops do not
// mean many times the connections. A connection here belongs to no loop; it still counts in
// Target.open.
//
// n may be read without the lock, so that a loop takes the lock only when there is something. It is
// written under it.
type spare struct {
	n     atomic.Int32
	bound int

	mu     sync.Mutex
	closed bool
	idle   []parked // the oldest first; more than bound only while requests wait for them
}

type parked struct {
	conn  Parked
	since int64 // when it became idle
}

// put leaves a connection here. It refuses when the list is closed, or full and nobody waits for
// the connection: the caller keeps it.
func (s *spare) put(p Parked, since int64, wanted bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !wanted && len(s.idle) >= s.bound {
		return false
	}
	s.idle = append(s.idle, parked{p, since})
	s.n.Store(int32(len(s.idle)))
	return true
}

// room says whether put would take one, as far as one can know without the lock.
func (s *spare) room() bool { return int(s.n.Load()) < s.bound }

// get takes the connection that came last, which is the likeliest to be alive.
func (s *spare) get() (Parked, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.idle) - 1
	if last < 0 {
		return nil, false
	}
	p := s.idle[last].conn
	s.idle[last] = parked{}
	s.idle = s.idle[:last]
	s.n.Store(int32(last))
	return p, true
}

// expire closes the connections that have been idle since before a time, and those beyond the bound
// which were wanted and not fetched, and returns how many.
func (s *spare) expire(before int64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.idle[:0]
	closed := 0
	for i, p := range s.idle {
		if p.since < before || len(s.idle)-i > s.bound {
			p.conn.Discard()
			closed++
		} else {
			kept = append(kept, p)
		}
	}
	clear(s.idle[len(kept):])
	s.idle = kept
	s.n.Store(int32(len(kept)))
	return closed
}

// close closes all connections here, takes no more, and returns how many it closed.
func (s *spare) close() int {
	s.mu.Lock()
	all := slices.Clone(s.idle)
	s.closed, s.idle = true, nil
	s.n.Store(0)
	s.mu.Unlock()
	for _, p := range all {
		p.conn.Discard()
	}
	return len(all)
}
