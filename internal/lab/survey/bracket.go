package survey

import (
	"fmt"
	"math"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/stats"
)

// steady reports whether the response times of a part resemble those of the part before it, and
// have no trend of their own.
func steady(before, now []float64) bool {
	if stats.Trend(now) < .05 {
		return false
	}
	a, b := stats.Median(before), stats.Median(now)
	return math.Abs(b-a) <= .1*a || stats.MannWhitney(before, now) > .05
}

// bracket raises the rate, which is the first for the reason why, until the service fails, or lowers
// it until the service passes. found is false if the line is not between two rates that were tried;
// the result then says what is known.
func (s *surveyor) bracket(rate float64, why string) (found bool, err error) {
	s.enter(bracketing, "looking for a rate that is too high")
	// invalid is the latest rate at which the generator was the limit. repeats counts such steps
	// since the generator last kept up at such a rate.
	invalid := 0.0
	repeats, downs := 0, 0
	farther := false // whether a rate further above was tried for that reason
	for {
		t, err := s.do(s.plan(rate, s.set.bracketLength, s.set.bracketSettle, why))
		if err != nil {
			return false, err
		}
		if t.usable() && rate >= invalid {
			invalid, repeats, farther = 0, 0, false // the generator was late by chance
			s.result.Line = record.Line{}           // nor was it why there is no line
		}
		switch {
		case t.judgement.Verdict == record.Invalid:
			if repeats++; repeats > 2 || s.good == 0 && repeats > 1 {
				if !farther {
					s.notFound(s.good, fmt.Sprintf("where the generator was the limit at %s: %s",
						format.Digits(rate), t.judgement.Why))
				}
				above := s.allowed(2 * max(rate, invalid))
				if farther || s.good == 0 || above <= max(rate, invalid) {
					return false, nil
				}
				rate, farther = above, true
				why = "further above, where the service may fail by more than the generator is late"
				continue
			}
			if invalid == rate && s.good > 0 {
				why = fmt.Sprintf("between %s (passed) and %s (the generator was the limit)",
					format.Digits(s.good), format.Digits(rate))
				rate = s.allowed(math.Sqrt(s.good * rate))
				continue
			}
			invalid, why = rate, "once more, since the generator was the limit"
			continue
		case t.carried:
			s.low = max(s.low, rate)
			if s.high > 0 {
				return true, s.narrow()
			}
			if s.o.Limit > 0 && rate >= s.o.Limit {
				s.notFound(rate, highestOffered)
				return false, nil
			}
			rate, why = s.up(t)
		case s.good > 0 && s.low < rate:
			s.high = rate
			return true, s.narrow()
		default:
			s.high = rate
			if downs++; downs > s.set.downs {
				s.result.Line.Why = fmt.Sprintf("the SLO is not met even at %s "+
					"requests a second: %s", format.Digits(rate), t.judgement.Why)
				return false, nil
			}
			why = fmt.Sprintf("a third of %s, which was too much", format.Digits(rate))
			rate /= 3
		}
	}
}

// narrow tries a rate in the middle of a wide bracket. The gentle steps are a share of the highest
// good rate. Below a wide bracket they would be at a quarter of the line, where requests hardly
// ever meet and nothing can be predicted.
func (s *surveyor) narrow() error {
	if s.high < s.set.apart*s.good {
		return nil
	}
	rate := niceRate(math.Sqrt(s.good * s.high))
	t, err := s.do(s.plan(rate, s.set.bracketLength, s.set.bracketSettle,
		fmt.Sprintf("between %s (passed) and %s (failed)", format.Digits(s.good), format.Digits(s.high))))
	switch {
	case err != nil || t.judgement.Verdict == record.Invalid:
		return err
	case t.carried:
		s.low = max(s.low, rate)
	default:
		s.high = rate
	}
	return nil
}

// up returns the next rate after one that passed.
func (s *surveyor) up(t *trial) (rate float64, why string) {
	factor := s.set.growth
	response := t.step.Totals.Response
	if response.Mean() > s.set.strained*s.mean {
		factor = s.set.careful
	}
	return s.allowed(t.rate * factor),
		fmt.Sprintf("%.2g times %s, which passed", factor, format.Digits(t.rate))
}

// highestOffered is why no line is looked for above --limit.
const highestOffered = "which is the highest rate that may be offered"

// notFound records that there is no line up to a rate.
func (s *surveyor) notFound(above float64, why string) {
	s.result.Line.Why = fmt.Sprintf("above %s requests a second, %s", format.Digits(above), why)
	s.result.Line.Interval.Low = above
}
