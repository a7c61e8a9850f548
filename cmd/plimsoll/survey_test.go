package main

import (
	"bytes"
	"strings"
	"testing"

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
