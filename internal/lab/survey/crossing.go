package survey

import (
	"math"
	"slices"
)

// A line is where the share of bad requests crosses what is allowed. Near it the log-odds of that share are a straight line over the logarithm of the
// rate: its slope is small for a slow service (5), and so steep for a fast one with constant service times (1000) that it is a cliff. So the crossing is read
// from all steps near it at once: the likelihood of each pair of crossing and slope on a grid, the bad requests binomial, their number divided by
// the size of the clumps they come in and by what steps differ beyond that, and the crossing's distribution is what is left when the slope is
// integrated out. Steps that show nothing bad, or nothing good, need no special case: a cliff gives the interval from the highest rate that passed to
// the lowest that failed.
//
// Rejected: interpolating between the highest PASS and the lowest FAIL. Verdicts near the line are mostly undecided, and each is wrong now and then.

// point is what one step says of one objective.
type point struct {
	rate       float64 // as it was offered in fact
	bad, total float64
	clump      float64 // how many requests are bad together: counts are divided by it
	// length and settle of the step in seconds, the growth of what was inside as a share of the rate, and its standard deviation.
	length, settle       float64
	growths, growthDoubt float64
}

const (
	leastSlope, mostSlope = 2.5, 2500
	slopes                = 21
	// reach is the distance from the line, in log-odds, up to which a step counts fully: the line is straight for about that far.
	reach = 3.0
	// closest is the distance as a share of the rate up to which it does in any case.
	closest = 0.02
	// leastMore is by how much clumps are at least larger than they look. mostShare is the share of bad requests above which steps say nothing of that.
	leastMore, mostShare = 1.3, 0.4
	// usualSlope is the slope of queues, as a multiple of the requests that arrive within the limit.
	usualSlope = 1.3
	// errorSlope is the slope of a queue that refuses what it has no room for: about as many as it has room for.
	errorSlope = 25
	// farthest is the distance from which a step hardly counts however shallow the slope is: what is slow there is slow for other reasons.
	farthest = 0.2
)

// objective is what a crossing is looked for: the share of bad requests that is allowed, and the limit in seconds above which one is bad, 0 for none.
// alone is how long a request takes that does not wait.
type objective struct{ share, limit, alone float64 }

// findCrossing looks for the crossing between two rates.
func findCrossing(points []point, o objective, low, high float64) crossing {
	g := grid{objective: o, allowed: math.Log(o.share / (1 - o.share)), low: math.Log(low), high: math.Log(high)}
	g.wait = waitLine{share: o.share, wait: o.limit - o.alone}
	g.points = points
	g.weigh(points)
	c := g.solve()
	for range 2 {
		g.discount(points, c)
		c = g.solve()
	}
	return c
}

// grid is the pairs that are tried, and what they are held against: the logarithms of the rates, and the good and bad requests as independent ones.
type grid struct {
	objective
	allowed         float64 // log-odds
	low, high       float64 // logarithms of rates
	wait            waitLine
	points          []point
	rates, weights  []float64
	bad, good       []float64
	allBad, allGood []float64
}

// weigh counts the points' requests as independent ones.
func (g *grid) weigh(points []point) {
	for _, p := range points {
		clump := g.clumpAt(points, p.rate)
		g.rates = append(g.rates, math.Log(p.rate))
		g.allBad, g.allGood = append(g.allBad, p.bad/clump), append(g.allGood, (p.total-p.bad)/clump)
	}
	g.weights = slices.Repeat([]float64{1}, len(points))
	g.bad, g.good = slices.Clone(g.allBad), slices.Clone(g.allGood)
}

// clumpAt is how many requests are bad together at a rate. A step with many bad ones has large clumps and one with few has small ones, by the same chance: a
// step that is weighed by its own clumps counts less the more it shows, and the line comes out too high. So clumps are averaged over steps that are
// alike, which are those within two units of log-odds by the usual slope.
func (g *grid) clumpAt(points []point, rate float64) float64 {
	alike := .08
	if g.limit > 0 {
		alike = max(2/(usualSlope*g.limit*rate), .03)
	}
	sum, weight := 0.0, 0.0
	for _, p := range points {
		d := math.Log(rate/p.rate) / alike
		w := math.Exp(-d*d/2) * p.total
		sum += w * p.clump
		weight += w
	}
	return max(sum/weight, 1)
}

