package concurrency

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestOptionsThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		options   Options
		complaint string
	}{
		{Options{}, ""},
		{Options{Min: 30}, ""},
		{Options{Max: 5}, ""},
		{Options{Mode: AIMD, Target: time.Second}, ""},
		{Options{Min: -1}, "the minimum is -1"},
		{Options{Min: 5, Max: 4}, "the maximum 4 is below the minimum 5"},
		{Options{Initial: 9, Max: 8}, "the initial limit 9 is not within 1 to 8"},
		{Options{Tolerance: 2}, "the tolerance is 2"},
		{Options{Tolerance: math.NaN()}, "the tolerance is NaN"},
		{Options{Mode: AIMD}, "set one above 0"},
		{Options{Mode: 7}, "there is no mode 7"},
	} {
		_, err := New(c.options)
		if c.complaint == "" && err != nil || c.complaint != "" && (err == nil || !strings.Contains(err.Error(), c.complaint)) {
			t.Errorf("%+v: got %v, want %q", c.options, err, c.complaint)
		}
	}
}

// A start from 20 reaches a knee of 1,000 within two seconds.
func TestGrowsFast(t *testing.T) {
	s := service{workers: 1000, mean: 0.050, shape: fixed, delay: 0.001}
	w := newWorld(s, law(t, Options{}), 1.2, 1)
	w.run(2)
	if got := w.law.Limit(); got < 1000 {
		t.Errorf("after 2 s the limit is %d, want 1000", got)
	}
}

// More requests inside make this service slower: 200 of them take half of its capacity.
func TestKeepsAServiceFromCollapse(t *testing.T) {
	s := service{workers: 16, mean: 0.008, shape: exponential, delay: 0.001, shared: true, overhead: 0.005}
	w := newWorld(s, law(t, Options{Initial: 200}), 3, 1)
	w.run(20)
	if used := w.between(10, 20).used(s); used < 0.9 {
		t.Errorf("%.3f of the capacity is used, want 0.9", used)
	}
}

// Who goes away frees a slot while the service works on, and is not completed.
func TestClientsThatGoAway(t *testing.T) {
	s := service{workers: 50, mean: 0.010, shape: exponential, delay: 0.001}
	w := newWorld(s, law(t, Options{}), 2, 1)
	w.away = 0.3
	w.run(20)
	m := w.between(10, 20)
	if used := m.used(s); used < 0.95 {
		t.Errorf("%.3f of the capacity is used, want 0.95", used)
	}
	if wait := m.wait(s); wait > s.mean {
		t.Errorf("requests wait %.4f s inside the service, want at most %.4f", wait, s.mean)
	}
}

// A memory of what ten requests inside did, before the service became twice as fast, says that five are
// enough: looks above the limit have to outweigh it.
func TestAServiceThatBecomesTwiceAsFastIsNotTakenForAnotherHalfAsWide(t *testing.T) {
	slow := service{workers: 10, mean: 0.020, shape: exponential, delay: 0.0002}
	quick := slow
	quick.mean /= 2
	for _, seed := range []uint64{92, 144} {
		w := newWorld(slow, law(t, Options{}), 6, seed)
		w.changeAt(15, func(w *world) { w.service = quick })
		w.run(25)
		if used := w.between(17, 25).used(quick); used < 0.93 {
			t.Errorf("seed %d: %.3f of the capacity is used, want 0.93", seed, used)
		}
	}
}

// No step down is larger than an eighth of the limit, or one request.
func TestStepsDownAreSmall(t *testing.T) {
	s := service{workers: 50, mean: 0.010, shape: exponential, delay: 0.001}
	w := newWorld(s, law(t, Options{}), 3, 1)
	w.changeAt(5, func(w *world) { w.service.workers = 10 })
	w.run(15)
	for i := 1; i < len(w.limits); i++ {
		before, after := float64(w.limits[i-1]), float64(w.limits[i])
		if after < before-max(1, descent*before)-1 {
			t.Errorf("at %.2f s the limit falls from %.0f to %.0f", float64(i)*tickEvery, before, after)
		}
	}
}

func TestSilenceAndFailuresMoveNothing(t *testing.T) {
	l := law(t, Options{})
	for i := range int64(200) {
		w := Window{Start: i * 5e7, End: (i + 1) * 5e7}
		if i%2 == 1 {
			w.Failed, w.Limited, w.InflightMean = 500, true, 20
		}
		if got := l.Observe(w); got != 20 {
			t.Fatalf("window %d: the limit is %d, want 20", i, got)
		}
	}
}

