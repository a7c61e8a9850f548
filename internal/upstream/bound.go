package upstream

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"plimsoll/internal/invariant"
)

// bound limits how many requests may be at an upstream at once, whichever of its targets they are
// at. A request holds a place here and a slot at its target (slots.go), both or none, and gives
// both back at the same time. A request that finds no place waits, like one that finds no slot.
//
// A reload that changes the upstream's config makes a new Upstream. It shares the bound with the
// old one until the last request of the old one is over, because the service gets the requests of
// both. Each upstream has a waiting room of its own. What becomes free goes to the oldest upstream
// in which a request waits (Upstream.elder). The loop woken there passes on what it cannot use,
// from older upstreams to newer ones and never back, so that this comes to an end
// (Upstream.passOn).
type bound struct {
	limit atomic.Int64
	_     [64]byte
	taken atomic.Int64
	_     [64]byte

	mu    sync.Mutex
	users atomic.Pointer[[]*Upstream] // the oldest first; written under mu
	left  []*Upstream                 // former users; only with invariant.Sequential
}

func newBound(limit int) *bound {
	b := new(bound)
	b.limit.Store(int64(limit))
	b.users.Store(new([]*Upstream))
	return b
}

// take takes a place and reports whether one was free.
func (b *bound) take() bool {
	for {
		n := b.taken.Load()
		if n >= b.limit.Load() {
			return false
		}
		if b.taken.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (b *bound) give() {
	if n := b.taken.Add(-1); invariant.On && n < 0 {
		panic("upstream: a place was given back twice, or never taken")
	}
}

func (b *bound) free() bool { return b.taken.Load() < b.limit.Load() }

// enforce puts the upstream's number in force and makes the upstream one of the bound's users.
func (b *bound) enforce(u *Upstream) {
	b.mu.Lock()
	users := append(slices.Clone(*b.users.Load()), u)
	b.users.Store(&users)
	b.mu.Unlock()
	b.limit.Store(int64(u.options.MaxConcurrency))
	for _, other := range users {
		other.queues.wakeAll(other) // there may be more places than before
	}
}

// leave removes an upstream from the users. If it was the last one, leave checks that no place is
// taken any more.
func (b *bound) leave(u *Upstream) {
	b.mu.Lock()
	users := slices.DeleteFunc(slices.Clone(*b.users.Load()), func(o *Upstream) bool { return o == u })
	b.users.Store(&users)
	b.mu.Unlock()
	if invariant.Sequential {
		b.left = append(b.left, u)
	}
	// A TLS handshake that was abandoned keeps its place until its goroutine has ended.
	if n := b.taken.Load(); invariant.Sequential && len(users) == 0 && n != 0 && u.options.TLS == nil {
		panic(fmt.Sprintf("upstream: at the end %d places of %s are still taken", n, u.name))
	}
}

// elder returns the oldest of the upstreams before this one in which a request waits for the same
// places; nil for none.
func (u *Upstream) elder() *Upstream {
	if u.bound == nil {
		return nil
	}
	for _, o := range *u.bound.users.Load() {
		if o == u {
			break
		}
		if o.queues.waiting.Load() != 0 {
			return o
		}
	}
	return nil
}

// passOn wakes a loop of the next newer upstream in which a request waits, if a place is free.
func (u *Upstream) passOn() {
	if u.bound == nil || !u.bound.free() {
		return
	}
	users := *u.bound.users.Load()
	for _, o := range users[slices.Index(users, u)+1:] {
		if o.queues.waiting.Load() != 0 {
			o.queues.wakeFirst(o, -1)
			return
		}
	}
}

// givePlace gives a request's place back. It wakes the first other upstream in which a request
// waits for it. The caller looks after the requests of its own upstream.
func (l *Local) givePlace() {
	b := l.u.bound
	if b == nil {
		return
	}
	b.give()
	l.placed--
	for _, o := range *b.users.Load() {
		if o != l.u && o.queues.waiting.Load() != 0 {
			o.queues.wakeFirst(o, -1)
			return
		}
	}
}

// takePlace takes a place for a request, and reports whether it may go on. Without a bound it
// always may.
func (l *Local) takePlace() bool {
	b := l.u.bound
	if b == nil {
		return true
	}
	if !b.take() {
		return false
	}
	l.placed++
	if invariant.Sequential {
		b.check()
	}
	return true
}

// check panics if the places that the loops hold, by their own counts, are not as many as are
// counted as taken, or if more are taken than the limit allows.
func (b *bound) check() {
	held, limit := 0, int(b.limit.Load())
	for _, u := range slices.Concat(*b.users.Load(), b.left) {
		for _, l := range u.locals {
			held += l.placed
		}
	}
	if taken := int(b.taken.Load()); held != taken || taken > limit {
		panic(fmt.Sprintf("upstream: %d of %d places are counted as taken, and loops hold %d", taken,
			limit, held))
	}
}

// hasPlace reports whether takePlace would succeed now.
func (l *Local) hasPlace() bool { return l.u.bound == nil || l.u.bound.free() }

// wakePosted reports whether a loop of any upstream that shares the bound is about to be woken: it
// will pass on what it cannot use.
func (b *bound) wakePosted() bool {
	if b == nil {
		return false
	}
	for _, u := range *b.users.Load() {
		for i := range u.queues.each {
			if u.queues.each[i].wakePosted.Load() {
				return true
			}
		}
	}
	return false
}
