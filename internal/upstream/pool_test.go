package upstream

import (
	"errors"
	"testing"
	"time"
)

func single(t testing.TB, loops int, change func(*Options)) (*world, *Upstream) {
	w := newWorld(t, loops)
	o := DefaultOptions(addresses(1)...)
	if change != nil {
		change(&o)
	}
	return w, w.upstream(o)
}

func TestThePoolGivesTheNewestFirst(t *testing.T) {
	w, u := single(t, 1, nil)
	m := mustPick(t, u.Local(0), w.now, 0)
	a, b := open(t, w, m), open(t, w, m)
	m.Put(a, w.now)
	m.Put(b, w.now)
	for _, want := range []*fakeConn{b, a} {
		if c, ok := m.Get(w.now); !ok || c != want {
			t.Fatalf("got %v, want connection %d", c, want.id)
		}
	}
	if _, ok := m.Get(w.now); ok {
		t.Error("an empty pool gave a connection")
	}
}

func TestThePoolKeepsNoMoreThanMaxIdle(t *testing.T) {
	w, u := single(t, 1, func(o *Options) { o.MaxIdle = 2 })
	m := mustPick(t, u.Local(0), w.now, 0)
	var all []*fakeConn
	for range 3 {
		all = append(all, open(t, w, m))
	}
	for _, c := range all {
		m.Put(c, w.now)
	}
	if !all[0].over || all[1].over || all[2].over {
		t.Error("the oldest should be closed, and only it")
	}
	if n := u.Status().Targets[0].Connections; n != 2 {
		t.Errorf("%d connections are counted as open, want 2", n)
	}
}

func TestIdleConnectionsAreClosedAfterTheTimeout(t *testing.T) {
	w, u := single(t, 2, nil)
	l := u.Local(0)
	m := mustPick(t, l, w.now, 0)
	a, b := open(t, w, m), open(t, w, m)
	m.Put(a, w.now)
	m.Put(b, w.now)
	w.now += 55 * second
	l.Sweep(w.now)
	if a.over || b.over {
		t.Fatal("closed at the timeout, and not after it")
	}
	w.now++
	l.Sweep(w.now)
	if !a.over || !b.over || u.Status().Targets[0].Connections != 0 {
		t.Error("idle connections outlived the timeout, one on the loop and one between loops")
	}
}

func TestAnIdleConnectionThatBrokeIsDropped(t *testing.T) {
	w, u := single(t, 1, nil)
	m := mustPick(t, u.Local(0), w.now, 0)
	a, b := open(t, w, m), open(t, w, m)
	m.Put(a, w.now)
	m.Put(b, w.now)
	if !m.Drop(a, w.now) || m.Drop(a, w.now) {
		t.Error("Drop should find it once")
	}
	if c, ok := m.Get(w.now); !ok || c != b {
		t.Error("the other connection is lost")
	}
}

func TestSurplusConnectionsAreUsedByOtherLoops(t *testing.T) {
	w, u := single(t, 2, nil)
	l0, l1 := u.Local(0), u.Local(1)
	m0, m1 := mustPick(t, l0, w.now, 0), mustPick(t, l1, w.now, 0)
	a, b, c := open(t, w, m0), open(t, w, m0), open(t, w, m0)
	for _, conn := range []*fakeConn{a, b, c} {
		m0.Put(conn, w.now)
	}
	l0.Sweep(w.now + second)
	if _, ok := m1.Get(w.now); ok {
		t.Fatal("a connection moved that was used a moment ago")
	}
	w.now += 2 * second
	l0.Sweep(w.now)
	if s := u.Status().Targets[0]; s.Spare != 2 || s.Connections != 3 {
		t.Fatalf("%d spare of %d, want 2 of 3: one stays", s.Spare, s.Connections)
	}
	b.dead = true
	got, ok := m1.Get(w.now)
	if !ok || got != a || a.loop != 1 {
		t.Errorf("loop 1 got %v, want the living connection %d", got, a.id)
	}
	if n := u.Status().Targets[0].Connections; n != 2 {
		t.Errorf("%d connections are counted, want 2: the dead one is gone", n)
	}
}

