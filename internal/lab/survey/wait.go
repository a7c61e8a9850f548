package survey

import "math"

// A percentile of the response time is broken by requests that wait. How the share of these depends
// on the rate has one form for all queues that are nearly full. The wait is a random walk that the
// rate pushes up and the capacity pulls down, and it cannot fall below zero (reflected Brownian
// motion; Kingman 1961, Harrison 1985). The form has two parameters: the rate at which the share
// crosses the allowed share, and how far below the capacity that rate is. It holds for a step of
// any length that begins with an empty queue. That matters: near its capacity, a queue needs longer
// than any step to reach its steady state, and merely counting bad requests gives a line that is
// two percent too high. Above the capacity, the same formula grows the wait as long as the step
// lasts; with hardly any randomness it is a cliff.
//
// Rejected: a straight line of log-odds, as for errors (two percent too high, for that reason).
// Also rejected: a curve through the percentiles themselves (with few bad periods in a step, a
// percentile is far more often too low than too high).
type waitForm struct {
	allowed float64 // allowed share of bad requests
	always  float64 // share of requests that are bad at any rate
	limit   float64 // seconds
	wait    float64 // the part of limit that a request may wait
	random  float64 // −log of the share that may wait too long
	// usual is the usual slope, as a multiple of the requests that arrive within the limit. Near
	// the capacity c, the tail of a queue's wait falls as exp(−2 (c − λ) t ÷ v), where v is the sum
	// of the squared coefficients of variation of arrivals and service times. The multiple is 2 ÷
	// v: 1 if both are exponential, 2 if one of them is regular.
	usual float64
}

const (
	// stray is the minimum part of the allowed share that may be bad at any rate, for reasons other
	// than waiting for each other: a pause, a slow disk. Without it, a single such request far
	// below the line would outweigh all steps near it. mostStray is the maximum.
	stray, mostStray = 0.02, 0.9
	// usualDoubt is the standard deviation of the logarithm of the slope around the usual one.
	// leastVaried and mostVaried bound the v of the usual one.
	usualDoubt              = 0.4
	leastVaried, mostVaried = 0.6, 8.0
	// effectFactor is the number of requests that are bad together, as a multiple of those that
	// come while the walk forgets its position. fewest is the minimum number of such periods in a
	// step. Both come from simulated M/M/1 to M/D/16 queues.
	effectFactor, fewest = 1.2, 3.0
)

// moments are the points in the judged part of a step at which the share is evaluated, and their
// weights (Gauss-Legendre).
var moments = [4][2]float64{
	{.0694318, .1739274},
	{.3300095, .3260726},
	{.6699905, .3260726},
	{.9305682, .1739274},
}

// newWaitForm returns the form for the share of requests that may take longer than limit, in
// seconds. alone is the time of a request that does not wait, in seconds; at least a tenth of the
// limit is always left for waiting. varied is the sum of the squared coefficients of variation of
// the interarrival times and the service times. always is the share of requests that take too long
// at any rate.
func newWaitForm(allowed, limit, alone, varied, always float64) *waitForm {
	always = min(max(always, stray*allowed), mostStray*allowed)
	return &waitForm{
		allowed: allowed,
		always:  always,
		limit:   limit,
		wait:    limit - min(alone, .9*limit),
		random:  -math.Log((allowed - always) / (1 - always)),
		usual:   2 / min(max(varied, leastVaried), mostVaried),
	}
}

// walk returns the drift and the variance of the wait at a rate, in seconds and seconds squared per
// second.
func (f *waitForm) walk(rate, at, slope float64) (drift, variance float64) {
	relative, gap := rate/at, f.gap(slope)
	return relative*(1-gap) - 1, 2 * gap * f.wait / f.random * relative
}

// gap returns how far the line lies below the capacity, as a share of the capacity.
func (f *waitForm) gap(slope float64) float64 { return f.random / (f.random + slope) }

func (f *waitForm) share(p *point, at, slope float64) float64 {
	drift, variance := f.walk(p.rate, at, slope)
	sum := 0.0
	for _, m := range moments {
		sum += m[1] * exceeds(f.wait, drift, variance, p.settle+m[0]*(p.length-p.settle))
	}
	return min(f.always+(1-f.always)*sum, 1-1e-3)
}

// exceeds returns the probability that a reflected random walk that began at zero is above a level
// after a time.
func exceeds(level, drift, variance, time float64) float64 {
	deviation := math.Sqrt(variance * time)
	up := (level - drift*time) / deviation
	down := (level + drift*time) / deviation
	// Far below the level or above it, as for most of the rates and slopes that are tried, the answer
	// is known to the last digit: the chance to get so high is at most 2 exp(2 drift level ÷
	// variance).
	switch {
	case up > 9 && drift >= 0 || 2*drift*level < -50*variance:
		return 0
	case up < -9:
		return 1
	}
	free := math.Erfc(up/math.Sqrt2) / 2
	// The second term is exp(2 drift level ÷ variance) times a normal tail. If the tail is tiny and
	// the factor huge, the product is computed directly.
	if down > 6 {
		return free + math.Exp(-up*up/2)/(down*math.Sqrt(2*math.Pi))
	}
	return free + math.Exp(2*drift*level/variance)*math.Erfc(down/math.Sqrt2)/2
}

// agrees compares the growth of the requests inside with the capacity: above it, a queue grows by
// the excess; below it, it does not grow.
func (f *waitForm) agrees(p *point, at, slope float64) float64 {
	if p.growthDoubt <= 0 {
		return 0
	}
	capacity := at / (1 - f.gap(slope))
	d := (p.growths - max(1-capacity/p.rate, 0)) / p.growthDoubt
	return -2 * math.Log1p(d*d/3)
}

func (f *waitForm) prior(at, slope float64) float64 {
	return heavy(math.Log(slope/(f.usual*f.limit*at)) / usualDoubt)
}

// designEffect follows from the form and not from the step. By chance alone, a step with many bad
// requests has a large effect and one with few a small effect; weighted by its own effect, a step
// would count less the more it shows. If no slope is known yet, the usual one is used.
func (f *waitForm) designEffect(p *point, _ []point, at, slope float64) float64 {
	if slope == 0 {
		slope = f.usual * f.limit * p.rate
	}
	drift, variance := f.walk(p.rate, at, slope)
	forgets := (p.length - p.settle) * drift * drift / variance
	return max(effectFactor*p.total/(forgets+fewest), 1)
}

func (f *waitForm) counts(p *point, at, _ float64) float64 { return near(p.rate, at, farthest) }

// mostShare is the share of bad requests up to which a step shows how much steps differ.
const mostShare = 0.4

func (f *waitForm) tells(p *point, at, slope float64) bool {
	return f.counts(p, at, slope) >= .5 && f.share(p, at, slope) <= mostShare
}
