package diagnose

import (
	"fmt"
	"path/filepath"
	"regexp"

	"plimsoll/internal/lab/words"
)

func number(v float64) string { return words.Digits(v) }

func percent(share float64) string { return words.Percent(share) }

func rate(perSecond float64) string { return words.Digits(perSecond) + " requests a second" }

func perSecond(v float64) string { return words.Digits(v) + " a second" }

// times is "2.4 times".
func times(factor float64) string { return fmt.Sprintf("%.2g times", factor) }

// span is a length of time in seconds.
func span(seconds float64) string { return words.Duration(seconds * 1e9) }

func size(bytes float64) string { return words.Bytes(bytes) }

// profileFile is where a profile lies.
func (e *Evidence) profileFile(m *Moment, kind string) string {
	return filepath.Join(e.Run.Dir, "steps", fmt.Sprintf("%04d", m.Step.Plan.Number), kind+".pb.gz")
}

// listOf is the command that shows a function's lines with their weight.
func (e *Evidence) listOf(function string) string {
	return words.Command("go", "tool", "pprof", "-list", "^"+regexp.QuoteMeta(function)+"$", e.profileFile(e.Knee, kindCPU))
}
