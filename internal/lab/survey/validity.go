package survey

import (
	"fmt"
	"math"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/stats"
)

// validity returns the checks that must hold for the results to mean something.
func (s *surveyor) validity() []record.Validity {
	checks := []record.Validity{s.onSchedule(), s.little(), s.quiet(), s.plenty()}
	if v, ok := s.together(); ok {
		checks = append(checks, v)
	}
	if v, ok := s.steady(); ok {
		checks = append(checks, v)
	}
	if s.result.Recovery.Tested {
		checks = append(checks, s.undrifted())
	}
	return checks
}

// onSchedule checks the generator's own lateness.
func (s *surveyor) onSchedule() record.Validity {
	v := record.Validity{What: "the generator kept its schedule", OK: true}
	worst, invalid := int64(0), 0
	for _, t := range s.trials {
		if t.rate == 0 {
			continue
		}
		lag := &t.step.Totals.Lag
		worst = max(worst, lag.Quantile(.99))
		if t.judgement.Verdict == record.Invalid && !s.bounded(t) {
			invalid++
		}
		near := s.high == 0 || t.rate <= s.high
		if near && s.counts(t, asSeen) && lateGenerator(&t.step.Totals, s.o.SLO) {
			v.OK = false
		}
	}
	v.Why = fmt.Sprintf("the 99th percentile of its lateness was at most %.2f ms; "+
		"%s not counted because it was the limit itself",
		float64(worst)/1e6, uncounted(invalid))
	return v
}

// uncounted says how many steps are left out.
func uncounted(steps int) string {
	if steps == 1 {
		return "1 step is"
	}
	return fmt.Sprintf("%d steps are", steps)
}

// together checks how far apart generators on several machines may have started. ok is false if
// there were none.
func (s *surveyor) together() (v record.Validity, ok bool) {
	v = record.Validity{What: "the generators started together, to a tenth of a window", OK: true}
	worst, window := int64(0), int64(0)
	names := map[string]bool{}
	for _, t := range s.trials {
		if len(t.step.Windows) > 0 {
			window = t.step.Windows[0].Length
		}
		for _, g := range t.step.Totals.Generator.Remote {
			worst, names[g.Name] = max(worst, g.ClockUncertainty), true
		}
	}
	v.OK = len(names) == 1 || worst <= window/10
	v.Why = fmt.Sprintf("the clocks of %d generators were known to within %s",
		len(names), format.Duration(float64(worst)))
	return v, len(names) > 0
}

// little checks Little's law in the steps: the requests inside are the rate times the response
// time.
func (s *surveyor) little() record.Validity {
	v := record.Validity{
		What: "requests inside are rate times response time (Little's law)",
		OK:   true,
	}
	var ratios []float64
	for _, t := range s.trials {
		if !t.usable() || t.broke != "" || len(t.view.net) < 6 {
			continue
		}
		if _, _, grows := t.view.growth(); grows {
			continue
		}
		inside, area, n := 0.0, 0.0, len(t.view.net)
		seconds := 0.0
		for i := range n {
			w := &t.view.windows[i]
			inside += float64(w.InFlight+w.Waiting) / float64(n)
			area += float64(w.Response.Sum) / float64(second)
			seconds += t.view.seconds[i]
		}
		// The mean of a few samples of a small number says little.
		if inside >= 2 && area > 0 && share(&t.step.Totals.Ended) < .01 {
			ratios = append(ratios, inside/(area/seconds))
		}
	}
	if len(ratios) == 0 {
		v.Why = "too few requests were inside at once to tell"
		return v
	}
	middle := stats.Median(ratios)
	v.OK = math.Abs(middle-1) <= .15
	v.Why = fmt.Sprintf("what was inside was %.2f times that, in the middle of %d steps",
		middle, len(ratios))
	return v
}

// quiet checks the noise floor.
func (s *surveyor) quiet() record.Validity {
	v := record.Validity{
		What: fmt.Sprintf("two equal steps differ by less than %.0f %%", 100*noisyAbove),
	}
	n := s.result.Noise
	if !n.Measured {
		v.Why = "not measured"
		return v
	}
	v.OK = n.P50 < noisyAbove && n.Goodput < noisyAbove && n.CPU < noisyAbove
	v.Why = fmt.Sprintf("median response time %s, 99th percentile %s, goodput %s, "+
		"processor time %s",
		format.Percent(n.P50), format.Percent(n.P99), format.Percent(n.Goodput), format.Percent(n.CPU))
	return v
}

// plenty checks how much evidence the line rests on.
func (s *surveyor) plenty() record.Validity {
	v := record.Validity{What: "the line rests on enough steps, and is known to 10 %"}
	line := s.result.Line
	if !line.Found {
		v.Why = "there is no line"
		return v
	}
	i := line.Interval
	steps, windows := s.near(i.Estimate, asSeen)
	width := (i.High - i.Low) / i.Estimate
	v.OK = steps >= fewestNear && width <= .1
	v.Why = fmt.Sprintf("%d steps within 15 %% of it, %d windows; the interval is %s wide",
		steps, windows, format.Percent(width))
	if !v.OK {
		v.Why += "; a service that answers few requests in the time that the SLO allows needs " +
			"longer: raise --runs"
	}
	return v
}

// undrifted compares the last step with the earlier one at the same rate.
func (s *surveyor) undrifted() record.Validity {
	v := record.Validity{What: "the service is the same at the end as at the beginning"}
	last := s.trials[len(s.trials)-1]
	windows := last.step.Windows
	before := stats.Median(meanResponses(s.reference.view.windows))
	after := stats.Median(meanResponses(windows[len(windows)/2:]))
	change := difference(before, after)
	v.OK = change <= max(.15, 3*s.result.Noise.P50)
	v.Why = fmt.Sprintf("at %s the response time was %.2f ms before and %.2f ms at the end",
		last.words(), before/1e6, after/1e6)
	return v
}
