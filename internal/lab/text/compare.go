package text

import (
	"fmt"
	"strings"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/report"
)

// Comparison describes the differences between two runs.
func Comparison(d *report.Comparison) string {
	var b strings.Builder
	if d.Sentence != "" {
		fmt.Fprintf(&b, "%s\n\n", format.Clean(d.Sentence))
	}
	figures := Table{Left: []int{4, 5}}
	figures.Row("", "A", "B", "change", "real", "")
	for _, f := range d.Figures {
		verdict := "no"
		if f.Real {
			verdict = "YES"
		}
		figures.Row(Clip(f.Figure, 60), format.Figure(f.A.Estimate, f.Unit),
			format.Figure(f.B.Estimate, f.Unit),
			fmt.Sprintf("%+.1f %% (%+.1f to %+.1f)", f.Change*100, f.Low*100, f.High*100), verdict,
			format.Clean(f.Why))
	}
	if len(d.Figures) > 0 {
		b.WriteString(figures.String() + "\n")
	} else {
		b.WriteString("The runs have no figure in common.\n\n")
	}
	for _, caution := range d.Cautions {
		fmt.Fprintf(&b, "Warning: %s\n", format.Clean(caution))
	}
	settings := Table{Left: []int{1, 2}}
	settings.Row("done differently", "A", "B")
	for _, change := range d.Changed {
		settings.Row(Clip(change.What, 40), Clip(change.A, 60), Clip(change.B, 60))
	}
	if len(d.Changed) > 0 {
		b.WriteString("\n" + settings.String())
	}
	return b.String()
}
