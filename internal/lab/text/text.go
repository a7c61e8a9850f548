// Package text formats the lab's results for people at a terminal: durations, rates, tables and
// summaries. It is pure: values go in and text comes out, without colours and independent of the
// terminal's width. It must know nothing of files, clocks or flags, nor of how anything was
// measured.
package text

import (
	"strings"
	"unicode/utf8"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/model"
)

// Rates is an interval of rates: "1,850 to 1,960/s".
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

// lineWidth is where longer sentences are wrapped: most terminals are at least as wide, and wider
// lines are hard to read.
const lineWidth = 110

// wrap is a sentence from outside on as many lines as it needs, the first after what is there
// already and the others under it. used is how many columns are taken by what is there.
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

// Table is rows of cells under each other. The first column and the columns of words are aligned to
// the left, those of figures to the right.
type Table struct {
	// Left names further columns that hold words, by their number from 0.
	Left []int
	rows [][]string
}

// Row adds a row.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// String is the table, each line indented by two spaces. It is empty without rows.
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

// Clip is a line that fits into a terminal of so many columns, cut at its end where it must be.
// Control characters, which a target's answer may hold, are made visible.
func Clip(line string, columns int) string {
	line = format.Clean(line)
	if columns <= 0 || utf8.RuneCountInString(line) <= columns {
		return line
	}
	runes := []rune(line)
	return string(runes[:columns-1]) + "…"
}
