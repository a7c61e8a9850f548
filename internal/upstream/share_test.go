package upstream

import (
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll/internal/concurrency"
)

// A connection that carries many requests stays on its loop. Requests of another loop that have
// waited longer cannot use it, and must not keep this loop's from it.
func TestASharedConnectionServesItsLoopPastOnesThatCannotUseIt(t *testing.T) {
	for _, slots := range []int{0, 2} {
		w, u := single(t, 2, func(o *Options) {
			o.MaxConnections = 1
			if slots > 0 {
				o.Concurrency = &concurrency.Options{Initial: slots, Min: slots, Max: slots}
			}
		})
		m := mustPick(t, u.Local(0), w.now, 0)
		c := open(t, w, m)
		mustPick(t, u.Local(1), w.now, 0)
		older, newer := newWaiting(), newWaiting()
		u.Local(1).Wait(&older.Waiter, w.now)
		w.settle()
		w.now += 2 * int64(fairnessGap)
		u.Local(0).Wait(&newer.Waiter, w.now)
		w.settle()
		m.Share(c)
		if w.settle(); newer.ready != 1 || newer.conn != Conn(c) || older.ready != 0 {
			t.Errorf("%d slots: served %d of the loop with the connection, %d of the other, want 1 and 0",
				slots, newer.ready, older.ready)
		}
		m.Free(w.now)
		m.Unshare(c)
		m.Put(c, w.now)
		if w.settle(); older.ready != 1 || older.conn != Conn(c) {
			t.Errorf("%d slots: the connection was free for the other loop, and was not given", slots)
		}
	}
}

// A slot that becomes free at a target is of no use to the loop whose request is first, where that
// has a connection to another target only. Those of another loop that came soon after it are
// served.
func TestASlotThatTheFirstLoopCannotUseGoesToTheNext(t *testing.T) {
	w := newWorld(t, 3)
	o := DefaultOptions(addresses(2)...)
	o.MaxConnections = 2
	o.Concurrency = &concurrency.Options{Initial: 1, Min: 1, Max: 1}
	u := w.upstream(o)
	at := func(loop, target int) *Member {
		l := u.Local(loop)
		mustPick(t, l, w.now, 0)
		return l.members[target]
	}
	// Both other loops have a connection to the first target, and a request of the last one its
	// slot.
	near := open(t, w, at(1, 0))
	at(1, 0).Share(near)
	at(1, 0).Free(w.now)
	at(2, 0).Share(open(t, w, at(2, 0)))
	// The slot of the second target is in use, and there is a connection of the first loop to it.
	at(0, 1).Share(open(t, w, at(0, 1)))

	first, next := newWaiting(), newWaiting()
	u.Local(0).Wait(&first.Waiter, w.now)
	w.settle()
	w.now += fairnessGap / 2
	u.Local(1).Wait(&next.Waiter, w.now)
	w.settle()
	if first.ready+next.ready > 0 {
		t.Fatal("there was a slot for somebody")
	}
	at(2, 0).Free(w.now)
	if w.settle(); next.ready != 1 || next.conn != Conn(near) || first.ready != 0 {
		t.Errorf("served %d of the loop with a connection, %d of the first, want 1 and 0", next.ready,
			first.ready)
	}
}

// What a loop has no connection for may be for requests of another loop that its first request kept
// back. They are told when that one waits no longer, however its wait has ended.
func TestWhatTheFirstRequestKeptFromOthersIsTheirsWhenItWaitsNoLonger(t *testing.T) {
	for _, refused := range []bool{false, true} {
		w := newWorld(t, 2)
		o := DefaultOptions(addresses(2)...)
		o.MaxConnections, o.Protocol, o.PendingTimeout = 1, Negotiated, time.Second
		o.Concurrency = &concurrency.Options{Initial: 1, Min: 1, Max: 1}
		u := w.upstream(o)
		share := func(loop, target int) (*Member, Conn) { // the target's only connection, and its slot
			mustPick(t, u.Local(loop), w.now, 0)
			m := u.Local(loop).members[target]
			c := open(t, w, m)
			m.Share(c)
			return m, c
		}
		here, near := share(0, 0)
		there, far := share(1, 1)
		first, kept, last := newWaiting(), newWaiting(), newWaiting()
		kept.Class, last.Class = 2, 2
		u.Local(1).Wait(&first.Waiter, w.now)
		w.settle()
		w.now += 2 * fairnessGap
		u.Local(0).Wait(&kept.Waiter, w.now)
		w.settle()
		w.now += 2 * fairnessGap
		u.Local(1).Wait(&last.Waiter, w.now)
		here.Free(w.now)
		if w.settle(); first.ready+kept.ready+last.ready > 0 {
			t.Fatal("a request was served before one of a higher class that is not stuck")
		}
		if refused {
			w.now += int64(o.PendingTimeout) - 3*fairnessGap
			u.Local(1).Sweep(w.now)
		} else {
			there.Free(w.now)
		}
		served := first.ready == 1 && first.conn == far
		if w.settle(); served == refused || kept.ready != 1 || kept.conn != near {
			t.Errorf("refused %t: served the first %d times, what it kept back %d times", refused,
				first.ready, kept.ready)
		}
	}
}

