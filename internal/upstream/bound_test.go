package upstream

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/internal/concurrency"
)

// boundTo are options for so many targets with room for many connections, and so many requests at
// all of them.
func boundTo(bound, targets int) Options {
	o := DefaultOptions(addresses(targets)...)
	o.Policy, o.MaxConcurrency = RoundRobin, bound
	return o
}

// begin is a request that finds a connection, or the permission to open one.
func begin(t *testing.T, w *world, l *Local) (*Member, bool) {
	t.Helper()
	m := mustPick(t, l, w.now, 0)
	if _, ok := m.Get(w.now); ok {
		return m, true
	}
	return m, m.Open(w.now)
}

// wait is a request that waits.
func wait(t *testing.T, w *world, l *Local, class uint8) *waiting {
	t.Helper()
	q := newWaiting()
	q.Class = class
	if why := l.Wait(&q.Waiter, w.now); why != None {
		t.Fatalf("it may not wait: %v", why)
	}
	return q
}

func TestTheBoundIsOverAllTargetsAndLoops(t *testing.T) {
	w := newWorld(t, 2)
	u := w.upstream(boundTo(3, 3))
	for i := range 3 {
		if _, ok := begin(t, w, u.Local(i%2)); !ok {
			t.Fatalf("request %d of 3 got no place", i+1)
		}
	}
	for loop := range 2 {
		if _, ok := begin(t, w, u.Local(loop)); ok {
			t.Errorf("a fourth request got a place on loop %d", loop)
		}
	}
	if s := u.Status(); s.Bound != 3 || s.InFlight != 3 {
		t.Errorf("the status says %d of %d, want 3 of 3", s.InFlight, s.Bound)
	}
}

// The place may be used at any target, and the one at which it became free may have no slot.
func TestAPlaceThatBecomesFreeServesARequestAtAnyTarget(t *testing.T) {
	w := newWorld(t, 2)
	o := boundTo(2, 2)
	o.Concurrency = &concurrency.Options{Initial: 2, Min: 2, Max: 2}
	u := w.upstream(o)
	here, there := u.Local(0), u.Local(1)
	first, ok := begin(t, w, here)
	if !ok {
		t.Fatal("the first request got no place")
	}
	if _, ok := begin(t, w, here); !ok {
		t.Fatal("the second request got no place")
	}
	q := wait(t, w, there, 1)
	own := wait(t, w, here, 2)
	// The target is taken out of use before its request is over.
	if err := u.Drain(first.target.addr.String()); err != nil {
		t.Fatal(err)
	}
	w.settle()
	first.Closed(w.now)
	w.settle()
	if q.ready != 1 || q.member.target == first.target {
		t.Errorf("a request on another loop was served %d times, want once, at the other target", q.ready)
	}
	if own.ready != 0 {
		t.Error("a request of a higher class went first")
	}
	q.member.Closed(w.now)
	w.settle()
	if own.ready != 1 {
		t.Error("the request of this loop was forgotten")
	}
}

func TestAPlaceFreedAtATargetThatIsOutServesThisLoopsRequestAtAnother(t *testing.T) {
	w := newWorld(t, 1)
	u := w.upstream(boundTo(1, 2))
	m, ok := begin(t, w, u.Local(0))
	if !ok {
		t.Fatal("the first request got no place")
	}
	q := wait(t, w, u.Local(0), 1)
	if err := u.Drain(m.target.addr.String()); err != nil {
		t.Fatal(err)
	}
	w.settle()
	m.Closed(w.now)
	w.settle()
	if q.ready != 1 {
		t.Error("a request waits for a place that is free, at a target that has room")
	}
}

// A request that finds a slot and no place takes neither.
func TestARequestTakesASlotAndAPlaceOrNeither(t *testing.T) {
	w := newWorld(t, 1)
	o := boundTo(1, 1)
	o.Concurrency = &concurrency.Options{Initial: 2, Min: 2, Max: 2}
	u := w.upstream(o)
	m, ok := begin(t, w, u.Local(0))
	if !ok {
		t.Fatal("the first request got no place")
	}
	if _, ok := begin(t, w, u.Local(0)); ok {
		t.Fatal("a second request got a place")
	}
	if n := m.slot.taken.Load(); n != 1 {
		t.Errorf("%d slots are taken, want 1", n)
	}
	if m.slot.limited.Load() {
		t.Error("the target's law was told that the target has too few slots")
	}
}

