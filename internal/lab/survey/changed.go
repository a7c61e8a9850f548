package survey

import (
	"fmt"
	"math"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/slo"
	"plimsoll/internal/lab/stats"
)

// A service that warms up, or that is scaled during the survey, has not one line but one after the
// other. The steps then contradict each other: rates that failed at first pass later. So once a
// line seems known, it is computed from the earlier and from the later steps separately. Two
// intervals without overlap mean two services.
//
// Rejected: a trend of the gentle steps' response times. One worker more or less does not show
// where requests hardly wait.

// fewestAlone is the minimum number of refinement steps on each side of a split.
const fewestAlone = 3

// leastApart is the minimum gap between the two intervals, as a share. Each interval rests on few
// steps and is narrower than it should be.
const leastApart = 0.04

// changed reports whether the earlier steps have another line than the later ones. It returns both
// lines and the first trial of the later one; from is 0 if there is only one line.
func (s *surveyor) changed(o *slo.Objective) (before, now stats.Interval, from int) {
	var refined []int
	for i, t := range s.trials {
		if i >= s.since && t.usable() && t.step.Plan.Phase == names[refining] {
			refined = append(refined, i)
		}
	}
	low, high := s.span()
	widest := 0.0
	for _, quarter := range []int{1, 2, 3} {
		k := quarter * len(refined) / 4
		if k < fewestAlone || len(refined)-k < fewestAlone {
			continue
		}
		at := refined[k]
		early := s.crossing(o, s.points(o, s.since, at, validOnly), low, high).interval
		late := s.crossing(o, s.points(o, at, len(s.trials), validOnly), low, high).interval
		gap := max(math.Log(late.Low/early.High), math.Log(early.Low/late.High))
		if gap > max(widest, leastApart) {
			widest, before, now, from = gap, early, late, at
		}
	}
	return before, now, from
}

// again looks for the line once more if the service has changed. It uses only the later steps,
// because the earlier ones had another line. It does so once.
func (s *surveyor) again() error {
	if _, failed := s.bracketed(); math.IsInf(failed, 1) {
		return nil // the search further up found no rate that is too high
	}
	before, now, from := s.changed(s.sets)
	if _, falls := s.peak(); from == 0 || falls.Found {
		// A service that collapses has two lines at any time.
		return nil
	}
	s.say("the service has changed: its line was between " + format.Digits(before.Low) + " and " +
		format.Digits(before.High) + " at first; looking for it again")
	s.before, s.since = before, len(s.trials)
	s.low, s.high, s.good = 0, 0, 0
	s.result.Line = record.Line{}
	found, err := s.bracket(s.capped(niceRate(now.Point)), "where the later steps have the line")
	if err != nil || !found {
		return err
	}
	return s.refine()
}

// clearly is how far above all rates that failed another one has to pass, as a factor, for them not
// to count any more. Nearer to a line, verdicts differ by chance.
const clearly = 1.25

// mostOutrun is how often a survey looks further up.
const mostOutrun = 2

// outrun reports whether a step passed clearly above all rates that failed. What failed them is over:
// the service was still cold, or was disturbed. The search between them would creep from one such
// rate to the next until its time was used up. A service that collapses may pass above a rate that it
// fails, whenever it begins empty.
func (s *surveyor) outrun(t *trial) bool {
	failed, _ := s.failed()
	if !t.carried || failed == 0 || t.rate <= clearly*failed || s.outruns >= mostOutrun {
		return false
	}
	_, falls := s.peak()
	return !falls.Found
}

// failed returns the highest rate that did not pass, and the first trial after the last such one.
func (s *surveyor) failed() (highest float64, after int) {
	for i, t := range s.trials[s.since:] {
		if t.usable() && t.rate > 0 && !t.carried {
			highest, after = max(highest, t.rate), s.since+i+1
		}
	}
	return highest, after
}

// further looks for a rate that is too high above one that passed, and for the line below it. It
// uses only the steps since the last that failed.
func (s *surveyor) further(t *trial) error {
	failed, after := s.failed()
	s.say(fmt.Sprintf("%s requests a second pass, though %s did not before; looking further up",
		format.Digits(t.rate), format.Digits(failed)))
	s.outruns++
	s.outran, s.since = max(s.outran, failed), after
	s.low, s.high, s.good = t.rate, 0, t.rate
	if s.o.Limit > 0 && t.rate >= s.o.Limit {
		s.notFound(t.rate, highestOffered)
		return nil
	}
	found, err := s.bracket(s.up(t))
	if err != nil || !found {
		return err
	}
	return s.refine()
}
