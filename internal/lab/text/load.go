package text

import (
	"fmt"
	"strings"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
)

// Run is a finished load, from load or replay.
type Run struct {
	Totals *measure.Totals
	// Closed says that the loop was closed: no request had a due time, so there was no schedule to
	// keep.
	Closed bool
	// TLS says that the target speaks TLS.
	TLS bool
	// Asked is the requested number of streams per connection; 0 for HTTP/1.1.
	Asked int
	// Early is why the run ended before it was done; empty if it was done.
	Early string
}

// quantiles are the quantiles in the summary.
var quantiles = []struct {
	name string
	q    float64
}{{"p50", .5}, {"p75", .75}, {"p90", .9}, {"p99", .99}, {"p99.9", .999}, {"p99.99", .9999}}

// Load is the summary of a run.
func Load(r *Run) string {
	t := r.Totals
	var b strings.Builder
	if r.Early != "" {
		fmt.Fprintf(&b, "Ended early: %s. What follows is of the requests until then.\n\n", r.Early)
	}
	b.WriteString(amounts(r))
	b.WriteString("\n" + latencies(t))
	b.WriteString("\n" + behindTheFigures(r))
	if errors := errorTable(t); errors != "" {
		b.WriteString("\n  errors\n" + errors)
	}
	if kinds := requestTable(t); kinds != "" {
		b.WriteString("\n" + kinds)
	}
	if full := t.Generator.Full; full != "" {
		b.WriteString("\n  note: " + format.Clean(full) + "\n")
	}
	b.WriteString(invalid(t.Generator.Invalid))
	return b.String()
}

func amounts(r *Run) string {
	t := r.Totals
	var table Table
	table.Left = []int{1}
	took := format.Duration(float64(t.Length))
	if t.Drain > 0 && t.Sent > 0 {
		took += ", and " + format.Duration(float64(t.Drain)) + " until the last answer"
	}
	if r.Closed {
		table.Row("requests", fmt.Sprintf("%s in %s", format.Count(t.Ended.Total()), took))
	} else {
		table.Row("requests", fmt.Sprintf("%s due, %s sent, in %s",
			format.Count(t.Due), format.Count(t.Sent), took))
		table.Row("rate", format.Rate(t.Rate()))
	}
	after := ""
	if t.Drained > t.Ended[measure.OK]/100 {
		after = fmt.Sprintf(", %s of them after the load was over", format.Count(t.Drained))
	}
	table.Row("goodput", fmt.Sprintf("%s; %s ended well%s",
		format.Rate(t.Goodput()), format.Percent(share(t.Ended[measure.OK], t.Ended.Total())),
		after))
	seconds := float64(max(t.Length, 1)) / 1e9
	table.Row("bytes", fmt.Sprintf("%s/s in, %s/s out",
		format.Bytes(float64(t.BytesIn)/seconds), format.Bytes(float64(t.BytesOut)/seconds)))
	return table.String()
}

// latencies is the table of percentiles. A percentile among the failed requests has no duration.
func latencies(t *measure.Totals) string {
	var table Table
	table.Row("", "response time", "service time")
	for _, q := range quantiles {
		table.Row(q.name, quantile(t, q.q), serviceQuantile(t, q.q))
	}
	longest := func(h *measure.Sparse) string {
		if h.Count() == 0 {
			return "-"
		}
		return format.Duration(float64(h.Max))
	}
	table.Row("max", longest(&t.Response), longest(&t.Service))
	mean := func(h *measure.Sparse) string {
		if h.Count() == 0 {
			return "-"
		}
		return format.Duration(h.Mean())
	}
	table.Row("mean", mean(&t.Response), mean(&t.Service))
	s := table.String()
	if t.Ended.Failed() > 0 {
		s += "  (max and mean are of requests that ended well; percentiles have those that " +
			"failed at their slow end)\n"
	}
	return s
}

func quantile(t *measure.Totals, q float64) string {
	if t.Ended.Total() == 0 {
		return "-"
	}
	ns, ok := t.Quantile(q)
	if !ok {
		return "failed"
	}
	return format.Duration(float64(ns))
}

func serviceQuantile(t *measure.Totals, q float64) string {
	of := measure.Totals{Ended: t.Ended, Response: t.Service}
	return quantile(&of, q)
}

// behindTheFigures describes the generator's work.
func behindTheFigures(r *Run) string {
	t := r.Totals
	var table Table
	table.Left = []int{1}
	if !r.Closed {
		lag := "none was sent on time: no connection was free"
		if t.Due == 0 {
			lag = "nothing was due: the time is too short for the rate"
		} else if t.Lag.Count() > 0 {
			at := func(q float64) string { return format.Duration(float64(t.Lag.Quantile(q))) }
			lag = fmt.Sprintf("p50 %s, p99 %s, max %s",
				at(.5), at(.99), format.Duration(float64(t.Lag.Max)))
		}
		table.Row("send lag", lag)
	}
	connections := fmt.Sprintf("%s made; %s requests on reused ones; at most %s in flight",
		format.Count(t.ConnectionsMade), format.Count(t.Reused), format.Count(t.Peak))
	if r.TLS {
		connections += fmt.Sprintf("; %s TLS sessions resumed", format.Count(t.Resumed))
	}
	table.Row("connections", connections)
	if t.Streams > 0 && t.Streams < r.Asked {
		table.Row("streams", fmt.Sprintf("%s a connection, as the target allows no more",
			many(t.Streams, "stream")))
	}
	table.Row("generator", Generator(t))
	return table.String() + generators(t.Generator.Remote)
}

