package upstream

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/internal/concurrency"
)

// TestPoolModel does random things on several loops, with posts delayed at random, and checks after
// each what must always hold, and at the end that everybody who waited was served.
func TestPoolModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		loops := rapid.IntRange(1, 3).Draw(rt, "loops")
		targets := rapid.IntRange(1, 3).Draw(rt, "targets")
		most := rapid.IntRange(1, 3).Draw(rt, "max connections")
		drains := rapid.Bool().Draw(rt, "an operator is at work")
		w := newWorld(t, loops)
		o := DefaultOptions(addresses(targets)...)
		o.MaxConnections, o.MaxIdle = most, rapid.IntRange(0, 6).Draw(rt, "max idle")
		slots := rapid.IntRange(0, 4).Draw(rt, "slots") // 0 for no limit
		if slots > 0 {
			o.Concurrency = &concurrency.Options{Initial: slots, Min: slots, Max: slots}
		}
		o.MaxConcurrency = rapid.IntRange(0, 4).Draw(rt, "bound") // 0 for none
		if rapid.Bool().Draw(rt, "connections may be idle for long") {
			o.IdleTimeout = time.Hour
		}
		u := w.upstream(o)
		m := &model{slots: slots, patient: rapid.Bool().Draw(rt, "patient"), t: rt, w: w, u: u,
			most: most, busy: make([][]use, loops), dialling: make([][]*Member,
				loops), queued: make([][]*waiting, loops)}
		rt.Repeat(map[string]func(*rapid.T){
			"":        m.check,
			"request": func(rt *rapid.T) { m.request(rt, m.loop(rt)) },
			"finish":  func(rt *rapid.T) { m.finish(m.loop(rt), rapid.Bool().Draw(rt, "keep")) },
			"dialled": func(rt *rapid.T) { m.dialled(m.loop(rt), rapid.Bool().Draw(rt, "works")) },
			"posts":   func(rt *rapid.T) { w.run(m.loop(rt)) },
			"leave":   func(rt *rapid.T) { m.leave(m.loop(rt)) },
			"sweep":   func(rt *rapid.T) { m.sweep(m.loop(rt)) },
			"later":   func(rt *rapid.T) { w.now += int64(rapid.IntRange(1, 2000).Draw(rt, "ms")) * 1e6 },
			"drain": func(rt *rapid.T) {
				if !drains {
					return
				}
				m.drained = true
				a := addresses(targets)[rapid.IntRange(0, targets-1).Draw(rt, "target")]
				if rapid.Bool().Draw(rt, "out") {
					_ = u.Drain(a)
				} else {
					_ = u.Restore(a)
				}
			},
			"break": func(rt *rapid.T) {
				for c := range w.alive {
					if c.loop < 0 {
						c.dead = true
					}
				}
			},
		})
		m.end(targets)
	})
}

type use struct {
	m *Member
	c *fakeConn
}

type model struct {
	t        *rapid.T
	w        *world
	u        *Upstream
	most     int
	slots    int
	patient  bool // no request's patience ends
	drained  bool
	busy     [][]use
	dialling [][]*Member
	queued   [][]*waiting
}

func (m *model) loop(rt *rapid.T) int {
	return rapid.IntRange(0, len(m.busy)-1).Draw(rt, "loop")
}

func (m *model) request(rt *rapid.T, loop int) {
	l := m.u.Local(loop)
	member, why := l.Pick(m.w.now, 0, nil)
	if member == nil {
		if why != AllOut {
			m.t.Fatalf("no target: %v", why)
		}
		return
	}
	if c, ok := member.Get(m.w.now); ok {
		m.use(loop, member, c)
		return
	}
	if member.Open(m.w.now) {
		m.dialling[loop] = append(m.dialling[loop], member)
		return
	}
	q := newWaiting()
	q.Client = rapid.Uint64Range(0, 3).Draw(rt, "client")
	q.Class = rapid.Uint8Range(0, 2).Draw(rt, "class")
	if !m.patient {
		q.Patience = 1e9
	}
	inWait := true
	q.then = func(_ int64, got *Member, c Conn) {
		if inWait {
			m.t.Fatal("served from within Wait")
		}
		m.queued[loop] = slices.DeleteFunc(m.queued[loop], func(o *waiting) bool { return o == q })
		for _, other := range m.queued[loop] {
			if other.refused == None && other.Class < q.Class {
				m.t.Fatalf("a request of class %d was served before one of class %d", q.Class, other.Class)
			}
		}
		if c == nil {
			m.dialling[loop] = append(m.dialling[loop], got)
		} else {
			m.use(loop, got, c)
		}
	}
	if why := l.Wait(&q.Waiter, m.w.now); why != None {
		m.t.Fatalf("may not wait: %v", why)
	}
	inWait = false
	m.queued[loop] = append(m.queued[loop], q)
}

