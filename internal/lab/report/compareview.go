package report

import (
	"fmt"
	"math"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/record"
)

// twoView is the data of a comparison page.
type twoView struct {
	Title, Heading, Subject, When string
	Verdict                       Headline
	Sides                         []Side
	Changed                       []Change
	Figures                       []DifferenceRow
	Cautions                      []string
	Rule                          string
	Reach                         string // the scale of changes reaches this far to either side
	File                          string
}

// Side is one of the two runs.
type Side struct {
	Name, Mark, Line, When, Target, Command string
	Checks                                  []Check
}

// DifferenceRow is a figure of both runs in readable form.
type DifferenceRow struct {
	Figure, A, B, Change, Says string
	Tone                       string // "better", "worse" or "same"
	Kind                       string // the style of its bar
	Bar                        *Band
	Zero                       *Band
}

func compareView(a, b *Data, c *Comparison) *twoView {
	v := &twoView{
		Heading:  "Comparison",
		Subject:  clip(a.Manifest.Target, 200),
		Changed:  c.Changed,
		Cautions: c.Cautions,
		Rule:     Rule,
		When:     "A " + day(a) + ", B " + day(b),
		File:     "plimsoll-compare.json",
	}
	if b.Manifest.Target != a.Manifest.Target {
		v.Subject += " and " + clip(b.Manifest.Target, 200)
	}
	v.Title = v.Heading + " of two runs of " + v.Subject
	v.Sides = []Side{side("A", "a", a), side("B", "b", b)}
	v.Verdict = compareVerdict(c)
	reach := .02
	for _, d := range c.Figures {
		reach = max(reach, min(math.Abs(d.Change)*1.3, 2),
			min(max(math.Abs(d.Low), math.Abs(d.High)), math.Abs(d.Change)*2, 2))
	}
	v.Reach = format.Percent(reach)
	for _, d := range c.Figures {
		v.Figures = append(v.Figures, differenceRow(d, reach))
	}
	return v
}

func day(d *Data) string { return d.Manifest.Started.UTC().Format("2 January 2006, 15:04 UTC") }

func side(name, mark string, d *Data) Side {
	s := Side{
		Name:    name,
		Mark:    mark,
		Line:    "load line not found",
		When:    day(d),
		Target:  clip(d.Manifest.Target, 300),
		Command: format.Command(d.Manifest.Command...),
		Checks:  validity(d),
	}
	if d.Result != nil && d.Result.Line.Found {
		s.Line = interval(d.Result.Line.Interval) + " requests a second"
	}
	return s
}

func compareVerdict(c *Comparison) Headline {
	v := Headline{Tone: "invalid", Chip: "Not comparable", Before: c.Sentence}
	if len(c.Figures) > 0 && c.Figures[0].Figure == lineFigure {
		d := c.Figures[0]
		v.Tone, v.Chip = "undecided", "No real change"
		if d.Real {
			v.Tone, v.Chip = "pass", "Real, and better"
			if d.Change < 0 {
				v.Tone, v.Chip = "fail", "Real, and worse"
			}
			v.Before, v.Big = "The load line rose by", format.Percent(math.Abs(d.Change))
			if d.Change < 0 {
				v.Before = "The load line fell by"
			}
			v.Range = fmt.Sprintf("from %s to %s", number(d.A.Estimate), number(d.B.Estimate))
			v.After = "requests a second."
		}
	}
	worse, better := 0, 0
	for _, d := range c.Figures {
		switch {
		case !d.Real:
		case d.Change > 0 == (d.Better > 0):
			better++
		default:
			worse++
		}
	}
	v.Details = append(v.Details, fmt.Sprintf("Of %d figures %d are really better, "+
		"%d really worse, and the others show no change that is more than chance.",
		len(c.Figures), better, worse))
	v.Details = append(v.Details, c.Cautions...)
	return v
}

// differenceRow puts a change on a scale from -reach to +reach.
func differenceRow(d Difference, reach float64) DifferenceRow {
	low, high := max(d.Low, -reach), min(d.High, reach)
	row := DifferenceRow{
		Figure: d.Figure,
		A:      valued(d.A.Estimate, d.Unit),
		B:      valued(d.B.Estimate, d.Unit),
		Change: signed(d.Change),
		Tone:   "same",
		Kind:   "bound",
		Bar:    band(low+reach, min(max(d.Change, -reach), reach)+reach, high+reach, 2*reach),
		Zero:   band(reach-d.Noise, reach, reach+d.Noise, 2*reach),
	}
	if !d.Real {
		row.Says = "not real: " + d.Why
		return row
	}
	row.Tone, row.Kind, row.Says = "worse", "worse", "real, worse"
	if d.Change > 0 == (d.Better > 0) {
		row.Tone, row.Kind, row.Says = "better", "better", "real, better"
	}
	return row
}

func valued(v float64, unit string) string {
	switch unit {
	case "ns":
		return format.Duration(v)
	case "s":
		return format.Duration(v * 1e9)
	}
	return number(v) + unit
}

// machine describes a machine in words.
func machine(m *record.Machine) string {
	return fmt.Sprintf("%s: %s, %d cores, %s of memory, %s %s",
		m.Host, m.CPU, m.Cores, format.Bytes(float64(m.MemoryBytes)), m.OS, m.Kernel)
}