func TestAConnectionThatCannotBeDetachedStays(t *testing.T) {
	w, u := single(t, 2, nil)
	m := mustPick(t, u.Local(0), w.now, 0)
	a, b := open(t, w, m), open(t, w, m)
	a.stays = true
	m.Put(a, w.now)
	m.Put(b, w.now)
	w.now += 10 * second
	u.Local(0).Sweep(w.now)
	if a.over || len(m.idle) != 2 {
		t.Error("the sweep closed a connection that could not be moved")
	}
}

func TestARequestWaitsWhenAllConnectionsAreInUse(t *testing.T) {
	w, u := single(t, 1, func(o *Options) { o.MaxConnections = 1; o.MaxPending = 2 })
	l := u.Local(0)
	m := mustPick(t, l, w.now, 0)
	c := open(t, w, m)
	if m.Open(w.now) {
		t.Fatal("a second connection was allowed")
	}
	first, second, third := newWaiting(), newWaiting(), newWaiting()
	for _, q := range []*waiting{first, second} {
		if why := l.Wait(&q.Waiter, w.now); why != None {
			t.Fatal(why)
		}
	}
	if why := l.Wait(&third.Waiter, w.now); why != QueueFull {
		t.Errorf("the third was told %v", why)
	}
	if !first.Remove() || first.Remove() {
		t.Error("Remove should find it once")
	}
	m.Closed(w.now)
	if second.ready != 1 || second.conn != nil || first.ready != 0 {
		t.Error("the permission should go to the one that still waits")
	}
	_ = c
}

func TestAFullRoomHasAPlaceForAClientWithFewerRequests(t *testing.T) {
	w, u := single(t, 1, func(o *Options) { o.MaxConnections = 1; o.MaxPending = 3 })
	l := u.Local(0)
	open(t, w, mustPick(t, l, w.now, 0))
	wait := func(client uint64) (*waiting, Unavailable) {
		q := newWaiting()
		q.Client = client
		return q, l.Wait(&q.Waiter, w.now)
	}
	var many []*waiting
	for range 3 {
		q, _ := wait(1)
		many = append(many, q)
	}
	if _, why := wait(1); why != QueueFull {
		t.Errorf("one more of the same client was told %v", why)
	}
	if _, why := wait(2); why != None {
		t.Errorf("another client's was told %v", why)
	}
	if many[0].refused != None || many[1].refused != None || many[2].refused != QueueFull {
		t.Errorf("refused were %v, %v and %v, want the newest alone", many[0].refused, many[1].refused, many[2].refused)
	}
	if _, why := wait(2); why != QueueFull {
		t.Errorf("a second one, with which it would have as many, was told %v", why)
	}
	if n := l.waiters.n; n != 3 {
		t.Errorf("%d requests wait, want 3", n)
	}
}

func TestAWaitEndsAtItsTimeout(t *testing.T) {
	w, u := single(t, 1, func(o *Options) { o.MaxConnections = 1 })
	l := u.Local(0)
	open(t, w, mustPick(t, l, w.now, 0))
	q := newWaiting()
	l.Wait(&q.Waiter, w.now)
	l.Sweep(w.now + 5*second - 1)
	if q.refused != None {
		t.Fatal("refused before the timeout")
	}
	l.Sweep(w.now + 5*second)
	if q.refused != WaitedTooLong {
		t.Errorf("after the timeout it was told %v", q.refused)
	}
}

func TestThoseWhoWaitAreToldWhenNoTargetIsLeft(t *testing.T) {
	w, u := single(t, 1, func(o *Options) { o.MaxConnections = 1 })
	l := u.Local(0)
	open(t, w, mustPick(t, l, w.now, 0))
	q := newWaiting()
	l.Wait(&q.Waiter, w.now)
	if err := u.Drain(addresses(1)[0]); err != nil {
		t.Fatal(err)
	}
	l.Sweep(w.now)
	if q.refused != AllOut {
		t.Errorf("it was told %v", q.refused)
	}
}

func TestThoseWhoWaitAreToldAtOnceWhenTheChecksFindTheLastTargetDown(t *testing.T) {
	w, u := single(t, 1, func(o *Options) {
		o.MaxConnections = 1
		o.Active = &ActiveOptions{Path: "/", UnhealthyAfter: 1}
	})
	l := u.Local(0)
	open(t, w, mustPick(t, l, w.now, 0))
	q := newWaiting()
	l.Wait(&q.Waiter, w.now)
	w.settle()
	u.checked(u.set.Load().targets[0], check{asks: "/"}, w.now, errors.New("refused"))
	w.settle()
	if q.refused != AllDown {
		t.Errorf("it was told %v, want %v before any sweep", q.refused, AllDown)
	}
}

