package survey

import (
	"math/rand/v2"
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/stats"
)

// A target that uses the whole machine makes every generator on it late, however little that one
// does. What such a step saw is not what the service did, but bounds it: response times count from
// when a request was due, so lateness only makes them longer; and where requests are served in their
// order, one that comes later is answered later by no more than that.

// Lateness is how late a generator may send the 99th percentile of requests before the results say
// more about the generator than about the target. It is a share of the tightest limit, because
// every response time includes the lateness.
func Lateness(objectives SLO) time.Duration {
	if limit := shortest(objectives); limit > 0 {
		return time.Duration(lateShare * float64(limit))
	}
	return time.Duration(lateWithout)
}

// lateGenerator reports whether the generator was late enough to cause a FAIL itself.
func lateGenerator(t *measure.Totals, objectives SLO) bool {
	allowed := int64(Lateness(objectives))
	return t.Lag.Quantile(.99) > allowed &&
		stats.Above(t.Lag.Over(allowed), float64(t.Lag.Count()), .01)
}

// shortest returns the shortest limit of a response time; 0 if there is none.
func shortest(objectives SLO) (ns int64) {
	for _, o := range objectives {
		if o.Limit > 0 && (ns == 0 || o.Limit < ns) {
			ns = o.Limit
		}
	}
	return ns
}

// fewestTimed is the minimum share of the requests whose lateness must be known if it is to bound the
// others'. It is not known of a request that waited for a free connection.
const fewestTimed = .1

// late reports whether the generator was late enough in a trial to matter, and was not one of several.
func (s *surveyor) late(t *trial) bool {
	return t.rate > 0 && t.step.Totals.Generator.Invalid != "" &&
		len(t.step.Totals.Generator.Remote) == 0 && lateGenerator(&t.step.Totals, s.o.SLO)
}

// mostlyTimed is the minimum share of the requests whose lateness must be known if their 99th percentile
// is to stand for all of them.
const mostlyTimed = .9

// slack is how much longer than the service's own a response time may be, in nanoseconds, in a step
// whose generator was late: by as much as it sent late, and once more, as it may have read the
// answers as late.
func slack(t *measure.Totals) int64 { return 2 * t.Lag.Max }

// timed reports whether the slack of a step is known.
func timed(t *measure.Totals) bool {
	return t.Sent > 0 && float64(t.Lag.Count()) >= fewestTimed*float64(t.Sent)
}

// excuse is what of a step's slowness may be its generator's: slack is a delay in nanoseconds of all
// requests but a share, exempt, which may be delayed by more.
type excuse struct {
	slack  int64
	exempt float64
}

// excuses returns what a late generator may have caused in steps, in two ways: the longest lateness is
// often several times as long as the 99th percentile, by which 1 in 100 requests may have been sent later,
// and as many answers read later.
func excuses(steps []*measure.Totals) []excuse {
	longest, usual := excuse{}, excuse{exempt: .02}
	mostly := true
	for _, t := range steps {
		longest.slack = max(longest.slack, slack(t))
		usual.slack = max(usual.slack, 2*t.Lag.Quantile(.99))
		mostly = mostly && float64(t.Lag.Count()) >= mostlyTimed*float64(t.Sent)
	}
	if !mostly {
		return []excuse{longest}
	}
	return []excuse{longest, usual}
}

// slowAnyway reports whether the steps of a view, which failed, would have failed with an excuse too.
// Requests that waited in the generator, as no connection was free, count from when they were sent. None
// failed because they could not be sent.
func slowAnyway(v *view, by excuse, objectives SLO, rng *rand.Rand) bool {
	for i := range v.windows {
		if ended := &v.windows[i].Ended; ended[measure.NotSent]+ended[measure.ConnectFailed] > 0 {
			return false
		}
	}
	slow, all := make([]float64, len(v.windows)), make([]float64, len(v.windows))
	for _, o := range objectives {
		if o.Limit == 0 {
			continue
		}
		for i := range v.windows {
			slow[i] = v.windows[i].Service.Over(o.Limit + by.slack)
			all[i] = float64(v.windows[i].Ended.Total())
		}
		block := stats.BlockLength(slow)
		effect := stats.DesignEffect(slow, all, block)
		if stats.Share(slow, all, effect, block, confidence, rng).Low > o.Share+by.exempt {
			return true
		}
	}
	return false
}

// bounds reports whether what a late generator saw bounds what the service did usefully: it has sent
// all requests, and none of them so late that this alone broke an objective.
func bounds(t *measure.Totals, objectives SLO) bool {
	return timed(t) && t.Sent == t.Due && t.Lag.Max < shortest(objectives)
}

// bounded reports that a trial is invalid, but bounds what the service did.
func (s *surveyor) bounded(t *trial) bool {
	return t.judgement.Verdict == record.Invalid && s.late(t) && bounds(&t.step.Totals, s.o.SLO)
}
