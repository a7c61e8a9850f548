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
// n is written under the lock and may be read without it, so that a loop takes the lock only if
// there is a connection.
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

// put adds a connection that has been idle since the time since. It returns false, and leaves the
// connection to the caller, if the list is closed, or if it is full and no request waits for the
// connection (wanted).
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

// room reports whether put would take a connection that is not wanted, as far as one can know
// without the lock.
func (s *spare) room() bool { return int(s.n.Load()) < s.bound }

// get takes the connection that came last, which is the most likely to be alive.
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

// expire closes the connections that became idle before a time, and returns how many it closed.
// Unless requests wait for connections (wanted), it closes the oldest ones beyond the bound too: they
// were wanted but not taken.
func (s *spare) expire(before int64, wanted bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.idle[:0]
	closed := 0
	for i, p := range s.idle {
		if p.since < before || !wanted && len(s.idle)-i > s.bound {
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
