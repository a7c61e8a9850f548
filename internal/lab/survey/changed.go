package survey

import (
	"math"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/slo"
	"plimsoll/internal/lab/stats"
)

// A service that warms up, or that is scaled while it is measured, has no line, but one after the
// other. The steps then contradict each other: rates that failed at first pass later. So when a line
// seems to be known, it is looked for in the earlier and in the later steps alone; two intervals
// that have nothing in common are two services.
//
// Rejected: a trend of the gentle steps' response times. A worker more, or one less, cannot be seen
// where hardly anybody waits.

// fewestAlone is how many steps of refinement have to lie on either side of a split.
const fewestAlone = 3

// leastApart is how far apart the two intervals have to be, as a share: each rests on few steps, and is
// surer of itself than it should be.
const leastApart = 0.04

// changed says whether the line of the earlier steps is another one than that of the later ones, and
// from which trial on it is: before and now.
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

// again looks for the line once more when the service has changed: from the later steps on, as
// before them it was another one. It does so once.
func (s *surveyor) again() error {
	_, which := s.known()
	before, now, from := s.changed(which)
	if _, falls := s.peak(); from == 0 || falls.Found {
		// One that collapses has two lines at any time.
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