// replaced is the upstream that a reload puts in the place of one.
func replaced(t *testing.T, w *world, old *Upstream, o Options) *Upstream {
	t.Helper()
	u := w.upstream(o)
	u.Inherit(old)
	u.bound.enforce(u)
	return u
}

func TestRequestsFromBeforeAReloadCountAfterIt(t *testing.T) {
	w := newWorld(t, 2)
	old := w.upstream(boundTo(2, 2))
	old.bound.enforce(old)
	m, _ := begin(t, w, old.Local(0))
	begin(t, w, old.Local(1))
	u := replaced(t, w, old, boundTo(3, 1))
	if _, ok := begin(t, w, u.Local(1)); !ok {
		t.Fatal("the third place, which the reload brought, is not given")
	}
	if _, ok := begin(t, w, u.Local(1)); ok {
		t.Fatal("more requests are under way than the bound, after a reload")
	}
	// What becomes free in the old one serves the new one's, on whatever loop.
	q := wait(t, w, u.Local(1), 1)
	m.Closed(w.now)
	w.settle()
	if q.ready != 1 {
		t.Error("a request waits for a place that became free in the upstream before the reload")
	}
}

func TestRequestsFromBeforeAReloadGoFirst(t *testing.T) {
	w := newWorld(t, 2)
	old := w.upstream(boundTo(1, 1))
	old.bound.enforce(old)
	u := replaced(t, w, old, boundTo(1, 2))
	m, ok := begin(t, w, u.Local(0))
	if !ok {
		t.Fatal("there is no place in the new upstream")
	}
	young, retry := wait(t, w, u.Local(0), 0), wait(t, w, old.Local(1), 5)
	m.Closed(w.now)
	w.settle()
	if retry.ready != 1 || young.ready != 0 {
		t.Fatalf("the older request was served %d times and the younger %d, want 1 and 0", retry.ready, young.ready)
	}
	retry.member.Closed(w.now)
	w.settle()
	if young.ready != 1 {
		t.Error("the younger request was forgotten")
	}
}

func TestAReloadThatBringsPlacesServesThoseWhoWait(t *testing.T) {
	w := newWorld(t, 2)
	old := w.upstream(boundTo(1, 1))
	old.bound.enforce(old)
	begin(t, w, old.Local(0))
	q := wait(t, w, old.Local(1), 1)
	w.settle()
	replaced(t, w, old, boundTo(2, 1))
	w.settle()
	if q.ready != 1 {
		t.Error("a request from before a reload waits for one of the places that the reload brought")
	}
}

func TestAPlaceThatTheOlderCannotUseIsPassedOn(t *testing.T) {
	w := newWorld(t, 2)
	o := boundTo(2, 1)
	o.Concurrency = &concurrency.Options{Initial: 1, Min: 1, Max: 1}
	old := w.upstream(o)
	old.bound.enforce(old)
	begin(t, w, old.Local(0))
	stuck := wait(t, w, old.Local(1), 0) // for the slot of the only target
	u := replaced(t, w, old, boundTo(2, 2))
	m, ok := begin(t, w, u.Local(0))
	if !ok {
		t.Fatal("the second place is not given")
	}
	q := wait(t, w, u.Local(0), 1)
	w.settle()
	m.Closed(w.now)
	w.settle()
	if stuck.ready != 0 || q.ready != 1 {
		t.Errorf("the older was served %d times and the younger %d, want 0 and 1", stuck.ready, q.ready)
	}
}

