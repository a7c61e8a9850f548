package upstream

import (
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/internal/concurrency"
	"plimsoll/internal/invariant"
)

// A target whose concurrency is limited has slots: a connection in use, or being opened, holds one.
// Who finds none waits (waiter.go), so that the queue of an overloaded service stands here, where it
// has an order, and not in the service, where it makes every request slow.
//
// How many slots there are a law decides (concurrency.Law), from what the loops see of the target.
// Taking and giving back is exact over all loops: one atomic each. What is seen is counted in plain
// fields of the loop's Pool and added to the target's every window; the loop that finds the window
// over shows it to the law. So neither a lock nor another goroutine is on the way of a request.

// slotWindow is how long, in nanoseconds, loops gather what they see.
const slotWindow = int64(50 * time.Millisecond)

// slots are the places at a target, shared by all loops.
type slots struct {
	limit atomic.Int64
	_     [64]byte
	taken atomic.Int64
	_     [64]byte

	// Of the window under way. Loops add.
	completed atomic.Int64
	failed    atomic.Int64
	area      atomic.Int64 // requests × nanoseconds that slots were taken
	limited   atomic.Bool  // somebody found no slot
	end       atomic.Int64 // of the window
	least     atomic.Int64 // nanoseconds of the quickest answer since the period began, 0 for none
	timed     atomic.Int64 // good answers, whose time counts for that, not shown to quickest yet

	quickest quickest

	mu    sync.Mutex // one loop at a time; none waits for it
	law   *concurrency.Law
	began int64
}

// newSlots makes the slots of a target from options that were checked.
func newSlots(o concurrency.Options, now int64) *slots {
	law, err := concurrency.New(o)
	if err != nil {
		panic(err)
	}
	s := &slots{law: law, began: now}
	s.limit.Store(int64(law.Limit()))
	s.end.Store(now + slotWindow)
	s.quickest.since.Store(now)
	return s
}

// take takes a slot, if there is one.
func (s *slots) take() bool {
	for {
		n := s.taken.Load()
		if n >= s.limit.Load() {
			if !s.limited.Load() {
				s.limited.Store(true)
			}
			return false
		}
		if s.taken.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (s *slots) free() bool { return s.taken.Load() < s.limit.Load() }

// observe shows the law the window that is over. Of several loops that come at once one does it. It
// says whether there are more slots than before.
func (s *slots) observe(now int64) (more bool) {
	if now < s.end.Load() || !s.mu.TryLock() {
		return false
	}
	defer s.mu.Unlock()
	if now < s.end.Load() {
		return false
	}
	length := now - s.began
	area := s.area.Swap(0)
	limit := s.law.Observe(concurrency.Window{
		Start: s.began, End: now, Completed: int(s.completed.Swap(0)), Failed: int(s.failed.Swap(0)),
		LatencySum: area, InflightMean: float64(area) / float64(max(length, 1)),
		Limited: s.limited.Swap(false),
	})
	s.quickest.observe(now, int(s.timed.Swap(0)), &s.least)
	s.began = now
	s.end.Store(now + slotWindow)
	return s.limit.Swap(int64(limit)) < int64(limit)
}

// state explains the present limit. Any goroutine but a loop.
func (s *slots) state() concurrency.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.law.Explain()
}

// slotUse is one loop's use of a target's slots.
type slotUse struct {
	*slots          // nil where the target's concurrency is not limited
	used      int   // slots that this loop holds
	since     int64 // when used changed
	sum       int64 // requests × nanoseconds, not added to area yet
	good, bad int64 // tries that ended, likewise
	least     int64 // the quickest answer in nanoseconds, likewise; 0 for none
	timed     int64 // good answers, likewise
	flushed   int64 // when they were added
}

// enter takes a slot where there must be one.
func (u *slotUse) enter(now int64) bool {
	if u.slots == nil {
		return true
	}
	if !u.take() {
		return false
	}
	u.note(now, 1)
	return true
}

// exit gives a slot back. True means that there may be more slots than before, so that others that
// wait are to be told.
func (u *slotUse) exit(now int64) (more bool) {
	if u.slots == nil {
		return false
	}
	u.note(now, -1)
	if n := u.taken.Add(-1); invariant.On && (n < 0 || u.used < 0) {
		panic("upstream: a slot was given back twice, or never taken")
	}
	if now-u.flushed < slotWindow {
		return false
	}
	u.flush(now)
	return u.observe(now)
}

// note keeps the sum of the time that slots were held.
func (u *slotUse) note(now int64, by int) {
	u.sum += int64(u.used) * (now - u.since)
	u.used += by
	u.since = now
}

// flush adds what this loop has seen to what the law is shown.
func (u *slotUse) flush(now int64) {
	u.note(now, 0)
	u.area.Add(u.sum)
	u.completed.Add(u.good)
	u.failed.Add(u.bad)
	u.slots.timed.Add(u.timed)
	lower(&u.slots.least, u.least)
	u.sum, u.good, u.bad, u.least, u.timed, u.flushed = 0, 0, 0, 0, 0, now
}

// noteLimited says that a request goes on waiting. While somebody waits all the time, what becomes free
// is given on at once, and nobody looks for a slot and finds none.
func (u *slotUse) noteLimited() {
	if u.slots != nil && !u.free() && !u.limited.Load() {
		u.limited.Store(true)
	}
}

// available says whether enter would succeed now.
func (u *slotUse) available() bool { return u.slots == nil || u.free() }
