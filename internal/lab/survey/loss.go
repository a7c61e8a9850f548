package survey

import "math"

// Requests fail for many reasons. The form for errors is the simplest assumption: a straight line
// of log-odds over the logarithm of the rate.
type lossForm struct {
	allowed float64 // log-odds of the allowed share
}

const (
	// lossReach is the distance from the line, in log-odds, within which the form is taken to be
	// straight.
	lossReach = 3.0
	// lossSlope is the usual slope: a queue that refuses what it has no room for has about that
	// much room. lossDoubt is the standard deviation of its logarithm.
	lossSlope, lossDoubt = 40, 1.2
	// lossMore is how much larger design effects are than a few seconds show: the largest ones are
	// rare.
	lossMore = 1.3
)

func newLossForm(allowed float64) *lossForm {
	return &lossForm{math.Log(allowed / (1 - allowed))}
}

// odds returns the predicted log-odds of a step minus the allowed ones. Beyond lossReach they are
// clamped: a distant step only says on which side of it the line is. It always says that, because
// requests that do not fail at a rate do not fail below it.
//
// Rejected: giving steps less weight the further they are from the latest estimate of the line. Its
// neighbours then confirmed a line that was too low, and steps above it without any failure no
// longer counted.
func (f *lossForm) odds(p *point, at, slope float64) float64 {
	return min(max(slope*math.Log(p.rate/at), -lossReach), lossReach)
}

func (f *lossForm) share(p *point, at, slope float64) float64 {
	return 1 / (1 + math.Exp(-f.allowed-f.odds(p, at, slope)))
}

func (f *lossForm) agrees(*point, float64, float64) float64 { return 0 }

func (f *lossForm) prior(_, slope float64) float64 {
	return heavy(math.Log(slope/lossSlope) / lossDoubt)
}

// designEffect is estimated from few bad periods, so it averages over steps at nearly the same
// rate. By chance alone, a step with many bad requests has a large effect and one with few a small
// effect. Weighted by its own effect, a step would count less the more it shows, and lines would
// come out too high.
func (f *lossForm) designEffect(p *point, all []point, _, _ float64) float64 {
	const alike = .08
	sum, weight := 0.0, 0.0
	for i := range all {
		d := math.Log(p.rate/all[i].rate) / alike
		w := math.Exp(-d*d/2) * all[i].total
		sum += w * all[i].designEffect
		weight += w
	}
	return max(lossMore*sum/weight, 1)
}

func (f *lossForm) counts(*point, float64, float64) float64 { return 1 }

func (f *lossForm) tells(p *point, at, slope float64) bool {
	return math.Abs(f.odds(p, at, slope)) < lossReach
}
