package survey

import (
	"fmt"
	"math"
	"slices"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/slo"
	"plimsoll/internal/lab/stats"
)

// known returns the line as the steps so far show it: the lowest of the objectives' crossings. Its
// interval extends from the lowest lower end to the lowest upper end of all of them. which is the
// objective that sets it. An objective that no step has broken sets none if another one has been
// broken: all that is known of its crossing is that it lies beyond the tried rates, and an interval
// around a guess would only blur the other's. Where too few steps are valid, those of a late generator
// bound the line, from both sides.
func (s *surveyor) known() (line crossing, which *slo.Objective) {
	line, which = s.crosses(validOnly)
	if steps, _ := s.near(line.interval.Point, validOnly); steps >= fewestNear ||
		!slices.ContainsFunc(s.trials[s.since:], s.bounded) {
		return line, which
	}
	line, which = s.crosses(asSeen)
	most, _ := s.crosses(atLeast)
	line.interval.Low = min(line.interval.Low, most.interval.Low)
	line.interval.High = max(line.interval.High, most.interval.High)
	return line, which
}

// evidence is how the trials of late generators are counted.
type evidence int

const (
	validOnly evidence = iota // not those that are invalid
	asSeen                    // as long as their requests seem to have taken
	atLeast                   // as short as they may have taken
)

// counts reports whether a trial is evidence.
func (s *surveyor) counts(t *trial, e evidence) bool {
	return t.usable() || e != validOnly && s.bounded(t)
}

// crosses returns the line for how the trials of late generators are counted.
func (s *surveyor) crosses(e evidence) (line crossing, which *slo.Objective) {
	low, high := s.span()
	points, broken, anyBroken := make([][]point, len(s.o.SLO)), make([]bool, len(s.o.SLO)), false
	for i := range s.o.SLO {
		o := &s.o.SLO[i]
		points[i] = s.points(o, s.since, len(s.trials), e)
		broken[i] = slices.ContainsFunc(points[i], func(p point) bool {
			return p.bad > o.Share*p.total
		})
		anyBroken = anyBroken || broken[i]
	}
	for i := range s.o.SLO {
		o := &s.o.SLO[i]
		if anyBroken && !broken[i] {
			continue
		}
		c := s.crossing(o, points[i], low, high)
		switch {
		case which == nil:
			line, which = c, o
		case c.interval.Point < line.interval.Point:
			c.interval.Low, c.interval.High = min(c.interval.Low, line.interval.Low),
				min(c.interval.High, line.interval.High)
			line, which = c, o
		default:
			line.interval.Low, line.interval.High = min(c.interval.Low, line.interval.Low),
				min(c.interval.High, line.interval.High)
		}
	}
	return line, which
}

// span returns the range in which the line may be. It extends well beyond the highest good rate and
// the lowest rate that failed in bracketing, because each verdict may be wrong.
func (s *surveyor) span() (low, high float64) {
	passed, failed := s.bracketed()
	return min(passed, failed) * .5, max(passed, failed) * 1.4
}

// bracketed returns the highest good rate, and the lowest rate that failed in bracketing.
func (s *surveyor) bracketed() (passed, failed float64) {
	failed = math.Inf(1)
	for _, t := range s.trials[s.since:] {
		if t.usable() && t.step.Plan.Phase == names[bracketing] && !t.carried {
			failed = min(failed, t.rate)
		}
	}
	return s.good, failed
}

// fewestNear is how many steps must lie near a line for its interval to be reliable. Steps further
// away contribute only through the form of the fit.
const fewestNear = 3

// near returns how many steps lie within 15 % of a rate, and how many windows they have.
func (s *surveyor) near(rate float64, e evidence) (steps, windows int) {
	for _, t := range s.trials[s.since:] {
		if s.counts(t, e) && t.rate >= .85*rate && t.rate <= 1.15*rate {
			steps++
			windows += len(t.view.windows)
		}
	}
	return steps, windows
}

// crossing returns where an objective is crossed. For a percentile this depends on the share of
// requests that are bad at any rate, which the gentle steps show roughly. So it is computed for the
// lowest, the likeliest and the highest such share, and the interval covers all three.
func (s *surveyor) crossing(o *slo.Objective, points []point, low, high float64) crossing {
	if o.Limit == 0 {
		return findCrossing(newLossForm(o.Share), points, low, high)
	}
	varied := s.varied
	if s.o.Arrivals != "constant" {
		varied++
	}
	find := func(always float64) crossing {
		f := newWaitForm(o.Share, float64(o.Limit)/float64(second), s.mean/float64(second), varied,
			always)
		return findCrossing(f, points, low, high)
	}
	const sure = 0.8
	always := s.always(o, sure)
	c := find(always.Point)
	if always.High <= stray*o.Share {
		return c
	}
	least, most := find(always.Low), find(always.High)
	c.interval.Low = min(c.interval.Low, least.interval.Low, most.interval.Low)
	c.interval.High = max(c.interval.High, least.interval.High, most.interval.High)
	return c
}

