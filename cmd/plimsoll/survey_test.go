package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"plimsoll/internal/lab/survey"
)

func TestWhatASurveyPredictsStaysOnTheTerminalAndInALog(t *testing.T) {
	news := survey.Event{Text: "predicted: a line at 1329\x1b[2J"}
	for terminal, want := range map[bool]string{
		true:  "\r\x1b[Kpredicted: a line at 1329",
		false: "predicted: a line at 1329",
	} {
		var out bytes.Buffer
		p := &progress{out: &out}
		if terminal {
			p.columns = func() int { return 80 }
			p.show("working")
			out.Reset()
		}
		tell(p)(news)
		if got := out.String(); !strings.HasPrefix(got, want) || strings.Contains(got, "\x1b[2J") ||
			!strings.HasSuffix(got, "\n") {
			t.Errorf("terminal %v: %q", terminal, got)
		}
	}
}

func TestSeveralMetricsPagesCanBeGiven(t *testing.T) {
	var c commandLine
	parser, err := kong.New(&c, longHelp)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"http://a/metrics?match[]=x,y", "http://b/debug/vars"}
	if _, err := parser.Parse([]string{
		"survey", "http://a/", "--slo", "p99<50ms", "--metrics", want[0], "--metrics", want[1],
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Survey.Metrics, want) {
		t.Errorf("%q", c.Survey.Metrics)
	}
}