// discount takes weight from points that are far away, and from all when they vary more than their clumps explain: clumps that are told from a few seconds are
// too small, since the largest are seldom seen.
func (g *grid) discount(points []point, c crossing) {
	at := math.Log(c.interval.Point)
	varied, expected, n := 0.0, 0.0, 0.0
	for i := range points {
		away := math.Abs(g.rates[i] - at)
		w := fades(away / farthest)
		if g.limit == 0 {
			w *= fades(max(away-closest, 0) * c.slope / reach)
		}
		g.weights[i] = w
		if g.limit > 0 {
			p := &points[i]
			clump := g.wait.clump(p, c.interval.Point, g.gap(c.slope))
			g.allBad[i], g.allGood[i] = p.bad/clump, (p.total-p.bad)/clump
		}
		share := g.expected(i, at, c.slope)
		if w < .5 || share > mostShare {
			continue
		}
		all := g.allBad[i] + g.allGood[i]
		d := g.allBad[i] - all*share
		varied += d * d
		expected += all * share * (1 - share)
		n++
	}
	more := 1.0
	if g.limit == 0 {
		more = leastMore
	}
	if n > 3 && expected > 0 {
		more = max(more, varied/expected*n/(n-2))
	}
	for i, w := range g.weights {
		g.bad[i], g.good[i] = g.allBad[i]*w/more, g.allGood[i]*w/more
	}
}

// expected is the share of bad requests at a point.
func (g *grid) expected(i int, at, slope float64) float64 {
	if g.limit == 0 {
		return 1 / (1 + math.Exp(-g.allowed-slope*(g.rates[i]-at)))
	}
	return g.wait.longer(&g.points[i], math.Exp(at), g.gap(slope))
}

// fades falls from 1 to 0 around a distance of 1.
func fades(d float64) float64 { return 1 / (1 + d*d*d*d) }

// fit is the logarithm of the likelihood of bad and good requests at a point's rate.
func (g *grid) fit(i int, bad, good, at, slope float64) float64 {
	if g.limit == 0 {
		z := g.allowed + slope*(g.rates[i]-at)
		s := softplus(z) // −log of the probability of a good one
		return -bad*(s-z) - good*s
	}
	share := g.wait.longer(&g.points[i], math.Exp(at), g.gap(slope))
	return bad*math.Log(share) + good*math.Log1p(-share)
}

// gap is how far the line lies below the capacity, as a share of that, when the share of bad requests rises with a slope there.
func (g *grid) gap(slope float64) float64 {
	far := math.Log(1 / g.share)
	return far / (far + slope)
}

// solve integrates over the grid, and once more over the part of it that matters.
func (g *grid) solve() crossing {
	return integrate(g.low, g.high, steep[:], g.likelihood)
}

// steep are the slopes that are tried, evenly spaced as logarithms.
var steep = func() (all [slopes]float64) {
	for j := range all {
		all[j] = leastSlope * math.Pow(mostSlope/leastSlope, float64(j)/float64(slopes-1))
	}
	return all
}()

// likelihood is its logarithm for a crossing (a logarithm too) and a slope.
func (g *grid) likelihood(at float64, shape int) (l float64) {
	slope := steep[shape]
	l = g.prior(at, slope)
	for i := range g.rates {
		if g.bad[i]+g.good[i] < .5 {
			continue // too far away to say anything
		}
		l += g.fit(i, g.bad[i], g.good[i], at, slope)
		if g.limit > 0 {
			l += g.weights[i] * g.points[i].growth(math.Exp(at), g.gap(slope))
		}
	}
	return l
}

// prior is the logarithm of how probable a slope is beforehand. In a queue the tail of the wait falls as exp(−2 (c − λ) t ÷ (a² + s²)) near its capacity c, for
// arrivals and service times with squared coefficients of variation a² and s²: so the slope is the number of requests that arrive within the limit, times 2
// for regular arrivals or service, times 1 when both are random, less when they come in bursts. Other services than queues exist: the prior's
// flanks are heavy, so that data overrule it.
func (g *grid) prior(at, slope float64) float64 {
	factor, usual := 0.4, math.Log(usualSlope*g.limit)+at
	if g.limit == 0 {
		factor, usual = 0.8, math.Log(errorSlope)
	}
	d := (math.Log(slope) - usual) / factor
	return -1.5 * math.Log1p(d*d/2)
}

// softplus is log(1 + e^z) without overflow.
func softplus(z float64) float64 {
	if z > 30 {
		return z
	}
	return math.Log1p(math.Exp(z))
}
