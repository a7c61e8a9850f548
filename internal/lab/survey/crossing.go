package survey

import "math"

// A line is where the share of bad requests crosses what is allowed. It is read from all steps near
// it at once: each pair of a crossing and a slope, the slope being that of the log-odds of the
// share over the logarithm of the rate, predicts a share for each step (how, a form says: wait.go,
// loss.go); the bad requests of a step are binomial around it, their number divided by their design
// effect and by what steps differ beyond that; and the crossing's distribution is what is left when
// the slope is integrated out. Steps that show nothing bad, or nothing good, need no special case:
// a cliff gives an interval between the highest rates that passed and the lowest that failed.
//
// Rejected: interpolating between the highest PASS and the lowest FAIL. Verdicts near the line are
// mostly undecided, and each is wrong now and then.

// point is what one step says of one objective.
type point struct {
	// rate is the one that was planned. What chance made of it explains some of the noise, but not
	// as the form would: compared with that, lines came out half a percent too high.
	rate         float64
	bad, total   float64
	designEffect float64 // how many requests were bad together
	// length and settle of the step in seconds, the growth of what was inside as a share of the
	// rate, and its standard deviation.
	length, settle       float64
	growths, growthDoubt float64
}

// form is how the share of bad requests depends on the rate. at is the rate of the crossing.
type form interface {
	// share is what a pair predicts for a step, above 0 and below 1.
	share(p *point, at, slope float64) float64
	// agrees is the logarithm of the likelihood of what else a step shows.
	agrees(p *point, at, slope float64) float64
	// prior is the logarithm of how probable a pair is before any step was done.
	prior(at, slope float64) float64
	// designEffect is how many requests of a step are bad together.
	designEffect(p *point, all []point, at, slope float64) float64
	// counts is how much a step counts, 1 near the crossing.
	counts(p *point, at, slope float64) float64
	// tells says whether a step lies where the form is exact enough to tell from it how much steps
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

// steep are the slopes that are tried, evenly spaced as logarithms.
var steep = func() (all [slopes]float64) {
	for j := range all {
		all[j] = leastSlope * math.Pow(mostSlope/leastSlope, float64(j)/float64(slopes-1))
	}
	return all
}()

// grid is the steps as they are weighed.
type grid struct {
	form      form
	points    []point
	bad, good []float64 // as independent requests
	weights   []float64
}

// findCrossing looks for the crossing between two rates. What steps weigh depends on where it is;
// so it is found three times.
func findCrossing(f form, points []point, low, high float64) crossing {
	n := len(points)
	g := grid{
		form:    f,
		points:  points,
		bad:     make([]float64, n),
		good:    make([]float64, n),
		weights: make([]float64, n),
	}
	for i := range points {
		p := &points[i]
		effect := f.designEffect(p, points, p.rate, 0)
		g.weights[i], g.bad[i], g.good[i] = 1, p.bad/effect, (p.total-p.bad)/effect
	}
	c := integrate(math.Log(low), math.Log(high), steep[:], g.likelihood)
	for range 2 {
		g.weigh(c)
		c = integrate(math.Log(low), math.Log(high), steep[:], g.likelihood)
	}
	return c
}

// weigh counts the steps' requests as independent ones, and takes weight from all of them when they
// differ more than their design effects explain.
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

// likelihood is its logarithm for the logarithm of a crossing and one of the slopes.
func (g *grid) likelihood(crossing float64, j int) float64 {
	at, slope := math.Exp(crossing), steep[j]
	l := g.form.prior(at, slope)
	for i := range g.points {
		if g.weights[i] < .03 {
			continue // too far away to say anything
		}
		p := &g.points[i]
		share := g.form.share(p, at, slope)
		l += g.bad[i]*math.Log(share) + g.good[i]*math.Log1p(-share) +
			g.weights[i]*g.form.agrees(p, at, slope)
	}
	return l
}

// fades falls from 1 to 0 around a distance of 1.
func fades(d float64) float64 { return 1 / (1 + d*d*d*d) }

// near is fades of the distance between two rates.
func near(rate, at, distance float64) float64 { return fades(math.Log(rate/at) / distance) }

// heavy is the logarithm of a density with heavy flanks, which data overrule, around 0.
func heavy(d float64) float64 { return -1.5 * math.Log1p(d*d/2) }
