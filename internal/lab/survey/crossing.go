package survey

import (
	"cmp"
	"math"
	"slices"
)

// A line is where the share of bad requests crosses what the SLO allows. It is estimated from all
// steps near it at once. Each pair of a crossing and a slope predicts a share for each step; the
// slope is that of the log-odds of the share over the logarithm of the rate, and the form says how
// (wait.go, loss.go). The bad requests of a step are binomial around that share; their number is
// divided by their design effect and by the extra variation between steps. Integrating out the
// slope gives the distribution of the crossing. Steps in which nothing or everything was bad need
// no special case: a cliff gives an interval between the highest rates that passed and the lowest
// that failed.
//
// Rejected: interpolating between the highest PASS and the lowest FAIL. Verdicts near the line are
// mostly undecided, and each is sometimes wrong.

// point is what one step shows about one objective.
type point struct {
	// rate is the planned rate. The rate that chance made of it explains some of the noise, but not
	// in the way the form predicts: with it, lines came out half a percent too high.
	rate         float64
	bad, total   float64
	designEffect float64 // how many requests are bad together
	// Length and settling of the step in seconds; the growth of the requests inside as a share of
	// the rate, and its standard deviation.
	length, settle       float64
	growths, growthDoubt float64
}

// form is how the share of bad requests depends on the rate. at is the rate of the crossing.
type form interface {
	// share returns the predicted share of a step, above 0 and below 1.
	share(p *point, at, slope float64) float64
	// agrees returns the log-likelihood of everything else that a step shows.
	agrees(p *point, at, slope float64) float64
	// prior returns the logarithm of the probability of a crossing and a slope before any step.
	prior(at, slope float64) float64
	// designEffect returns how many requests of a step are bad together.
	designEffect(p *point, all []point, at, slope float64) float64
	// counts returns the weight of a step, 1 near the crossing.
	counts(p *point, at, slope float64) float64
	// tells reports whether the form is exact enough at a step to estimate from it how much steps
	// differ.
	tells(p *point, at, slope float64) bool
}

const (
	leastSlope, mostSlope = 2.5, 2500
	slopes                = 21
	// farthest is the distance, as a share of the rate, from which a step hardly counts: what is
	// slow there is slow for other reasons.
	farthest = 0.2
)

// steep are the slopes to try, evenly spaced as logarithms.
var steep = func() (all [slopes]float64) {
	for j := range all {
		all[j] = leastSlope * math.Pow(mostSlope/leastSlope, float64(j)/float64(slopes-1))
	}
	return all
}()

// grid holds the steps and their weights.
type grid struct {
	form      form
	points    []point
	bad, good []float64 // as independent requests
	weights   []float64
	// order lists the steps that matter, those that show most first: they rule most crossings out.
	// ceiling is the highest log-likelihood that the steps from each place in it on could have.
	order   []int
	ceiling []float64
	// cells has what the form says of each step, for each crossing and slope. It does not depend on
	// the weights, so what was computed with some is used with others. Together with the order, that
	// takes a third off the processor time of a survey in virtual time.
	cells map[place][]cell
}

// place is the logarithm of a crossing, and the index of a slope.
type place struct {
	crossing float64
	slope    int
}

// cell is what the form says of a step at a place: the logarithms of the shares that are bad and
// good, and the log-likelihood of everything else. The share is below 1, so bad is 0 if nothing was
// computed yet.
type cell struct{ bad, good, agrees float64 }

// findCrossing looks for the crossing between two rates. The weights of the steps depend on where
// the crossing is, so it is computed three times.
func findCrossing(f form, points []point, low, high float64) crossing {
	n := len(points)
	g := grid{
		form:    f,
		points:  points,
		bad:     make([]float64, n),
		good:    make([]float64, n),
		weights: make([]float64, n),
		order:   make([]int, 0, n),
		cells:   map[place][]cell{},
	}
	for i := range points {
		p := &points[i]
		effect := f.designEffect(p, points, p.rate, 0)
		g.weights[i], g.bad[i], g.good[i] = 1, p.bad/effect, (p.total-p.bad)/effect
	}
	g.limit()
	c := integrate(math.Log(low), math.Log(high), steep[:], g.likelihood)
	for range 2 {
		g.weigh(c)
		g.limit()
		c = integrate(math.Log(low), math.Log(high), steep[:], g.likelihood)
	}
	return c
}

