package breaker

import "sync/atomic"

// rampSteps is how many steps a ramp has: enough that no step after the first two doubles the load,
// and few enough that some calls end in each step.
const rampSteps = 10

// ramp raises the admitted share from RampFrom to everything in equal steps of Ramp/10. A step ends
// when its time is over and a call has succeeded during it: time alone proves nothing, and a clock
// that jumps would admit everything. One call per step's time is always admitted, so that a service
// with few callers does not depend on chance.
type ramp struct {
	step   atomic.Uint32 // written by the holder of the pen, as is since
	since  atomic.Int64  // when the step began
	proven atomic.Bool   // a call has succeeded in this step
	lead   atomic.Int64  // when a call was last admitted regardless of the share
}

func stepFor(r *rules) int64 { return r.ramp / rampSteps }

func (p *ramp) reset(r *rules, now int64) {
	p.step.Store(0)
	p.since.Store(now)
	p.proven.Store(false)
	p.lead.Store(now - stepFor(r))
}

// share is the share of calls that is admitted.
func (p *ramp) share(r *rules) float64 {
	return r.rampFrom + (1-r.rampFrom)*float64(p.step.Load())/rampSteps
}

func (p *ramp) admits(r *rules, now int64, random uint64) bool {
	if float64(random>>11)/(1<<53) < p.share(r) {
		return true
	}
	lead := p.lead.Load()
	d := elapsed(now, lead)
	return (d >= stepFor(r) || d < -skew) && p.lead.CompareAndSwap(lead, now)
}

// prove records that a call has succeeded. It is also called for every successful call in closed,
// so it writes only if the value changes.
func (p *ramp) prove() {
	if !p.proven.Load() {
		p.proven.Store(true)
	}
}

func (p *ramp) due(r *rules, now int64) move {
	d := elapsed(now, p.since.Load())
	switch {
	case d < -skew:
		return move{kind: anchor}
	case d < stepFor(r) || !p.proven.Load():
		return move{}
	case p.step.Load() == rampSteps-1:
		return move{enter, Closed, RampOver}
	}
	return move{kind: climb}
}

func (p *ramp) climb(now int64) {
	p.step.Add(1)
	p.since.Store(now)
	p.proven.Store(false)
}