func TestAWaitingLoopLearnsOfWhatOtherLoopsFree(t *testing.T) {
	for name, free := range map[string]func(w *world, m *Member, c *fakeConn){
		"closed":          func(w *world, m *Member, c *fakeConn) { c.Retire(); m.Closed(w.now) },
		"put back":        func(w *world, m *Member, c *fakeConn) { m.Put(c, w.now) },
		"cannot be moved": func(w *world, m *Member, c *fakeConn) { c.stays = true; m.Put(c, w.now) },
	} {
		t.Run(name, func(t *testing.T) {
			w, u := single(t, 2, func(o *Options) { o.MaxConnections = 1 })
			m0 := mustPick(t, u.Local(0), w.now, 0)
			mustPick(t, u.Local(1), w.now, 0)
			c := open(t, w, m0)
			q := newWaiting()
			u.Local(1).Wait(&q.Waiter, w.now)
			w.settle()
			free(w, m0, c)
			if m0.Open(w.now) {
				t.Error("a newcomer took what another loop waits for")
			}
			w.settle()
			if q.ready != 1 {
				t.Error("the waiting request got nothing")
			}
		})
	}
}

func TestIdleConnectionsOfOtherLoopsAreGivenUp(t *testing.T) {
	w, u := single(t, 3, func(o *Options) { o.MaxConnections = 2 })
	m0 := mustPick(t, u.Local(0), w.now, 0)
	mustPick(t, u.Local(1), w.now, 0)
	a, b := open(t, w, m0), open(t, w, m0)
	m0.Put(a, w.now)
	m0.Put(b, w.now)
	all := waitFor(u.Local(1), w.now, 2)
	w.settle()
	if all[0].conn != a && all[0].conn != b || all[1].conn != a && all[1].conn != b {
		t.Errorf("the waiting requests got %v and %v, want the two idle connections", all[0].conn, all[1].conn)
	}
}

func TestWhatIsWaitedForMovesHoweverFewMayBeIdle(t *testing.T) {
	for _, maxIdle := range []int{0, 1, 3} {
		w, u := single(t, 2, func(o *Options) { o.MaxConnections, o.MaxIdle = 3, maxIdle })
		m0 := mustPick(t, u.Local(0), w.now, 0)
		mustPick(t, u.Local(1), w.now, 0)
		conns := []*fakeConn{open(t, w, m0), open(t, w, m0), open(t, w, m0)}
		all := waitFor(u.Local(1), w.now, 3)
		for _, c := range conns {
			m0.Put(c, w.now)
		}
		w.settle()
		for i, q := range all {
			if q.conn == nil {
				t.Errorf("with max_idle %d request %d was to open a connection, while three were there", maxIdle, i)
			}
		}
	}
}

func TestWhatWasWantedAndNotFetchedIsClosedBeyondTheBound(t *testing.T) {
	w, u := single(t, 2, func(o *Options) { o.MaxConnections, o.MaxIdle = 3, 3 })
	m0 := mustPick(t, u.Local(0), w.now, 0)
	mustPick(t, u.Local(1), w.now, 0)
	conns := []*fakeConn{open(t, w, m0), open(t, w, m0), open(t, w, m0)}
	all := waitFor(u.Local(1), w.now, 3)
	for _, c := range conns {
		m0.Put(c, w.now)
	}
	for _, q := range all {
		q.Remove() // their clients leave before the loop is woken
	}
	w.settle()
	u.Local(0).Sweep(w.now)
	if n := m0.target.spare.n.Load(); int(n) > u.spareBound() || m0.target.open.Load() != int64(n) {
		t.Errorf("%d connections lie between the loops and %d are counted, want at most %d", n, m0.target.open.Load(), u.spareBound())
	}
}

