// Package text formats the lab's results for a terminal: durations, rates, tables and summaries. It
// is pure: values go in and text comes out, without colours and independent of the terminal's
// width. It must not know files, clocks or flags, nor how anything was measured.
package text

import (
	"strings"
	"unicode/utf8"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/model"
)

// Rates formats an interval of rates: "1,850 to 1,960/s".
func Rates(i model.Interval) string {
	low, high := format.Rate(i.Low), format.Rate(i.High)
	if low == high {
		return high
	}
	return strings.TrimSuffix(low, "/s") + " to " + high
}

// many is "1 loop" or "2 loops".
func many(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return format.Count(n) + " " + noun + "s"
}

// lineWidth is the width at which longer sentences are wrapped: most terminals are at least as
// wide, and wider lines are hard to read.
const lineWidth = 110

// wrap breaks a sentence from outside into lines. used is the number of columns already filled on
// the first line; the other lines are indented by it.
func wrap(sentence string, used int) string {
	var b strings.Builder
	column := used
	for i, word := range strings.Fields(format.Clean(sentence)) {
		n := utf8.RuneCountInString(word)
		switch {
		case i > 0 && column+1+n > lineWidth:
			b.WriteString("\n" + strings.Repeat(" ", used))
			column = used
		case i > 0:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// Table is a table of rows and columns. The first column and other text columns are aligned left,
// number columns right.
type Table struct {
	// Left lists further text columns, by their number from 0.
	Left []int
	rows [][]string
}

// Row adds a row.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// String formats the table, each line indented by two spaces. It is empty without rows.
func (t *Table) String() string {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	left := map[int]bool{0: true}
	for _, i := range t.Left {
		left[i] = true
	}
	var b strings.Builder
	for _, row := range t.rows {
		line := "  "
		for i, c := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if i > 0 {
				line += "   "
			}
			if left[i] {
				line += c + gap
			} else {
				line += gap + c
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// Clip shortens a line to a number of terminal columns, if it is longer. It makes control
// characters visible, which a target's answer may contain.
func Clip(line string, columns int) string {
	line = format.Clean(line)
	if columns <= 0 || utf8.RuneCountInString(line) <= columns {
		return line
	}
	runes := []rune(line)
	return string(runes[:columns-1]) + "…"
}
