package survey

import (
	"fmt"
	"math"
	"strings"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/slo"
	"plimsoll/internal/lab/stats"
)

// What a survey reports besides the line. Each caveat is a reason why the line may differ for
// someone who offers a rate for longer, or later, than a step does.

// caveat is a caveat and its sentence; the zero value is none.
type caveat struct{ word, why string }

// caveats adds to the line what its reader must also know.
func (s *surveyor) caveats() {
	line := &s.result.Line
	if line.Caveat != "" {
		return
	}
	signs := []func() caveat{s.another}
	if line.Found {
		signs = append(signs, s.collapsing, s.drifted, s.limited)
	}
	for _, find := range signs {
		if c := find(); c.word != "" {
			line.Caveat = c.word
			line.Why += "; " + c.why
			return
		}
	}
}

// fasterBy is the share by which a service must be faster at the end, at a rate that it met before,
// to count as changed.
const fasterBy = 0.25

// carriedMore is how far above the interval a rate must pass in the overload to count as a change:
// a queue that is a little too slow often survives the few seconds of a step.
const carriedMore = 0.05

// another reports that the service changed, so that the survey looked for its line twice.
func (s *surveyor) another() caveat {
	if s.before.Point == 0 {
		if s.cold.times > 0 {
			return caveat{record.CaveatChanges, s.wasCold() + ", so it was cold; only the steps since " +
				"count: survey again"}
		}
		if s.outran == 0 {
			return caveat{}
		}
		why := fmt.Sprintf("%s requests a second did not pass at first, and far more did later, so "+
			"the service was cold or disturbed then", format.Digits(s.outran))
		if s.result.Line.Found {
			why += ", and this is the line of the steps since"
		}
		return caveat{record.CaveatChanges, why + ": survey again"}
	}
	return caveat{record.CaveatChanges, fmt.Sprintf("the service changed while it was measured: "+
		"its line was between %s and %s at first; this is the line of the last steps, "+
		"and it may not be the last word: survey again",
		format.Digits(s.before.Low), format.Digits(s.before.High))}
}

// drifted looks for signs that the service has changed since the search for the line: it carries
// more than the line, or it answers a gentle rate faster than before.
func (s *surveyor) drifted() caveat {
	for _, t := range s.trials {
		if t.step.Plan.Phase == names[overload] && t.usable() && t.passed() &&
			t.rate > s.result.Line.Interval.High*(1+carriedMore) {
			return caveat{record.CaveatChanges, fmt.Sprintf("the service changed while it was "+
				"measured: it carried %s requests a second in the end: survey again",
				format.Digits(t.rate))}
		}
	}
	if !s.result.Recovery.Recovered {
		return caveat{}
	}
	last := s.trials[len(s.trials)-1]
	windows := last.step.Windows
	// Medians, because a few requests that are slow for other reasons do not move them.
	before, after := quantile(s.reference.view.windows, .5), quantile(windows[len(windows)/2:], .5)
	if after >= (1-max(fasterBy, 3*s.result.Noise.P50))*before {
		return caveat{}
	}
	return caveat{record.CaveatChanges, fmt.Sprintf("the service changed while it was measured: "+
		"at %s it took %.2f ms before and %.2f ms in the end, so it may carry more now: survey again",
		last.words(), before/1e6, after/1e6)}
}

// collapsing looks for a service that carries less once it has been overloaded. Nothing brings it
// back at the rates in between, so chance decides how long it carries such a rate.
func (s *surveyor) collapsing() caveat {
	if !s.result.Collapse.Found {
		return caveat{}
	}
	line := s.result.Line.Interval
	least := math.Inf(1)
	for _, t := range s.trials {
		if t.usable() && t.rate > line.Low && t.judgement.Goodput.High < line.Low {
			least = min(least, t.judgement.Goodput.Estimate)
		}
	}
	if least >= (1-collapseFall)*line.Low {
		return caveat{}
	}
	return caveat{record.CaveatCollapses, fmt.Sprintf("the service collapses: once it is overloaded "+
		"it answers %s a second, so a rate above that is carried until chance, or a burst, tips it "+
		"over; steps of a few seconds rarely see that, and over hours the line is lower",
		format.Digits(least))}
}

const (
	// flatWithin is the share by which the good answers of steps beyond a rate limiter's rate may
	// differ. quickWithin is how many times longer than gentle answers they may take: if requests
	// wait, the limit is a queue.
	flatWithin  = 0.04
	quickWithin = 1.5
)

