package report

import (
	"fmt"
	"math"
	"strings"

	"plimsoll/internal/lab/record"
)

// Headline is the first thing on the page. Its sentence consists of parts: Big is set in large
// type, and Range is kept on one line.
type Headline struct {
	Tone                      string // "pass", "fail", "undecided": its colour and shape
	Chip                      string
	Before, Big, Range, After string
	Details                   []string
	Strip                     *Strip
}

func verdict(d *Data) Headline {
	var v Headline
	switch r := d.Result; {
	case d.Manifest.Kind != record.KindSurvey:
		v = loadVerdict(d)
	case r == nil:
		v = Headline{
			Tone:    "undecided",
			Chip:    "No result",
			Before:  "This survey was cut off before it had a result.",
			Details: []string{known(d), "Its complete steps follow."},
		}
	case !r.Line.Found:
		v = Headline{
			Tone:    "undecided",
			Chip:    "Load line not found",
			Before:  "The load line was not found.",
			Details: []string{sentence(clip(r.Line.Why, 600)), known(d)},
		}
	default:
		v = foundVerdict(d)
	}
	if mix := clip(d.Manifest.Mix, 600); mix != "" && d.Result != nil && d.Result.Line.Found {
		v.Details = append(v.Details, "This is the load line, the highest rate of requests that "+
			"still meets the objectives. It holds for the mix: "+mix)
	} else if mix != "" {
		v.Details = append(v.Details, "The mix: "+mix)
	}
	if d.Result != nil && d.Result.Early != "" {
		v.Details = append(v.Details, "The run ended early: "+clip(d.Result.Early, 600))
	}
	v.Strip = strip(d)
	return v
}

func foundVerdict(d *Data) Headline {
	line := d.Result.Line.Interval
	within := "(" + rangeOf(line)
	if c := confidence(line); c != "" {
		within += ", " + c
	}
	after := "."
	if d.Manifest.SLO != "" {
		after = "at " + objectives(d.Manifest.SLO) + "."
	}
	v := Headline{
		Tone:   "pass",
		Chip:   "Load line found",
		Before: "This service carries",
		Big:    number(line.Estimate),
		Range:  "requests a second " + within + ")",
		After:  after,
	}
	if d.Result.Line.Why != "" {
		v.Details = append(v.Details, sentence(d.Result.Line.Why))
	}
	for _, c := range d.Result.Validity {
		if !c.OK {
			v.Tone, v.Chip = "undecided", "Load line found, with reservations"
		}
	}
	return v
}

// loadVerdict is for runs that look for no line. It says what was offered and what happened to it.
func loadVerdict(d *Data) Headline {
	v := Headline{Tone: "pass", Chip: "One run under load", Before: "This service was offered"}
	if len(d.Steps) == 0 {
		return Headline{
			Tone:   "undecided",
			Chip:   "Nothing measured",
			Before: "This run has no whole step.",
		}
	}
	s := &d.Steps[0]
	for i := range d.Steps {
		if d.Steps[i].Invalid != "" {
			v.Tone, v.Chip = "undecided", "INVALID: the generator was the limit"
			v.Details = append(v.Details, clip(d.Steps[i].Invalid, 300))
		}
		if full := d.Steps[i].Full; full != "" {
			v.Details = append(v.Details, full)
		}
	}
	if s.Closed {
		v.Before = fmt.Sprintf("In a closed loop over %d connections this service answered",
			s.Connections)
		v.Big, v.Range = number(s.Throughput), "requests a second"
		v.After = fmt.Sprintf("for %s s; %s a second ended well, the p99 was %s.",
			short(s.Seconds), number(s.Goodput.Estimate), latency(s.P99))
		return v
	}
	v.Big = number(s.Rate)
	v.Range = "requests a second"
	v.After = fmt.Sprintf("for %s s; %s a second ended well, the p99 was %s.",
		short(s.Seconds), number(s.Goodput.Estimate), latency(s.P99))
	return v
}

