package upstream

import (
	"sync/atomic"
	"time"
)

// The least time that a target takes to answer says which deadlines it cannot keep. It is the time
// of the quickest answer in the last two whole periods and the one under way: a percentile would
// refuse requests of a kind that is quicker than most, and the mean would refuse those of a cheap
// kind. So it is known only if there were enough answers, and is forgotten when answers no longer
// come: else a target that has become quicker would never be asked again when every deadline is
// short.

const (
	quickestPeriod = 5 * int64(time.Second)
	quickestEnough = 100 // answers in a period, below which the period counts for nothing
)

// quickest is the time of a target's quickest answer. Any loop may read the atomics; the rest
// belongs to the loop that holds slots.mu.
type quickest struct {
	known atomic.Int64 // nanoseconds, 0 for not known
	since atomic.Int64 // when the period under way began

	before  int64 // nanoseconds of the quickest answer in the period before, 0 for not known
	answers int   // in the period under way
}

// observe takes in the number of answers in a window. least holds the time of the quickest answer
// since the period began, and is reset when a new one begins. The caller holds slots.mu.
func (q *quickest) observe(now int64, answers int, least *atomic.Int64) {
	since := q.since.Load()
	q.answers += answers
	if now-since < quickestPeriod {
		if t := least.Load(); t > 0 && t < q.known.Load() {
			q.known.Store(t)
		}
		return
	}
	last := least.Swap(0)
	if q.answers < quickestEnough || now-since >= 2*quickestPeriod {
		last = 0
	}
	known := last
	if last > 0 && q.before > 0 {
		known = min(last, q.before)
	}
	q.before, q.answers = last, 0
	q.known.Store(known)
	q.since.Store(now)
}

// at returns the least time in nanoseconds that the target takes, as known at the time now; 0 for
// not known.
func (q *quickest) at(now int64) int64 {
	if now-q.since.Load() >= 2*quickestPeriod {
		return 0
	}
	return q.known.Load()
}

// lower sets least to t if t is positive and below it, or if least is not set.
func lower(least *atomic.Int64, t int64) {
	if t <= 0 {
		return
	}
	for {
		was := least.Load()
		if was > 0 && was <= t || least.CompareAndSwap(was, t) {
			return
		}
	}
}

// CannotAnswer reports whether, as far as is known, no target can answer within left nanoseconds.
// Once a second it returns false even so, to let one request try: if all were refused, no answer
// would show that targets, or the routes with short deadlines, have become quicker. Loop only.
func (l *Local) CannotAnswer(now, left int64) bool {
	if least := l.Quickest(now); least == 0 || least < left {
		return false
	}
	if now-l.tried >= int64(time.Second) {
		l.tried = now
		return false
	}
	return true
}

// Quickest returns the least time in nanoseconds that any usable target takes to answer, from the
// sending of the request's head on. It returns 0 if that is not known for each of them: it never is
// for a target whose concurrency is not limited. Loop only.
func (l *Local) Quickest(now int64) (least int64) {
	if len(l.usable) > measured { // too many to look at for one request
		return 0
	}
	for _, m := range l.usable {
		if m.slot.slots == nil {
			return 0
		}
		t := m.slot.quickest.at(now)
		if t == 0 {
			return 0
		}
		if least == 0 || t < least {
			least = t
		}
	}
	return least
}