// sharing is loops whose connections carry several requests at once.
type sharing struct {
	*world
	u       *Upstream
	streams int // that a connection carries at most
	busy    []*sharedUse
	waiting int
}

type sharedUse struct {
	m       *Member
	c       *fakeConn
	streams int
}

// begin has one more request use a connection, nil for one that may be opened.
func (s *sharing) begin(m *Member, c Conn) {
	for _, b := range s.busy {
		if b.c == c {
			if b.streams++; b.streams == s.streams {
				m.Unshare(c)
			}
			return
		}
	}
	b := &sharedUse{m: m, streams: 1}
	if b.c, _ = c.(*fakeConn); b.c == nil {
		b.c = s.dial(m.local.loop)
	}
	s.busy = append(s.busy, b)
	if s.streams > 1 {
		m.Share(b.c)
	}
}

// ask is a request that comes to a loop.
func (s *sharing) ask(loop int) {
	l := s.u.Local(loop)
	m := mustPick(s.t, l, s.now, 0)
	if c, ok := m.Get(s.now); ok {
		s.begin(m, c)
		return
	}
	if m.Open(s.now) {
		s.begin(m, nil)
		return
	}
	q := newWaiting()
	q.then = func(_ int64, m *Member, c Conn) { s.waiting--; s.begin(m, c) }
	if l.Wait(&q.Waiter, s.now) == None {
		s.waiting++
	}
}

// end ends a request of a connection, or breaks the connection with all of them.
func (s *sharing) end(i int, breaks bool) {
	b := s.busy[i]
	last := b.streams == 1
	if last || breaks {
		s.busy = append(s.busy[:i], s.busy[i+1:]...)
		b.m.Unshare(b.c)
	}
	switch {
	case breaks:
		for ; b.streams > 1; b.streams-- {
			b.m.Free(s.now)
		}
		b.c.Retire()
		b.m.Closed(s.now)
	case last:
		b.m.Put(b.c, s.now)
	default:
		b.m.Free(s.now)
		if b.streams--; b.streams == s.streams-1 {
			b.m.Share(b.c)
		}
	}
}

// check says what is wrong once no loop has anything to do: nothing that a waiting request could
// use may be free.
func (s *sharing) check() string {
	idle := 0
	for i := range s.u.locals {
		idle += len(s.u.Local(i).members[0].idle)
	}
	for i := range s.u.locals {
		l := s.u.Local(i)
		if m := l.members[0]; l.waiters.n > 0 && m.slot.available() {
			switch {
			case len(m.shared) > 0:
				return "a loop's requests wait beside its own connection"
			case m.room():
				return "requests wait where there is room for a connection"
			case idle > 0:
				return "requests wait while a connection is idle"
			}
		}
	}
	return ""
}

func TestNothingIsFreeThatRequestsOverSharedConnectionsWaitFor(t *testing.T) {
	const runs = 1500
	for seed := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed, 1))
		loops := 1 + r.IntN(4)
		w, u := single(t, loops, func(o *Options) {
			o.MaxConnections, o.PendingTimeout = 1+r.IntN(4), time.Hour
			if slots := r.IntN(6); slots > 0 {
				o.Concurrency = &concurrency.Options{Initial: slots, Min: slots, Max: slots}
			}
		})
		for i := range loops {
			mustPick(t, u.Local(i), w.now, 0)
		}
		s := &sharing{world: w, u: u, streams: 1 + r.IntN(4)}
		for range 100 {
			w.now += int64(r.IntN(int(fairnessGap)))
			switch {
			case r.IntN(2) == 0 || len(s.busy) == 0:
				s.ask(r.IntN(loops))
			default:
				s.end(r.IntN(len(s.busy)), r.IntN(5) == 0)
			}
			if r.IntN(3) > 0 {
				continue
			}
			w.settle()
			if wrong := s.check(); wrong != "" {
				t.Fatalf("seed %d: %s", seed, wrong)
			}
		}
		for w.settle(); len(s.busy) > 0; w.settle() {
			s.end(0, false)
		}
		if s.waiting != 0 || u.Waiting() != 0 {
			t.Fatalf("seed %d: %d requests still wait, %d on the loops", seed, s.waiting, u.Waiting())
		}
	}
}
