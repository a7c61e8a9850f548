package survey

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/slo"
	"plimsoll/internal/lab/stats"
)

// view is the part of a step, or of several at one rate, that is judged.
type view struct {
	windows []measure.Window
	// net is by how much the requests inside (waiting or in flight) grew in each window, due what
	// arrived in it, ok the answers that were good, and seconds its length. A step's last window is
	// left out, because the drain belongs to it.
	net, due, ok, seconds []float64
}

// rate is what was offered in fact, which with random arrivals is not quite what was planned.
func (v *view) rate() float64 { return total(v.due) / max(total(v.seconds), 1e-9) }

func total(values []float64) (sum float64) {
	for _, x := range values {
		sum += x
	}
	return sum
}

// viewOf leaves out the settling, which is as long as the plan says. Cutting off what looks like a
// transient in each step by itself was tried (MSER, White 1997) and rejected: near the line a slow
// beginning is as often one of the times that break the SLO, and the line came out too high.
func viewOf(s *measure.Step) view {
	first := 0
	for first < len(s.Windows)-1 && s.Windows[first].Start < s.Plan.Settle {
		first++
	}
	var v view
	inside := 0
	if first > 0 {
		inside = s.Windows[first-1].InFlight + s.Windows[first-1].Waiting
	}
	v.windows = s.Windows[first:]
	for i := range v.windows {
		w := &v.windows[i]
		if i == len(v.windows)-1 && i > 0 {
			break // what was still inside when the offering ended has left in this one
		}
		now := w.InFlight + w.Waiting
		v.net, v.due = append(v.net, float64(now-inside)), append(v.due, float64(w.Due))
		v.ok = append(v.ok, float64(w.Ended[measure.OK]))
		v.seconds = append(v.seconds, float64(w.Length)/float64(second))
		inside = now
	}
	return v
}

// meanResponses are the mean response times of the windows in which something was answered.
func meanResponses(windows []measure.Window) (means []float64) {
	for i := range windows {
		if len(windows[i].Response.Cells) > 0 {
			means = append(means, windows[i].Response.Mean())
		}
	}
	return means
}

// merged is the view of several steps at one rate as if they were one.
func merged(views []view) view {
	var m view
	for _, v := range views {
		m.windows = append(m.windows, v.windows...)
		m.net, m.due = append(m.net, v.net...), append(m.due, v.due...)
		m.ok, m.seconds = append(m.ok, v.ok...), append(m.seconds, v.seconds...)
	}
	return m
}

// counts are the requests of each window that broke an objective, and all of them.
func (v *view) counts(o *slo.Objective) (bad, total []float64) {
	bad, total = make([]float64, len(v.windows)), make([]float64, len(v.windows))
	for i := range v.windows {
		bad[i], total[i] = o.Bad(&v.windows[i])
	}
	return bad, total
}

// designEffect is how many requests break an objective together, as far as the step shows. Where
// fewer are bad than are allowed there is little to tell it from; so it is told, too, from as many
// of the slowest as would be allowed: they come together for the same reason.
func (v *view) designEffect(o *slo.Objective, bad, total []float64, block int) float64 {
	effect := stats.DesignEffect(bad, total, block)
	if o.Limit == 0 {
		// Failures have nothing to do with the slowest answers.
		return effect
	}
	all := make([]*measure.Sparse, len(v.windows))
	allBad, allTotal := 0.0, 0.0
	for i := range v.windows {
		all[i] = &v.windows[i].Response
		allBad += bad[i]
		allTotal += total[i]
	}
	if allBad >= allTotal*o.Share {
		return effect
	}
	response := measure.Merged(all...)
	limit := response.Quantile(1 - o.Share)
	slow := make([]float64, len(v.windows))
	for i := range v.windows {
		slow[i] = v.windows[i].Response.Over(limit)
	}
	return max(effect, stats.DesignEffect(slow, total, max(block, stats.BlockLength(slow))))
}

// growth is by which share of the offered rate the requests inside grow, with its standard
// deviation, and whether that is more than chance: the net flow of a queue that always has work is
// independent from window to window, and that of one at rest varies less than that. doubt is 0 when
// it cannot be determined.
func (v *view) growth() (share, doubt float64, grows bool) {
	n, due := float64(len(v.net)), total(v.due)
	if n < 6 || due == 0 {
		return 0, 0, false
	}
	sum, squares := 0.0, 0.0
	for _, x := range v.net {
		sum += x
		squares += x * x
	}
	deviation := math.Sqrt(max(squares-sum*sum/n, 0) / (n - 1) * n)
	share, doubt = sum/due, max(deviation/due, growthLeast/2)
	return share, doubt, share > growthLeast && sum > 4 &&
		sum > stats.StudentQuantile(1-growthTail, n-1)*deviation
}