// limited looks for a rate limiter. Beyond the line it gives the same number of good answers
// whatever is offered, these do not wait, and the other requests are refused with 429, or with the
// 503 that some limiters use.
func (s *surveyor) limited() caveat {
	least, most, steps, quick, status := math.Inf(1), 0.0, 0, true, ""
	for _, t := range s.trials {
		if !t.usable() || t.broke != "" || t.rate < 1.05*s.result.Line.Interval.Estimate {
			continue
		}
		ended := &t.step.Totals.Ended
		if ended[measure.BadStatus] == 0 || 20*(ended.Failed()-ended[measure.BadStatus]) > ended.Failed() {
			return caveat{}
		}
		if status = refusal(&t.step.Totals); status == "" {
			return caveat{}
		}
		steps++
		least = min(least, t.judgement.Goodput.Estimate)
		most = max(most, t.judgement.Goodput.Estimate)
		usual := float64(s.reference.step.Totals.Response.Quantile(.5))
		quick = quick && float64(t.step.Totals.Response.Quantile(.5)) < quickWithin*usual
	}
	if steps < 2 || most > least*(1+flatWithin) || !quick {
		return caveat{}
	}
	return caveat{record.CaveatLimiter, fmt.Sprintf("a rate limiter sets it: beyond %s a second "+
		"requests are refused at once (%s) whatever is offered, so this says nothing of what the "+
		"service could carry without the limiter", format.Digits(most), status)}
}

// refusal returns the status with which a step's requests were refused, according to an example of
// them; empty unless it means "too many".
func refusal(t *measure.Totals) string {
	example := t.Examples[measure.BadStatus.String()]
	for _, status := range []string{"429", "503"} {
		if strings.Contains(example, "status "+status) {
			return status
		}
	}
	return ""
}

// regardless runs after the gentle steps. It looks for an objective that even gentle load breaks,
// where requests do not wait for each other: then no rate decides whether the objective holds. If
// the steps do not settle this, it measures for longer; so it does before it says so, because a
// service that is warming up looks the same for a few seconds. warming is the objective that such a
// service breaks less and less often.
func (s *surveyor) regardless() (c caveat, warming *slo.Objective, err error) {
	for i := range s.o.SLO {
		o := &s.o.SLO[i]
		for more := 0; ; more++ {
			in := s.always(o, sureOfRoom)
			if in.High < o.Share || in.Point == 0 {
				break
			}
			if in.Low > o.Share && more > 0 || more == mostLonger {
				before, is := s.warming(o)
				if !is && s.cold.objective != o {
					return alwaysBroken(o, in), nil, nil
				}
				if s.cold.times == 0 {
					s.cold.broke, s.cold.objective = before, o
				}
				if !is || s.cold.times == mostCold {
					return s.stillCold(o), nil, nil
				}
				return caveat{}, o, nil
			}
			rate := niceRate(s.good * s.set.gentleHigh)
			if _, err := s.do(s.plan(rate, longer*s.set.noiseLength, s.set.bracketSettle,
				"gentle, and long enough to see how many requests break "+o.Text+" at any rate",
			)); err != nil {
				return caveat{}, nil, err
			}
		}
	}
	return caveat{}, nil, nil
}

// sureOfRoom is the confidence that an objective leaves room for load. It is high because the check
// is repeated, and each one may be wrong.
const sureOfRoom = 0.99

// mostLonger limits the extra gentle steps per objective. Each is longer times as long as those of
// the pair.
const mostLonger, longer = 2, 4

func alwaysBroken(o *slo.Objective, in stats.Interval) caveat {
	return caveat{record.CaveatAlways, fmt.Sprintf("%s to %s of the requests break %s even when little "+
		"is asked of the service, and it allows %s: whether it is kept is decided by these requests "+
		"and not by the rate; find out what they wait for, or ask for an objective that has room "+
		"for them", format.Percent(in.Low), format.Percent(in.High), o.Text,
		format.Percent(o.Share))}
}

// noWorse reports that a step that did not pass has no larger share of bad requests than the steps
// at lower rates: the rate is not what breaks the objective.
func (s *surveyor) noWorse(t *trial) bool {
	if t.broke != "" || t.judgement.Verdict == record.Invalid {
		return false
	}
	if _, _, grows := t.view.growth(); grows {
		return false
	}
	for i := range s.o.SLO {
		o := &s.o.SLO[i]
		b, n := t.view.counts(o)
		bad, all := total(b), total(n)
		if bad <= o.Share*all {
			continue
		}
		badBelow, allBelow := 0.0, 0.0
		// The last step before a new beginning is the only one at a lower rate at first.
		for _, u := range s.trials[max(s.cold.until-1, 0):] {
			if u.rate < t.rate && u.broke == "" && u.judgement.Verdict != record.Invalid {
				b, n := u.view.counts(o)
				badBelow, allBelow = badBelow+total(b), allBelow+total(n)
			}
		}
		both := (bad + badBelow) / max(all+allBelow, 1)
		doubt := math.Sqrt(both * (1 - both) * (1/max(all, 1) + 1/max(allBelow, 1)))
		if badBelow == 0 || bad/all-badBelow/allBelow > 2*doubt {
			return false
		}
	}
	return true
}
