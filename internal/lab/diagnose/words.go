package diagnose

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"plimsoll/internal/lab/format"
)

func number(v float64) string { return format.Digits(v) }

func percent(share float64) string { return format.Percent(share) }

func rate(perSecond float64) string { return format.Digits(perSecond) + " requests a second" }

func perSecond(v float64) string { return format.Digits(v) + " a second" }

// times returns text such as "2.4 times".
func times(factor float64) string { return fmt.Sprintf("%.2g times", factor) }

// span formats a length of time given in seconds.
func span(seconds float64) string { return format.Duration(seconds * 1e9) }

func size(bytes float64) string { return format.Bytes(bytes) }

// filled returns a command of a rule's advice in which TARGET, OBJECTIVES, PORT, PID and INSIDE
// (the address of the service's profiles) are replaced by what the run knows. What the run does not
// know stays, for a person to fill in.
func (e *Evidence) filled(command string) string {
	m := &e.Run.Manifest
	var known []string
	put := func(word, value string) {
		if value != "" {
			known = append(known, word, value)
		}
	}
	if target, err := url.Parse(m.Target); err == nil && target.Host != "" {
		put("TARGET", format.Command(m.Target))
		put("PORT",
			cmp.Or(target.Port(), map[string]string{"http": "80", "https": "443"}[target.Scheme]))
	}
	if m.Machine.TargetPID > 0 {
		put("PID", strconv.Itoa(m.Machine.TargetPID))
	}
	if m.SLO != "" {
		put("OBJECTIVES", format.Command(m.SLO))
	}
	for i, argument := range m.Command {
		value, joined := strings.CutPrefix(argument, "--pprof=")
		if argument == "--pprof" && i+1 < len(m.Command) {
			value, joined = m.Command[i+1], true
		}
		// It is put inside a shell's quotes.
		if joined && !strings.ContainsAny(value, "'\\\n") {
			put("INSIDE", strings.TrimSuffix(strings.TrimRight(value, "/"), "/debug/pprof"))
		}
	}
	return strings.NewReplacer(known...).Replace(command)
}

// profileFile returns the path of a profile.
func (e *Evidence) profileFile(m *Moment, kind string) string {
	return filepath.Join(e.Run.Dir, "steps", fmt.Sprintf("%04d", m.Step.Plan.Number), kind+".pb.gz")
}

// listOf returns the command that shows a function's lines with their weight.
func (e *Evidence) listOf(function string) string {
	return format.Command("go", "tool", "pprof", "-list", "^"+regexp.QuoteMeta(function)+"$",
		e.profileFile(e.AtLine, kindCPU))
}