// The list has no room of its own here, and the sweep comes between a connection's way into it and
// the turn in which the other loop takes it.
func TestASweepLeavesWhatARequestWaitsFor(t *testing.T) {
	for loop := range 2 {
		w, u := single(t, 2, func(o *Options) { o.MaxConnections, o.MaxIdle = 1, 1 })
		m0 := mustPick(t, u.Local(0), w.now, 0)
		mustPick(t, u.Local(1), w.now, 0)
		c := open(t, w, m0)
		q := waitFor(u.Local(1), w.now, 1)[0]
		m0.Put(c, w.now)
		if n := m0.target.spare.n.Load(); n != 1 || q.conn != nil {
			t.Fatalf("%d connections lie between the loops, and the request has %v", n, q.conn)
		}
		u.Local(loop).Sweep(w.now)
		w.settle()
		if q.conn != c {
			t.Errorf("after a sweep of loop %d the request got %v, want the idle connection", loop, q.conn)
		}
	}
}

func TestABusyLoopDoesNotStarveAnother(t *testing.T) {
	w, u := single(t, 2, func(o *Options) { o.MaxConnections = 1 })
	m0 := mustPick(t, u.Local(0), w.now, 0)
	mustPick(t, u.Local(1), w.now, 0)
	c := open(t, w, m0)
	far := newWaiting()
	u.Local(1).Wait(&far.Waiter, w.now)
	served := 0
	for range 100 {
		q := newWaiting()
		u.Local(0).Wait(&q.Waiter, w.now)
		w.now += int64(time.Millisecond)
		m0.Put(c, w.now)
		w.settle()
		if far.ready == 1 {
			break
		}
		if q.ready != 1 {
			t.Fatal("nobody got the connection")
		}
		served++
	}
	if far.ready != 1 || served < 10 || served > 30 {
		t.Errorf("the other loop's request waited for %d of this one's, want about 20", served)
	}
}

func TestRequestsThatFailAtOnceDoNotRecurse(t *testing.T) {
	w, u := single(t, 1, func(o *Options) { o.MaxConnections = 1 })
	l := u.Local(0)
	m := mustPick(t, l, w.now, 0)
	open(t, w, m)
	depth, deepest, count := 0, 0, 0
	for range 1000 {
		q := newWaiting()
		q.then = func(now int64, m *Member, _ Conn) {
			depth++
			count++
			deepest = max(deepest, depth)
			m.Closed(now)
			depth--
		}
		l.Wait(&q.Waiter, w.now)
	}
	m.Closed(w.now)
	if count != 1000 || deepest != 1 {
		t.Errorf("%d of 1000 were served, %d deep", count, deepest)
	}
}

func TestATargetThatLeavesClosesItsConnections(t *testing.T) {
	w, u := single(t, 2, nil)
	l := u.Local(0)
	m := mustPick(t, l, w.now, 0)
	idle, busy, spared := open(t, w, m), open(t, w, m), open(t, w, m)
	m.Put(spared, w.now)
	m.Put(idle, w.now+2*second)
	l.Sweep(w.now + 2*second)
	u.mu.Lock()
	u.entries = nil
	u.rebuild(w.now)
	u.mu.Unlock()
	if got, why := l.Pick(w.now, 0, nil); got != nil || why != NoTargets {
		t.Errorf("Pick says %v, %v", got, why)
	}
	if !idle.over || !spared.over || busy.over {
		t.Errorf("closed: idle %v, spare %v, busy %v; want the first two", idle.over, spared.over, busy.over)
	}
	m.Put(busy, w.now)
	if !busy.over {
		t.Error("a connection to a target that left was kept")
	}
}

func TestASweepMayMeetATargetThatHasJustLeft(t *testing.T) {
	w, u := single(t, 2, nil)
	m := mustPick(t, u.Local(0), w.now, 0)
	a, b := open(t, w, m), open(t, w, m)
	m.Put(a, w.now)
	m.Put(b, w.now)
	m.target.spare.close()
	w.now += 10 * second
	u.Local(0).Sweep(w.now)
	if !a.over || b.over || m.target.open.Load() != 1 {
		t.Errorf("closed: %v and %v, %d are counted; want the older closed and counted off", a.over, b.over, m.target.open.Load())
	}
}

func TestAPoolThatIsFullMayMeetATargetThatHasJustLeft(t *testing.T) {
	w, u := single(t, 2, func(o *Options) { o.MaxIdle = 2 })
	m := mustPick(t, u.Local(0), w.now, 0)
	a, b := open(t, w, m), open(t, w, m)
	m.target.spare.close()
	m.Put(a, w.now)
	m.Put(b, w.now)
	if !a.over || b.over || m.target.open.Load() != 1 {
		t.Errorf("closed: %v and %v, %d are counted; want the older closed and counted off", a.over, b.over, m.target.open.Load())
	}
}

