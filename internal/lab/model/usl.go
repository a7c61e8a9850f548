package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"plimsoll/internal/lab/measure"
)

// Point is a throughput, in requests per second, at a mean number of requests inside.
type Point struct{ N, X float64 }

// Points returns the steps as the scalability law sees them: the throughput and, by Little's law,
// the number of requests inside. Steps in which more than 5 % failed are left out, and so are those
// in which the generator was the limit.
func Points(steps []measure.Step) []Point {
	var all []Point
	for i := range steps {
		t := &steps[i].Totals
		x, total := t.Goodput(), t.Ended.Total()
		if x > 0 && t.Generator.Limit() == "" && float64(t.Ended.Failed()) <= .05*float64(total) {
			all = append(all, Point{x * t.Response.Mean() / 1e9, x})
		}
	}
	return all
}

const (
	// fewestPoints is how many different concurrencies a fit of three parameters needs.
	fewestPoints = 4
	// mostPoints limits the work; with more points, neighbours are averaged.
	mostPoints = 200
	// reach is how far beyond the data the law may be used, as a factor.
	reach = 2
	// bent is the ratio of the throughput per request inside, at the highest to that at the lowest
	// concurrency, above which the points count as a straight line.
	bent = .9
	// uslReplicates is how often the points are resampled for the intervals.
	uslReplicates = 200
)

// FitUSL fits Gunther's law with λ above 0 and σ and κ between 0 and 1. It uses least squares of
// relative errors, because the throughputs of a survey are decades apart. If the points do not
// support a fit, Note gives the reason, and only Reach is meaningful.
func FitUSL(points []Point, seed uint64) *USL {
	points = usable(points)
	u := &USL{}
	if len(points) > 0 {
		u.Reach = reach * points[len(points)-1].N
	}
	if n := distinct(points); n < fewestPoints {
		u.Note = fmt.Sprintf("the law needs %d different concurrencies, and the steps have %d",
			fewestPoints, n)
		return u
	}
	// Means over a third of the points, so that a single point does not decide.
	third := max(len(points)/3, 1)
	if perRequest(points[len(points)-third:]) > bent*perRequest(points[:third]) {
		u.Note = "throughput is still proportional to concurrency: nothing bends yet, " +
			"so nothing can be said of where it will"
		return u
	}
	best := fitLaw(points)
	u.R2 = best.r2(points)
	r := rand.New(rand.NewPCG(seed, 0xbb67ae8584caa73b))
	var lambda, sigma, kappa []float64
	again := make([]Point, len(points))
	for range uslReplicates {
		for i := range again {
			again[i] = points[r.IntN(len(points))]
		}
		slices.SortFunc(again, byN)
		if distinct(again) < fewestPoints-1 {
			continue
		}
		l := fitLaw(again)
		lambda = append(lambda, l.lambda)
		sigma = append(sigma, l.sigma)
		kappa = append(kappa, l.kappa)
	}
	u.Lambda = percentiles(lambda, best.lambda)
	u.Sigma = percentiles(sigma, best.sigma)
	u.Kappa = percentiles(kappa, best.kappa)
	u.peak(best)
	return u
}

// peak fills in the maximum, if it lies within Reach.
func (u *USL) peak(l law) {
	if l.kappa <= 0 || l.sigma >= 1 {
		u.Note = "no maximum: throughput flattens and does not fall as far as the steps show"
		return
	}
	n := max(math.Sqrt((1-l.sigma)/l.kappa), 1)
	if n > u.Reach {
		u.Note = fmt.Sprintf("the law's maximum lies beyond %.3g requests inside, "+
			"twice what was measured, and is not given", u.Reach)
		return
	}
	u.PeakN, u.PeakX = n, l.at(n)
}

// At returns the throughput at a concurrency; ok is false without a fit, and beyond Reach.
func (u *USL) At(n float64) (x float64, ok bool) {
	if u.Lambda.Estimate == 0 || n <= 0 || n > u.Reach {
		return 0, false
	}
	return law{u.Lambda.Estimate, u.Sigma.Estimate, u.Kappa.Estimate}.at(n), true
}