// weigh converts the steps' requests to independent ones. If the steps differ more than their
// design effects explain, it lowers the weight of all of them.
func (g *grid) weigh(c crossing) {
	at := c.interval.Point
	varied, expected, n := 0.0, 0.0, 0.0
	for i := range g.points {
		p := &g.points[i]
		effect := g.form.designEffect(p, g.points, at, c.slope)
		g.weights[i] = g.form.counts(p, at, c.slope)
		g.bad[i], g.good[i] = p.bad/effect, (p.total-p.bad)/effect
		if !g.form.tells(p, at, c.slope) {
			continue
		}
		share := g.form.share(p, at, c.slope)
		all := p.total / effect
		d := g.bad[i] - all*share
		varied += d * d
		expected += all * share * (1 - share)
		n++
	}
	more := 1.0
	if n > 3 && expected > 0 {
		more = max(more, varied/expected*n/(n-2))
	}
	for i, w := range g.weights {
		g.bad[i], g.good[i] = g.bad[i]*w/more, g.good[i]*w/more
	}
}

// matters reports whether a step is near enough to the crossing to say something of it.
func (g *grid) matters(i int) bool { return g.weights[i] >= .03 }

// limit computes the order and the ceilings. No share explains a step better than the one that it had.
func (g *grid) limit() {
	g.order = g.order[:0]
	for i := range g.points {
		if g.matters(i) {
			g.order = append(g.order, i)
		}
	}
	slices.SortStableFunc(g.order, func(i, j int) int {
		return cmp.Compare(g.bad[j]+g.good[j], g.bad[i]+g.good[i])
	})
	g.ceiling = slices.Grow(g.ceiling[:0], len(g.order)+1)[:len(g.order)+1]
	g.ceiling[len(g.order)] = 0
	for k, i := range slices.Backward(g.order) {
		g.ceiling[k] = g.ceiling[k+1]
		if all := g.bad[i] + g.good[i]; g.bad[i] > 0 && g.good[i] > 0 {
			g.ceiling[k] += g.bad[i]*math.Log(g.bad[i]/all) + g.good[i]*math.Log(g.good[i]/all)
		}
	}
}

// likelihood returns the log-likelihood of the logarithm of a crossing and one of the slopes, or
// minus infinity once it is sure to be less than least.
func (g *grid) likelihood(crossing float64, j int, least float64) float64 {
	at, slope := math.Exp(crossing), steep[j]
	l := g.form.prior(at, slope)
	cells := g.cells[place{crossing, j}]
	if cells == nil {
		cells = make([]cell, len(g.points))
		g.cells[place{crossing, j}] = cells
	}
	for k, i := range g.order {
		if l+g.ceiling[k] < least {
			return math.Inf(-1)
		}
		c := &cells[i]
		if c.bad == 0 {
			p := &g.points[i]
			share := g.form.share(p, at, slope)
			*c = cell{math.Log(share), math.Log1p(-share), g.form.agrees(p, at, slope)}
		}
		l += g.bad[i]*c.bad + g.good[i]*c.good + g.weights[i]*c.agrees
	}
	return l
}

// fades falls from 1 to 0 around a distance of 1.
func fades(d float64) float64 { return 1 / (1 + d*d*d*d) }

// near applies fades to the distance between two rates.
func near(rate, at, distance float64) float64 { return fades(math.Log(rate/at) / distance) }

// heavy is the logarithm of a density around 0 with heavy tails, which data can overrule.
func heavy(d float64) float64 { return -1.5 * math.Log1p(d*d/2) }
