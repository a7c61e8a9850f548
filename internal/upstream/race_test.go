package upstream

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// realLoop is a goroutine that behaves as an event loop: what is posted to it runs on it, and it
// sleeps when it has nothing to do.
type realLoop struct {
	mu     sync.Mutex
	posted []func()
	bell   chan struct{}
}

func (r *realLoop) post(f func()) {
	r.mu.Lock()
	r.posted = append(r.posted, f)
	r.mu.Unlock()
	select {
	case r.bell <- struct{}{}:
	default:
	}
}

func (r *realLoop) runPosted() {
	r.mu.Lock()
	fs := r.posted
	r.posted = nil
	r.mu.Unlock()
	for _, f := range fs {
		f()
	}
}

// raceConn counts itself, and finds out when two loops have it.
type raceConn struct {
	open *atomic.Int64
	loop int // a data race on this is what the test is for
	over atomic.Bool
	t    *testing.T
}

func (c *raceConn) end() {
	if c.over.Swap(true) {
		c.t.Error("a connection was closed twice")
	}
	c.open.Add(-1)
}

func (c *raceConn) Retire()                      { c.loop = -2; c.end() }
func (c *raceConn) Detach() (Parked, bool)       { c.loop = -1; return c, true }
func (c *raceConn) Attach(loop int) (Conn, bool) { c.loop = loop; return c, true }
func (c *raceConn) Discard()                     { c.end() }

// traffic sends requests over one loop until all have been served, and finishes them in random
// order.
type traffic struct {
	t    *testing.T
	l    *Local
	loop *realLoop
	now  func() int64
	busy []struct {
		m *Member
		c *raceConn
	}
	open, inUse     *atomic.Int64 // connections, and those of them that carry a request
	bound           int64         // of the latter; 0 for none
	left, under     int
	served, waiting int
}

func (tr *traffic) start(m *Member, c Conn) {
	if n := tr.inUse.Add(1); tr.bound > 0 && n > tr.bound {
		tr.t.Errorf("%d requests are at the upstream, of at most %d", n, tr.bound)
	}
	if c == nil {
		tr.open.Add(1)
		c = &raceConn{open: tr.open, loop: tr.l.loop, t: tr.t}
	}
	rc := c.(*raceConn)
	if rc.loop != tr.l.loop {
		tr.t.Errorf("loop %d got a connection of loop %d", tr.l.loop, rc.loop)
	}
	m.Begin(tr.now())
	tr.busy = append(tr.busy, struct {
		m *Member
		c *raceConn
	}{m, rc})
}

func (tr *traffic) request() {
	tr.left--
	tr.under++
	now := tr.now()
	m, why := tr.l.Pick(now, 0, nil)
	if m == nil {
		tr.t.Errorf("no target: %v", why)
		return
	}
	if c, ok := m.Get(now); ok {
		tr.start(m, c)
	} else if m.Open(now) {
		tr.start(m, nil)
	} else {
		q := newWaiting()
		q.then = func(_ int64, m *Member, c Conn) { tr.waiting--; tr.start(m, c) }
		tr.waiting++
		if why := tr.l.Wait(&q.Waiter, now); why != None {
			tr.t.Errorf("may not wait: %v", why)
		}
	}
}

func (tr *traffic) finish() {
	i := tr.l.rng.below(len(tr.busy))
	b := tr.busy[i]
	tr.busy[i] = tr.busy[len(tr.busy)-1]
	tr.busy = tr.busy[:len(tr.busy)-1]
	tr.under--
	tr.served++
	now := tr.now()
	b.m.End(now, Success, 1000)
	tr.inUse.Add(-1)
	if tr.l.rng.below(4) == 0 {
		b.c.end()
		b.m.Closed(now)
	} else {
		b.m.Put(b.c, now)
	}
}

func (tr *traffic) run(n int) {
	tr.left = n
	for tr.left > 0 || tr.under > 0 {
		tr.loop.runPosted()
		for range 3 {
			if tr.left > 0 && tr.under < 16 {
				tr.request()
			}
		}
		if len(tr.busy) > 0 {
			tr.finish()
		} else if tr.waiting > 0 {
			select {
			case <-tr.loop.bell:
			case <-time.After(time.Minute):
				tr.t.Error("requests wait for ever")
				return
			}
		}
	}
}

