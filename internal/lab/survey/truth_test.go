package survey

import (
	"context"
	"math"
	"slices"
	"testing"

	"plimsoll/internal/lab/queue"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/slo"
)

// kind is a queue and its true line, to about 0.2 percent: the mean of queue.Line over five seeds
// with four million arrivals each.
type kind struct {
	name     string
	station  queue.Station
	arrivals string
	slo      string
	truth    float64
}

var kinds = []kind{
	{"M/M/16, 10 ms", queue.Station{Workers: 16, Service: queue.Exponential(10 * ms), Room: -1}, "poisson", "p99<100ms", 1549.1},
	{"M/D/4, 5 ms", queue.Station{Workers: 4, Service: queue.Constant(5 * ms), Room: -1}, "poisson", "p99<50ms", 751.9},
	{"M/D/16, 20 ms", queue.Station{Workers: 16, Service: queue.Constant(20 * ms), Room: -1}, "poisson", "p99<100ms", 772.4},
	{"D/D/4, 5 ms", queue.Station{Workers: 4, Service: queue.Constant(5 * ms), Room: -1}, "constant", "p99<50ms", 800.0},
	{"D/M/4, 5 ms", queue.Station{Workers: 4, Service: queue.Exponential(5 * ms), Room: -1}, "constant", "p99<50ms", 749.0},
	{
		"M/D/8 with room for 32, 4 ms",
		queue.Station{Workers: 8, Service: queue.Constant(4 * ms), Room: 32}, "poisson",
		"p95<30ms,errors<1%", 1977.2,
	},
	{"M/M/4, 5 ms", queue.Station{Workers: 4, Service: queue.Exponential(5 * ms), Room: -1}, "poisson", "p90<20ms", 654.0},
	{
		"M/D/4, 2 ms, which never fails",
		queue.Station{Workers: 4, Service: queue.Constant(2 * ms), Room: -1}, "poisson",
		"p99<50ms,errors<0.1%", 1958.0,
	},
	{
		"M/M/4, 2 ms, which never fails",
		queue.Station{Workers: 4, Service: queue.Exponential(2 * ms), Room: -1}, "poisson",
		"p99<50ms,errors<0.1%", 1910.3,
	},
	{
		"M/D/4 with room for 40, 2 ms",
		queue.Station{Workers: 4, Service: queue.Constant(2 * ms), Room: 40}, "poisson",
		"p99<50ms,errors<0.1%", 1908.9,
	},
	{
		"M/M/4 with room for 40, 2 ms",
		queue.Station{Workers: 4, Service: queue.Exponential(2 * ms), Room: 40}, "poisson",
		"p99<50ms,errors<0.1%", 1792.8,
	},
}

func parsed(t *testing.T, text string) SLO {
	t.Helper()
	s, err := slo.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (k *kind) survey(t *testing.T, seed uint64, quick bool) (*record.Result, *simBench) {
	t.Helper()
	b := &simBench{station: k.station, seed: seed * 1_000_003}
	r, err := Run(context.Background(), b, Options{
		SLO:      parsed(t, k.slo),
		Arrivals: k.arrivals,
		Seed:     seed,
		Quick:    quick,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, b
}

// This test asserts the lines for fixed seeds. When the method was developed, 500 surveys of twenty
// kinds of queue were tried: 96 % of the intervals contained the truth. `make statistics` repeats
// them.
func TestTheLineContainsTheTruthAndIsNarrow(t *testing.T) {
	surveys := max(3, int(*surveys))
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			contained := 0
			var lines []float64
			for seed := range uint64(surveys) {
				r, b := k.survey(t, seed+1, false)
				l := r.Line.Interval
				if !r.Line.Found || r.Early != "" {
					t.Fatalf("seed %d: no line: %+v %s", seed+1, r.Line, r.Early)
				}
				if l.Low <= k.truth && k.truth <= l.High {
					contained++
				} else {
					t.Logf("seed %d: %.1f to %.1f does not contain %.1f",
						seed+1, l.Low, l.High, k.truth)
				}
				if wide := (l.High - l.Low) / l.Estimate; wide > .1 {
					t.Errorf("seed %d: %.1f to %.1f is %.1f %% wide",
						seed+1, l.Low, l.High, 100*wide)
				}
				if took := b.offered / second; took > 190 {
					t.Errorf("seed %d: %d s of load", seed+1, took)
				}
				lines = append(lines, l.Estimate)
			}
			if contained < surveys-max(1, surveys/10) {
				t.Errorf("%d of %d intervals contain the true line", contained, surveys)
			}
			if spread := (slices.Max(lines) - slices.Min(lines)) / lines[0]; spread > .08 {
				t.Errorf("the estimates spread by %.1f %%", 100*spread)
			}
		})
	}
}

func TestAQuickSurveyIsShorterAndHoldsToo(t *testing.T) {
	k := kinds[1]
	contained := 0
	for seed := range uint64(5) {
		r, b := k.survey(t, seed+1, true)
		if l := r.Line.Interval; l.Low <= k.truth && k.truth <= l.High {
			contained++
		}
		if b.offered > 80*second {
			t.Errorf("seed %d: %d s of load", seed+1, b.offered/second)
		}
	}
	if contained < 4 {
		t.Errorf("%d of 5 intervals contain the true line", contained)
	}
}

// TestTheFormOfAWaitIsThatOfAQueue checks the formula for reading lines on simulated steps that
// begin empty, from far below the line to above the capacity (800 a second).
func TestTheFormOfAWaitIsThatOfAQueue(t *testing.T) {
	const allowed, limit = .01, .05
	line := 701.6
	f := newWaitForm(allowed, limit, .005, 2, 0)
	gap := 1 - line/800
	slope := f.random * (1 - gap) / gap
	for _, c := range []struct{ rate, length, tolerance float64 }{
		{664, 6, .5},
		{701.6, 6, .35},
		{742, 6, .35},
		{784, 6, .3},
		{911, 2.5, .05},
	} {
		late, all := 0.0, 0.0
		for seed := range uint64(60) {
			q, a := queue.New(kinds[6].station, seed), queue.NewArrivals(c.rate, true, seed)
			for at := a.Next(); at < int64(c.length*1e9); at = a.Next() {
				done, _ := q.Offer(at)
				if at < second {
					continue
				}
				all++
				if done-at > int64(limit*1e9) {
					late++
				}
			}
		}
		got := f.share(&point{rate: c.rate, settle: 1, length: c.length}, line, slope)
		if math.Abs(math.Log(got/(late/all))) > c.tolerance {
			t.Errorf("at %v a second: the formula says %.4f, the queue %.4f", c.rate, got, late/all)
		}
	}
}
