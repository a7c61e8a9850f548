//go:build !race

package upstream

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// shares picks n times at one moment, each request ending before the next, and returns each
// target's part.
func shares(t *testing.T, l *Local, now int64, n int) []float64 {
	t.Helper()
	got := make([]float64, len(l.u.set.Load().targets))
	for i := range n {
		m := mustPick(t, l, now, mix(uint64(i)+1))
		got[index(l, m)] += 1 / float64(n)
		m.Begin(now)
		m.End(now, Success, int64(time.Millisecond))
	}
	return got
}

func near(got, want []float64, within float64) bool {
	for i := range want {
		if math.Abs(got[i]-want[i]) > within {
			return false
		}
	}
	return len(got) == len(want)
}

func TestEveryBalancerKeepsToTheWeightsOfEqualTargets(t *testing.T) {
	for _, p := range []Policy{P2C, RoundRobin, LeastRequests, Random, Hash} {
		t.Run(string(p), func(t *testing.T) {
			w := newWorld(t, 1)
			l := w.upstream(weighted(p, 1, 2, 5, 0)).Local(0)
			want := []float64{1.0 / 8, 2.0 / 8, 5.0 / 8, 0}
			within := 0.01
			if p == Hash {
				within = 0.06
			}
			if p == P2C {
				// Two different draws of three: the heaviest is in most pairs, and a tie goes to
				// the first draw.
				within = 0.02
			}
			if got := shares(t, l, w.now, 40000); !near(got, want, within) {
				t.Errorf("shares are %.3f, want %.3f", got, want)
			}
		})
	}
}

func TestRoundRobinIsSmooth(t *testing.T) {
	w := newWorld(t, 1)
	l := w.upstream(weighted(RoundRobin, 5, 1, 1)).Local(0)
	var got strings.Builder
	for range 14 {
		got.WriteByte("abc"[index(l, mustPick(t, l, w.now, 0))])
	}
	if want := "aabacaaaabacaa"; got.String() != want {
		t.Errorf("the order is %s, want %s", got.String(), want)
	}
}

func TestRoundRobinKeepsItsPlaceWhenATargetLeaves(t *testing.T) {
	w := newWorld(t, 1)
	u := w.upstream(weighted(RoundRobin, 1, 1, 1))
	l := u.Local(0)
	mustPick(t, l, w.now, 0)
	if err := u.Drain(addresses(3)[2]); err != nil {
		t.Fatal(err)
	}
	if got := index(l, mustPick(t, l, w.now, 0)); got != 1 {
		t.Errorf("the second pick is target %d, want 1", got)
	}
}

// simulate sends requests at an even rate to targets of given latencies and returns how many each
// got.
func simulate(t *testing.T, w *world, l *Local, latencies []time.Duration, gap time.Duration, n int) []int {
	t.Helper()
	type ending struct {
		at      int64
		m       *Member
		latency time.Duration
	}
	var under []ending
	got := make([]int, len(latencies))
	for range n {
		w.now += int64(gap)
		slices.SortFunc(under, func(a, b ending) int { return int(a.at - b.at) })
		for len(under) > 0 && under[0].at <= w.now {
			under[0].m.End(under[0].at, Success, int64(under[0].latency))
			under = under[1:]
		}
		m := mustPick(t, l, w.now, 0)
		i := index(l, m)
		got[i]++
		m.Begin(w.now)
		under = append(under, ending{w.now + int64(latencies[i]), m, latencies[i]})
	}
	return got
}

func TestP2CShunsASlowTarget(t *testing.T) {
	w := newWorld(t, 1)
	l := w.upstream(weighted(P2C, 1, 1, 1, 1)).Local(0)
	ms := time.Millisecond
	got := simulate(t, w, l, []time.Duration{5 * ms, 5 * ms, 5 * ms, 100 * ms}, ms, 20000)
	if got[3] > 20000/100 || got[3] == 0 {
		t.Errorf("the slow target got %d of 20000 requests, want some, and under 1%%: %v", got[3], got)
	}
	for _, n := range got[:3] {
		if n < 5500 || n > 7800 {
			t.Errorf("the quick targets do not share evenly: %v", got)
		}
	}
}

func TestP2CComesBackToATargetThatWasSlowOnce(t *testing.T) {
	w := newWorld(t, 1)
	l := w.upstream(weighted(P2C, 1, 1)).Local(0)
	ms := time.Millisecond
	simulate(t, w, l, []time.Duration{5 * ms, 500 * ms}, 10*ms, 100)
	got := simulate(t, w, l, []time.Duration{5 * ms, 5 * ms}, 10*ms, 60000)
	if got[1] < 6000 {
		t.Errorf("ten minutes after it recovered the target got %d of 60000", got[1])
	}
}

