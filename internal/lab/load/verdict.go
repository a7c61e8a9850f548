package load

import (
	"fmt"
	"time"

	"plimsoll/internal/lab/measure"
)

// When the generator was the limit. Each rule is evidence that what was measured says more about
// the generator than about its target.
const (
	// busyLimit is the share of its time that a loop may be at work. Above it, what is due waits
	// for the loop.
	busyLimit = 0.95
	// lagLimit and lagShare are Options.Lateness's default: nanoseconds, and a share of the 99th
	// percentile of response times.
	lagLimit = 1_000_000
	lagShare = 0.05
	// lateShare is the share of arrivals that the loops may take more than lateArrival after they
	// were due.
	lateShare = 0.01
)

// totals adds up the run. The loops and the collector have ended.
func (r *run) totals(c *collector, start int64) *measure.Totals {
	t := &measure.Totals{
		Due:      c.due,
		Sent:     c.sent,
		Ended:    c.ended,
		BytesIn:  c.in,
		BytesOut: c.out,
		Response: c.response.Sparse(),
		Service:  c.service.Sparse(),
		Lag:      c.lag.Sparse(),
		Examples: map[string]string{},
	}
	finished, busy := int64(0), 0.0
	for _, w := range r.workers {
		t.ConnectionsMade += w.made
		t.Reused += w.reused
		t.Resumed += w.resumed
		t.Drained += w.drained
		t.Peak += w.peak
		if w.allowed > 0 && (t.Streams == 0 || w.allowed < t.Streams) {
			t.Streams = w.allowed
		}
		t.Generator.CPU += w.cpu
		finished = max(finished, w.finished)
		if w.wall > 0 {
			busy = max(busy, 1-float64(w.waited)/float64(w.wall))
		}
		for k, text := range w.examples {
			if name := measure.Kind(k).String(); text != "" && t.Examples[name] == "" {
				t.Examples[name] = text
			}
		}
	}
	t.Length = r.length(start)
	t.Drain = max(0, finished-start-t.Length)
	t.Requests, t.ConcurrencyAtSend = r.requests(t), r.atSend()
	t.Generator.Loops, t.Generator.Busy = len(r.workers), busy
	t.Generator.Invalid = r.invalid(t)
	t.Generator.Full = r.wholeCore(busy)
	return t
}

// length is how long load was offered, in nanoseconds. That a schedule has no more arrivals before
// Duration is over does not say that it was shorter: a gap of some mean distances at its end is
// chance.
func (r *run) length(start int64) int64 {
	arrivals, last := uint64(0), start
	ended, cut := true, int64(never)
	for _, w := range r.workers {
		arrivals += w.arrivals
		last = max(last, w.lastDue)
		ended = ended && w.exhausted
		if w.cut {
			cut = min(cut, w.end-start)
		}
	}
	const gaps = 10
	length := last - start
	full := int64(r.Duration)
	if full > 0 && (!ended || arrivals > 0 && full-length <= gaps*length/int64(arrivals)) {
		length = full
	}
	if cut < never && (!ended || cut < length) {
		length = max(cut, 0)
	}
	return length
}

// requests are the totals of each kind of request.
func (r *run) requests(t *measure.Totals) []measure.RequestTotals {
	names := r.Script.Names()
	all := make([]measure.RequestTotals, len(names))
	for i, name := range names {
		all[i].Name = name
		if len(names) == 1 {
			all[i].Ended, all[i].Response = t.Ended, t.Response
			continue
		}
		var response measure.Histogram
		for _, w := range r.workers {
			k := &w.kinds[i]
			all[i].Ended.Add(&k.tally)
			if k.response != nil {
				response.Merge(k.response)
			}
		}
		all[i].Response = response.Sparse()
	}
	return all
}

// atSend is what the loops counted by concurrency at send, added up.
func (r *run) atSend() (all []measure.ConcurrencyAtSend) {
	for found := range measure.MostFound + 1 {
		c := measure.ConcurrencyAtSend{Found: found}
		for _, w := range r.workers {
			of := &w.atSend[found]
			c.Count += of.count
			c.Sum += of.sum
			c.Squares += of.squares
		}
		if c.Count > 0 {
			all = append(all, c)
		}
	}
	return all
}

// wholeCore says that a closed loop used all of a loop's time; it is empty when it did not.
func (r *run) wholeCore(busy float64) string {
	if r.Arrivals != nil || busy <= busyLimit {
		return ""
	}
	return fmt.Sprintf("a loop of the generator was at work %.0f %% of the time: "+
		"the target may be able to do more, which more loops would show", busy*100)
}

// invalid says why the figures are not the target's, and what to do; it is empty when they are.
func (r *run) invalid(t *measure.Totals) string {
	open := r.Arrivals != nil
	arrivals, late := uint64(0), uint64(0)
	for _, w := range r.workers {
		if w.ownLimit != nil {
			return fmt.Sprintf("this machine had no more descriptors, ports or memory for "+
				"connections (%v): use fewer, or keep them open", w.ownLimit)
		}
		arrivals += w.arrivals
		late += w.late
	}
	g := &t.Generator
	lag := t.Lag.Quantile(0.99)
	allowed := int64(r.Lateness)
	if allowed == 0 {
		allowed = max(lagLimit, int64(lagShare*float64(t.Response.Quantile(0.99))))
	}
	switch {
	case g.Busy > busyLimit && open:
		return fmt.Sprintf("a loop of the generator was at work %.0f %% of the time: "+
			"give it more loops, or a lower rate", g.Busy*100)
	case open && float64(late) > lateShare*float64(arrivals):
		return fmt.Sprintf("the generator took %d of %d arrivals more than %v after they were "+
			"due: give it more loops, or a machine with less else to do",
			late, arrivals, time.Duration(lateArrival))
	case open && lag > allowed:
		return fmt.Sprintf("the generator sent 1 %% of the requests more than %v late, "+
			"where up to %v would not matter: give it more loops, "+
			"or a machine with less else to do",
			time.Duration(lag).Round(time.Microsecond),
			time.Duration(allowed).Round(time.Microsecond))
	}
	return ""
}
