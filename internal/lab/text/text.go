// Package text says the lab's results to people in a terminal: durations, rates, tables and summaries. It is pure: values go in and text
// comes out, without colours and whatever the terminal's width. It must know nothing of files, clocks or flags, nor of how anything was measured.
package text

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"plimsoll/internal/lab/model"
)

// Duration is a duration in nanoseconds with three digits: "870 ns", "12.3 µs", "1.24 ms", "2.05 s", "2 min 05 s".
func Duration(ns float64) string {
	switch abs := math.Abs(ns); {
	case math.IsNaN(ns):
		return "?"
	case abs < 999.5:
		return digits(ns) + " ns"
	case abs < 999.5e3:
		return digits(ns/1e3) + " µs"
	case abs < 999.5e6:
		return digits(ns/1e6) + " ms"
	case abs < 99.95e9:
		return digits(ns/1e9) + " s"
	}
	s := int64(math.Round(ns / 1e9))
	if s >= 3600 || s <= -3600 {
		return fmt.Sprintf("%d h %02d min", s/3600, max(s, -s)%3600/60)
	}
	return fmt.Sprintf("%d min %02d s", s/60, max(s, -s)%60)
}

// digits is a number with three significant digits, and no decimals above 99.
func digits(v float64) string {
	switch abs := math.Abs(v); {
	case v == 0:
		return "0"
	case abs < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case abs < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// Count is a whole number with its thousands set apart: "300,012".
func Count[N int | int64 | uint64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	minus, s := s[:len(s)-len(strings.TrimPrefix(s, "-"))], strings.TrimPrefix(s, "-")
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return minus + s
}

// Rate is so many a second: "1,905/s", "12.5/s".
func Rate(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) || math.Abs(v) > 1e15 {
		return "?"
	}
	if math.Abs(v) < 99.95 {
		return digits(v) + "/s"
	}
	return Count(int64(math.Round(v))) + "/s"
}

// Percent is a share: 0.0123 is "1.23 %". A share above 0 is never "0 %", nor one below 1 "100 %".
func Percent(share float64) string {
	p := share * 100
	switch {
	case math.IsNaN(p):
		return "?"
	case p > 0 && p < .005:
		return "< 0.01 %"
	case p >= 99.995 && p < 100:
		return "> 99.99 %"
	case p == 0 || p == 100:
		return digits(p) + " %"
	case p > 99 && p < 100:
		return strconv.FormatFloat(p, 'f', 2, 64) + " %"
	}
	return digits(p) + " %"
}

// Figure is a value in a unit: "/s" for so many a second, "ns" and "s" for durations. Any other unit is written after the number.
func Figure(v float64, unit string) string {
	switch unit {
	case "/s":
		return Rate(v)
	case "ns":
		return Duration(v)
	case "s":
		return Duration(v * 1e9)
	}
	return digits(v) + " " + unit
}

// Bytes is an amount of bytes: "12.1 MB".
func Bytes(n float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e12, " TB"}, {1e9, " GB"}, {1e6, " MB"}, {1e3, " kB"}} {
		if n >= .9995*u.size {
			return digits(n/u.size) + u.name
		}
	}
	return digits(n) + " B"
}

// Rates is an interval of rates: "1,850 to 1,960/s".
func Rates(i model.Interval) string {
	low, high := Rate(i.Low), Rate(i.High)
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
	return Count(n) + " " + noun + "s"
}

// lineWidth is where longer sentences are wrapped: most terminals are at least as wide, and wider lines are hard to read.
const lineWidth = 110

// wrap is a sentence from outside on as many lines as it needs, the first after what is there already and the others under it. used is how
// many columns are taken by what is there.
func wrap(sentence string, used int) string {
	var b strings.Builder
	column := used
	for i, word := range strings.Fields(Clean(sentence)) {
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

// Table is rows of cells under each other. The first column and the columns of words are aligned to the left, those of figures to the right.
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

// Clip is a line that fits into a terminal of so many columns, cut at its end where it must be. Control characters, which a target's answer
// may hold, are made visible.
func Clip(line string, columns int) string {
	line = Clean(line)
	if columns <= 0 || utf8.RuneCountInString(line) <= columns {
		return line
	}
	runes := []rune(line)
	return string(runes[:columns-1]) + "…"
}

// Clean is a text from outside on one line: control characters and what is no UTF-8 become "·", so that nothing can move a terminal's cursor.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError || r == 0x2028 || r == 0x2029 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '·'
		}
		return r
	}, s)
}