// Windows that no service makes must not lead to an invalid limit.
func TestNonsenseKeepsTheLimitSane(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	l := law(t, Options{Min: 2, Max: 500})
	now := int64(1 << 50)
	for i := range 20_000 {
		w := Window{Start: now, Limited: random.IntN(2) == 0}
		now += random.Int64N(1e8)
		w.End = now
		if random.IntN(3) > 0 {
			w.Completed = random.IntN(1 << random.IntN(14))
			w.InflightMean = float64(random.IntN(3)) * float64(l.Limit()) * random.Float64()
			w.Failed = random.IntN(10)
		}
		if got := l.Observe(w); got < 2 || got > 500 {
			t.Fatalf("window %d, %+v: the limit is %d", i, w, got)
		}
	}
}

func TestStaysWithinItsBounds(t *testing.T) {
	s := service{workers: 100, mean: 0.010, shape: exponential}
	for _, o := range []Options{{Max: 30}, {Min: 300, Max: 400}, {Min: 1, Max: 1}, {Min: 7, Max: 7}} {
		w := newWorld(s, law(t, o), 2, 1)
		w.run(3)
		if low, high := w.limitsBetween(0, 3); low < o.Min || high > o.Max {
			t.Errorf("%+v: the limit is %d to %d", o, low, high)
		}
	}
}

func TestExplains(t *testing.T) {
	s := service{workers: 50, mean: 0.025, shape: exponential, delay: 0.001}
	l := law(t, Options{})
	if e := l.Explain(); e.Limit != 20 || e.Baseline != 0 || e.Capacity != 0 || e.Decision == "" {
		t.Errorf("before any traffic: %+v", e)
	}
	newWorld(s, l, 3, 1).run(5)
	e := l.Explain()
	if e.CapacityLow > 2000 || e.CapacityHigh < 2000 || e.CapacityAge > time.Second {
		t.Errorf("the capacity is %.0f/s, %.0f to %.0f, %v ago, want 2000/s", e.Capacity, e.CapacityLow, e.CapacityHigh, e.CapacityAge)
	}
	if e.Baseline < 20*time.Millisecond || e.Baseline > 32*time.Millisecond {
		t.Errorf("the baseline is %v, want 26 ms", e.Baseline)
	}
	if !strings.Contains(e.Decision, "the knee is near ") {
		t.Errorf("the decision is %q", e.Decision)
	}
}

func TestAIMD(t *testing.T) {
	l := law(t, Options{Mode: AIMD, Target: 100 * time.Millisecond})
	now := int64(0)
	step := func(w Window) int {
		w.Start, now = now, now+5e7
		w.End = now
		w.LatencySum *= int64(w.Completed)
		return l.Observe(w)
	}
	ms := int64(time.Millisecond)
	for i, c := range []struct {
		window Window
		want   int
		why    string
	}{
		{Window{Completed: 20, LatencySum: 50 * ms, InflightMean: 20, Limited: true}, 21, "add one"},
		{Window{Completed: 20, LatencySum: 50 * ms, InflightMean: 10}, 21, "does not bind"},
		{Window{Completed: 20, LatencySum: 50 * ms, InflightMean: 5, Limited: true}, 21, "does not bind"},
		{Window{Completed: 10, LatencySum: 50 * ms, InflightMean: 21, Limited: true}, 21, "does not bind"},
		{Window{Completed: 10, LatencySum: 250 * ms, InflightMean: 21, Limited: true}, 19, "the latency is 150ms"},
		{Window{Completed: 20, LatencySum: 250 * ms, InflightMean: 19, Limited: true}, 19, "the latency is 150ms"},
		{Window{Completed: 20, LatencySum: 250 * ms, InflightMean: 19, Limited: true}, 19, "the latency is 150ms"},
		{Window{Completed: 20, LatencySum: 250 * ms, InflightMean: 19, Limited: true}, 19, "the latency is 150ms"},
		{Window{Completed: 30, Failed: 10, LatencySum: 50 * ms, InflightMean: 19, Limited: true}, 17, "10 of 40 requests failed"},
	} {
		if got := step(c.window); got != c.want || !strings.Contains(l.Explain().Decision, c.why) {
			t.Errorf("step %d: the limit is %d (%s), want %d (%s)", i, got, l.Explain().Decision, c.want, c.why)
		}
	}
}

func TestAIMDHoldsALatency(t *testing.T) {
	s := service{workers: 50, mean: 0.025, shape: exponential, delay: 0.001}
	w := newWorld(s, law(t, Options{Mode: AIMD, Target: 40 * time.Millisecond}), 3, 1)
	w.run(15)
	m := w.between(5, 15)
	if r := m.latency / float64(m.completed); m.used(s) < 0.95 || r > 0.042 {
		t.Errorf("%.3f of the capacity is used at %.4f s, want 0.95 at 0.04", m.used(s), r)
	}
}

func BenchmarkObserve(b *testing.B) {
	l := law(b, Options{})
	b.ReportAllocs()
	for i := range int64(b.N) {
		n := l.Limit()
		l.Observe(Window{Start: i * 5e7, End: (i + 1) * 5e7, Completed: min(n, 50) * 5, InflightMean: float64(n), Limited: true})
	}
}
