package top

import (
	"math"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"plimsoll/internal/lab/format"
)

// unknown stands where there is no figure.
const unknown = "–"

// tone is how a cell is to be seen.
type tone uint8

const (
	plain tone = iota
	strong
	faint
	caution
	alarm
)

var codes = [...]string{strong: "\x1b[1m", faint: "\x1b[2m", caution: "\x1b[33m", alarm: "\x1b[31m"}

// text is some words and how they are to be seen.
type text struct {
	words string
	tone  tone
}

// paint gives the words their colour.
func (t text) paint(colour bool) string {
	if !colour || t.tone == plain || t.words == "" {
		return t.words
	}
	return codes[t.tone] + t.words + "\x1b[0m"
}

// fit cuts words to so many columns, and makes what could move the cursor visible.
func fit(words string, columns int) string {
	return ansi.Truncate(format.Clean(words), max(columns, 0), "…")
}

// span is how many columns words take.
func span(words string) int { return ansi.StringWidth(words) }

// perSecond is a rate without its unit.
func perSecond(v float64) string {
	if v < 0 || v > 1e15 || math.IsNaN(v) {
		return "?"
	}
	if v >= 9.995 {
		return format.Count(int64(math.Round(v)))
	}
	words := format.Digits(v)
	if strings.Contains(words, ".") {
		words = strings.TrimRight(strings.TrimRight(words, "0"), ".")
	}
	return words
}

func optional(v *float64, say func(float64) string) string {
	if v == nil {
		return unknown
	}
	return say(*v)
}

// percent is a share without its unit.
func percent(share float64) string { return strings.TrimSuffix(format.Percent(share), " %") }

// wholePercent is a share in whole percents.
func wholePercent(share float64) string { return strconv.Itoa(int(math.Round(share * 100))) }

// column is one of a table. Its cells are aligned to the right, but for names.
type column struct {
	title string
	left  bool
	// least is the width below which it is not cut; 0 for a column that is never cut.
	least int
}

// table is rows of cells under titles.
type table struct {
	columns []column
	rows    [][]text
}

const gap = 2

// lines lays the table out in so many columns. Where it is too wide, those that may be are cut, the
// widest first, and then the lines are.
func (t *table) lines(width int, colour bool) []string {
	widths := make([]int, len(t.columns))
	total := gap * (len(t.columns) - 1)
	for i, c := range t.columns {
		widths[i] = span(c.title)
		for _, row := range t.rows {
			row[i].words = format.Clean(row[i].words)
			widths[i] = max(widths[i], span(row[i].words))
		}
		total += widths[i]
	}
	for total > width {
		widest := -1
		for i, c := range t.columns {
			if c.least > 0 && widths[i] > c.least && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		total--
	}
	titles := make([]text, len(t.columns))
	for i, c := range t.columns {
		titles[i] = text{c.title, strong}
	}
	out := []string{t.line(titles, widths, width, colour)}
	for _, row := range t.rows {
		out = append(out, t.line(row, widths, width, colour))
	}
	return out
}

func (t *table) line(row []text, widths []int, width int, colour bool) string {
	var b strings.Builder
	for i, said := range row {
		if i > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		said.words = fit(said.words, widths[i])
		pad := strings.Repeat(" ", max(0, widths[i]-span(said.words)))
		if t.columns[i].left {
			b.WriteString(said.paint(colour) + pad)
		} else {
			b.WriteString(pad + said.paint(colour))
		}
	}
	return strings.TrimRight(ansi.Truncate(b.String(), width, "…"), " ")
}
