package upstream

import (
	"testing"
	"time"

	"plimsoll/internal/concurrency"
)

// A deadline cannot be kept that leaves less than the quickest of many recent answers took. Nothing is
// known before there were many, and nothing is kept when there are none any more.
func TestTheQuickestAnswerIsKnownWhileThereAreManyAnswers(t *testing.T) {
	w := newWorld(t, 1)
	o := weighted(RoundRobin, 1, 1)
	o.Concurrency = &concurrency.Options{}
	l := w.upstream(o).Local(0)
	conns := make(map[*Member]Conn)
	answers := func(n int, took func(target int) time.Duration) {
		t.Helper()
		for range n {
			m := mustPick(t, l, w.now, 0)
			if conns[m] == nil {
				conns[m] = open(t, w, m)
			} else if _, ok := m.Get(w.now); !ok {
				t.Fatal("no connection")
			}
			m.Begin(w.now)
			w.now += 25 * int64(time.Millisecond)
			m.End(w.now, Success, int64(took(index(l, m))))
			m.Put(conns[m], w.now)
		}
	}
	expect := func(what string, want time.Duration) {
		t.Helper()
		if got := time.Duration(l.Quickest(w.now)); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	each := func(a, b time.Duration) func(int) time.Duration {
		n := 0
		return func(target int) time.Duration {
			n++
			return []time.Duration{a, b}[target] + time.Duration(n%7)*time.Millisecond
		}
	}
	slow := each(50*time.Millisecond, 80*time.Millisecond)
	answers(190, slow)
	expect("before the first period is over", 0)
	answers(30, slow)
	expect("the quicker of two targets", 50*time.Millisecond)
	answers(10, each(2*time.Millisecond, 80*time.Millisecond))
	expect("it has become quicker", 2*time.Millisecond)
	answers(600, slow)
	expect("that is forgotten", 50*time.Millisecond)
	// What cannot be answered is refused, but for one request a second, whose answer may show otherwise.
	refused := 0
	for range 30 {
		if l.CannotAnswer(w.now, int64(20*time.Millisecond)) {
			refused++
		}
		w.now += int64(100 * time.Millisecond)
	}
	if refused != 27 || l.CannotAnswer(w.now, int64(60*time.Millisecond)) {
		t.Errorf("%d of 30 short deadlines in 3 s were refused, want 27, and no longer one", refused)
	}
	w.now += 11 * second
	expect("nothing has been answered for long", 0)
	answers(50, slow)
	expect("few answers", 0)
	for m := range conns {
		m.Get(w.now)
		m.Closed(w.now)
	}
}