// generators describes what each generator did and used, if they were on other machines.
func generators(all []measure.Remote) string {
	if len(all) == 0 {
		return ""
	}
	var table Table
	table.Row("generator", "loops", "sent", "lag p99", "busiest loop", "its machine", "clock known to")
	for i := range all {
		m := &all[i]
		host := "-"
		if m.HostBusy > 0 {
			host = fmt.Sprintf("%s of %d cores", format.Percent(m.HostBusy), m.Cores)
		}
		table.Row(format.Clean(m.Name), fmt.Sprint(m.Loops), format.Count(m.Sent),
			format.Duration(float64(m.Lag)), format.Percent(m.Busy), host,
			"±"+format.Duration(float64(m.ClockUncertainty)))
	}
	return "\n" + table.String()
}

// Generator describes what the generator itself used: "4.10 s of CPU, 8.00 µs a request, busiest of
// 2 loops 34 % busy".
func Generator(t *measure.Totals) string {
	g := &t.Generator
	each := ""
	if t.Sent > 0 {
		each = fmt.Sprintf(", %s a request", format.Duration(float64(g.CPU)/float64(t.Sent)))
	}
	which := "its loop"
	if g.Loops > 1 {
		which = fmt.Sprintf("busiest of %s", many(g.Loops, "loop"))
	}
	return fmt.Sprintf("%s of CPU%s, %s %s busy",
		format.Duration(float64(g.CPU)), each, which, format.Percent(g.Busy))
}

func errorTable(t *measure.Totals) string {
	var table Table
	table.Left = []int{3}
	total := t.Ended.Total()
	for k := range measure.Kinds {
		n := t.Ended[k]
		if n == 0 || measure.Kind(k) == measure.OK {
			continue
		}
		name := measure.Kind(k).String()
		example := t.Examples[name]
		if measure.Kind(k) == measure.Unfinished && example == "" {
			example = "under way when the run was ended; nothing is known of them, " +
				"so percentiles count them as failed"
		}
		table.Row("  "+strings.ReplaceAll(name, "_", " "), format.Count(n),
			format.Percent(share(n, total)), Clip(example, 100))
	}
	return table.String()
}

// requestTable is the table of the kinds of request that were sent, if there are several.
func requestTable(t *measure.Totals) string {
	var table Table
	table.Row("request", "ended", "well", "p50", "p99", "max")
	kinds := 0
	for i := range t.Requests {
		k := &t.Requests[i]
		total := k.Ended.Total()
		if total == 0 {
			continue
		}
		kinds++
		of := measure.Totals{Ended: k.Ended, Response: k.Response}
		longest := "-"
		if k.Response.Count() > 0 {
			longest = format.Duration(float64(k.Response.Max))
		}
		table.Row(Clip(k.Name, 40), format.Count(total),
			format.Percent(share(k.Ended[measure.OK], total)), quantile(&of, .5),
			quantile(&of, .99), longest)
	}
	if kinds < 2 {
		return ""
	}
	return table.String()
}

// invalid is a notice that nobody must overlook; empty if why is.
func invalid(why string) string {
	if why == "" {
		return ""
	}
	line := strings.Repeat("=", 72)
	return fmt.Sprintf("\n%s\n  INVALID: the generator was the limit, so these figures are not "+
		"the target's.\n  %s\n%s\n", line, format.Clean(why), line)
}

func share(n, total uint64) float64 {
	if total == 0 {
		return 0
	}
	return float64(n) / float64(total)
}

// LoadNow is the progress line of a load: what the last windows, together about a second, measured.
func LoadNow(last []*measure.Window, elapsed, length float64) string {
	if len(last) == 0 {
		return "opening connections"
	}
	now := sum(last)
	newest := last[len(last)-1]
	at := format.Duration(elapsed)
	if length > 0 {
		at = fmt.Sprintf("%s of %s", at, format.Duration(length))
	}
	s := fmt.Sprintf("%s  %s sent  p50 %s  p99 %s  %s failed  %s in flight",
		at, format.Rate(float64(now.Sent)/(float64(max(now.Length, 1))/1e9)),
		quantile(&now, .5), quantile(&now, .99),
		format.Percent(share(now.Ended.Failed(), now.Ended.Total())), format.Count(newest.InFlight))
	if newest.Waiting > 0 {
		s += fmt.Sprintf("  %s waiting", format.Count(newest.Waiting))
	}
	return s
}

// sum adds up consecutive windows, as far as a progress line shows them.
func sum(windows []*measure.Window) (t measure.Totals) {
	responses := make([]*measure.Sparse, len(windows))
	for i, w := range windows {
		t.Length += w.Length
		t.Sent += w.Sent
		t.Ended.Add(&w.Ended)
		responses[i] = &w.Response
	}
	t.Response = measure.Merged(responses...)
	return t
}
