package survey

import "math"

// A percentile of the response time is broken by requests that wait. How the share of those depends on the rate has one form for all queues that are
// nearly full: the wait is a random walk that is pushed up by the rate, pulled down by the capacity, and cannot fall below zero (reflected Brownian
// motion; Kingman 1961, Harrison 1985). The form has two numbers, the rate at which the share crosses what is allowed and how far below the capacity
// that is, and it holds for a step of any length that begins with an empty queue. That matters: near its capacity a queue needs longer than any
// step lasts to become what it would be for ever, and a step that only counts says that the line is two percent higher than it is. Above the capacity
// the same formula grows the wait as long as the step lasts; with hardly any randomness it is a cliff.
//
// Rejected: a straight line of log-odds, as errors are read with (two percent too high for that reason), and a curve through the percentiles
// themselves (with few clumps in a step a percentile is far more often too low than too high).
type waitForm struct {
	allowed float64 // share of bad requests
	limit   float64 // seconds
	wait    float64 // seconds of them that a request may wait
	// random is −log of the share that may wait too long, once what is bad at any rate has been taken from what is allowed.
	random float64
}

const (
	// stray is the part of the allowed share that may be bad at any rate, for reasons that have nothing to do with waiting for each other: a pause, a slow
	// disk. Without it a single such request far below the line would weigh more than all steps near it.
	stray = 0.02
	// waitSlope is the usual slope, as a multiple of the requests that arrive within the limit, waitDoubt the standard deviation of its logarithm. In a queue the
	// tail of the wait falls as exp(−2 (c − λ) t ÷ (a² + s²)) near its capacity c, for arrivals and service times with squared coefficients of
	// variation a² and s²: the multiple is 2 when one of them is regular, 1 when both are random, and less when they come in bursts.
	waitSlope, waitDoubt = 1.3, 0.4
	// clumps is how many times the requests that come while the walk forgets where it was are bad together, fewest how many such times there are in a
	// step at least. Simulated M/M/1 to M/D/16 queues gave them.
	clumps, fewest = 1.2, 3.0
)

// moments are the points in the judged part of a step at which the share is looked at, and their weights (Gauss and Legendre).
var moments = [4][2]float64{{.0694318, .1739274}, {.3300095, .3260726}, {.6699905, .3260726}, {.9305682, .1739274}}

// newWaitForm is the form for a share that is allowed to take longer than a limit, for requests that take alone when they need not wait; both in seconds. At least
// a tenth of the limit is for waiting, whatever a request takes alone.
func newWaitForm(allowed, limit, alone float64) *waitForm {
	return &waitForm{allowed, limit, limit - min(alone, .9*limit), -math.Log(allowed * (1 - stray))}
}

// walk is the drift and the variance of the wait, in seconds and seconds squared for each second, at a rate.
func (f *waitForm) walk(rate, at, slope float64) (drift, variance float64) {
	relative, gap := rate/at, f.gap(slope)
	return relative*(1-gap) - 1, 2 * gap * f.wait / f.random * relative
}

// gap is how far the line lies below the capacity, as a share of that.
func (f *waitForm) gap(slope float64) float64 { return f.random / (f.random + slope) }

func (f *waitForm) share(p *point, at, slope float64) float64 {
	drift, variance := f.walk(p.rate, at, slope)
	sum := 0.0
	for _, m := range moments {
		sum += m[1] * exceeds(f.wait, drift, variance, p.settle+m[0]*(p.length-p.settle))
	}
	always := f.allowed * stray
	return min(always+(1-always)*sum, 1-1e-3)
}

// exceeds is the probability that a reflected random walk that began at zero is above a level after a time.
func exceeds(level, drift, variance, time float64) float64 {
	deviation := math.Sqrt(variance * time)
	up := (level - drift*time) / deviation
	down := (level + drift*time) / deviation
	if up > 9 && drift >= 0 {
		return 0
	}
	free := math.Erfc(up/math.Sqrt2) / 2
	// The second term is exp(2 drift level ÷ variance) times a normal tail: where that tail is tiny and the factor huge, their product is taken at once.
	if down > 6 {
		return free + math.Exp(-up*up/2)/(down*math.Sqrt(2*math.Pi))
	}
	return free + math.Exp(2*drift*level/variance)*math.Erfc(down/math.Sqrt2)/2
}

// agrees holds the growth of what is inside against the capacity: a queue above it grows by what is too much, and one below it does not.
func (f *waitForm) agrees(p *point, at, slope float64) float64 {
	if p.growthDoubt <= 0 {
		return 0
	}
	capacity := at / (1 - f.gap(slope))
	d := (p.growths - max(1-capacity/p.rate, 0)) / p.growthDoubt
	return -2 * math.Log1p(d*d/3)
}

func (f *waitForm) prior(at, slope float64) float64 {
	return heavy(math.Log(slope/(waitSlope*f.limit*at)) / waitDoubt)
}

// clump follows from the form and not from the step: a step with many bad requests has large clumps and one with few has small ones, by the same chance,
// and one that is weighed by its own counts less the more it shows. Before there is a slope, the usual one is taken.
func (f *waitForm) clump(p *point, _ []point, at, slope float64) float64 {
	if slope == 0 {
		slope = waitSlope * f.limit * p.rate
	}
	drift, variance := f.walk(p.rate, at, slope)
	forgets := (p.length - p.settle) * drift * drift / variance
	return max(clumps*p.total/(forgets+fewest), 1)
}

func (f *waitForm) counts(p *point, at, _ float64) float64 { return near(p.rate, at, farthest) }
