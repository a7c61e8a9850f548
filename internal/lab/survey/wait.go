package survey

import "math"

// A percentile of the response time is broken by requests that wait. How the share of those depends
// on the rate has one form for all queues that are nearly full: the wait is a random walk that is
// pushed up by the rate, pulled down by the capacity, and cannot fall below zero (reflected
// Brownian motion; Kingman 1961, Harrison 1985). The form has two numbers, the rate at which the
// share crosses what is allowed and how far below the capacity that is, and it holds for a step of
// any length that begins with an empty queue. That matters: near its capacity a queue needs longer
// than any step lasts to become what it would be for ever, and a step that only counts says that
// the line is two percent higher than it is. Above the capacity the same formula grows the wait as
// long as the step lasts; with hardly any randomness it is a cliff.
//
// Rejected: a straight line of log-odds, as errors are read with (two percent too high for that
// reason), and a curve through the percentiles themselves (with few bad times in a step a
// percentile is far more often too low than too high).
type waitForm struct {
	allowed float64 // share of bad requests
	always  float64 // share that is bad at any rate
	limit   float64 // seconds
	wait    float64 // seconds of them that a request may wait
	random  float64 // −log of the share that may wait too long
	// usual is the usual slope, as a multiple of the requests that arrive within the limit. The
	// tail of a queue's wait falls as exp(−2 (c − λ) t ÷ v) near its capacity c, where v is the sum
	// of the squared coefficients of variation of arrivals and service times: 2 ÷ v is the
	// multiple, 1 when both are exponential, 2 when one of them is regular.
	usual float64
}

const (
	// stray is the least part of the allowed share that may be bad at any rate, for reasons that
	// have nothing to do with waiting for each other: a pause, a slow disk. Without it a single
	// such request far below the line would weigh more than all steps near it. mostStray is the
	// most.
	stray, mostStray = 0.02, 0.9
	// usualDoubt is the standard deviation of the logarithm of the slope around the usual one.
	// leastVaried and mostVaried bound what the usual one is made of.
	usualDoubt              = 0.4
	leastVaried, mostVaried = 0.6, 8.0
	// effectFactor is how many times the requests that come while the walk forgets where it was are
	// bad together, fewest how many such times there are in a step at least. Simulated M/M/1 to
	// M/D/16 queues gave them.
	effectFactor, fewest = 1.2, 3.0
)

// moments are the points in the judged part of a step at which the share is looked at, and their
// weights (Gauss and Legendre).
var moments = [4][2]float64{
	{.0694318, .1739274},
	{.3300095, .3260726},
	{.6699905, .3260726},
	{.9305682, .1739274},
}

// newWaitForm is the form for a share that is allowed to take longer than a limit in seconds. alone
// is what requests take that need not wait, in seconds: at least a tenth of the limit is for
// waiting, whatever that is. varied is the sum of the squared coefficients of variation of the
// times between arrivals and of the service times, always the share of requests that take too long
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

// walk is the drift and the variance of the wait, in seconds and seconds squared for each second,
// at a rate.
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
	return min(f.always+(1-f.always)*sum, 1-1e-3)
}

// exceeds is the probability that a reflected random walk that began at zero is above a level after
// a time.
func exceeds(level, drift, variance, time float64) float64 {
	deviation := math.Sqrt(variance * time)
	up := (level - drift*time) / deviation
	down := (level + drift*time) / deviation
	if up > 9 && drift >= 0 {
		return 0
	}
	free := math.Erfc(up/math.Sqrt2) / 2
	// The second term is exp(2 drift level ÷ variance) times a normal tail: where that tail is tiny
	// and the factor huge, their product is taken at once.
	if down > 6 {
		return free + math.Exp(-up*up/2)/(down*math.Sqrt(2*math.Pi))
	}
	return free + math.Exp(2*drift*level/variance)*math.Erfc(down/math.Sqrt2)/2
}

// agrees compares the growth of what is inside with the capacity: a queue above it grows by what is
// too much, and one below it does not.
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

// designEffect follows from the form and not from the step: a step with many bad requests has a
// large one and one with few has small ones, by the same chance, and one that is weighed by its own
// counts less the more it shows. Before there is a slope, the usual one is taken.
func (f *waitForm) designEffect(p *point, _ []point, at, slope float64) float64 {
	if slope == 0 {
		slope = f.usual * f.limit * p.rate
	}
	drift, variance := f.walk(p.rate, at, slope)
	forgets := (p.length - p.settle) * drift * drift / variance
	return max(effectFactor*p.total/(forgets+fewest), 1)
}

func (f *waitForm) counts(p *point, at, _ float64) float64 { return near(p.rate, at, farthest) }

// mostShare is the share of bad requests from which a step does not say how much steps differ.
const mostShare = 0.4

func (f *waitForm) tells(p *point, at, slope float64) bool {
	return f.counts(p, at, slope) >= .5 && f.share(p, at, slope) <= mostShare
}