func TestLoopsAtOnceShareAFewConnections(t *testing.T) { share(t, 3, 0, 3000, true) }

// Nobody sweeps here, so a wake-up that is lost stays lost.
func TestNoWakeUpIsLostBetweenLoops(t *testing.T) {
	for most := 1; most <= 3; most++ {
		share(t, most, 0, 3000, false)
	}
}

// The bound on all targets together holds, and whose place is free is found, too.
func TestLoopsAtOnceShareABound(t *testing.T) {
	for bound := 1; bound <= 3; bound++ {
		share(t, 8, bound, 3000, false)
	}
	share(t, 8, 3, 3000, true)
}

// share sends requests over four loops to one target or more, with few connections or a bound on the
// requests at all of them, and with changes to the targets when asked.
func share(t *testing.T, most, bound, each int, changes bool) {
	const loops = 4
	real := make([]*realLoop, loops)
	for i := range real {
		real[i] = &realLoop{bell: make(chan struct{}, 1)}
	}
	began := time.Now()
	now := func() int64 { return int64(time.Since(began)) }
	o := DefaultOptions("users.internal:80", "127.0.0.9:80")
	o.MaxConnections, o.MaxConcurrency, o.PendingTimeout = most, bound, time.Hour
	if !changes {
		o.Targets = o.Targets[1:]
	}
	u, err := New("users", o, Env{Loops: loops, Post: func(i int, f func()) { real[i].post(f) }, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	if changes {
		u.resolved(0, 0, []netip.Addr{a}, nil)
	}

	var open, inUse, finished atomic.Int64
	var wg sync.WaitGroup
	all := make([]*traffic, loops)
	stop := make(chan struct{})
	for i := range loops {
		all[i] = &traffic{t: t, l: u.Local(i), loop: real[i], now: now, open: &open,
			inUse: &inUse, bound: int64(bound)}
		wg.Go(func() {
			all[i].run(each)
			if finished.Add(1) == loops {
				close(stop)
			}
			// A loop without requests of its own still answers: others may want its idle
			// connections.
			for {
				real[i].runPosted()
				select {
				case <-real[i].bell:
				case <-stop:
					all[i].l.Close(now())
					return
				}
			}
		})
	}
	if changes {
		wg.Go(func() { churn(u, real, a, b, stop) })
	}
	wg.Wait()
	u.Close()
	waits := uint64(0)
	for i, tr := range all {
		waits += tr.l.waits
		if tr.served != each {
			t.Errorf("loop %d served %d of %d", i, tr.served, each)
		}
	}
	if waits == 0 {
		t.Error("no request had to wait: the test shows nothing")
	}
	// A connection that was parked after the loops' end, or posted to one, would show here.
	if n := open.Load(); n != 0 {
		t.Errorf("%d connections were left open", n)
	}
	if u.bound != nil && u.bound.taken.Load() != 0 {
		t.Errorf("%d places were left taken", u.bound.taken.Load())
	}
}

// churn changes the set of targets and their states while there is traffic, and lets the loops
// sweep after each change.
func churn(u *Upstream, loops []*realLoop, a, b netip.Addr, stop chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		switch n % 4 {
		case 0:
			u.resolved(0, int64(n), []netip.Addr{a, b}, nil)
		case 1:
			_ = u.Drain("127.0.0.9:80")
		case 2:
			u.resolved(0, int64(n), []netip.Addr{b}, nil)
		case 3:
			_ = u.Restore("127.0.0.9:80")
		}
		u.Status()
		swept := make(chan struct{}, len(loops))
		for i, l := range loops {
			l.post(func() {
				u.Local(i).Sweep(u.env.Now())
				swept <- struct{}{}
			})
		}
		for range loops {
			select {
			case <-swept:
			case <-stop:
				return
			}
		}
	}
}
