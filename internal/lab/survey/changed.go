package survey

import (
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
		early := s.crossing(o, s.points(o, s.since, at), low, high).interval
		late := s.crossing(o, s.points(o, at, len(s.trials)), low, high).interval
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
	found, err := s.bracket(s.capped(niceRate(now.Point)))
	if err != nil || !found {
		return err
	}
	return s.refine()
}