// judge says what a view shows of the SLO.
func judge(
	v *view, objectives SLO, rng *rand.Rand,
) (record.SLOVerdict, []record.ObjectiveShare, string) {
	verdict, why := record.Pass, "every objective is met"
	against := false // why is of an objective that what was seen speaks against
	shares := make([]record.ObjectiveShare, len(objectives))
	for i := range objectives {
		o := &objectives[i]
		bad, total := v.counts(o)
		block := stats.BlockLength(bad)
		effect := v.designEffect(o, bad, total, block)
		in := stats.Share(bad, total, effect, block, confidence, rng)
		shares[i] = record.ObjectiveShare{Objective: o.Text, Share: interval(in), Allowed: o.Share}
		words := fmt.Sprintf("%s to %s of the requests %s; %s allows %s", format.Percent(in.Low),
			format.Percent(in.High), breach(o), o.Text, format.Percent(o.Share))
		switch {
		case in.Low > o.Share:
			if verdict != record.Fail {
				verdict, why = record.Fail, words
			}
		case in.High <= o.Share || verdict == record.Fail:
		case in.Point > o.Share:
			verdict, why, against = record.Undecided, words+", so this step is too short to decide", true
		case !against:
			verdict, why = record.Undecided, soFar(o, in, bad, total, effect)
		}
	}
	if share, _, grows := v.growth(); grows && verdict != record.Fail {
		verdict = record.Fail
		why = fmt.Sprintf("the service does not keep up: requests inside it grow by %s of "+
			"the offered rate", format.Percent(share))
	}
	return verdict, shares, why
}

// breach says what a request did that breaks an objective.
func breach(o *slo.Objective) string {
	if o.Limit > 0 {
		return "were slower than " + time.Duration(o.Limit).String() + " or failed"
	}
	return "failed"
}

// soFar says what was seen of an objective that held, and how many requests would prove that it
// holds if more of them went on like this.
func soFar(o *slo.Objective, in stats.Interval, broke, all []float64, effect float64) string {
	bad, seen := total(broke), total(all)
	said := fmt.Sprintf("%s of %s requests %s",
		format.Count(int64(math.Ceil(bad))), format.Count(int64(seen)), breach(o))
	needed, ok := stats.Needed(in, bad, seen, effect, o.Share, confidence)
	if !ok {
		return fmt.Sprintf("%s, too close to what %s allows to prove it", said, o.Text)
	}
	return fmt.Sprintf("%s; about %s are needed to prove %s",
		said, format.Count(int64(needed)), o.Text)
}

// Lateness is how late a generator may send the 99th percentile of requests, in nanoseconds, before
// what it measures says more of itself than of the target: a share of the tightest limit, as every
// response time has the lateness in it.
func Lateness(objectives SLO) time.Duration {
	if limit := shortest(objectives); limit > 0 {
		return time.Duration(lateShare * float64(limit))
	}
	return time.Duration(lateWithout)
}

// lateGenerator says whether the generator was so late that a FAIL may be its own.
func lateGenerator(t *measure.Totals, objectives SLO) bool {
	allowed := int64(Lateness(objectives))
	return t.Lag.Quantile(.99) > allowed &&
		stats.Above(t.Lag.Over(allowed), float64(t.Lag.Count()), .01)
}

// shortest is the shortest limit of a response time, 0 without any.
func shortest(objectives SLO) (ns int64) {
	for _, o := range objectives {
		if o.Limit > 0 && (ns == 0 || o.Limit < ns) {
			ns = o.Limit
		}
	}
	return ns
}

// goodput is what the service answered well in a second.
func (v *view) goodput(rng *rand.Rand) model.Interval {
	return interval(stats.Ratio(v.ok, v.seconds, stats.BlockLength(v.ok), 200, confidence, rng))
}

func interval(in stats.Interval) model.Interval {
	return model.Interval{Low: in.Low, Estimate: in.Point, High: in.High, Confidence: confidence}
}
