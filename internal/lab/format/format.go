// Package format formats figures for people: durations, rates, shares, sizes, and commands as they
// have to be typed. Every package that writes sentences uses it, so that the same figure reads the
// same in the terminal, in a report and in a finding. It must know nothing of what the figures
// mean.
package format

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Duration is a duration in nanoseconds with three digits: "870 ns", "12.3 µs", "1.24 ms", "2.05
// s", "2 min 05 s".
func Duration(ns float64) string {
	switch abs := math.Abs(ns); {
	case math.IsNaN(ns):
		return "?"
	case abs < 999.5:
		return Digits(ns) + " ns"
	case abs < 999.5e3:
		return Digits(ns/1e3) + " µs"
	case abs < 999.5e6:
		return Digits(ns/1e6) + " ms"
	case abs < 99.95e9:
		return Digits(ns/1e9) + " s"
	}
	s := int64(math.Round(ns / 1e9))
	if s >= 3600 || s <= -3600 {
		return fmt.Sprintf("%d h %02d min", s/3600, max(s, -s)%3600/60)
	}
	return fmt.Sprintf("%d min %02d s", s/60, max(s, -s)%60)
}

// Digits is a number with three significant digits, no decimals above 99, and its thousands set
// apart: "0.05", "12.3", "1,905".
func Digits(v float64) string {
	switch abs := math.Abs(v); {
	case v == 0:
		return "0"
	case abs < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case abs < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case abs < 1e15:
		return Count(int64(math.RoundToEven(v)))
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
		return Digits(v) + "/s"
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
		return Digits(p) + " %"
	case p > 99 && p < 100:
		return strconv.FormatFloat(p, 'f', 2, 64) + " %"
	}
	return Digits(p) + " %"
}

// Confidence is how sure something is, 0 to 1: "95 %".
func Confidence(share float64) string { return fmt.Sprintf("%.3g %%", share*100) }

// Figure is a value in a unit: "/s" for so many a second, "ns" and "s" for durations. Any other
// unit is written after the number.
func Figure(v float64, unit string) string {
	switch unit {
	case "/s":
		return Rate(v)
	case "ns":
		return Duration(v)
	case "s":
		return Duration(v * 1e9)
	}
	return Digits(v) + " " + unit
}

// Bytes is an amount of bytes: "12.1 MB".
func Bytes(n float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e12, " TB"}, {1e9, " GB"}, {1e6, " MB"}, {1e3, " kB"}} {
		if n >= .9995*u.size {
			return Digits(n/u.size) + u.name
		}
	}
	return Digits(n) + " B"
}

// Clean is a text from outside on one line: control characters and what is not UTF-8 become "·", so
// that nothing can move a terminal's cursor.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError || r == 0x2028 || r == 0x2029 ||
			r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '·'
		}
		return r
	}, s)
}

// Command is a command as a shell has to be given it: words that a shell would take apart are
// quoted. An argument of another program, such as a function's name from a profile, does nothing
// but be an argument.
func Command(args ...string) string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a
		if a == "" ||
			strings.Trim(a,
				"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:@,%") != "" {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