// A reload in the middle of everything: whatever order things happen in, the bound holds, and nobody
// waits for what is free.
func TestBoundModelOverReloads(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBoundModel(t, rt)
		rt.Repeat(map[string]func(*rapid.T){
			"":        b.check,
			"request": func(rt *rapid.T) { b.request(b.any(rt)) },
			"finish":  func(rt *rapid.T) { b.finish(rapid.IntRange(0, 8).Draw(rt, "which"), rapid.Bool().Draw(rt, "keep")) },
			"posts":   func(rt *rapid.T) { b.w.run(rapid.IntRange(0, b.loops-1).Draw(rt, "loop")) },
			"leave": func(rt *rapid.T) {
				if n := len(b.queued); n > 0 {
					b.queued[rapid.IntRange(0, n-1).Draw(rt, "who")].Remove()
				}
			},
			"reload": func(rt *rapid.T) {
				if len(b.all) < 4 {
					b.reload(rapid.IntRange(1, 4).Draw(rt, "bound"), rapid.IntRange(1, 3).Draw(rt, "targets"))
				}
			},
		})
		b.end()
	})
}

type boundModel struct {
	w      *world
	rt     *rapid.T
	loops  int
	all    []*Upstream
	busy   []use
	queued []*waiting
	most   int // that may be under way: the bound, or what was when a reload made it less
}

func newBoundModel(t *testing.T, rt *rapid.T) *boundModel {
	b := &boundModel{rt: rt, loops: rapid.IntRange(1, 3).Draw(rt, "loops")}
	b.w = newWorld(t, b.loops)
	b.reload(2, 2)
	return b
}

func (b *boundModel) reload(bound, targets int) {
	o := boundTo(bound, targets)
	o.MaxConnections = 1 + len(b.all)
	u := b.w.upstream(o)
	if n := len(b.all); n > 0 {
		u.Inherit(b.all[n-1])
	}
	u.bound.enforce(u)
	b.all = append(b.all, u)
	b.most = max(bound, len(b.busy))
}

// any is a loop of an upstream; exchanges of an old snapshot try again there.
func (b *boundModel) any(rt *rapid.T) *Local {
	u := b.all[rapid.IntRange(0, len(b.all)-1).Draw(rt, "upstream")]
	return u.Local(rapid.IntRange(0, b.loops-1).Draw(rt, "loop"))
}

func (b *boundModel) use(l *Local, m *Member, c Conn) {
	if c == nil {
		c = b.w.dial(l.loop)
	}
	b.busy = append(b.busy, use{m, c.(*fakeConn)})
}

func (b *boundModel) request(l *Local) {
	m, _ := l.Pick(b.w.now, 0, nil)
	if c, ok := m.Get(b.w.now); ok {
		b.use(l, m, c)
		return
	}
	if m.Open(b.w.now) {
		b.use(l, m, nil)
		return
	}
	q := newWaiting()
	q.then = func(_ int64, m *Member, c Conn) { b.use(l, m, c) }
	if l.Wait(&q.Waiter, b.w.now) == None {
		b.queued = append(b.queued, q)
	}
}

func (b *boundModel) finish(which int, keep bool) {
	if len(b.busy) == 0 {
		return
	}
	i := which % len(b.busy)
	u := b.busy[i]
	b.busy = slices.Delete(b.busy, i, i+1)
	b.most = max(b.all[len(b.all)-1].options.MaxConcurrency, len(b.busy))
	if keep {
		u.m.Put(u.c, b.w.now)
	} else {
		u.c.finish()
		u.m.Closed(b.w.now)
	}
}

func (b *boundModel) check(rt *rapid.T) {
	b.queued = slices.DeleteFunc(b.queued, func(q *waiting) bool { return q.local == nil })
	shared := b.all[0].bound
	if n := int(shared.taken.Load()); n != len(b.busy) {
		rt.Fatalf("%d places are taken, and %d requests under way", n, len(b.busy))
	}
	if len(b.busy) > b.most {
		rt.Fatalf("%d requests are under way, of at most %d", len(b.busy), b.most)
	}
}

func (b *boundModel) end() {
	for range 1000 {
		b.w.settle()
		if len(b.busy) == 0 {
			break
		}
		b.finish(0, len(b.busy)%2 == 0)
	}
	b.check(b.rt)
	if n := len(b.queued); n > 0 {
		b.rt.Fatalf("%d requests wait for ever", n)
	}
	for _, u := range b.all {
		for i := range b.loops {
			u.Local(i).Close(b.w.now)
		}
		u.Close()
	}
}
