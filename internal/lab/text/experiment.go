package text

import (
	"fmt"
	"strings"

	"plimsoll/internal/lab/experiment"
	"plimsoll/internal/lab/format"
)

// ExperimentBegins is the text before an experiment: how long it takes, and whether it can show
// anything.
func ExperimentBegins(e *experiment.Experiment) string {
	line := fmt.Sprintf("%s: %s in %s, about %s",
		format.Clean(e.Name), many(len(e.Values), "value"), many(e.Repeat, "round"),
		format.Duration(float64(e.Time())))
	if e.Repeat < e.Needed() {
		line += fmt.Sprintf("\nWith %s no difference can be called real: "+
			"%d are needed for %s (--repeat %d).", many(e.Repeat, "round"), e.Needed(),
			many(e.Tests(), "comparison"), e.Needed())
	}
	return line
}

// ExperimentPlan describes what would be done, and how it is judged.
func ExperimentPlan(e *experiment.Experiment) string {
	var b strings.Builder
	b.WriteString(ExperimentBegins(e) + "\n\n")
	values := Table{Left: []int{1, 2}}
	values.Row(Clip(e.Variable, 30), "starts", "with")
	for i, v := range e.Values {
		name := format.Clean(v.Name)
		if i == e.Baseline && e.HasBaseline() {
			name += " (baseline)"
		}
		values.Row(name, Clip(e.Start(v), 80), Clip(strings.Join(e.Settings(v), " "), 60))
	}
	b.WriteString(values.String() + "\n")
	names := make([]string, len(e.Figures))
	for i, f := range e.Figures {
		names[i] = format.Clean(f.Name)
	}
	fmt.Fprintf(&b, "measured   %s\n", strings.Join(names, ", "))
	if l := e.Load; l != nil {
		rate := "a closed loop"
		if l.Rate > 0 {
			rate = format.Rate(l.Rate) + ", " + l.Arrivals + " arrivals"
		}
		fmt.Fprintf(&b, "load       %s over %s for %v, after %v to warm up: %s\n",
			rate, many(l.Connections, "connection"), l.Duration, l.Warmup,
			Clip(l.URL, 80))
	}
	fmt.Fprintf(&b, "judged     %s together, alpha %g; what is under %s does not matter\n",
		many(e.Tests(), "comparison"), e.Alpha, format.Percent(e.Relevant))
	if e.Isolated() {
		b.WriteString("where      in a network namespace of its own, " +
			"where the kernel settings are changed\n")
	}
	return b.String()
}

// Experiment describes the result of an experiment.
func Experiment(m *experiment.Manifest, r *experiment.Result) string {
	var b strings.Builder
	b.WriteString(format.Clean(m.Name))
	if m.Question != "" {
		b.WriteString(": " + format.Clean(m.Question))
	}
	fmt.Fprintf(&b, "\n%d of %s, %s judged together: ",
		r.Rounds, many(r.Repeat, "round"), many(r.Tests, "comparison"))
	if r.Real == 0 {
		b.WriteString("no difference is real\n\n")
	} else {
		b.WriteString(many(r.Real, "difference") + " real\n\n")
	}
	for i := range r.Figures {
		b.WriteString(figureTable(m, &r.Figures[i]) + "\n")
	}
	for _, v := range r.Values {
		if v.Failures+v.Unused == 0 {
			continue
		}
		how := many(v.Runs, "run") + " measured"
		if v.Failures > 0 {
			how = many(v.Failures, "run") + " failed, " + how
		}
		if v.Unused > 0 {
			how = many(v.Unused, "run") + " not used, " + how
		}
		fmt.Fprintf(&b, "%s: %s; the last: %s\n", format.Clean(v.Name), how, format.Clean(v.Why))
		for line := range strings.Lines(v.Output) {
			fmt.Fprintf(&b, "    | %s\n", Clip(strings.TrimRight(line, "\r\n"), 120))
		}
	}
	if r.Early != "" {
		fmt.Fprintf(&b, "Ended early: %s.\n", format.Clean(r.Early))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "Note: %s.\n", format.Clean(n))
	}
	return b.String()
}

// figureTable is the table of one figure: a line for each value and, if each value is compared with
// each other one, a line for each pair below them.
func figureTable(m *experiment.Manifest, f *experiment.FigureResult) string {
	t := Table{Left: []int{4}}
	head := "difference"
	switch {
	case m.HasBaseline():
		head = "against " + Clip(m.Values[m.Baseline].Name, 24)
	case m.Previous:
		head = "against the one before"
	}
	t.Row(Clip(f.Name, 60), "median", "95 %", head, "")
	for i, v := range m.Values {
		median, interval := "-", ""
		if e := f.Medians[i]; e != nil {
			median = inUnit(e.Median, f.Unit)
			interval = inUnit(e.Low, f.Unit) + " to " + inUnit(e.High, f.Unit)
		}
		difference, says := "", ""
		if !m.AllPairs {
			for _, c := range f.Comparisons {
				if c.Value == v.Name {
					difference, says = shiftOf(f, &c), verdictOf(&c)
				}
			}
		}
		t.Row("  "+format.Clean(v.Name), median, interval, difference, says)
	}
	if m.AllPairs {
		for _, c := range f.Comparisons {
			t.Row("  "+format.Clean(c.Value)+" against "+format.Clean(c.Than), "", "",
				shiftOf(f, &c), verdictOf(&c))
		}
	}
	return t.String()
}

// shiftOf formats a difference with its interval.
func shiftOf(f *experiment.FigureResult, c *experiment.Comparison) string {
	if c.Share {
		return fmt.Sprintf("%+.1f %% (%+.1f to %+.1f)", 100*c.Shift, 100*c.Low, 100*c.High)
	}
	return fmt.Sprintf("%s (%s to %s)",
		inUnit(c.Shift, f.Unit), inUnit(c.Low, f.Unit), inUnit(c.High, f.Unit))
}

// verdictOf is a verdict, and whether it is an improvement.
func verdictOf(c *experiment.Comparison) string {
	says := format.Clean(c.Says)
	if c.Better != nil && *c.Better {
		return says + " (better)"
	}
	if c.Better != nil {
		return says + " (worse)"
	}
	return says
}

// inUnit formats a figure's value.
func inUnit(v float64, unit string) string {
	switch unit {
	case "share":
		return format.Percent(v)
	case "B":
		return format.Bytes(v)
	case "":
		return strings.TrimSpace(format.Figure(v, ""))
	}
	return format.Figure(v, format.Clean(unit))
}
