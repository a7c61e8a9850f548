package pace_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/internal/lab/pace"
)

const second = int64(time.Second)

// all reads a schedule to its end, at most limit arrivals.
func all(t interface{ Fatalf(string, ...any) }, s pace.Schedule, limit int) []int64 {
	var dues []int64
	for {
		due, ok := s.Next()
		if !ok {
			if _, again := s.Next(); again {
				t.Fatalf("a schedule that had ended gave another arrival")
			}
			return dues
		}
		dues = append(dues, due)
		if len(dues) > limit {
			t.Fatalf("more than %d arrivals", limit)
		}
	}
}

func TestAConstantArrivalStandsInTheMiddleOfItsInterval(t *testing.T) {
	dues := all(t, pace.Hold(4, second).Schedule(pace.Constant, 0, 1, 7), 10)
	if want := []int64{125e6, 375e6, 625e6, 875e6}; !slices.Equal(dues, want) {
		t.Fatalf("due at %v, want %v", dues, want)
	}
}

func TestTheTimeOfAnArrivalDoesNotDriftOverHours(t *testing.T) {
	const hours, rate = 3, 9973.0
	// One of many loops reads through the hours quickly.
	const loop, loops = 7, 97
	s := pace.Hold(rate, hours*3600*second).Schedule(pace.Constant, loop, loops, 0)
	// The exact value in integers: n + ½ over the rate, in nanoseconds.
	exact := func(n int64) int64 {
		return (2*n+1)/(2*9973)*second + ((2*n+1)%(2*9973)*second+9973)/(2*9973)
	}
	n := int64(loop)
	for ; ; n += loops {
		due, ok := s.Next()
		if !ok {
			break
		}
		if d := due - exact(n); d < -1 || d > 1 {
			t.Fatalf("arrival %d is due at %d, exactly it is %d", n, due, exact(n))
		}
	}
	if whole := int64(hours * 3600 * 9973); n < whole || n >= whole+loops {
		t.Fatalf("arrival %d of %d would be the next", n, whole)
	}
}

func TestARampMeetsItsIntegral(t *testing.T) {
	// From 0 to 2000 over 10 s the integral after t seconds is 100 t².
	p := pace.Profile{Segments: []pace.Segment{{From: 0, To: 2000, Length: 10 * second}}}
	dues := all(t, p.Schedule(pace.Constant, 0, 1, 0), 20000)
	if len(dues) != 10000 {
		t.Fatalf("%d arrivals, want 10000", len(dues))
	}
	for n, due := range dues {
		want := math.Sqrt((float64(n)+.5)/100) * 1e9
		if math.Abs(float64(due)-want) > 1 {
			t.Fatalf("arrival %d is due at %d, want %.1f", n, due, want)
		}
	}
	// And down again: the mirror image.
	p.Segments[0].From, p.Segments[0].To = 2000, 0
	down := all(t, p.Schedule(pace.Constant, 0, 1, 0), 20000)
	for n, due := range down {
		if mirror := 10*second - dues[len(dues)-1-n]; due-mirror > 50 || mirror-due > 50 {
			t.Fatalf("arrival %d of the falling ramp is due at %d, the rising one says %d",
				n, due, mirror)
		}
	}
}

func TestABurstComesOnTopAndAPauseIsEmpty(t *testing.T) {
	p := pace.Profile{
		Segments: []pace.Segment{
			{1000, 1000, 20 * second},
			{0, 0, 5 * second},
			{500, 500, 5 * second},
		},
		Bursts: []pace.Burst{{3200, 4 * second, 8 * second}, {100, 10 * second, 17 * second}},
	}
	perSecond := make([]int, 30)
	for _, due := range all(t, p.Schedule(pace.Constant, 0, 1, 0), 100000) {
		perSecond[due/second]++
	}
	want := []int{
		1000, 1000, 1000, 1000, 4200, 4200, 4200, 4200, 4200, 4200, 4300, 4300, 1100, 1100, 1100,
		1100, 1100, 1100, 1100, 1100,
		100, 100, 100, 100, 100, 600, 600, 500, 500, 500,
	}
	if !slices.Equal(perSecond, want) {
		t.Fatalf("arrivals in each second\n%v, want\n%v", perSecond, want)
	}
	p.Bursts = p.Bursts[:1]
	for _, due := range all(t, p.Schedule(pace.Poisson, 0, 1, 3), 100000) {
		if due > 20*second && due < 25*second {
			t.Fatalf("an arrival at %v, in the pause", time.Duration(due))
		}
	}
	if at := []float64{
		p.At(-1), p.At(0), p.At(4 * second), p.At(12*second - 1), p.At(12 * second),
		p.At(20 * second), p.At(30*second - 1), p.At(30 * second),
	}; !slices.Equal(at, []float64{
		0, 1000, 4200, 4200, 1000, 0, 500, 0,
	}) {
		t.Errorf("At says %v", at)
	}
	if p.Length() != 30*second || p.Peak() != 4200 || p.Arrivals() != 48100 ||
		math.Abs(p.Mean()-48100./30) > 1e-9 {
		t.Errorf("length %v, peak %v, arrivals %v, mean %v",
			p.Length(), p.Peak(), p.Arrivals(), p.Mean())
	}
	if twice := p.Scale(2); twice.Peak() != 8400 || twice.Length() != p.Length() ||
		p.Peak() != 4200 {
		t.Errorf("scaled by two it is %v, and the first is %v", twice, p)
	}
}

