package text_test

import (
	"strings"
	"testing"

	"plimsoll/internal/lab/experiment"
	"plimsoll/internal/lab/text"
)

// said is what an experiment with one figure has shown, without what only aligns it.
func said(m *experiment.Manifest, f experiment.FigureResult) string {
	got := text.Experiment(m, &experiment.Result{Figures: []experiment.FigureResult{f}})
	var lines []string
	for line := range strings.Lines(got) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

func TestStepsAreShownAgainstTheOneBefore(t *testing.T) {
	m := &experiment.Manifest{
		Values:  []experiment.Value{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Pairing: experiment.Pairing{Previous: true},
	}
	f := experiment.FigureResult{
		Figure:  experiment.Figure{Name: "goodput", Unit: "/s"},
		Medians: make([]*experiment.Estimate, 3),
		Comparisons: []experiment.Comparison{
			{Than: "a", Value: "b", Share: true, Shift: .5, Low: .4, High: .6, Says: "real: 50 % more"},
			{Than: "b", Value: "c", Share: true, Shift: 0, Low: -.01, High: .01, Says: "the same"},
		},
	}
	want := "goodput median 95 % against the one before\na -\nb - +50.0 % (+40.0 to +60.0) real: " +
		"50 % more\nc - +0.0 % (-1.0 to +1.0) the same"
	if got := said(m, f); !strings.Contains(got, want) {
		t.Errorf("%s\nwant:\n%s", got, want)
	}
}

func TestAUnitFromAFileCannotMoveTheCursor(t *testing.T) {
	m := &experiment.Manifest{Values: []experiment.Value{{Name: "a"}}}
	got := said(m, experiment.FigureResult{
		Figure:  experiment.Figure{Name: "heap", Unit: "\x1b[2J\x1b"},
		Medians: []*experiment.Estimate{{Low: 1, Median: 2, High: 3}},
	})
	if strings.Contains(got, "\x1b") || !strings.Contains(got, "[2J") {
		t.Errorf("%q", got)
	}
}
