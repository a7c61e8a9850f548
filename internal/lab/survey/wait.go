package survey

import "math"

// A percentile of the response time is broken by requests that wait. How the share of those depends on the rate has one form for all queues that are
// nearly full: the wait is a random walk that is pushed up by the rate, pulled down by the capacity, and cannot fall below zero (reflected Brownian
// motion; Kingman 1961, Harrison 1985). The form has two numbers, the rate at which the share crosses what is allowed and how far below the capacity
// that is, and it is exact for a step of any length that begins with an empty queue. That matters: near its capacity a queue needs longer than any
// step lasts to become what it would be for ever, and a step that only counts says that the line is two percent higher than it is. Above the capacity
// the same formula grows the wait as long as the step; with hardly any randomness it is a cliff.
//
// Rejected: a straight line of log-odds, as errors are read with (two percent too high for that reason), and a curve through the percentiles
// themselves (with few clumps in a step a percentile is far more often too low than too high).

// moments are the points in the judged part of a step at which the share is looked at, and their weights (Gauss and Legendre).
var moments = [4][2]float64{{.0694318, .1739274}, {.3300095, .3260726}, {.6699905, .3260726}, {.9305682, .1739274}}

// stray is the part of the allowed share that may be bad at any rate, for reasons that have nothing to do with waiting for each other: a pause, a
// slow disk. Without it a single such request far below the line would weigh more than all steps near it.
const stray = 0.02

// waitLine is the steps of one percentile and what they are held against.
type waitLine struct {
	share float64 // that is allowed
	wait  float64 // seconds that a request may wait
}

// longer is the share of requests of a step that wait too long, at a rate, when the line is at crossing and that lies by gap, a share of it, below the
// capacity.
func (w *waitLine) longer(p *point, crossing, gap float64) float64 {
	relative := p.rate / crossing
	drift := relative*(1-gap) - 1
	variance := 2 * gap * w.wait / math.Log(1/(w.share*(1-stray))) * relative
	sum := 0.0
	for _, m := range moments {
		sum += m[1] * exceeds(w.wait, drift, variance, p.settle+m[0]*(p.length-p.settle))
	}
	return min(w.share*stray+(1-w.share*stray)*sum, 1-1e-3)
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

// growth is how well the growth of what is inside a step agrees with a capacity: a queue above it grows by what is too much, and one below it not.
func (p *point) growth(crossing, gap float64) float64 {
	if p.growthDoubt <= 0 {
		return 0
	}
	d := (p.growths - max(1-crossing/(1-gap)/p.rate, 0)) / p.growthDoubt
	return -2 * math.Log1p(d*d/3)
}

// clump is how many requests of a step wait too long together: twice those that come in the time that the walk needs to forget where it was, which is
// at most half of the step. It is taken from the form and not from the step: a step with many bad requests has large clumps and one with few has small ones,
// by the same chance, and one that is weighed by its own clumps counts less the more it shows.
func (w *waitLine) clump(p *point, crossing, gap float64) float64 {
	relative := p.rate / crossing
	drift := relative*(1-gap) - 1
	variance := 2 * gap * w.wait / math.Log(1/w.share) * relative
	judged := p.length - p.settle
	return max(1.2*p.total/(judged*drift*drift/variance+3), 1)
}
