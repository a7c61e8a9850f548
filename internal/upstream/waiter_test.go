package upstream

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"
)

// HAZARDS: a loop is judged by its head. A client with many requests on one loop has the oldest of
// all, however often it is served, and kept those away who wait on other loops.
func TestHazardAClientWithManyRequestsKeepsNobodyOnOtherLoopsWaiting(t *testing.T) {
	w, u := single(t, 2, func(o *Options) { o.MaxConnections = 1 })
	m0 := mustPick(t, u.Local(0), w.now, 0)
	mustPick(t, u.Local(1), w.now, 0)
	c := open(t, w, m0)
	var served []uint64
	holder, held := m0, Conn(c)
	wait := func(loop int, client uint64) {
		q := newWaiting()
		q.Client = client
		q.then = func(_ int64, m *Member, got Conn) {
			served = append(served, client)
			if holder, held = m, got; held == nil {
				held = w.dial(loop)
			}
		}
		if why := u.Local(loop).Wait(&q.Waiter, w.now); why != None {
			t.Fatal(why)
		}
	}
	const many = 500
	for range many {
		wait(0, 1)
	}
	w.now += 50 * int64(time.Millisecond)
	wait(0, 3)
	wait(1, 2)
	for len(served) < many+2 {
		before := len(served)
		w.now += int64(time.Millisecond)
		holder.Put(held, w.now)
		if w.settle(); len(served) != before+1 {
			t.Fatalf("%d were served at once, after %d", len(served)-before, before)
		}
	}
	// The others are served after the first client once fairnessGap is over.
	if at := slices.Index(served, 3); at > 5 {
		t.Errorf("a client on the same loop was served after %d others", at)
	}
	if at := slices.Index(served, 2); at > 50 {
		t.Errorf("a client on the other loop was served after %d others", at)
	}
	held.Retire()
	holder.Closed(w.now)
}

func TestWhoWaitsIsKnownOnEachLoop(t *testing.T) {
	w, u := single(t, 2, func(o *Options) { o.MaxConnections = 1 })
	m := mustPick(t, u.Local(0), w.now, 0)
	c := open(t, w, m)
	const one, two, three = 1, 2, 3
	sharesWithOne := uint64(4)
	for bucketOf(sharesWithOne) != bucketOf(one) {
		sharesWithOne++
	}
	asks := func(loop int, wanted uint64) bool {
		return u.Local(loop).AnyWaits(func(client uint64) bool { return client == wanted })
	}
	waits := func(loop int, client uint64) *waiting {
		q := newWaiting()
		q.Client = client
		u.Local(loop).Wait(&q.Waiter, w.now)
		return q
	}
	first, also := waits(0, one), waits(0, one)
	other := waits(1, two)
	for loop := range 2 {
		if !asks(loop, one) || !asks(loop, two) || asks(loop, three) || asks(loop, sharesWithOne) {
			t.Errorf("loop %d does not know who waits", loop)
		}
	}
	if n := u.Waiting(); n != 3 {
		t.Errorf("%d are counted, want 3", n)
	}
	mixed := waits(0, sharesWithOne)
	if asks(0, three) || !asks(1, three) {
		t.Error("a bucket that is shared stands for anybody on other loops, and only there")
	}
	for _, q := range []*waiting{first, also, mixed} {
		q.Remove()
	}
	waits(0, three).Remove()
	again := waits(0, sharesWithOne)
	if asks(1, one) || asks(1, three) || !asks(1, sharesWithOne) {
		t.Error("a bucket that was empty is remembered as shared")
	}
	again.Remove()
	other.Remove()
	c.Retire()
	m.Closed(w.now)
}

// Two targets, one connection each. The connection to one of them becomes idle on loop 0 while that
// target is out, and stays there, as a request of loop 0 is the first that waits. Then this request
// leaves and the target returns: requests of loop 1 are first now, whether others wait on loop 0 or
// not.
func TestWhatIsIdleElsewhereIsFoundWhenItsTargetReturns(t *testing.T) {
	for _, others := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d later ones wait beside it", others), func(t *testing.T) {
			w := newWorld(t, 2)
			w.log = slog.New(slog.DiscardHandler)
			o := weighted(RoundRobin, 1, 1)
			o.MaxConnections = 1
			u := w.upstream(o)
			local, other := u.Local(0), u.Local(1)
			a := mustPick(t, local, w.now, 0)
			idle := open(t, w, a)
			open(t, w, mustPick(t, local, w.now, 0, a))
			if err := u.Drain(a.target.addr.String()); err != nil {
				t.Fatal(err)
			}
			mustPick(t, local, w.now, 0)
			mustPick(t, other, w.now, 0)
			wait := func(l *Local) *waiting {
				q := newWaiting()
				l.Wait(&q.Waiter, w.now)
				w.settle()
				w.now += 2 * int64(fairnessGap)
				return q
			}
			leaves, first := wait(local), wait(other)
			var later []*waiting
			for range others {
				later = append(later, wait(local))
			}
			a.Put(idle, w.now)
			leaves.Remove()
			w.settle()
			if first.ready != 0 {
				t.Fatal("a request went to a target that is out")
			}
			if err := u.Restore(a.target.addr.String()); err != nil {
				t.Fatal(err)
			}
			w.settle()
			if first.conn != Conn(idle) {
				t.Errorf("the first request got %v, want the idle connection", first.conn)
			}
			for _, q := range later {
				if q.ready != 0 {
					t.Error("a later request was served, and there was one connection")
				}
			}
		})
	}
}
