package survey

import (
	"fmt"
	"math"

	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/slo"
	"plimsoll/internal/lab/stats"
)

// known is the line as the steps so far tell it: the lowest of the objectives' crossings, with the interval that holds all of them. which is the
// objective that sets it.
func (s *surveyor) known() (line crossing, which *slo.Objective) {
	low, high := s.span()
	for i := range s.o.SLO {
		o := &s.o.SLO[i]
		c := findCrossing(s.form(o), s.points(o), low, high)
		switch {
		case which == nil:
			line, which = c, o
		case c.interval.Point < line.interval.Point:
			c.interval.Low, c.interval.High = min(c.interval.Low, line.interval.Low), min(c.interval.High, line.interval.High)
			line, which = c, o
		default:
			line.interval.Low, line.interval.High = min(c.interval.Low, line.interval.Low), min(c.interval.High, line.interval.High)
		}
	}
	return line, which
}

// span is between which rates the line may be: well beyond those that passed and failed, since each verdict may be wrong.
func (s *surveyor) span() (low, high float64) {
	low, high = math.Inf(1), 0
	for _, t := range s.trials {
		if t.usable() && t.step.Plan.Phase == names[bracketing] {
			if t.passed() {
				high = max(high, t.rate*s.o.Overshoot)
			} else {
				low = min(low, t.rate)
			}
		}
	}
	// The line is below what failed and above what passed last before it.
	return min(s.good, low) * .5, max(low, s.good) * 1.4
}

// form is how an objective's share of bad requests depends on the rate.
func (s *surveyor) form(o *slo.Objective) form {
	if o.Limit == 0 {
		return newLossForm(o.Share)
	}
	return newWaitForm(o.Share, float64(o.Limit)/float64(second), s.mean/float64(second))
}

// points are what the steps up to now say of an objective.
func (s *surveyor) points(o *slo.Objective) (points []point) {
	for _, t := range s.trials {
		phase := t.step.Plan.Phase
		if !t.usable() || phase == names[overload] || phase == names[recovery] {
			continue
		}
		bad, all := t.view.counts(o)
		p := point{rate: t.rate, bad: total(bad), total: total(all)}
		if p.total == 0 || p.rate <= 0 {
			continue
		}
		p.clump = t.view.clump(o, bad, all, stats.BlockLength(bad))
		// A step in which the queue grows has shown less than it would have in time: all of it would be bad.
		grows := false
		p.growths, p.growthDoubt, grows = t.view.growth()
		if t.broke != "" || grows && o.Limit == 0 {
			p.bad = max(p.bad, p.total/2)
		}
		p.settle, p.length = float64(t.view.windows[0].Start)/float64(second), float64(t.step.Totals.Length)/float64(second)
		points = append(points, p)
	}
	return points
}

// line is what the survey says of the line in the end.
func (s *surveyor) line() record.Line {
	if s.good == 0 || s.high == 0 {
		why := "the survey ended before a rate was found that is too high"
		if s.good > 0 {
			why += fmt.Sprintf("; %s requests a second passed", perSecond(s.good))
		}
		return record.Line{Why: why, Interval: model.Interval{Low: s.good}}
	}
	c, which := s.known()
	i := c.interval
	finest := s.unseen(i.Point)
	line := model.Interval{Low: i.Low * (1 - finest), Estimate: i.Point * (1 - (finest-resolution)/2), High: i.High * (1 + resolution), Confidence: confidence}
	passed, failed := s.verdicts()
	why := fmt.Sprintf("%s sets it", which.Text)
	if passed > 0 {
		why += fmt.Sprintf("; the highest rate that passed by itself is %s", perSecond(passed))
	}
	if failed > 0 {
		why += fmt.Sprintf(", the lowest that failed is %s", perSecond(failed))
	}
	return record.Line{Interval: line, Found: true, Why: why}
}

// unseen is the overload, as a share of the rate, that steps of a few seconds cannot see: requests that wait longer by so little that the limit is
// not reached before the step is over, and that is no more than chance moves a queue in that time. The line can be lower by that much.
func (s *surveyor) unseen(line float64) float64 {
	var lengths []float64
	for _, t := range s.trials {
		if t.usable() && math.Abs(math.Log(t.rate/line)) < .05 {
			lengths = append(lengths, float64(t.step.Plan.Length)/float64(second))
		}
	}
	length := float64(s.set.coarseLength) / float64(second)
	for _, l := range lengths {
		length = max(length, l)
	}
	limit := float64(s.o.SLO.Longest()) / float64(second)
	return max(resolution, min(limit/length, 3/math.Sqrt(line*length)))
}
