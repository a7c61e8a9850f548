package files

import "sync/atomic"

// errandState decides whether the waiting exchange takes the result of an errand, or nothing does.
type errandState struct{ v atomic.Uint32 }

const (
	underWay uint32 = iota
	done
	abandoned
)

// finish is called when the errand is done. It returns false if the exchange no longer waits.
func (s *errandState) finish() bool { return s.v.CompareAndSwap(underWay, done) }

// leave is called when the exchange no longer waits. It returns false if the errand was already
// done.
func (s *errandState) leave() bool { return s.v.CompareAndSwap(underWay, abandoned) }
