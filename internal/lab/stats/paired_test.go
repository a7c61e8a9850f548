package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"plimsoll/internal/lab/stats"
)

// The figures are R's: wilcox.test(d, exact=TRUE), psignrank and the confidence interval of
// wilcox.test(d, conf.int=TRUE).
func TestSignedRanksGiveTheExactProbability(t *testing.T) {
	for _, c := range []struct {
		name string
		d    []float64
		want float64
	}{
		{"all above zero", []float64{1, 2, 3, 4, 5, 6}, 2.0 / 64},
		{"the smallest below", []float64{-1, 2, 3, 4, 5, 6}, 4.0 / 64},
		{"the largest below", []float64{1, 2, 3, 4, 5, -6}, 28.0 / 64},
		{"zeros say nothing", []float64{0, 1, 2, 0, 3, 4, 5, 6}, 2.0 / 64},
		{"both ways alike", []float64{1, -1, 2, -2}, 1},
		{"nothing", nil, 1},
		{"only zeros", []float64{0, 0}, 1},
		// Ranks 1.5, 1.5, 3, 4: of 16 ways the sums up to 1.5 are 0, 1.5 and 1.5.
		{"ties have the rank between", []float64{1, -1, 2, 3}, 6.0 / 16},
	} {
		if got := stats.SignedRank(c.d); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: p is %v, want %v", c.name, got, c.want)
		}
	}
}

func TestManySignedRanksAreAsTheExactOnes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	d := make([]float64, 60)
	for i := range d {
		d[i] = rng.NormFloat64() + .25
	}
	exact := stats.SignedRank(d)
	// One more difference, too small to matter, switches to the approximation.
	approximate := stats.SignedRank(append(d, 1e-9))
	if math.Abs(exact-approximate) > .01 {
		t.Errorf("60 differences give %v exactly, and 61 %v by the normal approximation",
			exact, approximate)
	}
}

func TestOfDifferencesThatMeanNothingAsManyAreCalledRealAsAlphaAllows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const trials = 5000
	below, covered := 0, 0
	for range trials {
		d := make([]float64, 10)
		for i := range d {
			d[i] = rng.NormFloat64()
		}
		p := stats.SignedRank(d)
		in := stats.Shift(d, .95)
		outside := in.Low > 0 || in.High < 0
		if p <= .05 {
			below++
		}
		if !outside {
			covered++
		}
		if outside != (p <= .05) {
			t.Fatalf("p is %v, and the interval %v says otherwise", p, in)
		}
	}
	// The exact size with 10 differences is 0.0488.
	if share := float64(below) / trials; share < .04 || share > .0565 {
		t.Errorf("%.4f are called real, want about 0.0488", share)
	}
	if share := float64(covered) / trials; share < .94 {
		t.Errorf("the interval holds the truth in %.4f, want 0.95", share)
	}
}

func TestAShiftIsTheMiddleOfTheDifferences(t *testing.T) {
	in := stats.Shift([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, .95)
	// wilcox.test(1:10, conf.int=TRUE): 5.5, from 3 to 8.
	if in.Point != 5.5 || in.Low != 3 || in.High != 8 {
		t.Errorf("got %v, want 5.5 from 3 to 8", in)
	}
	if few := stats.Shift([]float64{1, 2, 3}, .95); few.Low != 1 || few.High != 3 {
		t.Errorf("three differences give %v, want all of their range", few)
	}
}

func TestAMediansIntervalCounts(t *testing.T) {
	v := []float64{10, 1, 9, 2, 8, 3, 7, 4, 6, 5}
	if in := stats.MedianInterval(v, .95); in != (stats.Interval{Low: 2, Point: 5.5, High: 9}) {
		t.Errorf("ten values give %v, want the second to the ninth", in)
	}
	if in := stats.MedianInterval([]float64{3, 1, 2}, .95); in != (stats.Interval{
		Low:   1,
		Point: 2,
		High:  3,
	}) {
		t.Errorf("three values give %v, want all of their range", in)
	}
}

func TestHolmsCorrectionHoldsEachAgainstWhatIsLeft(t *testing.T) {
	corrected, level := stats.Holm([]float64{.04, .001, .02, .011}, .05)
	want := []float64{.04, .004, .04, .033}
	for i := range want {
		if math.Abs(corrected[i]-want[i]) > 1e-12 {
			t.Errorf("corrected: %v, want %v", corrected, want)
			break
		}
	}
	if level[1] != 1./4 || level[3] != 1./3 || level[2] != 1./2 || level[0] != 1 {
		t.Errorf("levels are %v, want a quarter, a third, a half and all in the order of p", level)
	}
	corrected, level = stats.Holm([]float64{.03, .04, .001}, .05)
	if corrected[0] != .06 || corrected[1] != .06 || level[0] != .5 || level[1] != .5 {
		t.Errorf("after the first that is not real: corrected %v, levels %v; "+
			"want 0.06 and a half for both", corrected, level)
	}
}

func TestLeastPairsAreTheFewestThatCanShowAnything(t *testing.T) {
	for tests := 1; tests <= 100; tests++ {
		n := stats.LeastPairs(.05, tests)
		for _, c := range []struct {
			pairs int
			can   bool
		}{{n - 1, false}, {n, true}} {
			d := make([]float64, c.pairs)
			for i := range d {
				d[i] = float64(i + 1)
			}
			if can := stats.SignedRank(d)*float64(tests) < .05; can != c.can {
				t.Fatalf("%d tests: the clearest %d pairs show something is %v, "+
					"and LeastPairs says %d", tests, c.pairs, can, n)
			}
		}
	}
}
