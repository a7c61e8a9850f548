package load

import (
	"fmt"
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/stats"
)

// Signs that the generator was the limit. Each rule is evidence that the results say more about the
// generator than about its target.
const (
	// busyLimit is the share of time that a loop may be at work. Above it, due requests wait for
	// the loop.
	busyLimit = 0.95
	// lagLimit and lagShare are the default of Options.Lateness: nanoseconds, and a share of the
	// 99th percentile of response times.
	lagLimit = 1_000_000
	lagShare = 0.05
	// lateShare is the share of arrivals that the loops may take more than lateArrival after they
	// were due. It is also the share of requests that may be sent late.
	lateShare = 0.01
)

// tooLate reports whether significantly more than 1 % of the requests were sent later than allowed.
func tooLate(lag *measure.Sparse, allowed time.Duration) bool {
	return lag.Quantile(1-lateShare) > int64(allowed) &&
		stats.Above(lag.Over(int64(allowed)), float64(lag.Count()), lateShare)
}

// requests returns the totals of each kind of request, nil if there is only one kind.
func (r *run) requests() []measure.RequestTotals {
	names := r.Script.Names()
	if len(names) == 1 {
		return nil
	}
	all := make([]measure.RequestTotals, len(names))
	for i, name := range names {
		all[i].Name = name
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

// atSend adds up the loops' counts by concurrency at send.
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

// wholeCore reports, in words, that a closed loop used all of a loop's time; empty if it did not.
func wholeCore(busy float64) string {
	if busy <= busyLimit {
		return ""
	}
	return fmt.Sprintf("a loop of the generator was at work %.0f %% of the time: "+
		"the target may be able to do more, which more loops would show", busy*100)
}

// invalid returns why the results are not the target's and what to do about it; empty if they are
// valid. open reports that there was a schedule, and lateness is Options.Lateness.
func (o *Outcome) invalid(open bool, lateness time.Duration) string {
	if lateness == 0 {
		lateness = max(lagLimit, time.Duration(lagShare*float64(o.Response.Quantile(0.99))))
	}
	switch {
	case o.OwnLimit != "":
		return fmt.Sprintf("this machine had no more descriptors, ports or memory for "+
			"connections (%v): use fewer, or keep them open", o.OwnLimit)
	case o.Busy > busyLimit && open:
		return fmt.Sprintf("a loop of the generator was at work %.0f %% of the time: "+
			"give it more loops, or a lower rate", o.Busy*100)
	case open && stats.Above(float64(o.Late), float64(o.Arrivals), lateShare):
		return fmt.Sprintf("the generator took %d of %d arrivals more than %v after they were "+
			"due: give it more loops, or a machine with less else to do",
			o.Late, o.Arrivals, time.Duration(lateArrival))
	case open && tooLate(&o.Lag, lateness):
		return fmt.Sprintf("the generator sent 1 %% of the requests more than %v late, "+
			"where up to %v would not matter: give it more loops, "+
			"or a machine with less else to do",
			time.Duration(o.Lag.Quantile(1-lateShare)).Round(time.Microsecond),
			lateness.Round(time.Microsecond))
	}
	return ""
}
