package survey

import (
	"fmt"
	"math"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/stats"
)

// offsets are the positions of the fine steps around the known line, in units of the smallest
// difference that matters. A step above the line shows more of what breaks the SLO than one below
// it, so more of them are above.
var offsets = []float64{-1, -.5, 0, .5, 1, 1.5, 2}

// refine tries rates near the line, in random order, until the line is known well enough or the
// time for it is used up.
func (s *surveyor) refine() error {
	s.enter(refining, fmt.Sprintf("narrowing down the load line between %s and %s",
		format.Digits(s.low), format.Digits(s.high)))
	var order []int
	var c crossing
	for fine := 0; ; {
		c, s.sets = s.known()
		width := (c.interval.High - c.interval.Low) / c.interval.Point
		s.low, s.high = c.interval.Low, c.interval.High
		if s.enough(width, fine) {
			break
		}
		rate, length, settle := c.interval.Point, s.set.coarseLength, s.set.coarseSettle
		if width <= s.set.coarseWidth || fine > 0 || s.phaseSpent > 4*s.set.coarseLength {
			if len(order) == 0 {
				order = s.rng.Perm(len(offsets))
			}
			unit := min(max(1/c.slope, c.spread, .008), .08)
			rate *= math.Exp(offsets[order[0]] * unit)
			order = order[1:]
			length, settle = s.fine(c.interval.Point)
			fine++
		}
		rate = s.allowed(niceRate(rate))
		t, err := s.do(s.plan(rate, length, settle, s.why(rate)))
		if err != nil {
			return err
		}
		if s.outrun(t) {
			return s.further(t)
		}
	}
	s.result.Line = s.stated(c, s.sets)
	i := s.result.Line.Interval
	s.low, s.high = i.Low, i.High
	s.say(fmt.Sprintf("the load line is at %s requests a second, between %s and %s",
		format.Digits(i.Estimate), format.Digits(i.Low), format.Digits(i.High)))
	return nil
}

// enough reports whether to stop refining.
func (s *surveyor) enough(width float64, fine int) bool {
	soft := 2*s.set.coarseLength + int64(s.o.Runs)*s.set.fineLength
	switch spent := float64(s.phaseSpent); {
	case fine >= s.o.Runs && width <= s.set.width:
		return true
	case spent >= float64(soft):
		return width <= s.set.tooWide || spent >= s.set.hardBudget*float64(soft)
	}
	return false
}

// fine returns the length of the steps near the line and of their settling. Both grow with the
// memory of the service: a queue that begins empty is faster than later, for as long as it
// remembers that.
func (s *surveyor) fine(line float64) (length, settle int64) {
	var times []float64
	for _, t := range s.trials {
		if t.usable() && math.Abs(math.Log(t.rate/line)) < .08 && len(t.view.windows) > 4 {
			times = append(times,
				stats.CorrelationTime(meanResponses(t.view.windows))*
					float64(t.view.windows[0].Length),
			)
		}
	}
	memory := int64(stats.Median(times))
	settle = min(max(s.set.fineSettle, 4*memory), s.set.fineMost/3)
	length = min(max(s.set.fineLength, settle+int64(s.set.correlations*float64(memory))),
		s.set.fineMost)
	return length, settle
}

// why says in words why a rate is tried.
func (s *surveyor) why(rate float64) string {
	passed, failed := s.verdicts()
	words := "near the line, where verdicts differ"
	switch {
	case passed > 0 && failed > passed:
		words = fmt.Sprintf("between %s (passed) and %s (failed)",
			format.Digits(passed), format.Digits(failed))
	case failed == 0 && passed > 0:
		words = fmt.Sprintf("near the line, above %s (passed)", format.Digits(passed))
	case failed > 0 && passed == 0:
		words = fmt.Sprintf("near the line, below %s (failed)", format.Digits(failed))
	}
	if before := s.trials[len(s.trials)-1].rate; before > rate {
		return words + ", coming from above"
	} else if before < rate {
		return words + ", coming from below"
	}
	return words + ", again"
}

// verdicts returns the highest rate that passed and the lowest that failed.
func (s *surveyor) verdicts() (passed, failed float64) {
	for _, t := range s.trials[s.since:] {
		switch {
		case t.rate == 0:
		case t.judgement.Verdict == record.Pass:
			passed = max(passed, t.rate)
		case t.judgement.Verdict == record.Fail && (failed == 0 || t.rate < failed):
			failed = t.rate
		}
	}
	return passed, failed
}
