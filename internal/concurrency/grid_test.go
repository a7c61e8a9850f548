package concurrency

import (
	"flag"
	"fmt"
	"strings"
	"testing"
)

var (
	grid = flag.String("grid", "few",
		"the services to simulate: few, tuned (what the law was tuned on) or held (what it was not)")
	seed = flag.Uint64("seed", 1, "what draws the arrivals and the service times")
)

var services = map[string][]service{
	"few": {
		{workers: 16, mean: 0.016, shape: bimodal, delay: 0.0005},
		{workers: 20, mean: 0.400, shape: lognormal, delay: 0.001},
	},
	"tuned": {
		{workers: 1, mean: 0.020, shape: fixed},
		{workers: 1, mean: 0.001, shape: exponential, delay: 0.0005},
		{workers: 4, mean: 0.020, shape: exponential, delay: 0.0005},
		{workers: 8, mean: 0.040, shape: fixed, delay: 0.001},
		{workers: 16, mean: 0.016, shape: bimodal, delay: 0.0005},
		{workers: 20, mean: 0.400, shape: lognormal, delay: 0.001},
		{workers: 50, mean: 0.025, shape: exponential, delay: 0.001},
		{workers: 100, mean: 0.020, shape: lognormal, delay: 0.001},
		{workers: 200, mean: 0.100, shape: bimodal, delay: 0.001},
		{workers: 500, mean: 0.100, shape: exponential, delay: 0.001},
		{workers: 500, mean: 0.050, shape: fixed, delay: 0.001},
		{workers: 8, mean: 0.004, shape: exponential, delay: 0.001, shared: true, overhead: 0.01},
	},
	"held": {
		{workers: 1, mean: 0.005, shape: lognormal, delay: 0.001},
		{workers: 2, mean: 0.0001, shape: exponential, delay: 0.0002},
		{workers: 3, mean: 0.060, shape: bimodal, delay: 0.001},
		{workers: 6, mean: 0.020, shape: lognormal, delay: 0.0005},
		{workers: 12, mean: 0.012, shape: fixed, delay: 0.001},
		{workers: 24, mean: 0.048, shape: exponential, delay: 0.002},
		{workers: 40, mean: 0.008, shape: lognormal, delay: 0.001},
		{workers: 64, mean: 0.032, shape: bimodal, delay: 0.001},
		{workers: 150, mean: 0.050, shape: exponential, delay: 0.001},
		{workers: 300, mean: 0.015, shape: lognormal, delay: 0.001},
		{workers: 500, mean: 0.250, shape: lognormal, delay: 0.002},
		{workers: 16, mean: 0.008, shape: exponential, delay: 0.001, shared: true, overhead: 0.005},
	},
}

// changes are what happens to a service in the middle.
var changes = []func(service) service{
	func(s service) service { s.workers = (s.workers + 1) / 2; return s },
	func(s service) service { s.workers *= 2; return s },
	func(s service) service { s.mean *= 2; return s },
	func(s service) service { s.mean /= 2; return s },
}

// figures are what the law is judged by.
type figures struct {
	good      float64 // the part of the capacity that is used
	ratio     float64 // latency over the latency without a queue
	low, high int     // the steady limit
	settles   [4]float64
	refused   [2]float64 // more than the ideal limit refuses, at 0.3 and 0.8 of the capacity
}

const (
	warm = 15.0 // seconds until the limit should be steady
	ends = 30.0
)

func law(t testing.TB, o Options) *Law {
	t.Helper()
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func measure(t testing.TB, s service, seed uint64) (f figures) {
	w := newWorld(s, law(t, Options{}), 3, seed)
	w.run(ends)
	steady := w.between(warm, ends)
	f.good = steady.used(s)
	f.ratio = steady.latency / float64(steady.completed) / (s.mean + s.delay)
	f.low, f.high = w.limitsBetween(warm, ends)
	for i, change := range changes {
		next := change(s)
		w := newWorld(s, law(t, Options{}), 3, seed+1)
		w.changeAt(warm, func(w *world) {
			w.service = next
			w.rate = 3 * max(s.capacity(), next.capacity())
		})
		w.run(ends)
		f.settles[i] = w.settled(warm, ends, next)
	}
	for i, load := range []float64{0.3, 0.8} {
		w, best := newWorld(s, law(t, Options{}), load, seed), newWorld(s, ideal(s), load, seed)
		w.run(20)
		best.run(20)
		a, b := w.between(5, 20), best.between(5, 20)
		f.refused[i] = max(0, float64(a.refused-b.refused)/float64(a.arrived))
	}
	return f
}

func (f figures) String() string {
	var settles []string
	for _, s := range f.settles {
		if s < 0 {
			settles = append(settles, "never")
		} else {
			settles = append(settles, fmt.Sprintf("%.1f", s))
		}
	}
	return fmt.Sprintf("%.3f | %.2f | %d–%d | %s | %.2f, %.2f",
		f.good, f.ratio, f.low, f.high, strings.Join(settles, ", "), 100*f.refused[0], 100*f.refused[1])
}

// TestServices asserts the figures of few services. With -grid it prints a table of others, which
// docs/adaptive-concurrency.md has.
func TestServices(t *testing.T) {
	list, ok := services[*grid]
	if !ok {
		t.Fatalf("there is no grid %q: choose few, tuned or held", *grid)
	}
	for _, s := range list {
		f := measure(t, s, *seed)
		t.Logf("| %v | %v |", s, f)
		if *grid == "few" {
			f.check(t, s)
		}
	}
}

func (f figures) check(t *testing.T, s service) {
	if f.good < 0.95 {
		t.Errorf("%v: %.3f of the capacity is used, want 0.95", s, f.good)
	}
	if f.ratio > 1.5 {
		t.Errorf("%v: the latency is %.2f times that without a queue, want at most 1.5", s, f.ratio)
	}
	for i, settled := range f.settles {
		if settled < 0 || settled > 5 {
			t.Errorf("%v: change %d settles after %.1f s, want 5", s, i, settled)
		}
	}
	if f.refused[0] > 0 || f.refused[1] > 0.005 {
		t.Errorf("%v: refuses %.4f and %.4f of the requests at 0.3 and 0.8 of the capacity", s, f.refused[0], f.refused[1])
	}
}