// always returns the share of requests that broke an objective in the gentle steps, where requests
// hardly wait for each other. If none did, the share counts as zero: a few seconds cannot show less
// than a fraction of what is allowed, and a smaller share hardly moves the line.
func (s *surveyor) always(o *slo.Objective, sure float64) stats.Interval {
	bad, all := 0.0, 0.0
	for _, t := range s.gentleTrials() {
		b, n := t.view.counts(o)
		bad, all = bad+total(b), all+total(n)
	}
	if bad == 0 {
		return stats.Interval{}
	}
	return stats.Binomial(bad, all, sure)
}

// gentleTrials returns the trials in which requests hardly wait for each other. A rate that
// did not pass before the service changed was not gentle, however low it is now.
func (s *surveyor) gentleTrials() (gentle []*trial) {
	for i, t := range s.trials {
		if i < s.cold.until || i < s.since && t.rate > 0 && !t.carried {
			continue
		}
		if t.rate <= .55*s.good && t.broke == "" && t.judgement.Verdict != record.Invalid {
			gentle = append(gentle, t)
		}
	}
	return gentle
}

// points returns what the trials in [from, to) show about an objective.
func (s *surveyor) points(o *slo.Objective, from, to int, e evidence) (points []point) {
	for _, t := range s.trials[from:to] {
		phase := t.step.Plan.Phase
		if !s.counts(t, e) || phase == names[overload] || phase == names[recovery] {
			continue
		}
		within := *o
		if e == atLeast && s.late(t) && o.Limit > 0 {
			within.Limit += slack(&t.step.Totals)
		}
		bad, all := t.view.counts(&within)
		p := point{rate: t.rate, bad: total(bad), total: total(all)}
		if p.total == 0 || p.rate <= 0 {
			continue
		}
		p.designEffect = t.view.designEffect(&within, bad, all, stats.BlockLength(bad))
		// A step in which the queue grows has shown less than it would have in time: all of it
		// would be bad. The form of a response time limit accounts for that itself.
		grows := false
		p.growths, p.growthDoubt, grows = t.view.growth()
		if t.broke != "" || grows && s.o.SLO.Longest() == 0 {
			p.bad = max(p.bad, p.total/2)
		}
		p.settle = float64(t.view.windows[0].Start) / float64(second)
		p.length = float64(t.step.Totals.Length) / float64(second)
		points = append(points, p)
	}
	if o.Limit == 0 {
		alignDesignEffects(points, o.Share)
	}
	return points
}

// alignDesignEffects gives steps without failures the largest design effect of the steps near the
// line with failures. Seeing no failures does not make the effect smaller. Well beyond the line
// requests fail all the time, which is not a design effect.
func alignDesignEffects(points []point, allowed float64) {
	const beyond = 10
	largest := 1.0
	for _, p := range points {
		if p.bad > 0 && p.bad < beyond*allowed*p.total {
			largest = max(largest, p.designEffect)
		}
	}
	for i := range points {
		if points[i].bad == 0 {
			points[i].designEffect = largest
		}
	}
}

// line returns the survey's final statement about the line.
func (s *surveyor) line() record.Line {
	if s.good == 0 || s.high == 0 {
		why := "the survey ended before a rate was found that is too high"
		if s.good > 0 {
			why += fmt.Sprintf("; %s requests a second passed", format.Digits(s.good))
		}
		return record.Line{Why: why, Interval: model.Interval{Low: s.good}}
	}
	return s.stated(s.known())
}

// stated puts into words what is known of the line.
func (s *surveyor) stated(c crossing, which *slo.Objective) record.Line {
	i := c.interval
	if steps, _ := s.near(i.Point, asSeen); steps < fewestNear {
		passed, failed := s.bracketed()
		return record.Line{
			Interval: model.Interval{
				Low:      min(passed, i.Low),
				Estimate: i.Point,
				High:     max(failed, i.High),
			},
			Why: fmt.Sprintf("between %s requests a second, which passed, and %s, "+
				"which was too much: the survey ended before it was narrowed down",
				format.Digits(passed), format.Digits(failed)),
		}
	}
	line := model.Interval{
		Low:        i.Low * (1 - resolution),
		Estimate:   i.Point,
		High:       i.High * (1 + resolution),
		Confidence: confidence,
	}
	passed, failed := s.verdicts()
	why := fmt.Sprintf("%s sets it", which.Text)
	if passed > 0 {
		why += fmt.Sprintf("; the highest rate that passed by itself is %s", format.Digits(passed))
	}
	if failed > 0 {
		why += fmt.Sprintf(", the lowest that failed is %s", format.Digits(failed))
	}
	return record.Line{Interval: line, Found: true, Why: why}
}
