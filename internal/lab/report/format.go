package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"plimsoll/internal/lab/model"
)

// number writes a number for a person: thousands set apart, and three significant digits where it
// is below 100.
func number(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case v < 0:
		return "−" + number(-v)
	case v >= 100 || v == math.Trunc(v):
		return thousands(strconv.FormatFloat(math.Round(v), 'f', 0, 64))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func thousands(digits string) string {
	if len(digits) > 15 {
		return digits
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// duration writes nanoseconds in the unit that suits, with three significant digits.
func duration(ns float64) string {
	for _, u := range []struct {
		below, size float64
		name        string
	}{{1e3, 1, "ns"}, {1e6, 1e3, "µs"}, {1e9, 1e6, "ms"}, {math.Inf(1), 1e9, "s"}} {
		if math.Abs(ns) < u.below*.9995 {
			return short(ns/u.size) + " " + u.name
		}
	}
	return "–"
}

func short(v float64) string {
	digits := 0
	if a := math.Abs(v); a > 0 && a < 100 {
		digits = min(2, max(0, 2-int(math.Floor(math.Log10(a)))))
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// latency writes a percentile that may lie among the failures.
func latency(ns *int64) string {
	if ns == nil {
		return "failed"
	}
	return duration(float64(*ns))
}

// percent writes a share.
func percent(share float64) string {
	switch a := math.Abs(share * 100); {
	case math.IsNaN(a):
		return "–"
	case a == 0:
		return "0 %"
	case a < .001:
		return "< 0.001 %"
	case a < 1:
		return strconv.FormatFloat(share*100, 'g', 2, 64) + " %"
	case a < 100:
		return short(math.Round(share*1000)/10) + " %"
	}
	return number(share*100) + " %"
}

// signed writes a change as a share, with its sign.
func signed(share float64) string {
	if share > 0 {
		return "+" + percent(share)
	}
	return strings.Replace(percent(share), "-", "−", 1)
}

// rangeOf writes the ends of an interval of rates.
func rangeOf(i model.Interval) string { return number(i.Low) + "–" + number(i.High) }

// interval writes an interval of rates with its estimate.
func interval(i model.Interval) string {
	if i.Low == i.High {
		return number(i.Estimate)
	}
	return number(i.Estimate) + " (" + rangeOf(i) + ")"
}

// confidence writes how sure an interval is; it is empty when that is not known.
func confidence(i model.Interval) string {
	if i.Confidence <= 0 || i.Confidence >= 1 {
		return ""
	}
	return percent(i.Confidence)
}

// inUnit writes an interval of a demand: seconds in a unit that suits, anything else with its
// unit's name.
func inUnit(i model.Interval, unit string) string {
	if unit == "s" {
		return duration(i.Estimate*1e9) + " (" + duration(i.Low*1e9) + "–" + duration(i.High*1e9) +
			")"
	}
	return strings.TrimSpace(interval(i) + " " + unit)
}

func bytesOf(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%s GiB", short(float64(n)/(1<<30)))
	case n >= 1<<20:
		return fmt.Sprintf("%s MiB", short(float64(n)/(1<<20)))
	}
	return fmt.Sprintf("%d B", n)
}

// objectives writes an SLO as it is read aloud: "p99 < 50ms and errors < 0.1%".
func objectives(text string) string {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		part = strings.Replace(strings.TrimSpace(part), "<=", "<", 1)
		parts = append(parts, strings.Replace(part, "<", "\u00a0<\u00a0", 1))
	}
	last := len(parts) - 1
	if last == 0 {
		return parts[0]
	}
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}
