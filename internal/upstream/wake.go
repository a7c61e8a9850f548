package upstream

import (
	"slices"

	"plimsoll/internal/invariant"
)

// This file holds what a loop does when it is woken, because another loop has made something free
// or wants this one's idle connections. See waiter.go.

// wake is posted to a loop when something may be free for its requests.
func (l *Local) wake() {
	l.own.wakePosted.Store(false)
	l.unwoken = false
	defer l.u.checkNews()
	defer l.u.passOn()
	if l.closed {
		l.u.queues.wakeFirst(l.u, l.loop)
		return
	}
	now := l.u.env.Now()
	if l.u.version.Load() != l.seen {
		l.refresh(now)
	}
	if l.why != None {
		l.refuseAll(now, l.why)
		return
	}
	if !l.serve(now) && l.waiters.n > 0 {
		l.passBy()
	}
}

// stepBack is called when the first of this loop's requests no longer waits. Loops whose requests
// it kept back may have connections for slots, or places, that this loop could not use: it wakes
// the first of them.
func (l *Local) stepBack() {
	if l.u.options.Protocol != HTTP1 && slices.ContainsFunc(l.usable, func(m *Member) bool {
		return m.limited() && m.available() && !m.connectable()
	}) {
		l.u.queues.wakeFirst(l.u, l.loop)
	}
}

// checkWakeUps panics if requests wait for what is free and no loop is about to be woken for it.
// The sweep would serve them late, and so hide that a wake-up was lost.
func (l *Local) checkWakeUps() {
	if !invariant.Sequential || l.u.queues.waiting.Load() == 0 {
		return
	}
	posted := l.own.wakePosted.Load()
	if posted && l.unwoken {
		panic("upstream: a wake-up was posted and never came")
	}
	l.unwoken = posted
	l.u.checkNews()
}

// checkNews is called where requests begin to wait, and where something has become free. It panics
// unless the loop that can use what is free is about to be woken, or another one that will wake it.
func (u *Upstream) checkNews() {
	if !invariant.Sequential || u.queues.waiting.Load() == 0 || u.wakePosted() ||
		slices.ContainsFunc(u.locals, func(l *Local) bool { return l.serving }) { // it looks again
		return
	}
	for _, l := range u.locals {
		switch {
		case slices.ContainsFunc(l.usable, func(m *Member) bool { return l.mayServe(m) && m.ready() }):
			panic("upstream: requests wait for a connection that is free, and no loop will be woken")
		case u.queues.wanted(l.loop) > 0 && l.anyIdle():
			panic("upstream: requests of another loop wait, and this one keeps an idle connection")
		}
	}
}

// wakePosted reports whether a loop is about to be woken, or asked for its idle connections.
func (u *Upstream) wakePosted() bool {
	for i := range u.queues.each {
		if q := &u.queues.each[i]; q.wakePosted.Load() || q.yieldPosted.Load() {
			return true
		}
	}
	return u.bound.wakePosted()
}

// anyIdle reports whether a request of another loop could use an idle connection of this one.
func (l *Local) anyIdle() bool {
	for _, m := range l.usable {
		if len(m.idle) > 0 && m.available() {
			return true
		}
	}
	return false
}

// yield is posted to a loop that may have idle connections when requests wait on another loop.
func (l *Local) yield() {
	l.own.yieldPosted.Store(false)
	defer l.u.checkNews()
	if l.closed {
		return
	}
	if l.u.version.Load() != l.seen {
		l.refresh(l.u.env.Now())
	}
	l.handOver()
	idle := 0
	for _, m := range l.members {
		idle += len(m.idle)
	}
	if idle == 0 {
		l.own.mayIdle.Store(false)
	}
}

// passBy wakes the next loop whose requests have waited about as long as those of the first loop, or
// of the first that is not stuck, so that they may be served as well. A slot may be free at a target
// to which this loop has no connection, but the next one has. Each loop wakes only one that comes
// after it, and one that has nothing for a loop before it wakes none of those (handOver), so that
// this comes to an end.
func (l *Local) passBy() {
	q := &l.u.queues
	_, first := q.firstLoop(-1, true)
	_, firstUnstuck := q.firstLoop(-1, false)
	own := l.own.rank.Load()
	next, rank := -1, int64(never)
	for i := range q.each {
		r := q.each[i].rank.Load()
		behind := r > own || r == own && i > l.loop
		may := r-fairnessGap <= first || r-fairnessGap <= firstUnstuck && !q.each[i].stuck.Load()
		if behind && may && r < rank {
			next, rank = i, r
		}
	}
	if next >= 0 {
		q.each[next].post(l.u.locals[next])
	}
}
