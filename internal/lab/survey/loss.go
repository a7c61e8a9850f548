package survey

import "math"

// Requests fail for many reasons. The form of errors is a straight line of log-odds over the
// logarithm of the rate: the least that can be said.
type lossForm struct {
	allowed float64 // log-odds of the share that is allowed
}

const (
	// lossReach is the distance from the line in log-odds up to which it is taken to be straight.
	lossReach = 3.0
	// lossSlope is the usual slope: a queue that refuses what it has no room for has about as much
	// as it has room for. lossDoubt is the standard deviation of its logarithm.
	lossSlope, lossDoubt = 40, 1.2
	// lossMore is by how much design effects are larger than they look in a few seconds: the
	// largest are rarely seen.
	lossMore = 1.3
)

func newLossForm(allowed float64) *lossForm {
	return &lossForm{math.Log(allowed / (1 - allowed))}
}

// odds are the log-odds that the line predicts for a step, less those that are allowed. Beyond
// lossReach they are taken to be at least that, or at most: what lies far away says on which side
// of it the line is, and nothing more. It always says that: requests that do not fail at a rate do
// not fail below it.
//
// Rejected: weighing steps less the further they are from the line as it was found last. A line
// that had been guessed too low was then confirmed by its neighbours, and the steps above it that
// had failed nothing no longer counted.
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

// designEffect is told from few bad times, so it is averaged over steps at nearly the same rate. A
// step with many bad requests has large ones and one with few has small ones, by the same chance:
// weighed by its own, it would count less the more it shows, and lines would come out too high.
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