func TestATargetWithoutSamplesIsNotABlackHole(t *testing.T) {
	w := newWorld(t, 1)
	l := w.upstream(weighted(P2C, 1, 1)).Local(0)
	known := mustPick(t, l, w.now, 0)
	known.Begin(w.now)
	known.End(w.now, Success, int64(time.Millisecond))
	silent := 0
	for range 1000 {
		m := mustPick(t, l, w.now, 0)
		m.Begin(w.now)
		if m == known {
			m.End(w.now, Success, int64(time.Millisecond))
		} else {
			silent++
		}
	}
	if silent != 1 {
		t.Errorf("a target that never answers got %d requests, want 1", silent)
	}
}

func TestATargetThatFailsQuicklyDoesNotAttract(t *testing.T) {
	w := newWorld(t, 1)
	o := weighted(P2C, 1, 1)
	o.Passive.Disabled = true
	l := w.upstream(o).Local(0)
	bad := 0
	for range 2000 {
		w.now += int64(time.Millisecond)
		m := mustPick(t, l, w.now, 0)
		m.Begin(w.now)
		if index(l, m) == 1 {
			bad++
			m.End(w.now, Status5xx, 1000)
		} else {
			m.End(w.now, Success, 5e6)
		}
	}
	if bad > 20 {
		t.Errorf("the failing target got %d of 2000 requests", bad)
	}
}

func TestLeastRequestsTakesTheFewestForTheWeight(t *testing.T) {
	w := newWorld(t, 1)
	l := w.upstream(weighted(LeastRequests, 1, 3)).Local(0)
	for range 400 {
		mustPick(t, l, w.now, 0).Begin(w.now)
	}
	if a, b := l.members[0].Outstanding(), l.members[1].Outstanding(); a != 100 || b != 300 {
		t.Errorf("outstanding are %d and %d, want 100 and 300", a, b)
	}
}

func TestHashMovesOnlyTheKeysOfATargetThatIsDown(t *testing.T) {
	w := newWorld(t, 2)
	u := w.upstream(weighted(Hash, 1, 1, 1, 1, 1))
	const keys = 10000
	owner := func(l *Local, k int) int {
		return index(l, mustPick(t, l, w.now, HashKey(fmt.Appendf(nil, "user-%d", k))))
	}
	var before [keys]int
	for k := range keys {
		before[k] = owner(u.Local(0), k)
		if other := owner(u.Local(1), k); other != before[k] {
			t.Fatalf("key %d: loop 0 says target %d, loop 1 says %d", k, before[k], other)
		}
	}
	if err := u.Drain(addresses(5)[2]); err != nil {
		t.Fatal(err)
	}
	spread := make([]int, 5)
	for k := range keys {
		now := owner(u.Local(0), k)
		if before[k] != 2 && now != before[k] {
			t.Fatalf("key %d moved from %d to %d though its target stayed", k, before[k], now)
		}
		if before[k] == 2 {
			spread[now]++
		}
	}
	for i, n := range spread {
		if i != 2 && n < keys/5/4/3 {
			t.Errorf("the keys of the target that left do not spread: %v", spread)
		}
	}
	if err := u.Restore(addresses(5)[2]); err != nil {
		t.Fatal(err)
	}
	for k := range keys {
		if now := owner(u.Local(0), k); now != before[k] {
			t.Fatalf("key %d is at %d after its target came back, want %d", k, now, before[k])
		}
	}
}

func TestHashMovesAboutOneNthWhenATargetIsAdded(t *testing.T) {
	w := newWorld(t, 1)
	ten := w.upstream(weighted(Hash, slices.Repeat([]int{1}, 10)...)).Local(0)
	eleven := w.upstream(weighted(Hash, slices.Repeat([]int{1}, 11)...)).Local(0)
	const keys = 20000
	moved := 0
	for k := range keys {
		key := mix(uint64(k) + 1)
		a, b := index(ten, mustPick(t, ten, w.now, key)), index(eleven, mustPick(t, eleven, w.now, key))
		if a != b {
			moved++
			if b != 10 {
				t.Fatalf("a key moved from %d to %d, and not to the new target", a, b)
			}
		}
	}
	if part := float64(moved) / keys; part < 0.06 || part > 0.12 {
		t.Errorf("%.3f of the keys moved, want about 1/11", part)
	}
}

func TestARetryMeetsAnotherTarget(t *testing.T) {
	for _, p := range []Policy{P2C, RoundRobin, LeastRequests, Random, Hash} {
		t.Run(string(p), func(t *testing.T) {
			w := newWorld(t, 1)
			l := w.upstream(weighted(p, 1000, 1, 1)).Local(0)
			for i := range 200 {
				var tried []*Member
				for range 3 {
					m := mustPick(t, l, w.now, mix(uint64(i)+1), tried...)
					if slices.Contains(tried, m) {
						t.Fatalf("try %d met target %d again", len(tried), index(l, m))
					}
					tried = append(tried, m)
				}
				mustPick(t, l, w.now, mix(uint64(i)+1), tried...)
			}
		})
	}
}