func (m *model) use(loop int, member *Member, c Conn) {
	f := c.(*fakeConn)
	if f.loop != loop || f.over {
		m.t.Fatalf("loop %d got connection %d of loop %d, ended %v", loop, f.id, f.loop, f.over)
	}
	m.busy[loop] = append(m.busy[loop], use{member, f})
}

func (m *model) finish(loop int, keep bool) {
	if len(m.busy[loop]) == 0 {
		return
	}
	b := m.busy[loop][0]
	m.busy[loop] = m.busy[loop][1:]
	if keep {
		b.m.Put(b.c, m.w.now)
	} else {
		b.c.finish()
		b.m.Closed(m.w.now)
	}
}

func (m *model) dialled(loop int, works bool) {
	if len(m.dialling[loop]) == 0 {
		return
	}
	member := m.dialling[loop][0]
	m.dialling[loop] = m.dialling[loop][1:]
	if works {
		m.use(loop, member, m.w.dial(loop))
	} else {
		member.Closed(m.w.now)
	}
}

// sweep closes nothing that has come to lie between the loops because requests wait for it.
func (m *model) sweep(loop int) {
	var wanted []*fakeConn
	if m.waits() && !m.drained && m.u.options.IdleTimeout == time.Hour {
		for c := range m.w.alive {
			if c.loop < 0 && !c.dead {
				wanted = append(wanted, c)
			}
		}
	}
	m.u.Local(loop).Sweep(m.w.now)
	for _, c := range wanted {
		if c.over && m.waits() {
			m.t.Fatalf("a sweep closed connection %d, for which requests wait", c.id)
		}
	}
}

// waits reports whether a request waits on any loop.
func (m *model) waits() bool {
	return slices.ContainsFunc(m.queued, func(q []*waiting) bool {
		return slices.ContainsFunc(q, func(q *waiting) bool { return q.refused == None })
	})
}

func (m *model) leave(loop int) {
	if len(m.queued[loop]) > 0 {
		q := m.queued[loop][0]
		m.queued[loop] = m.queued[loop][1:]
		if !q.Remove() {
			m.t.Fatal("a request that waits was not in the queue")
		}
	}
}

func (m *model) check(rt *rapid.T) {
	open, dialling := 0, 0
	for _, t := range m.u.set.Load().targets {
		n := int(t.open.Load())
		if n < 0 || n > m.most {
			rt.Fatalf("%d connections to a target, at most %d are allowed", n, m.most)
		}
		open += n
	}
	loops := 0
	for i := range m.queued {
		m.queued[i] = slices.DeleteFunc(m.queued[i], func(q *waiting) bool { return q.refused != None })
		if n := m.u.Local(i).waiters.n; n != len(m.queued[i]) {
			rt.Fatalf("loop %d has %d in its queue, want %d", i, n, len(m.queued[i]))
		}
		if len(m.queued[i]) > 0 {
			loops++
		}
		dialling += len(m.dialling[i])
	}
	if n := int(m.u.queues.waiting.Load()); n != loops {
		rt.Fatalf("%d loops are said to wait, %d do", n, loops)
	}
	taken := 0
	for _, t := range m.u.set.Load().targets {
		if t.slots == nil {
			continue
		}
		n := int(t.slots.taken.Load())
		if taken += n; n > m.slots {
			rt.Fatalf("%d slots of %d are taken", n, m.slots)
		}
	}
	inUse := dialling
	for i := range m.busy {
		inUse += len(m.busy[i])
	}
	if m.slots > 0 && taken != inUse {
		rt.Fatalf("%d slots are taken, and %d connections in use", taken, inUse)
	}
	if b := m.u.bound; b != nil {
		if n, most := int(b.taken.Load()), m.u.options.MaxConcurrency; n != inUse || n > most {
			rt.Fatalf("%d places of %d are taken, and %d connections in use", n, most, inUse)
		}
	}
	if open != len(m.w.alive)+dialling {
		rt.Fatalf("%d connections are counted, %d are alive and %d dialled", open, len(m.w.alive), dialling)
	}
}

// end lets everything come to its end without another sweep: a request that still waits was
// forgotten.
func (m *model) end(targets int) {
	if m.drained {
		// Only the sweep sees targets that are back.
		for _, a := range addresses(targets) {
			_ = m.u.Restore(a)
		}
		for i := range m.busy {
			m.u.Local(i).Sweep(m.w.now)
		}
	}
	for range 10000 {
		busy := false
		m.w.settle()
		for i := range m.busy {
			if len(m.busy[i]) > 0 || len(m.dialling[i]) > 0 {
				busy = true
				m.dialled(i, true)
				m.finish(i, true)
			}
		}
		if !busy {
			break
		}
	}
	m.w.settle()
	m.check(m.t)
	for i := range m.queued {
		if n := len(m.queued[i]); n > 0 {
			m.t.Fatalf("%d requests of loop %d wait for ever", n, i)
		}
		m.u.Local(i).Close(m.w.now)
	}
	m.u.Close()
	if len(m.w.alive) != 0 {
		m.t.Fatalf("%d connections were left open", len(m.w.alive))
	}
}
