package model_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/queue"
)

// points of a law, off by a share.
func points(lambda, sigma, kappa, noise float64, at ...float64) []model.Point {
	r := rand.New(rand.NewPCG(1, 1))
	var all []model.Point
	for _, n := range at {
		x := lambda * n / (1 + sigma*(n-1) + kappa*n*(n-1))
		all = append(all, model.Point{N: n, X: x * (1 + noise*r.NormFloat64())})
	}
	return all
}

func TestTheScalabilityLawIsFoundAgain(t *testing.T) {
	for _, c := range []struct{ sigma, kappa, noise float64 }{
		{.05, .001, 0},
		{.02, .0005, .02},
		{.2, 0, .01},
		{0, .002, .01},
	} {
		u := model.FitUSL(points(100, c.sigma, c.kappa, c.noise, 1, 2, 4, 8, 16, 24, 32, 48, 64), 1)
		within := func(i model.Interval, want float64) bool {
			return i.Low-.004 <= want && want <= i.High+.004
		}
		if math.Abs(u.Lambda.Estimate/100-1) > .05 || !within(u.Sigma, c.sigma) ||
			!within(u.Kappa, c.kappa) || u.R2 < .98 || u.Reach != 128 {
			t.Errorf("%+v gave %+v", c, u)
		}
		if peak := math.Sqrt((1 - c.sigma) / c.kappa); peak <= u.Reach &&
			math.Abs(u.PeakN/peak-1) > .15 {
			t.Errorf("%+v has its maximum at %v, and not at %v", c, peak, u.PeakN)
		}
	}
}

func TestTheScalabilityLawIsNotStretchedBeyondTwiceTheData(t *testing.T) {
	u := model.FitUSL(points(100, .1, .0001, 0, 1, 2, 4, 8, 16), 1) // its maximum is at 95
	if u.PeakN != 0 || u.PeakX != 0 || u.Reach != 32 || !strings.Contains(u.Note, "beyond") {
		t.Errorf("%+v", u)
	}
	if _, ok := u.At(33); ok {
		t.Error("33 requests inside were answered for, and 16 is the highest that was measured")
	}
	if x, ok := u.At(32); !ok || math.Abs(x/points(100, .1, .0001, 0, 32)[0].X-1) > .01 {
		t.Error(x, ok)
	}
}

func TestAFitThatThePointsDoNotSupportIsRefused(t *testing.T) {
	for says, p := range map[string][]model.Point{
		"concurrencies": points(100, .1, .01, 0, 1, 1.01, 8, 8.1, 30),
		"proportional":  points(100, .001, 0, .01, 1, 2, 4, 8, 16),
		"has":           nil,
		"steps have 1":  {{N: math.NaN(), X: 5}, {N: -1, X: 5}, {N: 3, X: math.Inf(1)}, {N: 1, X: 1}},
	} {
		u := model.FitUSL(p, 1)
		if !strings.Contains(u.Note, says) && says != "has" || u.Note == "" ||
			u.Lambda != (model.Interval{}) || u.PeakN != 0 {
			t.Errorf("%s: %+v", says, u)
		}
		if _, ok := u.At(1); ok {
			t.Errorf("%s: a law without a fit answers", says)
		}
	}
}

func TestLittlesLawHoldsInAQueueAndABreachIsFound(t *testing.T) {
	for name, l := range map[string]load{
		"light":    {rate: 300},
		"heavy":    {rate: 1900},
		"constant": {rate: 1000, constant: true},
	} {
		l.station = queue.Station{Workers: 4, Service: queue.Exponential(2 * ms), Room: -1}
		l.length = 6 * second
		l.overhead = 100_000
		l.seed = 2
		s := l.step(3)
		check := func() model.Check {
			all := model.CheckPhysics([]measure.Step{s}, model.Options{})
			if len(all) != 1 || all[0].Law != "Little" || all[0].Step != 3 ||
				all[0].Sentence == "" {
				t.Fatalf("%s: %+v", name, all)
			}
			return all[0]
		}
		if c := check(); c.Breach {
			t.Errorf("%s: %+v", name, c)
		}
		for i := range s.Windows {
			s.Windows[i].InFlight += 60
		}
		if c := check(); !c.Breach || !strings.Contains(c.Sentence, "wrong") {
			t.Errorf("%s with sixty more inside than there are: %+v", name, c)
		}
	}
}

func TestLittlesLawDoesNotJudgeAStepWithFailures(t *testing.T) {
	l := load{
		station: queue.Station{Workers: 2, Service: queue.Exponential(2 * ms), Room: 3},
		rate:    1500,
		length:  3 * second,
	}
	all := model.CheckPhysics([]measure.Step{l.step(1)}, model.Options{})
	if len(all) != 1 || all[0].Breach || !strings.Contains(all[0].Sentence, "failed") {
		t.Errorf("%+v", all)
	}
}

func TestTheUtilizationLawFindsAStepInWhichARequestCostsMore(t *testing.T) {
	steps := sampled(.0005, .05, 300, 600, 900, 1200, 1500)
	breaches := func() (at []int) {
		for _, c := range model.CheckPhysics(steps, model.Options{Cores: 2}) {
			if c.Law == "utilization" && c.Breach {
				at = append(at, c.Step)
			}
		}
		return at
	}
	if at := breaches(); len(at) != 0 {
		t.Errorf("steps %v break the law, and all cost the same", at)
	}
	sampleCPU(&steps[2], .001, .05)
	if at := breaches(); len(at) != 1 || at[0] != 3 {
		t.Errorf("the third step's requests cost twice as much, and %v break the law", at)
	}
}
