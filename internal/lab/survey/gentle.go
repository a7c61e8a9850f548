package survey

import (
	"fmt"
	"math"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

// gentle runs the steps below half of the line: a pair of equal steps, whose difference is the
// noise floor of every comparison, and one more if there are no others. Then it predicts the line,
// before trying anything near it.
func (s *surveyor) gentle() error {
	s.enter(noise, "doing the same twice, to see how much two equal steps differ")
	rate := niceRate(s.good * s.set.gentleHigh)
	var pair [2]*trial
	for i := range pair {
		why := fmt.Sprintf("one of two equal steps, under half of %s, which passed",
			format.Digits(s.good))
		t, err := s.do(s.plan(rate, s.set.noiseLength, s.set.bracketSettle, why))
		if err != nil {
			return err
		}
		pair[i] = t
	}
	s.reference = pair[1]
	s.result.Noise = noiseOf(pair[0], pair[1])
	few := 0
	for _, t := range s.counted() {
		if t.rate > 0 && t.rate < .9*rate {
			few++
		}
	}
	if few == 0 {
		low := niceRate(s.good * s.set.gentleLow)
		if _, err := s.do(s.plan(low, s.set.coarseLength, s.set.bracketSettle,
			"a second gentle rate, to predict the line from")); err != nil {
			return err
		}
	}
	s.predict(rate)
	return nil
}

// predict predicts the line from the steps up to a rate.
func (s *surveyor) predict(upto float64) {
	if s.o.Predict == nil {
		return
	}
	var known []measure.Step
	for _, t := range s.counted() {
		if t.rate <= upto && t.broke == "" && t.judgement.Verdict != record.Invalid {
			known = append(known, t.step)
		}
	}
	p := s.o.Predict(known)
	if p == nil {
		s.say("no prediction could be made from the gentle steps")
		return
	}
	p.Upto = upto
	p.Made = len(s.trials)
	s.result.Model.Predictions = append(s.result.Model.Predictions, *p)
	s.say(fmt.Sprintf("predicted from steps up to %s requests a second: "+
		"a load line at %s (%s to %s), set by %s", format.Digits(upto),
		format.Digits(p.Line.Estimate), format.Digits(p.Line.Low), format.Digits(p.Line.High), p.Limit))
}

// noiseOf returns the shares by which two equal steps differ.
func noiseOf(a, b *trial) record.Noise {
	n := record.Noise{Measured: true}
	n.P50 = difference(quantile(a.view.windows, .5), quantile(b.view.windows, .5))
	n.P99 = difference(quantile(a.view.windows, .99), quantile(b.view.windows, .99))
	n.Goodput = difference(a.judgement.Goodput.Estimate/max(a.view.rate(), 1e-9),
		b.judgement.Goodput.Estimate/max(b.view.rate(), 1e-9))
	n.CPU = difference(cpuPerRequest(&a.step), cpuPerRequest(&b.step))
	return n
}

// quantile returns a quantile of the response times in windows, in nanoseconds.
func quantile(windows []measure.Window, q float64) float64 {
	all := make([]*measure.Sparse, len(windows))
	for i := range all {
		all[i] = &windows[i].Response
	}
	response := measure.Merged(all...)
	return float64(response.Quantile(q))
}

// difference returns the difference of two values as a share of their mean; 0 if either is missing.
func difference(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	return 2 * math.Abs(a-b) / (a + b)
}

// cpuPerRequest returns the target's processor time per request in seconds; 0 if it was not
// measured.
func cpuPerRequest(s *measure.Step) float64 {
	const name = measure.TargetCPU
	first, last := -1, -1
	for i := range s.Samples {
		if _, ok := s.Samples[i].Values[name]; ok {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first == last {
		return 0
	}
	a, b := s.Samples[first], s.Samples[last]
	ended := 0.0
	for i := range s.Windows {
		if at := s.Windows[i].End(); at > a.At && at <= b.At+s.Windows[i].Length/2 {
			ended += float64(s.Windows[i].Ended.Total())
		}
	}
	if ended == 0 {
		return 0
	}
	return (b.Values[name] - a.Values[name]) / ended
}

// niceRate rounds a rate to a grid of half a percent and four digits. A rate that is tried again is
// then the same rate, and looks as if a person had chosen it.
func niceRate(rate float64) float64 {
	if rate <= 0 {
		return 0
	}
	const grid = .005
	rate = math.Exp(math.Round(math.Log(rate)/grid) * grid)
	digits := math.Pow(10, math.Floor(math.Log10(rate))-3)
	return math.Round(rate/digits) * digits
}
