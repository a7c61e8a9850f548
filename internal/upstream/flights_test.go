package upstream

import "testing"

func TestFlightsSayWhomTriesMetAndAreHandedOverOnce(t *testing.T) {
	w := newWorld(t, 1)
	l := w.upstream(weighted(P2C, 1, 1)).Local(0)
	first, second := mustPick(t, l, w.now, 0), (*Member)(nil)
	for _, m := range l.members {
		if m != first {
			second = m
		}
	}
	a, b := first.Sent(), first.Sent()
	c := second.Sent()
	if a != 0 || b != 1 || c != 0 {
		t.Fatalf("the tries found %d, %d and, elsewhere, %d others", a, b, c)
	}
	first.Answered(b, Success, 3000)
	first.Answered(a, Success, 5000)
	second.Answered(c, Timeout, -1)
	for _, o := range []Outcome{Cancelled, Success} { // neither says how long the target takes
		first.Answered(first.Sent(), o, -1)
	}

	spare := []*Flights{new(Flights), new(Flights), new(Flights)}
	taken, spare, next := l.TakeFlights(nil, spare, 0, 1)
	for next != 0 {
		taken, spare, next = l.TakeFlights(taken, spare, next, 1)
	}
	if len(taken) != 2 || len(spare) != 1 {
		t.Fatalf("%d targets, %d records left", len(taken), len(spare))
	}
	for _, f := range taken {
		switch f.Address {
		case first.target.addr.String():
			if f.Found[0] != (Met{1, 5000, 25e6}) || f.Found[1] != (Met{1, 3000, 9e6}) ||
				f.Times.Count() != 2 || f.Failed != 0 {
				t.Errorf("%+v %d %d", f.Found[:3], f.Times.Count(), f.Failed)
			}
		default:
			if f.Failed != 1 || f.Times.Count() != 0 {
				t.Errorf("%d failed, %d answered", f.Failed, f.Times.Count())
			}
		}
	}
	if again, _, _ := l.TakeFlights(nil, nil, 0, 64); len(again) != 0 {
		t.Errorf("what was handed over comes again: %d targets", len(again))
	}
}

func TestATryThatFoundMoreThanThereIsRoomForIsCounted(t *testing.T) {
	w := newWorld(t, 1)
	l := w.upstream(weighted(Random, 1)).Local(0)
	m := mustPick(t, l, w.now, 0)
	var found []int
	for range MostFound + 10 {
		found = append(found, m.Sent())
	}
	for _, n := range found {
		m.Answered(n, Success, 1000)
	}
	if n := m.flights.Found[MostFound].Count; n != 10 || m.flying != 0 {
		t.Errorf("%d found as many as are counted separately; %d still fly", n, m.flying)
	}
}

func TestOnlyTheFirstTargetsAreNoted(t *testing.T) {
	w := newWorld(t, 1)
	weights := make([]int, measured+5)
	for i := range weights {
		weights[i] = 1
	}
	l := w.upstream(weighted(RoundRobin, weights...)).Local(0)
	for range 3 * len(weights) {
		m := mustPick(t, l, w.now, 0)
		m.Answered(m.Sent(), Success, 1000)
	}
	taken, _, _ := l.TakeFlights(nil, nil, 0, 1000)
	if len(taken) != measured {
		t.Errorf("%d targets were noted, not %d", len(taken), measured)
	}
}

func BenchmarkFlight(b *testing.B) {
	w := newWorld(b, 1)
	l := w.upstream(weighted(Random, 1)).Local(0)
	m := mustPick(b, l, w.now, 0)
	b.ReportAllocs()
	for b.Loop() {
		m.Answered(m.Sent(), Success, 150_000)
	}
}