// known says what a survey knows without a line: the highest rate that passed, or was OK so far,
// and the lowest above it that failed.
func known(d *Data) string {
	pass, soFar, fail := 0.0, 0.0, math.Inf(1)
	for _, s := range d.Steps {
		switch s.Verdict {
		case record.Pass:
			pass = max(pass, s.Rate)
		case record.SoFar:
			soFar = max(soFar, s.Rate)
		case record.Fail:
			fail = min(fail, s.Rate)
		}
	}
	if pass == 0 && soFar > 0 {
		said := fmt.Sprintf("No rate was proven to pass; the highest that was OK so far is %s "+
			"requests a second", number(soFar))
		if !math.IsInf(fail, 1) {
			said += fmt.Sprintf(", the lowest that failed %s", number(fail))
		}
		return said + "."
	}
	switch {
	case pass > 0 && !math.IsInf(fail, 1):
		return fmt.Sprintf("The highest rate that passed is %s requests a second, "+
			"the lowest that failed %s.", number(pass), number(fail))
	case pass > 0:
		return fmt.Sprintf("Every rate that was tried passed; the highest is %s requests a second.",
			number(pass))
	case !math.IsInf(fail, 1):
		return fmt.Sprintf("No rate passed; the lowest that failed is %s requests a second.",
			number(fail))
	}
	return "No step passed or failed."
}

// sentence makes a text from elsewhere look like a sentence.
func sentence(s string) string {
	if s == "" {
		return s
	}
	// An objective keeps its case: "p99<50ms sets it".
	first, _, _ := strings.Cut(s, " ")
	if c := s[0]; c >= 'a' && c <= 'z' && !strings.ContainsAny(first, "<>_.") {
		s = string(c-'a'+'A') + s[1:]
	}
	if last := s[len(s)-1]; last != '.' && last != '!' && last != '?' {
		s += "."
	}
	return s
}

// Strip is the row of marks below the verdict: every step at its rate, and the line as a band.
// Positions are percentages of its width.
type Strip struct {
	Marks    []StripMark
	Band     *Band
	Ticks    []Tick
	Sentence string
}

// StripMark is one step on the strip.
type StripMark struct {
	At    string
	Tone  string
	Title string
}

// Band is a range on a scale with its estimate, as percentages.
type Band struct{ From, Width, At string }

// Tick is a labelled place on a scale.
type Tick struct{ At, Text, Anchor string }

func strip(d *Data) *Strip {
	top := 0.0
	for _, s := range d.Steps {
		top = max(top, s.Rate)
	}
	if top <= 0 || len(d.Steps) < 2 {
		return nil
	}
	top *= 1.04
	at := func(rate float64) string { return place(rate, top) }
	out := &Strip{}
	for _, s := range d.Steps {
		out.Marks = append(out.Marks, StripMark{
			at(s.Rate),
			tone(s.Verdict),
			fmt.Sprintf("step %d: %s a second, %s", s.Number, number(s.Rate), s.Verdict),
		})
	}
	if d.Result != nil && d.Result.Line.Found {
		out.Band = band(d.Result.Line.Interval.Low, d.Result.Line.Interval.Estimate,
			d.Result.Line.Interval.High, top)
	}
	step := nice(top / 5)
	for v := 0.0; v <= top; v += step {
		anchor := "middle"
		if v == 0 {
			anchor = "start"
		}
		out.Ticks = append(out.Ticks, Tick{at(v), number(v), anchor})
	}
	out.Sentence = "The steps at their rates, requests a second."
	if out.Band != nil {
		out.Sentence = "The steps at their rates, requests a second; " +
			"the band is the load line's interval."
	}
	return out
}

// place is a position on a scale from 0 to top, as a percentage.
func place(v, top float64) string {
	return fmt.Sprintf("%.2f%%", min(max(v/top, 0), 1)*100)
}

// band returns a range that is wide enough to be visible even if the interval is not.
func band(low, estimate, high, top float64) *Band {
	low, high = max(low, 0), min(high, top)
	return &Band{place(low, top), place(max(high-low, top*.002), top), place(estimate, top)}
}

// nice is the next larger of 1, 2 and 5 times a power of ten.
func nice(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*power {
			return m * power
		}
	}
	return 10 * power
}

// tone is a verdict's name in style sheets.
func tone(v record.SLOVerdict) string {
	switch v {
	case record.Pass:
		return "pass"
	case record.Fail:
		return "fail"
	case record.SoFar:
		return "sofar"
	case record.Undecided:
		return "undecided"
	case record.Invalid:
		return "invalid"
	}
	return "none"
}