// profiles draws valid profiles of up to some ten thousand arrivals.
func profiles(t *rapid.T) pace.Profile {
	rate := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1000))
	length := rapid.Int64Range(1, 2*second)
	var p pace.Profile
	for range rapid.IntRange(1, 4).Draw(t, "segments") {
		s := pace.Segment{From: rate.Draw(t, "from"), Length: length.Draw(t, "length")}
		s.To = s.From
		if rapid.Bool().Draw(t, "ramp") {
			s.To = rate.Draw(t, "to")
		}
		p.Segments = append(p.Segments, s)
	}
	total := p.Length()
	for range rapid.IntRange(0, 3).Draw(t, "bursts") {
		at := rapid.Int64Range(0, total-1).Draw(t, "at")
		p.Bursts = append(p.Bursts, pace.Burst{
			Rate:   rate.Draw(t, "burst"),
			At:     at,
			Length: rapid.Int64Range(1, total-at).Draw(t, "for"),
		})
	}
	return p
}

// integral returns the integral of the rate from 0 to t, without dividing the profile into pieces.
func integral(p pace.Profile, t int64) float64 {
	sum, start := 0.0, int64(0)
	for _, s := range p.Segments {
		in := float64(min(max(t-start, 0), s.Length)) / 1e9
		sum += s.From*in + (s.To-s.From)/(float64(s.Length)/1e9)*in*in/2
		start += s.Length
	}
	for _, b := range p.Bursts {
		sum += b.Rate * float64(min(max(t-b.At, 0), b.Length)) / 1e9
	}
	return sum
}

func TestConstantArrivalsKeepToTheIntegralAndAreSharedByTheLoops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := profiles(t)
		if err := p.Validate(); err != nil {
			t.Fatalf("%v", err)
		}
		dues := all(t, p.Schedule(pace.Constant, 0, 1, 0), 100000)
		if d := math.Abs(float64(len(dues)) - p.Arrivals()); d > .5+1e-6 {
			t.Fatalf("%d arrivals, the integral is %v", len(dues), p.Arrivals())
		}
		for n, due := range dues {
			if due < 0 || due > p.Length() || n > 0 && due < dues[n-1] {
				t.Fatalf("arrival %d at %d is out of order", n, due)
			}
			// A due time is rounded to a nanosecond, in which the integral grows by rate ÷ 1e9; the
			// rate may jump within it.
			if got, slack := integral(p, due), 1e-6+20000/1e9; math.Abs(got-float64(n)-.5) > slack {
				t.Fatalf("arrival %d at %d: the integral is %v there", n, due, got)
			}
		}
		loops := rapid.IntRange(1, 5).Draw(t, "loops")
		merged := make([]int64, 0, len(dues))
		for loop := range loops {
			for k, due := range all(t, p.Schedule(pace.Constant, loop, loops, 9), 100000) {
				if n := loop + k*loops; n >= len(dues) || dues[n] != due {
					t.Fatalf("arrival %d of loop %d of %d is not arrival %d of the whole",
						k, loop, loops, n)
				}
				merged = append(merged, due)
			}
		}
		if len(merged) != len(dues) {
			t.Fatalf("the loops have %d arrivals, the whole has %d", len(merged), len(dues))
		}
	})
}

func TestPoissonArrivalsAreOrderedAndAsManyAsTheIntegral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := profiles(t)
		loops, seed := rapid.IntRange(1, 4).Draw(t, "loops"), rapid.Uint64().Draw(t, "seed")
		count := 0
		for loop := range loops {
			dues := all(t, p.Schedule(pace.Poisson, loop, loops, seed), 100000)
			if !slices.IsSorted(dues) ||
				len(dues) > 0 && (dues[0] < 0 || dues[len(dues)-1] > p.Length()) {
				t.Fatalf("out of order, or outside the profile")
			}
			if again := all(t, p.Schedule(pace.Poisson, loop, loops, seed),
				100000); !slices.Equal(dues, again) {
				t.Fatalf("the same seed gave other arrivals")
			}
			count += len(dues)
		}
		// Seven standard deviations, and a few for small means.
		if mean := p.Arrivals(); math.Abs(float64(count)-mean) > 7*math.Sqrt(mean)+12 {
			t.Fatalf("%d arrivals, the integral is %v", count, mean)
		}
	})
}

