package files

import "sync/atomic"

// errandState settles who has what an errand brings: the exchange that waits for it, or nobody.
type errandState struct{ v atomic.Uint32 }

const (
	underWay uint32 = iota
	done
	abandoned
)

// finish is called when the errand is done. False: nobody waits any more.
func (s *errandState) finish() bool { return s.v.CompareAndSwap(underWay, done) }

// leave is called when nobody waits any more. False: the errand was done before.
func (s *errandState) leave() bool { return s.v.CompareAndSwap(underWay, abandoned) }