func TestSlowStartRampsATargetThatIsBack(t *testing.T) {
	for _, p := range []Policy{RoundRobin, Random, LeastRequests, Hash} {
		t.Run(string(p), func(t *testing.T) {
			w := newWorld(t, 1)
			o := weighted(p, 1, 1)
			o.SlowStart = 100 * time.Second
			u := w.upstream(o)
			l := u.Local(0)
			full := shares(t, l, w.now, 20000)[1]
			if math.Abs(full-0.5) > 0.05 {
				t.Fatalf("at the start its share is %.3f, want a half at once", full)
			}
			back := addresses(2)[1]
			if err := u.Drain(back); err != nil {
				t.Fatal(err)
			}
			if got := shares(t, l, w.now, 1000)[1]; got != 0 {
				t.Fatalf("drained, its share is %.3f", got)
			}
			if err := u.Restore(back); err != nil {
				t.Fatal(err)
			}
			for _, step := range []struct {
				after int64
				ramp  float64
			}{{0, 0.1}, {50, 0.55}, {100, 1}} {
				want := step.ramp / (1 + step.ramp)
				if p == Hash {
					want = step.ramp * full
				}
				if got := shares(t, l, w.now+step.after*second, 40000)[1]; math.Abs(got-want) > 0.02 {
					t.Errorf("after %d s its share is %.3f, want %.3f", step.after, got, want)
				}
			}
		})
	}
}

func TestPickingDoesNotAllocate(t *testing.T) {
	for _, p := range []Policy{P2C, RoundRobin, LeastRequests, Random, Hash} {
		w := newWorld(t, 2)
		u := w.upstream(weighted(p, slices.Repeat([]int{3}, 20)...))
		l := u.Local(0)
		m := mustPick(t, l, w.now, 7)
		m.Open(0)
		var c Conn = w.dial(0)
		m.Put(c, w.now)
		tried := []*Member{m}
		if n := testing.AllocsPerRun(1000, func() {
			w.now += 1000
			l.Request(w.now)
			got, _ := l.Pick(w.now, mix(uint64(w.now)), nil)
			again, _ := l.Pick(w.now, 7, tried)
			got.Begin(w.now)
			again.Begin(w.now)
			c, _ := m.Get(w.now)
			m.Put(c, w.now)
			got.End(w.now, Success, 1000)
			again.End(w.now, Timeout, 1000)
			l.Retry(w.now)
		}); n != 0 {
			t.Errorf("%s: %v allocations for each request", p, n)
		}
	}
}

func TestWaitingDoesNotAllocate(t *testing.T) {
	w := newWorld(t, 1)
	o := DefaultOptions(addresses(1)...)
	o.MaxConnections = 1
	l := w.upstream(o).Local(0)
	m := mustPick(t, l, w.now, 0)
	m.Open(0)
	var c Conn = w.dial(0)
	q := newWaiting()
	if n := testing.AllocsPerRun(100, func() {
		if why := l.Wait(&q.Waiter, w.now); why != None {
			t.Fatal(why)
		}
		m.Put(c, w.now)
	}); n != 0 {
		t.Errorf("%v allocations for each wait", n)
	}
	if q.conn != c {
		t.Error("the waiting request did not get the connection")
	}
}

func BenchmarkPool(b *testing.B) {
	w := newWorld(b, 2)
	m := mustPick(b, w.upstream(weighted(P2C, 1, 1)).Local(0), w.now, 0)
	for range 8 {
		m.Put(open(b, w, m), w.now)
	}
	b.ReportAllocs()
	for b.Loop() {
		c, _ := m.Get(w.now)
		m.Put(c, w.now)
	}
}

func BenchmarkPick(b *testing.B) {
	for _, p := range []Policy{P2C, RoundRobin, LeastRequests, Random, Hash} {
		for _, n := range []int{2, 100} {
			b.Run(fmt.Sprintf("%s/%d", p, n), func(b *testing.B) {
				w := newWorld(b, 1)
				l := w.upstream(weighted(p, slices.Repeat([]int{1}, n)...)).Local(0)
				// As under load: a few requests outstanding everywhere, and samples.
				mustPick(b, l, w.now, 1)
				for _, m := range l.members {
					for range 3 {
						m.Begin(w.now)
					}
					m.End(w.now, Success, 1e6)
				}
				now := w.now
				b.ReportAllocs()
				for b.Loop() {
					now += 10_000
					m, _ := l.Pick(now, uint64(now)*0x9e3779b97f4a7c15, nil)
					m.Begin(now)
					m.End(now, Success, 1e6)
				}
			})
		}
	}
}
