package upstream

import (
	"testing"
	"time"

	"plimsoll/internal/concurrency"
)

// counter is a target with one place, and requests that wait for it.
type counter struct {
	*world
	u *Upstream
	m *Member
	c Conn
}

func newCounter(t *testing.T) *counter {
	w, u := single(t, 1, func(o *Options) {
		o.Concurrency = &concurrency.Options{Initial: 1, Min: 1, Max: 1}
	})
	m := mustPick(t, u.Local(0), w.now, 0)
	return &counter{w, u, m, open(t, w, m)}
}

// wait has a request of a client wait, and says whether it may.
func (s *counter) wait(client uint64, class uint8, patience time.Duration) (*waiting, Unavailable) {
	q := newWaiting()
	q.Client, q.Class, q.Patience = client, class, int64(patience)
	q.then = func(_ int64, m *Member, c Conn) {
		if s.m, s.c = m, c; c == nil {
			s.c = s.dial(0)
		}
	}
	return q, s.u.Local(0).Wait(&q.Waiter, s.now)
}

// serve ends what is at the target, so that the next that waits goes there.
func (s *counter) serve() { s.m.Put(s.c, s.now) }

func (s *counter) end() {
	s.u.Local(0).Close(s.now)
	s.serve()
}

// fill has so many of a client wait.
func (s *counter) fill(n int, class uint8, patience time.Duration) (refused int) {
	for range n {
		if _, why := s.wait(1, class, patience); why == Overloaded {
			refused++
		}
	}
	return refused
}

const patient = 10 * time.Second

// One is served every 100 ms, so 100 are within the patience of ten seconds. The estimate has a margin.
func TestWhoWouldWaitForLongerThanItsPatienceIsRefusedAtOnce(t *testing.T) {
	s := newCounter(t)
	defer s.end()
	if n := s.fill(200, 1, patient); n > 0 {
		t.Fatalf("%d are refused while nothing is known", n)
	}
	refused := false
	for n := 1; !refused; n++ {
		s.now += second / 10
		s.serve()
		_, why := s.wait(1, 1, patient)
		if refused = why == Overloaded; refused != (n == 51) {
			t.Fatalf("after %d were served in %v: %v, want the first to be refused after half of the patience",
				n, time.Duration(s.now-1000*second), why)
		}
	}
	if _, why := s.wait(1, 1, 4*patient); why != None {
		t.Errorf("one with time enough: %v", why)
	}
	if _, why := s.wait(1, 0, patient); why != None {
		t.Errorf("of a class that goes ahead of those that wait: %v", why)
	}
	if _, why := s.wait(1, 2, patient); why != None {
		t.Errorf("of a class in which nobody waits: %v", why)
	}
	var load Load
	if s.u.Local(0).AddLoad(&load, 0, 10); load.Hopeless == 0 || load.Hopeless > load.Refused {
		t.Errorf("counted as refused at once %d, as refused %d", load.Hopeless, load.Refused)
	}
}

// As many wait as are served within the patience, at a rate that varies by the half.
func TestNobodyIsRefusedWhoWouldBeServed(t *testing.T) {
	s := newCounter(t)
	defer s.end()
	s.fill(100, 1, patient)
	for i := range 1000 {
		s.now += second / 20
		if i%40 >= 20 {
			s.now += second / 10
		}
		s.serve()
		if _, why := s.wait(uint64(i), 1, patient); why != None {
			t.Fatalf("request %d: %v", i, why)
		}
	}
}

// A class that gets nothing keeps a few that wait, and when it is served again so is everybody.
func TestAClassThatGetsNothingIsServedAsSoonAsThereIsRoom(t *testing.T) {
	s := newCounter(t)
	defer s.end()
	for range 200 {
		s.now += second / 20
		s.wait(1, 0, patient)
		s.wait(2, 3, patient)
		s.serve()
	}
	if _, why := s.wait(2, 3, patient); why != Overloaded {
		t.Fatalf("while P0 takes everything: %v", why)
	}
	for s.u.Waiting() > 0 {
		s.now += second / 100
		s.serve()
	}
	if n := s.fill(100, 3, patient); n > 0 {
		t.Errorf("%d are refused after everybody was served", n)
	}
}

// A client with many requests makes others neither wait longer nor be refused.
func TestWhoHasManyThatWaitIsTheOneThatIsRefused(t *testing.T) {
	s := newCounter(t)
	defer s.end()
	for range 120 {
		s.now += second / 20
		s.wait(1, 1, patient)
	}
	if _, why := s.wait(1, 1, patient); why != Overloaded {
		t.Fatalf("the client with many: %v", why)
	}
	before := s.u.Waiting()
	if _, why := s.wait(2, 1, patient); why != None || s.u.Waiting() != before {
		t.Errorf("another client: %v, and %d wait where %d did: want it in the place of one of the many", why, s.u.Waiting(), before)
	}
}

// A flood of one client on a loop has nobody refused who comes to another, where few wait.
func TestAFloodOnOneLoopIsNotPaidForOnAnother(t *testing.T) {
	w, u := single(t, 2, func(o *Options) {
		o.Concurrency = &concurrency.Options{Initial: 1, Min: 1, Max: 1}
	})
	m := mustPick(t, u.Local(0), w.now, 0)
	c := open(t, w, m)
	flood, few := u.Local(0), u.Local(1)
	come := func(l *Local, client uint64) Unavailable {
		q := newWaiting()
		q.Client, q.Class, q.Patience = client, 1, int64(patient)
		return l.Wait(&q.Waiter, w.now)
	}
	refused := 0
	for range 200 {
		w.now += second / 20
		if come(flood, 1) == Overloaded {
			refused++
		}
	}
	if refused == 0 {
		t.Fatal("nobody of the flood was refused: nothing was tested")
	}
	for client := range uint64(paceFew - 1) {
		if why := come(few, 2+client); why != None {
			t.Fatalf("the %d. client on the other loop: %v", client+1, why)
		}
	}
	flood.Close(w.now)
	few.Close(w.now)
	m.Put(c, w.now)
}

// What is freed is given on at once, and nobody looks for a slot and finds none. The limit binds.
func TestALimitBindsWhileSomebodyWaits(t *testing.T) {
	s := newCounter(t)
	defer s.end()
	slots := s.m.slot.slots
	s.fill(50, 1, patient)
	s.settle()
	slots.limited.Store(false)
	s.serve()
	if !slots.limited.Load() {
		t.Error("the law is told that nobody found the limit reached, and 49 wait")
	}
}

// The refusal of the oldest does not end the overload: those that are left have nearly waited as long.
func TestTheNewestGoesFirstUntilNobodyIsLateForAWhile(t *testing.T) {
	s := newCounter(t)
	join := func(after time.Duration) *waiting {
		s.now += int64(after)
		q, why := s.wait(1, 0, time.Second)
		if why != None {
			t.Fatal(why)
		}
		return q
	}
	oldest, older, newer := join(0), join(300*time.Millisecond), join(300*time.Millisecond)
	if oldest.refused != Overloaded {
		t.Fatal("who has waited for half of its patience stays when another comes")
	}
	if s.serve(); newer.ready != 1 || older.ready != 0 {
		t.Errorf("older and newer were served %d and %d times, want the newer alone", older.ready, newer.ready)
	}
	older.Remove()
	older, newer = join(1100*time.Millisecond), join(0)
	if s.serve(); older.ready != 1 || newer.ready != 0 {
		t.Errorf("later older and newer were served %d and %d times, want the older alone", older.ready, newer.ready)
	}
	newer.Remove()
	s.end()
}
