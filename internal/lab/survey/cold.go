package survey

import (
	"fmt"
	"slices"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/slo"
	"plimsoll/internal/lab/stats"
)

// A cold service, whose cache is empty, say, may break an objective at any rate and keep it later:
// with each request fewer break it. The survey then looks for the line from the beginning, as often
// as mostCold, and uses only the steps since. The search warms the service up, as it raises the
// rate.

// mostCold is how often a survey begins again. A cache of 8,000 keys, at 5 ms for a request, is warm
// after one or two.
const mostCold = 4

// coldness is what a survey knows of a service that was cold.
type coldness struct {
	// until is the first trial that counts; 0 if the service was not cold.
	until int
	// broke is the share of the requests that broke the objective at first, at gentle load.
	broke     float64
	objective *slo.Objective
	times     int // how often the survey has begun again
}

// counted returns the trials since the service was last seen to warm up.
func (s *surveyor) counted() []*trial { return s.trials[s.cold.until:] }

// warming reports whether fewer and fewer requests break an objective at gentle rates. before is
// the share of those that broke it in the earlier half of the time.
//
// Tried and rejected: whether answers become faster at one rate. It found no service that this does
// not, not even one of which a twelfth of the cold requests, but no warm one, break the objective.
func (s *surveyor) warming(o *slo.Objective) (before float64, is bool) {
	var bad, all []float64
	effects := 0.0 // each step's by itself, as the trend looks like one, too
	for _, t := range s.gentleTrials() {
		b, n := t.view.counts(o)
		bad, all = append(bad, b...), append(all, n...)
		effects += stats.DesignEffect(b, n, stats.BlockLength(b)) * total(n)
	}
	if s.lastGentle() == nil {
		return 0, false
	}
	half := len(bad) / 2
	before = total(bad[:half]) / max(total(all[:half]), 1)
	trend := stats.ShareTrend(bad, all, effects/max(total(all), 1))
	return before, trend < stats.NormalQuantile(1-sureOfRoom)
}

// lastGentle returns the latest gentle trial at a rate; nil if there is none, as where the generator was
// the limit in all of them.
func (s *surveyor) lastGentle() *trial {
	for _, t := range slices.Backward(s.gentleTrials()) {
		if t.rate > 0 {
			return t
		}
	}
	return nil
}

// beginAgain drops what the steps so far have shown of the line, and looks for one between a rate
// that passes and one that does not, from the gentle rate on.
func (s *surveyor) beginAgain(o *slo.Objective) (found bool, err error) {
	last := s.lastGentle()
	s.say(fmt.Sprintf("fewer and fewer requests break %s: the service is warming up; looking for its "+
		"line from the beginning", o.Text))
	s.cold.times++
	s.cold.until, s.since = len(s.trials), len(s.trials)
	s.low, s.high, s.good = last.rate, 0, last.rate
	s.result.Line, s.result.Model.Predictions = record.Line{}, nil
	t, err := s.do(s.plan(0, s.set.warmChunk, 0, "to see how fast the service answers by now"))
	if err != nil {
		return false, err
	}
	if t.step.Totals.Response.Count() > 0 {
		s.mean, s.varied = t.step.Totals.Response.Mean(), variation(&t.step.Totals.Response)
	}
	rate, _ := s.up(last)
	return s.bracket(rate, fmt.Sprintf("more than %s, where requests hardly wait", last.words()))
}

// stillCold is the caveat of a survey that has begun again, in which the objective is broken as before.
func (s *surveyor) stillCold(o *slo.Objective) caveat {
	return caveat{record.CaveatChanges, fmt.Sprintf("%s; too many still break %s, so the service may "+
		"still be warming up, and has no line yet: send it requests for longer, and survey again",
		s.wasCold(), o.Text)}
}

// wasCold says what was seen of the cold service.
func (s *surveyor) wasCold() string {
	return fmt.Sprintf("%s of the requests broke %s at first, even when little was asked of the "+
		"service, and fewer and fewer later", format.Percent(s.cold.broke), s.cold.objective.Text)
}
