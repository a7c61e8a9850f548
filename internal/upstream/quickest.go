package upstream

import (
	"sync/atomic"
	"time"
)

// What a target takes at the least says which deadlines it cannot keep. It is the quickest of all
// answers of the last five to ten seconds: a percentile would refuse requests of a kind that is quicker
// than most, and the mean those of a kind that is cheap. So it is known only where there were answers
// enough, and forgotten where none come any more: a target that has become quicker would else never
// be asked again when every deadline is short.

const (
	quickestPeriod = 5 * int64(time.Second)
	quickestEnough = 100 // answers of a period
)

// quickest is the time of a target's quickest answer. Loops read what it publishes; the rest belongs to
// the one that observes.
type quickest struct {
	known atomic.Int64 // nanoseconds, 0 for not known
	since atomic.Int64 // when the period under way began

	before  int64 // of the period before, 0 for not known
	answers int   // in the period under way
}

// observe takes a window's answers, of which least has the quickest of the period.
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

// at is what the target takes at the least as far as one knows at a time, 0 for not known.
func (q *quickest) at(now int64) int64 {
	if now-q.since.Load() >= 2*quickestPeriod {
		return 0
	}
	return q.known.Load()
}

// lower makes a time the least, where it is one and less than what was there.
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

// CannotAnswer says that no target answers in time, nanoseconds, as far as one knows. Once a second it says
// so of nothing: answers that nobody may ask for are never seen, and targets, or the routes with short
// deadlines, may have become quicker. Loop only.
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

// Quickest is the time in nanoseconds in which any target may answer, from its head's sending on; 0 where
// that is not known of all of them, which it is only where their concurrency is limited. Loop only.
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