func TestPoissonCountsScatterAsTheyShould(t *testing.T) {
	p := pace.Profile{
		Segments: []pace.Segment{{500, 1500, 500 * second}},
		Bursts:   []pace.Burst{{2000, 100 * second, 100 * second}},
	}
	const loops = 3
	perLoop := make([][]float64, loops)
	total := make([]float64, 500)
	for loop := range loops {
		perLoop[loop] = make([]float64, 500)
		for _, due := range all(t, p.Schedule(pace.Poisson, loop, loops, 42), 2_000_000) {
			perLoop[loop][min(due/second, 499)]++
			total[min(due/second, 499)]++
		}
	}
	// The index of dispersion: the squared distances from the means over the means. Its standard
	// deviation here is √(2/500) = 0.063.
	index := func(counts []float64, share float64) (d float64) {
		for i, c := range counts {
			mean := (integral(p, int64(i+1)*second) - integral(p, int64(i)*second)) * share
			d += (c - mean) * (c - mean) / mean
		}
		return d / float64(len(counts))
	}
	if d := index(total, 1); d < .75 || d > 1.25 {
		t.Errorf("index of dispersion of all loops %.3f, want about 1", d)
	}
	for loop, counts := range perLoop {
		if d := index(counts, 1./loops); d < .75 || d > 1.25 {
			t.Errorf("index of dispersion of loop %d %.3f, want about 1", loop, d)
		}
	}
	// If the loops were correlated, their sum would vary more, or less.
	covariance := 0.0
	for i := range total {
		mean := (integral(p, int64(i+1)*second) - integral(p, int64(i)*second)) / loops
		covariance += (perLoop[0][i] - mean) * (perLoop[1][i] - mean) / mean
	}
	if c := covariance / 500; math.Abs(c) > .25 {
		t.Errorf("loops 0 and 1 correlate by %.3f", c)
	}
}

func TestTheTimeBetweenPoissonArrivalsIsExponential(t *testing.T) {
	dues := all(t, pace.Hold(1000, 200*second).Schedule(pace.Poisson, 0, 1, 5), 1_000_000)
	longer := make([]int, 4) // than 0, 1, 2 and 3 means
	for i := 1; i < len(dues); i++ {
		for k := range longer {
			if dues[i]-dues[i-1] > int64(k)*1_000_000 {
				longer[k]++
			}
		}
	}
	for k, n := range longer {
		want := float64(len(dues)) * math.Exp(-float64(k))
		if math.Abs(float64(n)-want) > 6*math.Sqrt(want) {
			t.Errorf("%d times are longer than %d means, want about %.0f", n, k, want)
		}
	}
}

func TestDifferentSeedsAndLoopsGiveDifferentArrivals(t *testing.T) {
	p := pace.Hold(1000, second)
	seen := map[int64]string{}
	for seed := range uint64(20) {
		for loop := range 4 {
			due, _ := p.Schedule(pace.Poisson, loop, 4, seed).Next()
			if other, twice := seen[due]; twice {
				t.Fatalf("seed %d loop %d begins as %s", seed, loop, other)
			}
			seen[due] = "another"
		}
	}
}

func TestNextDoesNotAlloc(t *testing.T) {
	p := pace.Profile{
		Segments: []pace.Segment{{1000, 3000, 60 * second}, {1000, 1000, 60 * second}},
		Bursts:   []pace.Burst{{500, second, second}},
	}
	for _, a := range []pace.Arrivals{pace.Constant, pace.Poisson} {
		s := p.Schedule(a, 0, 1, 1)
		if n := testing.AllocsPerRun(10000, func() { s.Next() }); n != 0 {
			t.Errorf("%s: %v allocations", a, n)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	for name, p := range map[string]pace.Profile{
		"hold": pace.Hold(10000, 366*24*3600*second),
		"ramp": {Segments: []pace.Segment{{1, 10000, 366 * 24 * 3600 * second}}},
	} {
		for _, a := range []pace.Arrivals{pace.Constant, pace.Poisson} {
			b.Run(name+"/"+string(a), func(b *testing.B) {
				s := p.Schedule(a, 0, 1, 1)
				for b.Loop() {
					s.Next()
				}
			})
		}
	}
}
