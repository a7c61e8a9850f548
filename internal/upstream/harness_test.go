package upstream

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const second = int64(time.Second)

// world is a clock, and loops whose posted functions run when the test says so.
type world struct {
	t      testing.TB
	now    int64
	posted [][]func()
	log    *slog.Logger
	next   int
	alive  map[*fakeConn]bool
}

func newWorld(t testing.TB, loops int) *world {
	return &world{t: t, now: 1000 * second, posted: make([][]func(), loops), alive: make(map[*fakeConn]bool)}
}

func (w *world) env() Env {
	return Env{
		Loops: len(w.posted),
		Post:  func(loop int, f func()) { w.posted[loop] = append(w.posted[loop], f) },
		Now:   func() int64 { return w.now },
		Log:   w.log,
		Seed:  42,
	}
}

func (w *world) upstream(o Options) *Upstream {
	w.t.Helper()
	u, err := New("users", o, w.env())
	if err != nil {
		w.t.Fatal(err)
	}
	u.settled = true
	w.t.Cleanup(u.Close)
	return u
}

// run runs what was posted to a loop, and reports whether there was anything.
func (w *world) run(loop int) bool {
	fs := w.posted[loop]
	w.posted[loop] = nil
	for _, f := range fs {
		f()
	}
	return len(fs) > 0
}

// settle runs what was posted until there is nothing more.
func (w *world) settle() {
	for range 1000 {
		more := false
		for i := range w.posted {
			more = w.run(i) || more
		}
		if !more {
			return
		}
	}
	w.t.Fatal("loops post to each other for ever")
}

// fakeConn is a connection that knows where it is, and fails the test when it is used elsewhere.
type fakeConn struct {
	w     *world
	id    int
	loop  int // -1 while parked
	dead  bool
	stays bool // cannot be detached
	over  bool
}

func (w *world) dial(loop int) *fakeConn {
	w.next++
	c := &fakeConn{w: w, id: w.next, loop: loop}
	w.alive[c] = true
	return c
}

func (c *fakeConn) finish() {
	if c.over {
		c.w.t.Fatalf("connection %d was closed twice", c.id)
	}
	c.over = true
	delete(c.w.alive, c)
}

func (c *fakeConn) Retire() {
	if c.loop < 0 {
		c.w.t.Fatalf("connection %d was retired while parked", c.id)
	}
	c.finish()
}

func (c *fakeConn) Detach() (Parked, bool) {
	if c.stays {
		return nil, false
	}
	if c.loop < 0 || c.over {
		c.w.t.Fatalf("connection %d was detached twice, or after its end", c.id)
	}
	c.loop = -1
	return c, true
}

func (c *fakeConn) Attach(loop int) (Conn, bool) {
	if c.loop >= 0 || c.over {
		c.w.t.Fatalf("connection %d was attached while on a loop, or after its end", c.id)
	}
	if c.dead {
		c.finish()
		return nil, false
	}
	c.loop = loop
	return c, true
}

func (c *fakeConn) Discard() {
	if c.loop >= 0 {
		c.w.t.Fatalf("connection %d was discarded while on a loop", c.id)
	}
	c.finish()
}

// addresses are n loopback addresses.
func addresses(n int) []string {
	var a []string
	for i := range n {
		a = append(a, fmt.Sprintf("127.0.%d.%d:80", i/250, i%250+1))
	}
	return a
}

// weighted are options for targets of these weights.
func weighted(p Policy, weights ...int) Options {
	o := DefaultOptions(addresses(len(weights))...)
	o.Policy = p
	for i, w := range weights {
		o.Targets[i].Weight = w
	}
	return o
}

// index says which target a member is.
func index(l *Local, m *Member) int {
	for i := range l.members {
		if l.members[i] == m {
			return i
		}
	}
	return -1
}

func mustPick(t testing.TB, l *Local, now int64, key uint64, tried ...*Member) *Member {
	t.Helper()
	m, why := l.Pick(now, key, tried)
	if m == nil {
		t.Fatalf("Pick found nothing: %v", why)
	}
	return m
}

// waiting is a request that waits for a connection.
type waiting struct {
	Waiter
	member  *Member
	conn    Conn
	ready   int
	refused Unavailable
	then    func(now int64, m *Member, c Conn)
	gone    func() // when it is refused
}

func newWaiting() *waiting {
	w := &waiting{}
	w.Owner = w
	return w
}

// waitFor has n requests of a loop wait.
func waitFor(l *Local, now int64, n int) (all []*waiting) {
	for range n {
		q := newWaiting()
		all = append(all, q)
		l.Wait(&q.Waiter, now)
	}
	return all
}

func (w *waiting) Ready(now int64, m *Member, c Conn) {
	w.ready++
	w.member, w.conn = m, c
	if w.then != nil {
		w.then(now, m, c)
	}
}

func (w *waiting) Refused(_ int64, why Unavailable) {
	w.refused = why
	if w.gone != nil {
		w.gone()
	}
}

// open opens a connection on a loop; the test fails when it may not.
func open(t testing.TB, w *world, m *Member) *fakeConn {
	t.Helper()
	if !m.Open(w.now) {
		t.Fatal("no permission to open a connection")
	}
	return w.dial(m.local.loop)
}
