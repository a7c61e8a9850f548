package text

import (
	"fmt"
	"strings"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/survey"
)

// Survey describes the result of a survey, the load line first.
func Survey(m *record.Manifest, r *record.Result) string {
	var b strings.Builder
	if r.Early != "" {
		fmt.Fprintf(&b, "Ended early: %s.\n\n", format.Clean(r.Early))
	}
	fmt.Fprintf(&b, "%s\n%s, as long as %s\n\n",
		format.Clean(m.Target), mix(m.Mix), format.Clean(m.SLO))
	b.WriteString(line(&r.Line))
	b.WriteString("\n" + peakAndCollapse(r))
	if s := Predictions(r.Model.Predictions); s != "" {
		b.WriteString("\n" + s)
	}
	b.WriteString("\n" + validity(r))
	return b.String()
}

func mix(requests string) string {
	if requests == "" {
		return "its requests"
	}
	return format.Clean(requests)
}

func line(l *record.Line) string {
	if !l.Found {
		return entry("LOAD LINE", "not found", l.Why)
	}
	return entry(
		"LOAD LINE",
		fmt.Sprintf("%s   (%s, %s confidence)",
			format.Rate(l.Interval.Estimate), Rates(l.Interval), format.Confidence(l.Interval.Confidence)),
		l.Why,
	)
}

// indent is the column of the figures in a survey's summary.
const indent = 16

// entry is a name, a figure in the figures' column, and below it the reason.
func entry(name, figure, why string) string {
	s := fmt.Sprintf("  %-*s%s\n", indent-2, name, figure)
	if why != "" {
		s += strings.Repeat(" ", indent) + wrap(why, indent) + "\n"
	}
	return s
}

func peakAndCollapse(r *record.Result) string {
	s := peakOrCollapse("peak goodput", &r.Peak) + peakOrCollapse("collapse", &r.Collapse)
	switch {
	case !r.Recovery.Tested:
		s += entry("recovery", "not tried", r.Recovery.Why)
	case r.Recovery.Recovered && r.Recovery.After == 0:
		s += entry("recovery", "at once", r.Recovery.Why)
	case r.Recovery.Recovered:
		s += entry("recovery", "after "+format.Duration(r.Recovery.After*1e9), r.Recovery.Why)
	default:
		s += entry("recovery", "NO", r.Recovery.Why)
	}
	if r.Noise.Measured {
		s += entry(
			"noise floor",
			fmt.Sprintf("p50 %s, p99 %s, goodput %s, CPU %s",
				format.Percent(r.Noise.P50), format.Percent(r.Noise.P99),
				format.Percent(r.Noise.Goodput),
				format.Percent(r.Noise.CPU)),
			"what two equal steps differed by",
		)
	}
	return s
}

func peakOrCollapse(name string, k *record.Collapse) string {
	switch {
	case !k.Found:
		return entry(name, "not seen", k.Why)
	case k.Goodput > 0:
		return entry(name,
			fmt.Sprintf("%s, when %s were offered", format.Rate(k.Goodput), Rates(k.Rate)), k.Why)
	}
	return entry(name, Rates(k.Rate), k.Why)
}

func validity(r *record.Result) string {
	var wrong []string
	for _, v := range r.Validity {
		if !v.OK {
			wrong = append(wrong, "  FAILED: "+wrap(v.What+": "+v.Why, 10)+"\n")
		}
	}
	s := fmt.Sprintf("Validity: %d of %d checks hold.\n",
		len(r.Validity)-len(wrong), len(r.Validity)) + strings.Join(wrong, "")
	for _, n := range r.NotMeasured {
		s += "  not measured: " + wrap(n, indent) + "\n"
	}
	return s
}

// Step is one line about a step that has ended.
func Step(p *measure.StepPlan, j *record.Judgement) string {
	s := fmt.Sprintf("step %d, %s: %s for %s: %s",
		p.Number, p.Phase, offered(p), format.Duration(float64(p.Length)), j.Shown())
	if j.Goodput.Estimate > 0 {
		s += fmt.Sprintf(", goodput %s", format.Rate(j.Goodput.Estimate))
	}
	for _, o := range j.Objectives {
		s += fmt.Sprintf(", %s: %s missed it, %s allowed",
			o.Objective, format.Percent(o.Share.Estimate), format.Percent(o.Allowed))
	}
	if j.Why != "" {
		s += " (" + j.Why + ")"
	}
	return format.Clean(s)
}

func offered(p *measure.StepPlan) string {
	if p.Rate == 0 {
		return "closed loop"
	}
	return format.Rate(p.Rate)
}

// SurveyNow is the progress line of a survey: the step, what the last windows of about a second
// measured, the line so far, and the remaining time. last is empty between steps.
func SurveyNow(e *survey.Event, last []*measure.Window) string {
	var parts []string
	if e.Plan.Number > 0 || e.Plan.Phase != "" {
		parts = append(parts, fmt.Sprintf("%s %d: %s",
			e.Plan.Phase, e.Plan.Number, offered(&e.Plan)))
	}
	if len(last) > 0 {
		now := sum(last)
		parts = append(parts, fmt.Sprintf("p99 %s", quantile(&now, .99)))
		if failed := now.Ended.Failed(); failed > 0 {
			parts = append(parts, format.Percent(share(failed, now.Ended.Total()))+" failed")
		}
	}
	if e.Judgement != nil {
		parts = append(parts, string(e.Judgement.Shown()))
	}
	if e.Low > 0 || e.High > 0 {
		parts = append(parts, "line "+between(e.Low, e.High))
	}
	if e.Left > 0 {
		parts = append(parts, format.Duration(float64(e.Left))+" left")
	}
	if e.Plan.Why != "" {
		parts = append(parts, e.Plan.Why)
	}
	return format.Clean(strings.Join(parts, "  "))
}

// between formats the line so far. One of its sides may be unknown.
func between(low, high float64) string {
	switch {
	case high <= 0:
		return "above " + format.Rate(low)
	case low <= 0:
		return "below " + format.Rate(high)
	}
	return Rates(model.Interval{Low: low, High: high})
}
