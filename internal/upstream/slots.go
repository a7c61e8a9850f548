package upstream

import (
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/internal/concurrency"
	"plimsoll/internal/invariant"
)

// A target whose concurrency is limited has slots. Each request at the target, or for which a
// connection is being opened, holds one. A request that finds no free slot waits (waiter.go), so
// that the queue of an overloaded service is here, where it has an order, and not in the service,
// where it makes every request slow.
//
// A law (concurrency.Law) decides how many slots there are, from what the loops observe of the
// target. Taking a slot and giving it back is exact over all loops, and each is one atomic
// operation. What a loop observes it counts in plain fields of its Pool, and adds once a window to
// what the target's slots have counted. The loop that finds the window over shows it to the law. So
// no request waits for a lock or for another goroutine.

// slotWindow is the length, in nanoseconds, of the window over which loops gather observations.
const slotWindow = int64(50 * time.Millisecond)

// slots are the places at a target, shared by all loops.
type slots struct {
	limit atomic.Int64
	_     [64]byte
	taken atomic.Int64
	_     [64]byte

	// The window under way. Loops add to these.
	completed atomic.Int64
	failed    atomic.Int64
	area      atomic.Int64 // requests × nanoseconds that slots were taken
	limited   atomic.Bool  // a request found no slot
	end       atomic.Int64 // of the window
	least     atomic.Int64 // nanoseconds of the quickest answer since the period began, 0 for none
	timed     atomic.Int64 // good answers that count towards least, and not shown to quickest yet

	quickest quickest

	mu    sync.Mutex // one loop at a time; loops only try it, and never wait for it
	law   *concurrency.Law
	began int64
}

// newSlots makes the slots of a target from options that were checked already.
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

// take takes a slot and reports whether one was free.
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

// observe shows the window to the law if it is over, and reports whether there are more slots than
// before. If several loops call it at once, one of them does it and the others return false.
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

// state explains the present limit. Any goroutine except a loop may call it, as it waits for mu.
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
	sum       int64 // requests × nanoseconds since the last flush
	good, bad int64 // tries that ended since then
	least     int64 // nanoseconds of the quickest answer since then; 0 for none
	timed     int64 // good answers since then
	flushed   int64 // when flush last added these to slots
}

// enter takes a slot, and reports whether the request may go on. Without a limit it always may.
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

// exit gives a slot back. It returns true if the limit has grown, so that the caller must tell the
// loops whose requests wait.
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

// note adds the time that slots were held until now to sum, and changes used.
func (u *slotUse) note(now int64, by int) {
	u.sum += int64(u.used) * (now - u.since)
	u.used += by
	u.since = now
}

// flush adds what this loop has observed to what the law is shown.
func (u *slotUse) flush(now int64) {
	u.note(now, 0)
	u.area.Add(u.sum)
	u.completed.Add(u.good)
	u.failed.Add(u.bad)
	u.slots.timed.Add(u.timed)
	lower(&u.slots.least, u.least)
	u.sum, u.good, u.bad, u.least, u.timed, u.flushed = 0, 0, 0, 0, 0, now
}

// noteLimited notes that a request goes on waiting for a slot. take alone would not notice: while
// requests wait all the time, a slot that becomes free is passed on at once, and no request looks
// for one without success.
func (u *slotUse) noteLimited() {
	if u.slots != nil && !u.free() && !u.limited.Load() {
		u.limited.Store(true)
	}
}

// available reports whether enter would succeed now.
func (u *slotUse) available() bool { return u.slots == nil || u.free() }
