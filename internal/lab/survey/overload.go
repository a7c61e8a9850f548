package survey

import (
	"fmt"
	"math"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/stats"
)

// overload offers more than the line, to see where the goodput peaks and whether it falls beyond
// that. A service that breaks its objective long before its capacity is used up carries all of that:
// only such a service is offered the last multiple.
func (s *surveyor) overload() error {
	s.enter(overload, "offering more than the line, to see what the service does then")
	line := s.result.Line.Interval.Estimate
	last, keptUp := 0.0, true
	for i, multiple := range s.set.overload {
		rate := s.allowed(niceRate(line * min(multiple, s.o.Overshoot)))
		if rate <= last || i == len(s.set.overload)-1 && (!keptUp || rate < 1.05*last) {
			continue
		}
		last = rate
		t, err := s.do(s.plan(rate, s.set.overloadLength, s.set.bracketSettle,
			fmt.Sprintf("%.2f times the line", rate/line)))
		if err != nil {
			return err
		}
		if t.broke != "" {
			return nil
		}
		keptUp = t.usable() && t.keptUp()
	}
	return nil
}

// keptUp reports whether about as many requests ended well as were sent.
func (t *trial) keptUp() bool {
	g, r := t.judgement.Goodput, t.view.rate()
	return g.High >= .98*r && g.Estimate >= .95*r
}

// peak finds where the goodput is highest over all steps, and where it falls again.
func (s *surveyor) peak() (peak, falls record.Collapse) {
	var top *trial
	kept, offered := 0.0, 0.0
	for _, t := range s.trials {
		if !t.usable() || t.broke != "" {
			continue
		}
		offered = max(offered, t.rate)
		if t.keptUp() {
			kept = max(kept, t.rate)
		}
		if top == nil || t.judgement.Goodput.Estimate > top.judgement.Goodput.Estimate {
			top = t
		}
	}
	if top == nil {
		peak.Why = "no step went well"
		return peak, peak
	}
	g := top.judgement.Goodput
	if g.Estimate >= .97*offered {
		peak.Why = fmt.Sprintf("goodput still rose at the highest rate that was offered, "+
			"%s a second", format.Digits(offered))
		peak.Goodput = g.Estimate
		falls.Why = "goodput did not fall up to " + format.Digits(offered) + " requests a second"
		return peak, falls
	}
	low, high := min(kept, g.Estimate), max(g.High, min(top.rate, g.Estimate*1.05))
	peak.Found, peak.Goodput = true, g.Estimate
	peak.Rate = model.Interval{
		Low:        min(low, g.Low),
		Estimate:   g.Estimate,
		High:       high,
		Confidence: confidence,
	}
	peak.Why = fmt.Sprintf("at %s requests offered a second, %s were answered well; "+
		"up to %s all were",
		format.Digits(top.rate), format.Digits(g.Estimate), format.Digits(kept))
	return peak, s.falls(top, offered)
}

// falls finds where the goodput is clearly below its peak at a higher rate. An earlier step must
// have shown more good answers: a service that answered less at first has warmed up or grown, and
// did not collapse.
func (s *surveyor) falls(top *trial, offered float64) record.Collapse {
	g := top.judgement.Goodput
	lowest, before := math.Inf(1), 0.0
	for _, t := range s.trials {
		worse := t.judgement.Goodput
		if t.usable() && t.rate > top.rate && worse.Estimate < (1-collapseFall)*g.Estimate &&
			worse.High < min(g.Low, (1-collapseFall)*before) && t.rate < lowest {
			lowest = t.rate
		}
		if t.usable() && t.broke == "" {
			before = max(before, t.judgement.Goodput.Estimate)
		}
	}
	if math.IsInf(lowest, 1) {
		return record.Collapse{
			Why: fmt.Sprintf("goodput did not fall by more than %.0f %% up to %s requests a second",
				100*collapseFall, format.Digits(offered)),
		}
	}
	return record.Collapse{
		Found: true,
		Rate: model.Interval{
			Low:        top.rate,
			Estimate:   lowest,
			High:       lowest,
			Confidence: confidence,
		},
		Why: fmt.Sprintf("at %s requests a second the goodput was more than %.0f %% below its peak",
			format.Digits(lowest), 100*collapseFall),
	}
}

// recover returns to a gentle rate at once, and checks whether the service is as it was before.
func (s *surveyor) recover() error {
	s.enter(recovery, "back to a gentle rate, to see whether the service recovers")
	before := s.reference
	t, err := s.doAtOnce(s.plan(before.rate, s.set.recoveryLength, 0,
		"a rate that was tried before, right after the overload"))
	if err != nil {
		return err
	}
	s.result.Recovery = recovered(before, t, s.result.Noise.P50)
	return s.settle()
}

// recovered compares the windows after an overload with those of the same rate before it. The
// service is back at the first window from which four of five windows are good: no slower than the
// slowest before the overload, with a margin for noise, and with no larger share of failures.
func recovered(before, after *trial, noise float64) record.Recovery {
	r := record.Recovery{Tested: true}
	usual := meanResponses(before.view.windows)
	worst := 0.0
	for _, m := range usual {
		worst = max(worst, m)
	}
	worst = max(worst, stats.Median(usual)*1.25) * (1 + 2*noise)
	failing := share(&before.step.Totals.Ended) + .01
	good := 0
	windows := after.step.Windows
	back := -1
	for i := len(windows) - 1; i >= 0; i-- {
		w := &windows[i]
		if w.Ended.Total() > 0 && share(&w.Ended) <= failing && w.Response.Mean() <= worst {
			good++
			if 5*good >= 4*(len(windows)-i) {
				back = i
			}
		}
	}
	if back < 0 || back > 3*len(windows)/4 || after.broke != "" {
		r.Why = fmt.Sprintf("%.1f s after the overload, at %s, requests still took %.1f ms where "+
			"they had taken %.1f ms before, and %s failed",
			float64(after.step.Totals.Length)/float64(second), after.words(),
			after.step.Totals.Response.Mean()/1e6, before.step.Totals.Response.Mean()/1e6,
			format.Percent(share(&after.step.Totals.Ended)))
		return r
	}
	r.Recovered, r.After = true, float64(windows[back].Start)/float64(second)
	r.Why = fmt.Sprintf("at %s, %.1f s after the overload, requests took %.1f ms; "+
		"before it they took %.1f ms", after.words(), r.After,
		stats.Median(meanResponses(windows[back:]))/1e6, stats.Median(usual)/1e6)
	return r
}

// share returns the share of requests that failed.
func share(t *measure.Tally) float64 { return float64(t.Failed()) / max(float64(t.Total()), 1) }
