package text

import (
	"fmt"
	"strings"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/model"
)

// Model describes the model of a run.
func Model(m *model.Model) string {
	var parts []string
	for _, part := range []string{
		demands(m), usl(m.USL), Predictions(m.Predictions), checks(m.Checks),
	} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	for _, n := range m.Notes {
		parts = append(parts, "Note: "+wrap(n, 6)+"\n")
	}
	if len(parts) == 0 {
		return "The run says too little for a model.\n"
	}
	return strings.Join(parts, "\n")
}

func demands(m *model.Model) string {
	if len(m.Demands) == 0 {
		return ""
	}
	var table Table
	table.Left = []int{4}
	table.Row("resource", "a request takes", "there is", "used up at", "")
	for _, d := range m.Demands {
		first := ""
		if d.Resource == m.Smallest {
			first = "bottleneck"
		}
		table.Row(format.Clean(d.Resource), amount(d.Per, d.Unit), format.Digits(d.Capacity),
			Rates(d.Bound), first)
	}
	s := "What a request takes, and the rate at which nothing is left:\n\n" + table.String()
	for _, d := range m.Demands {
		if d.How != "" {
			s += "  " + wrap(d.Resource+": "+d.How, 4) + "\n"
		}
	}
	return s
}

// amount formats a demand with its range. Seconds are written as durations.
func amount(i model.Interval, unit string) string {
	if i.Low == i.High { // one measurement, which shows no spread
		return strings.TrimSuffix(format.Figure(i.Estimate, unit), " ")
	}
	if unit == "s" {
		return fmt.Sprintf("%s (%s to %s)",
			format.Duration(i.Estimate*1e9), format.Duration(i.Low*1e9),
			format.Duration(i.High*1e9))
	}
	return fmt.Sprintf("%.3g %s (%.3g to %.3g)", i.Estimate, unit, i.Low, i.High)
}

func usl(u *model.USL) string {
	if u == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("Universal scalability law:\n\n")
	if u.Lambda.Estimate > 0 {
		var table Table
		table.Row("λ", format.Rate(u.Lambda.Estimate), Rates(u.Lambda))
		table.Row("σ, waiting for each other", small(u.Sigma.Estimate),
			small(u.Sigma.Low)+" to "+small(u.Sigma.High))
		table.Row("κ, talking to each other", small(u.Kappa.Estimate),
			small(u.Kappa.Low)+" to "+small(u.Kappa.High))
		table.Row("R²", fmt.Sprintf("%.3f", u.R2))
		b.WriteString(table.String())
		if u.PeakN > 0 {
			fmt.Fprintf(&b, "  The most it can do is %s, with %s at once.\n",
				format.Rate(u.PeakX), format.Digits(u.PeakN))
		} else {
			fmt.Fprintf(&b, "  Its peak lies beyond %s at once, which is as far as the data "+
				"can tell.\n", format.Digits(u.Reach))
		}
	}
	if u.Note != "" {
		b.WriteString("  " + wrap(u.Note, 2) + "\n")
	}
	return b.String()
}

func small(v float64) string { return fmt.Sprintf("%.3g", v) }

// Predictions shows predictions next to the later measurements; empty if there are none.
func Predictions(all []model.Prediction) string {
	if len(all) == 0 {
		return ""
	}
	var table Table
	table.Left = []int{5}
	table.Row("after step", "known up to", "predicted", "measured", "error", "because of")
	notes := ""
	for _, p := range all {
		measured, off := "-", "-"
		if p.Measured.Estimate > 0 {
			measured, off = around(p.Measured), signed(p.Error, format.Percent)
		}
		table.Row(fmt.Sprint(p.Made), format.Rate(p.Upto), around(p.Line), measured, off,
			format.Clean(p.Limit))
		if p.How != "" {
			notes += "  " + wrap(fmt.Sprintf("after step %d: %s", p.Made, p.How), 4) + "\n"
		}
		if p.Misses != "" {
			notes += "  " + wrap("what it misses: "+p.Misses, 4) + "\n"
		}
	}
	return "Prediction and measurement:\n\n" + table.String() + notes
}

// around formats an estimate with its interval.
func around(i model.Interval) string {
	return fmt.Sprintf("%s (%s)", format.Rate(i.Estimate), strings.TrimSuffix(Rates(i), "/s"))
}

// checks says how many laws held, and describes the breaches.
func checks(all []model.Check) string {
	if len(all) == 0 {
		return ""
	}
	broken := ""
	n := 0
	for _, c := range all {
		if c.Breach {
			n++
			broken += "  " + wrap(fmt.Sprintf("step %d, %s: %s", c.Step, c.Law, c.Sentence), 4) +
				"\n"
		}
	}
	if n == 0 && len(all) == 1 {
		return "Physics: the one check that could be made holds.\n"
	}
	if n == 0 {
		return fmt.Sprintf("Physics: all %d checks hold (Little's law and the utilization law, "+
			"in each step).\n", len(all))
	}
	return fmt.Sprintf("Physics: %d of %d checks do not hold:\n\n%s", n, len(all), broken)
}