func byN(a, b Point) int {
	switch {
	case a.N < b.N:
		return -1
	case a.N > b.N:
		return 1
	}
	return 0
}

// usable returns the finite points above 0, in order of concurrency. It averages neighbours if
// there are more than mostPoints.
func usable(points []Point) []Point {
	var all []Point
	for _, p := range points {
		if p.N > 0 && p.X > 0 && !math.IsInf(p.N, 0) && !math.IsInf(p.X, 0) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, byN)
	if every := (len(all) + mostPoints - 1) / mostPoints; every > 1 {
		var fewer []Point
		for chunk := range slices.Chunk(all, every) {
			p := Point{}
			for _, c := range chunk {
				p.N, p.X = p.N+c.N/float64(len(chunk)), p.X+c.X/float64(len(chunk))
			}
			fewer = append(fewer, p)
		}
		all = fewer
	}
	return all
}

// distinct counts concurrencies at least 5 % apart. The points must be in order.
func distinct(points []Point) (n int) {
	last := 0.0
	for _, p := range points {
		if p.N > last*1.05 {
			n, last = n+1, p.N
		}
	}
	return n
}

func perRequest(points []Point) (mean float64) {
	for _, p := range points {
		mean += p.X / p.N / float64(len(points))
	}
	return mean
}

// law is the law with its parameters.
type law struct{ lambda, sigma, kappa float64 }

func shape(n, sigma, kappa float64) float64 {
	return n / (1 + sigma*max(n-1, 0) + kappa*n*max(n-1, 0))
}

func (l law) at(n float64) float64 { return l.lambda * shape(n, l.sigma, l.kappa) }

// r2 returns the share of the throughputs' variance that the law explains.
func (l law) r2(points []Point) float64 {
	mean, rest, all := 0.0, 0.0, 0.0
	for _, p := range points {
		mean += p.X / float64(len(points))
	}
	for _, p := range points {
		rest += (p.X - l.at(p.N)) * (p.X - l.at(p.N))
		all += (p.X - mean) * (p.X - mean)
	}
	if all == 0 {
		return 0
	}
	return 1 - rest/all
}

// loss returns the sum of squared relative errors, with the λ that minimizes it, which follows from
// the other two parameters.
func loss(points []Point, sigma, kappa float64) (sum, lambda float64) {
	var g, gg float64
	for _, p := range points {
		q := shape(p.N, sigma, kappa) / p.X
		g, gg = g+q, gg+q*q
	}
	// Σ(1 − λq)² is n − (Σq)²/Σq² at λ = Σq/Σq².
	return float64(len(points)) - g*g/gg, g / gg
}

// fitLaw searches a logarithmic grid that includes zero, then takes ever smaller steps around the
// best point: the loss has flat valleys that mislead a gradient, and the two parameters are
// bounded.
func fitLaw(points []Point) law {
	grid := []float64{0}
	for e := -8.0; e <= 0; e += .4 {
		grid = append(grid, math.Pow(10, e))
	}
	best, least := law{}, math.Inf(1)
	try := func(sigma, kappa float64) bool {
		if sum, lambda := loss(points, sigma, kappa); sum < least {
			best, least = law{lambda, sigma, kappa}, sum
			return true
		}
		return false
	}
	for _, sigma := range grid {
		for _, kappa := range grid {
			try(sigma, kappa)
		}
	}
	for factor := 1.5; factor > 1.0005; {
		s, k := best.sigma, best.kappa
		better := false
		for _, fs := range [3]float64{1 / factor, 1, factor} {
			for _, fk := range [3]float64{1 / factor, 1, factor} {
				better = try(min(s*fs, 1), min(k*fk, 1)) || better
			}
		}
		if !better {
			factor = math.Sqrt(factor)
		}
	}
	return best
}
