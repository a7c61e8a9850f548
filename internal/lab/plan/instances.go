package plan

import (
	"fmt"
	"math"

	"plimsoll/internal/lab/format"
)

// Instances is how many there must be, and what is left if some are lost.
type Instances struct {
	// Safe is the maximum for one instance, in requests per second.
	Safe Figure `json:"safe"`
	// Needed is how many carry the rate without losses; Count is how many carry it with losses too.
	Needed int    `json:"needed"`
	Count  int    `json:"count"`
	Each   Figure `json:"each"` // requests per second of each of Count
	// Losses are the effects of losing some of Count.
	Losses []Loss `json:"losses,omitempty"`
	// Added names the loss that requires more than Needed; empty if none does.
	Added string `json:"added,omitempty"`
}

// Loss is the load on the remaining instances after a loss.
type Loss struct {
	What string `json:"what"` // "one instance", "one zone of 3"
	Remainder
	// Before is the same for Needed instances, if these are fewer.
	Before *Remainder `json:"before,omitempty"`
}

// Remainder is the instances that are left, and the load on each.
type Remainder struct {
	Lost int     `json:"lost"`
	Left int     `json:"left"`
	Each float64 `json:"each_per_second"` // 0 when none is left
	// Share of the line's lower end that Each is. Above 1 the objectives no longer hold.
	Share float64 `json:"share"`
	Holds bool    `json:"holds"`
}

// errMany is the error for a rate far above what the line can carry.
var errMany = fmt.Errorf("the rate would need more than %d instances of this line: "+
	"make the service carry more before you plan for this rate", mostInstances)

// instances finds the smallest number that carries the rate, even if one instance or one zone is
// lost. The headroom exists for such a loss, so the remaining instances may be loaded up to the
// line itself.
func (p *DeploymentPlan) instances() error {
	o := &p.Options
	safe := p.Line.Low * (1 - o.Headroom)
	i := &Instances{
		Safe: Figure{
			safe,
			"/s",
			fmt.Sprintf("lower end of the load line's interval, %s, less %s of headroom",
				format.Rate(p.Line.Low),
				format.Percent(o.Headroom)),
		},
	}
	needed := ceil(o.Rate / safe)
	if needed > mostInstances {
		return errMany
	}
	i.Needed = int(needed)
	i.Count = i.Needed
	for ; i.Count <= 2*mostInstances; i.Count++ {
		if p.holds(i.Count) {
			break
		}
	}
	if !p.holds(i.Count) {
		return errMany
	}
	i.Each = Figure{
		o.Rate / float64(i.Count),
		"/s",
		fmt.Sprintf("%s ÷ %d instances", format.Rate(o.Rate), i.Count),
	}
	before, after := p.losses(i.Needed), p.losses(i.Count)
	for n := range after {
		l := after[n]
		if i.Count > i.Needed {
			l.Before = &before[n].Remainder
			if !before[n].Holds {
				i.Added = l.What
			}
		}
		i.Losses = append(i.Losses, l)
	}
	p.Instances = i
	if o.Zones == 1 {
		p.caution("there is one zone: when it is lost, nothing is left")
	}
	return nil
}

func (p *DeploymentPlan) holds(count int) bool {
	for _, l := range p.losses(count) {
		if !l.Holds {
			return false
		}
	}
	return true
}

// losses returns the effects of each loss on count instances that are spread over the zones as
// evenly as possible. The lost zone is one with the most instances.
func (p *DeploymentPlan) losses(count int) []Loss {
	all := []Loss{p.loss("one instance", count, 1)}
	if z := p.Options.Zones; z > 1 {
		all = append(all, p.loss(fmt.Sprintf("one zone of %d", z), count, p.mostLost(count)))
	}
	return all
}

// mostLost returns how many of count instances the worst loss takes: the fullest zone, or one
// instance if there is only one zone.
func (p *DeploymentPlan) mostLost(count int) int {
	if z := p.Options.Zones; z > 1 {
		return (count + z - 1) / z
	}
	return 1
}

func (p *DeploymentPlan) loss(what string, count, lost int) Loss {
	l := Loss{What: what, Remainder: Remainder{Lost: lost, Left: count - lost}}
	if l.Left > 0 {
		l.Each = p.Options.Rate / float64(l.Left)
		l.Share = l.Each / p.Line.Low
		l.Holds = l.Share <= 1+1e-9
	}
	return l
}

// ceil rounds up to a whole number, ignoring a rounding error of the division before it.
func ceil(v float64) float64 { return math.Ceil(v - 1e-9) }