func TestALoopThatWasServedPassesTheNewsOn(t *testing.T) {
	w, u := single(t, 3, func(o *Options) { o.MaxConnections = 2 })
	m0 := mustPick(t, u.Local(0), w.now, 0)
	open(t, w, m0)
	open(t, w, m0)
	var all []*waiting
	for loop := 1; loop <= 2; loop++ {
		q := newWaiting()
		all = append(all, q)
		mustPick(t, u.Local(loop), w.now, 0)
		u.Local(loop).Wait(&q.Waiter, w.now+int64(loop))
	}
	w.settle()
	m0.Closed(w.now)
	m0.Closed(w.now)
	w.settle()
	if all[0].ready != 1 || all[1].ready != 1 {
		t.Errorf("served: %d and %d, want both", all[0].ready, all[1].ready)
	}
}

func TestWhatBecameFreeJustBeforeTheWaitIsFound(t *testing.T) {
	w, u := single(t, 1, nil)
	mustPick(t, u.Local(0), w.now, 0)
	q := newWaiting()
	u.Local(0).Wait(&q.Waiter, w.now)
	if q.ready != 0 {
		t.Fatal("served from within Wait")
	}
	w.settle()
	if q.ready != 1 {
		t.Error("the permission was there, and was not found")
	}
}

func TestClosingALoopEndsWhatItHolds(t *testing.T) {
	w, u := single(t, 1, func(o *Options) { o.MaxConnections = 2 })
	l := u.Local(0)
	m := mustPick(t, l, w.now, 0)
	busy, other := open(t, w, m), open(t, w, m)
	q := newWaiting()
	l.Wait(&q.Waiter, w.now)
	l.Close(w.now)
	if q.refused != Closed {
		t.Errorf("who waited was told %v", q.refused)
	}
	m.Put(busy, w.now)
	m.Put(other, w.now)
	if len(w.alive) != 0 {
		t.Errorf("%d connections stay open", len(w.alive))
	}
	if _, why := l.Pick(w.now, 0, nil); why != Closed {
		t.Errorf("Pick says %v", why)
	}
}

// After a reload each loop gives up its part of an upstream that was replaced when it is done with
// it, and another loop's request may still wait there.
func TestClosingALoopGivesItsPlacesToThoseWhoWaitOnOthers(t *testing.T) {
	w, u := single(t, 2, func(o *Options) { o.MaxConnections = 1 })
	m0 := mustPick(t, u.Local(0), w.now, 0)
	mustPick(t, u.Local(1), w.now, 0)
	m0.Put(open(t, w, m0), w.now)
	q := newWaiting()
	u.Local(1).Wait(&q.Waiter, w.now)
	u.Local(0).Close(w.now) // before it hears that its idle connection is wanted
	w.settle()
	if q.ready != 1 {
		t.Error("the waiting request got nothing")
	}
}

func TestClientsWhoseRequestsWaitTakeTurns(t *testing.T) {
	w := newWorld(t, 1)
	o := DefaultOptions(addresses(1)...)
	o.MaxConnections = 1
	l := w.upstream(o).Local(0)
	m := mustPick(t, l, w.now, 0)
	if !m.Open(w.now) {
		t.Fatal("the only connection may not be opened")
	}
	c := w.dial(0)
	var served []uint64
	for i, client := range []uint64{1, 1, 1, 1, 1, 2, 3, 2} {
		q := newWaiting()
		q.Client = client
		q.then = func(int64, *Member, Conn) { served = append(served, client*10+uint64(i)) }
		if why := l.Wait(&q.Waiter, w.now); why != None {
			t.Fatal(why)
		}
	}
	for range 8 {
		m.Put(c, w.now)
	}
	order := map[uint64]int{}
	for at, id := range served {
		order[id] = at
	}
	if len(served) != 8 || order[25] > 2 || order[36] > 2 || order[27] > 4 || order[10] > order[11] || order[13] > order[14] {
		t.Errorf("served in the order %v: clients 2 and 3 must be served between, and each in order", served)
	}
	c.finish()
	m.Closed(w.now)
}
