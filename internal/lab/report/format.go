package report

import (
	"math"
	"strconv"
	"strings"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/model"
)

// number writes a number for charts and tables. Unlike format.Digits, it adds no decimals to a
// whole number and has no bound for small ones.
func number(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case v < 0:
		return "−" + number(-v)
	case v > 1e15:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 100 || v == math.Trunc(v):
		return format.Count(int64(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
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
	return format.Duration(float64(*ns))
}

// signed writes a change as a share, with its sign.
func signed(share float64) string {
	if share > 0 {
		return "+" + format.Percent(share)
	}
	return strings.Replace(format.Percent(share), "-", "−", 1)
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

// confidence writes the confidence of an interval; empty if it is unknown.
func confidence(i model.Interval) string {
	if i.Confidence <= 0 || i.Confidence >= 1 {
		return ""
	}
	return format.Confidence(i.Confidence)
}

// inUnit writes an interval of a demand: seconds in a suitable unit, anything else with the name of
// its unit.
func inUnit(i model.Interval, unit string) string {
	if unit == "s" {
		return format.Duration(i.Estimate*1e9) + " (" + format.Duration(i.Low*1e9) + "–" +
			format.Duration(i.High*1e9) +
			")"
	}
	return strings.TrimSpace(interval(i) + " " + unit)
}

// objectives writes an SLO in readable form: "p99 < 50ms and errors < 0.1%".
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
