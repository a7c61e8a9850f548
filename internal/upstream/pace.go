package upstream

import (
	"math"
	"sync/atomic"
	"time"
)

// A request that would wait for nothing is refused when it comes. How long it would wait follows from
// how many of its class wait, and how quickly the class was served lately:
//
//	expected wait = requests of the class that wait ÷ (those of it that were served ÷ the time that took)
//
// Classes of a lower number go first, so none that is behind a request counts against it; and what goes
// ahead of a class needs no term of its own, as that shows in how quickly the class is served. A class
// that gets nothing because those ahead of it take everything has an expected wait without end.
//
// The estimate is only made where it is sure. The class must have had somebody waiting all the time, or
// else what was served is what came, and not what could have been; and for at least half of its
// patience, and a second. A few requests may always wait: as soon as the class is served again, they
// are, and that is what shows it. The rate is taken at the upper end of what its noise allows, and the
// expected wait must be a quarter above the patience. So who would be served at the present rate is
// never refused, and what changes meanwhile is met by newest first (room.go): it refuses nobody who
// comes.
//
// Counted over all loops, since those of one loop may be served on behalf of another. A request that
// does not wait touches none of it.

const (
	paceShortest = int64(time.Second)
	paceLongest  = 10 * int64(time.Second)
	// paceFew is how many of a class may wait whatever is expected.
	paceFew = 16
)

// pace is how quickly the waiting requests of a class are served.
type pace struct {
	_       [64]byte
	waiting atomic.Int32
	served  atomic.Int32 // in the period under way

	// Written when the class begins to wait, and once a period.
	began  atomic.Int64 // the period under way
	period atomic.Int64 // how long it is at least
	before atomic.Int32 // served in the period before it
	lasted atomic.Int64 // how long that one was, 0 when there was none
}

// join counts a request that begins to wait. Loops that come at once may lose each other's period: they
// know nothing then, for one more.
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

// hopeless says whether a request that comes now would clearly wait for longer than its patience.
func (p *pace) hopeless(now, patience int64) bool {
	ahead := p.waiting.Load()
	if ahead < paceFew || patience <= 0 {
		return false
	}
	// The period is that of who came first, whose patience may have been another. One that is far longer
	// is none: the loops lost each other's, or the process did not run.
	lasted, least := p.lasted.Load(), periodOf(patience)
	if lasted < least || lasted > 4*paceLongest {
		return false
	}
	served := float64(p.before.Load() + p.served.Load())
	most := (served + 2*math.Sqrt(served) + 3) / float64(lasted+max(0, now-p.began.Load()))
	return float64(ahead) > 1.25*float64(patience)*most
}

// periodOf is for how long those must have waited by whom a request with this patience is judged.
func periodOf(patience int64) int64 { return min(max(patience/2, paceShortest), paceLongest) }
