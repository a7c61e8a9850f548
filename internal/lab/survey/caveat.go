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

// What a survey has to say besides the line: each caveat is a reason why the line may be another one
// for somebody who offers a rate for longer, or later, than a step does.

// caveat is a caveat and its sentence; the zero value is none.
type caveat struct{ word, why string }

// caveats adds to the line what has to be known besides.
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

// fasterBy is the share of its response time by which a service has to be faster at the end, at a
// rate that it had met before, to be called another one.
const fasterBy = 0.25

// carriedMore is by how much a rate that passed in the overload has to be above the interval: a queue
// that is a little too slow often lasts for the few seconds of a step.
const carriedMore = 0.05

// another says that the line was looked for twice, as the service had changed.
func (s *surveyor) another() caveat {
	if s.before.Point == 0 {
		return caveat{}
	}
	return caveat{record.CaveatChanges, fmt.Sprintf("the service changed while it was measured: "+
		"its line was between %s and %s at first; this is the line of the last steps, "+
		"and it may not be the last word: survey again",
		format.Digits(s.before.Low), format.Digits(s.before.High))}
}

// drifted looks for signs that the service is not what it was when the line was looked for: it
// carries more than the line, or it answers a gentle rate faster than before.
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
	// Medians: a few requests that take long for reasons of their own do not move them.
	before, after := quantile(s.reference.view.windows, .5), quantile(windows[len(windows)/2:], .5)
	if after >= (1-max(fasterBy, 3*s.result.Noise.P50))*before {
		return caveat{}
	}
	return caveat{record.CaveatChanges, fmt.Sprintf("the service changed while it was measured: "+
		"at %s it took %.2f ms before and %.2f ms in the end, so it may carry more now: survey again",
		last.words(), before/1e6, after/1e6)}
}

// collapsing looks for a service that carries less once it is overloaded than it did before: nothing
// brings it back at the rates between, so chance decides how long it carries one of those.
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
	// differ; quickWithin how many times longer these answers may take than gentle ones: who waits
	// stands in a queue.
	flatWithin  = 0.04
	quickWithin = 1.5
)

// limited looks for a rate limiter: beyond the line the same number of requests is answered well
// whatever is offered, these wait for nothing, and the others are refused with 429, or with the 503
// that some limiters use.
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

// refusal is the status that a step's requests were refused with, as an example of them says; empty
// when it is not one of those that mean "too many".
func refusal(t *measure.Totals) string {
	example := t.Examples[measure.BadStatus.String()]
	for _, status := range []string{"429", "503"} {
		if strings.Contains(example, "status "+status) {
			return status
		}
	}
	return ""
}

// regardless looks, after the gentle steps, for an objective that is broken by as many requests as
// it allows when there is nobody to wait for: then no rate decides whether it is kept. Where that
// is not sure it measures for longer.
func (s *surveyor) regardless() (caveat, error) {
	for i := range s.o.SLO {
		o := &s.o.SLO[i]
		for more := 0; ; more++ {
			in := s.always(o, sureOfRoom)
			if in.High < o.Share || in.Point == 0 || in.Low > o.Share || more == mostLonger {
				if in.High >= o.Share && in.Point > 0 {
					return alwaysBroken(o, in), nil
				}
				break
			}
			rate := niceRate(s.good * s.set.gentleHigh)
			if _, err := s.do(s.plan(rate, longer*s.set.noiseLength, s.set.bracketSettle,
				"gentle, and long enough to see how many requests break "+o.Text+" at any rate",
			)); err != nil {
				return caveat{}, err
			}
		}
	}
	return caveat{}, nil
}

// sureOfRoom is the confidence with which an objective has to have room for load: it is looked at
// several times, and each may be wrong.
const sureOfRoom = 0.99

// mostLonger is how often a gentle step is done that is so many times longer than those of the pair.
const mostLonger, longer = 2, 4

func alwaysBroken(o *slo.Objective, in stats.Interval) caveat {
	return caveat{record.CaveatAlways, fmt.Sprintf("%s to %s of the requests break %s even when little "+
		"is asked of the service, and it allows %s: whether it is kept is decided by these requests "+
		"and not by the rate; find out what they wait for, or ask for an objective that has room "+
		"for them", format.Percent(in.Low), format.Percent(in.High), o.Text,
		format.Percent(o.Share))}
}

// noWorse says that a step which did not pass has no more bad requests than those at lower rates: it
// is not the rate that breaks the objective.
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
		for _, u := range s.trials {
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
