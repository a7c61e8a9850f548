package upstream

import (
	"math"
	"sync/atomic"
	"time"
)

// A request that would wait too long is refused when it comes. How long it would wait follows from
// how many requests of its class wait, and how quickly the class was served lately:
//
//	expected wait = requests of the class that wait ÷ (requests of it served ÷ the time that took)
//
// Classes with a lower number go first, so requests of a higher class do not count against a
// request. Those of lower classes need no term of their own: they show in how quickly this class is
// served. If they take everything, so that the class gets nothing, its expected wait is infinite.
//
// A request is only refused where the estimate is certain. Requests of the class must have waited
// all the time, or else the number served is how many came, and not how many could have been
// served. They must have waited for at least half of the request's patience, and for no less than a
// second and no more than ten (periodOf). A few requests may always wait: they are served as soon
// as the class is served again, which is what shows that it is. The rate is taken at the upper end
// of what its noise allows, and the expected wait must exceed the patience by a quarter. So a
// request that would be served at the present rate is never refused. Serving the newest first
// (room.go) deals with changes of the rate: it refuses no request on arrival.
//
// The counts are over all loops, since a request that waits on one loop may be served with what
// another loop freed. A request that does not wait touches none of this.

const (
	paceShortest = int64(time.Second)
	paceLongest  = 10 * int64(time.Second)
	// paceFew is how many requests of a class may wait, whatever their expected wait.
	paceFew = 16
)

// pace is how quickly the waiting requests of a class are served.
type pace struct {
	_       [64]byte
	waiting atomic.Int32
	served  atomic.Int32 // in the period under way

	// Written when the first request of the class begins to wait, and once a period. Times are in
	// nanoseconds.
	began  atomic.Int64 // when the period under way began
	period atomic.Int64 // the least length of a period
	before atomic.Int32 // served in the period before this one
	lasted atomic.Int64 // the length of that period, 0 if there was none
}

// join counts a request that begins to wait. Loops that call it at once may overwrite each other's
// period: then nothing is known for another period.
func (p *pace) join(now, patience int64) {
	if p.waiting.Add(1) == 1 {
		p.began.Store(now)
		p.lasted.Store(0)
		p.period.Store(periodOf(patience))
		p.served.Store(0)
		return
	}
	if most := periodOf(patience); p.period.Load() < most {
		p.period.Store(most)
	}
	if began := p.began.Load(); now-began >= p.period.Load() && p.began.CompareAndSwap(began, now) {
		p.lasted.Store(now - began)
		p.before.Store(p.served.Swap(0))
	}
}

// hopeless reports whether a request that comes now would clearly wait for longer than its
// patience, in nanoseconds.
func (p *pace) hopeless(now, patience int64) bool {
	ahead := p.waiting.Load()
	if ahead < paceFew || patience <= 0 {
		return false
	}
	// The period's length is that of the longest patience so far, and this request's may be longer.
	// A period that lasted far longer says nothing: loops overwrote each other's, or the process
	// did not run.
	lasted, least := p.lasted.Load(), periodOf(patience)
	if lasted < least || lasted > 4*paceLongest {
		return false
	}
	served := float64(p.before.Load() + p.served.Load())
	most := (served + 2*math.Sqrt(served) + 3) / float64(lasted+max(0, now-p.began.Load()))
	return float64(ahead) > 1.25*float64(patience)*most
}

// periodOf returns for how long, in nanoseconds, requests of a class must have waited before a
// request with this patience is judged by how quickly they were served.
func periodOf(patience int64) int64 { return min(max(patience/2, paceShortest), paceLongest) }
