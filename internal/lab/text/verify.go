package text

import (
	"fmt"
	"strings"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/wrkcheck"
)

// Verify describes the comparison with wrk or h2load.
func Verify(r *wrkcheck.Report) string {
	var b strings.Builder
	var table Table
	name, side := r.Theirs()
	table.Left = []int{5}
	table.Row("", name, "plimsoll", "difference", "allowed", "")
	for _, l := range r.Lines {
		theirs := format.Duration(l.Theirs())
		own := format.Duration(l.Own)
		difference := signed(l.Difference, format.Duration)
		allowed := format.Duration(l.Allowed)
		switch l.What {
		case "mean":
			difference, allowed = signed(l.Difference, format.Percent), format.Percent(l.Allowed)
		case "success":
			theirs, own = fmt.Sprintf("%.3f %%", l.Theirs()*100), fmt.Sprintf("%.3f %%", l.Own*100)
			difference = fmt.Sprintf("%+.3f points", l.Difference*100)
			allowed = fmt.Sprintf("%.3f points", l.Allowed*100)
		}
		verdict := "PASS"
		if !l.OK {
			verdict = "FAIL"
		}
		table.Row(l.What, theirs, own, difference, allowed, verdict)
	}
	as, open := "As wrk prints it, with its correction", "wrk's two decimals leave"
	if name == "h2load" {
		as, open = "As h2load writes it to its log, without a correction", "its microseconds leave"
	}
	fmt.Fprintf(&b, "%s (median of %d rounds of each):\n\n%s", as, r.Rounds, table.String())
	fmt.Fprintf(&b, "  (allowed: a mean within %s, a success within %.2f points and a p99 within "+
		"%s, and what %s open)\n",
		format.Percent(wrkcheck.MeanWithin), wrkcheck.SuccessWithin*100,
		format.Duration(float64(wrkcheck.P99Within)), open)
	var raw Table
	raw.Row("", name, "plimsoll")
	raw.Row("requests", format.Count(side.Requests), format.Count(r.Own.Requests))
	raw.Row("rate", format.Rate(side.Rate), format.Rate(r.Own.Rate))
	if name == "wrk" {
		raw.Row("mean", format.Duration(side.RawMean), format.Duration(r.Own.RawMean))
		raw.Row("p99", "not printed", format.Duration(r.Own.RawP99))
		fmt.Fprintf(&b, "\nRaw, without the correction, which made up %s of plimsoll's answers:"+
			"\n\n%s", format.Percent(r.Own.Backfilled), raw.String())
		b.WriteString("  (wrk prints no raw figures: its mean is connections ÷ rate, " +
			"with the time between an answer and the next request in it)\n")
	} else {
		fmt.Fprintf(&b, "\n%s", raw.String())
	}
	if r.OK() {
		b.WriteString("\nPASS: they agree.\n")
	} else if r.Invalid == "" {
		b.WriteString("\nFAIL: they do not agree.\n")
	}
	b.WriteString(invalid(r.Invalid))
	return b.String()
}

// signed adds a plus to a number that is not negative.
func signed(v float64, format func(float64) string) string {
	if v < 0 {
		return "-" + format(-v)
	}
	return "+" + format(v)
}
