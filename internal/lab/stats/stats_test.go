package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"plimsoll/internal/lab/stats"
)

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 77)) }

func near(t *testing.T, what string, got, want, by float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > by {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// autoregressive returns a series around a mean whose consecutive values have correlation phi.
func autoregressive(n int, phi, mean float64, r *rand.Rand) []float64 {
	series := make([]float64, n)
	x := r.NormFloat64() / math.Sqrt(1-phi*phi)
	for i := range series {
		series[i] = mean + x
		x = phi*x + r.NormFloat64()
	}
	return series
}

func TestTheIntervalOfAMeanCoversItThoughValuesHangTogether(t *testing.T) {
	const repetitions = 300
	for _, phi := range []float64{0, .3, .6, .8} {
		covered := 0
		for i := range repetitions {
			r := source(uint64(i))
			series := autoregressive(240, phi, 10, r)
			in := stats.Mean(series, stats.BlockLength(series), 200, .95, r)
			if in.Low <= 10 && 10 <= in.High {
				covered++
			}
		}
		if covered < repetitions*90/100 {
			t.Errorf("correlation %v: %d of %d intervals contain the mean",
				phi, covered, repetitions)
		}
	}
}

func TestABootstrapThatIgnoresTheCorrelationWouldCoverTooLittle(t *testing.T) {
	covered := 0
	for i := range 300 {
		r := source(uint64(i))
		series := autoregressive(240, .8, 10, r)
		if in := stats.Mean(series, 1, 200, .95, r); in.Low <= 10 && 10 <= in.High {
			covered++
		}
	}
	if covered > 240 {
		t.Errorf("%d of 300 contain the mean without blocks: the series of these tests do "+
			"not test anything", covered)
	}
}

func TestNothingBadInFiveHundredDoesNotProveOnePercent(t *testing.T) {
	total := make([]float64, 20)
	for i := range total {
		total[i] = 25
	}
	bad := make([]float64, 20)
	if in := stats.Share(bad, total, 1, 1, .95, source(1)); in.Low != 0 || in.High < .0070 ||
		in.High > .0076 {
		t.Errorf("0 of 500 independent ones: %+v, the exact limit is 0.00735", in)
	}
	if in := stats.Share(bad, total, 2, 1, .95, source(1)); in.High < .01 {
		t.Errorf("0 of 500 that come in pairs: %+v", in)
	}
}

func TestTheExactIntervalOfAShareIsTheTextbooks(t *testing.T) {
	// Clopper-Pearson limits, from the beta distribution.
	for _, c := range []struct{ bad, total, low, high float64 }{
		{0, 10, 0, .3085}, {1, 10, .0025, .4450}, {5, 10, .1871, .8129}, {10, 10, .6915, 1}, {4, 200, .0055, .0504},
	} {
		in := stats.Binomial(c.bad, c.total, .95)
		near(t, "low", in.Low, c.low, 1e-4)
		near(t, "high", in.High, c.high, 1e-4)
	}
}

func TestTheDesignEffectIsMeasured(t *testing.T) {
	r := source(5)
	var bad, total []float64
	for range 4000 {
		b := 0.0
		for range 10 {
			if r.Float64() < .01 {
				b += 5
			}
		}
		bad, total = append(bad, b), append(total, 50)
	}
	near(t, "the effect of groups of 5", stats.DesignEffect(bad, total, 4), 5, .6)
	for i := range bad {
		bad[i] = 0
		for range 50 {
			if r.Float64() < .01 {
				bad[i]++
			}
		}
	}
	near(t, "the effect of none", stats.DesignEffect(bad, total, 4), 1, .15)
}

func TestQuantilesOfDistributions(t *testing.T) {
	near(t, "normal", stats.NormalQuantile(.975), 1.959964, 1e-6)
	for _, c := range []struct{ p, df, want float64 }{
		{.975, 1, 12.7062},
		{.975, 4, 2.77645},
		{.95, 10, 1.81246},
		{.995, 30, 2.75000},
		{.975, 1000, 1.96},
	} {
		near(t, "Student's t", stats.StudentQuantile(c.p, c.df), c.want, 3e-3)
	}
}

func TestRanksThatDiffer(t *testing.T) {
	for _, c := range []struct {
		what string
		a, b []float64
		p    float64
	}{
		{"wholly apart, 4 and 4", []float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 2. / 70},
		{"wholly apart, 5 and 5", []float64{9, 8, 7, 6, 5}, []float64{4, 3, 2, 1, 0}, 2. / 252},
		{"one inversion, 3 and 3", []float64{1, 2, 4}, []float64{3, 5, 6}, 4. / 20},
		{"the same with ties", []float64{1, 2, 2, 3}, []float64{1, 2, 2, 3}, 1},
		{"all equal", []float64{1, 1}, []float64{1, 1}, 1},
		{"nothing", nil, []float64{1}, 1},
	} {
		near(t, c.what, stats.MannWhitney(c.a, c.b), c.p, 1e-9)
	}
	r := source(3)
	exceeded := 0
	for range 1000 {
		var a, b []float64
		for range 8 {
			a, b = append(a, math.Floor(10*r.Float64())), append(b, math.Floor(10*r.Float64()))
		}
		if stats.MannWhitney(a, b) < .05 {
			exceeded++
		}
	}
	if exceeded < 15 || exceeded > 65 {
		t.Errorf("%d of 1000 pairs from one distribution differ at 5 %%", exceeded)
	}
}

func TestTrendsAreTold(t *testing.T) {
	r := source(11)
	up, flat := 0, 0
	for range 400 {
		var rising, level []float64
		for i := range 12 {
			rising = append(rising, float64(i)/4+r.NormFloat64())
			level = append(level, r.NormFloat64())
		}
		if stats.Trend(rising) < .05 {
			up++
		}
		if stats.Trend(level) < .05 {
			flat++
		}
	}
	if up < 250 || flat > 35 {
		t.Errorf("%d of 400 trends are told; %d of 400 without one are told too", up, flat)
	}
}

func TestCorrelationTimesAreMeasured(t *testing.T) {
	for _, phi := range []float64{0, .5, .8} {
		total := 0.0
		for i := range 40 {
			total += stats.CorrelationTime(autoregressive(2000, phi, 0, source(uint64(i))))
		}
		want := (1 + phi) / (1 - phi)
		near(t, "the mean correlation time", total/40, want, .15*want)
	}
	if stats.CorrelationTime([]float64{1, 1, 1, 1, 1}) != 1 ||
		stats.BlockLength(make([]float64, 50)) != 1 {
		t.Error("a series that does not vary has no correlation")
	}
}

func TestBlocksGrowWithTheCorrelation(t *testing.T) {
	mean := func(phi float64) (m float64) {
		for i := range 40 {
			m += float64(stats.BlockLength(autoregressive(400, phi, 0, source(uint64(i))))) / 40
		}
		return m
	}
	none, some, much := mean(0), mean(.5), mean(.9)
	if none > 4 || some < none+2 || much < some+5 {
		t.Errorf("blocks of %v, %v and %v for correlations 0, 0.5 and 0.9", none, some, much)
	}
}

// waits returns, per window of 50 requests, how many requests of a queue waited longer than a
// limit, and how many there were. It uses Lindley's recursion for one worker with exponential
// service at a utilization, in units of the mean service time.
func waits(windows int, utilization, limit float64, r *rand.Rand) (late, total []float64) {
	wait := 0.0
	request := func() { wait = max(wait+r.ExpFloat64()-r.ExpFloat64()/utilization, 0) }
	for range 2000 {
		request()
	}
	for range windows {
		n := 0.0
		for range 50 {
			if request(); wait > limit {
				n++
			}
		}
		late, total = append(late, n), append(total, 50)
	}
	return late, total
}

func TestTheIntervalOfTheShareThatWaitsTooLongCoversIt(t *testing.T) {
	const repetitions = 300
	for _, c := range []struct{ utilization, limit float64 }{{.5, 6}, {.7, 4}, {.8, 10}} {
		truth := c.utilization * math.Exp(-(1-c.utilization)*c.limit)
		covered := 0
		for i := range repetitions {
			r := source(uint64(i))
			late, total := waits(200, c.utilization, c.limit, r)
			block := stats.BlockLength(late)
			in := stats.Share(late, total, stats.DesignEffect(late, total, block), block, .95, r)
			if in.Low <= truth && truth <= in.High {
				covered++
			}
		}
		t.Logf("utilization %v: the share %.4f is covered %d of %d times",
			c.utilization, truth, covered, repetitions)
		if covered < repetitions*90/100 {
			t.Errorf("utilization %v: %d of %d intervals contain the share %v",
				c.utilization, covered, repetitions, truth)
		}
	}
}

func TestTheMedianIsTheMiddle(t *testing.T) {
	near(t, "odd", stats.Median([]float64{3, 1, 2}), 2, 0)
	near(t, "even", stats.Median([]float64{4, 1, 2, 3}), 2.5, 0)
}

func TestNeededIsHowManyProveTheShareThatIsAllowed(t *testing.T) {
	of := func(bad, total, effect float64) stats.Interval {
		return stats.Binomial(bad/effect, total/effect, .95)
	}
	for _, c := range []struct{ bad, total, effect, allowed, want float64 }{
		{0, 1820, 1, .001, 3700}, // ln(0.025) ÷ ln(0.999) = 3687
		{0, 1820, 2, .001, 7400}, // twice as many where they come in pairs
		{0, 0, 1, .01, 370},
		{0, 3, 1, .00001, 370_000}, // however few were seen
	} {
		got, ok := stats.Needed(of(c.bad, c.total, c.effect), c.bad, c.total, c.effect, c.allowed,
			.95)
		if !ok || got != c.want {
			t.Errorf("%+v: %v %v", c, got, ok)
		}
	}
	n, ok := stats.Needed(of(5, 1000, 1), 5, 1000, 1, .01, .95)
	if !ok || stats.Binomial(5*n/1000, n, .95).High > .01 ||
		stats.Binomial(5*n/1100, n/1.1, .95).High <= .01 {
		t.Errorf("5 of 1,000 where 1%% is allowed: %v %v", n, ok)
	}
	// 12 of 3,200 failed together: the bootstrap's interval is the wider one, and must shrink to a
	// sixth.
	wide := stats.Interval{Low: 0, Point: .00375, High: .0075}
	if n, ok := stats.Needed(wide, 12, 3200, 1, .004375, .95); !ok || n != 120_000 {
		t.Errorf("6 times as narrow takes 36 times as many, which is 115,200, and not %v (%v)",
			n, ok)
	}
	if n, ok := stats.Needed(of(100, 10_000, 1), 100, 10_000, 1, .01, .95); ok {
		t.Errorf("as many as are allowed can prove nothing, and %v is said to", n)
	}
}

func TestAShareThatFallsWithTheEventsIsATrend(t *testing.T) {
	all := []float64{100, 400, 100, 400}
	for _, c := range []struct {
		bad    []float64
		effect float64
		want   float64
	}{
		{[]float64{5, 20, 5, 20}, 1, 0},
		{[]float64{10, 36, 4, 8}, 1, -4.572},
		{[]float64{10, 36, 4, 8}, 4, -4.572 / 2},
		{[]float64{2, 8, 9, 36}, 1, 4.508},
		{[]float64{0, 0, 0, 0}, 1, 0},
	} {
		if got := stats.ShareTrend(c.bad, all, c.effect); math.Abs(got-c.want) > .001 {
			t.Errorf("%v: %.3f, not %.3f", c.bad, got, c.want)
		}
	}
}
