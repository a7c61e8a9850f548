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

// view is the part of a step that is judged, or of several steps at one rate.
type view struct {
	windows []measure.Window
	// Per window: net is the growth of the requests inside (waiting or in flight), due the
	// arrivals, ok the good answers, and seconds the length. A step's last window is left out,
	// because the drain belongs to it.
	net, due, ok, seconds []float64
}

// rate returns the actual rate, which differs a little from the planned one with random arrivals.
func (v *view) rate() float64 { return total(v.due) / max(total(v.seconds), 1e-9) }

func total(values []float64) (sum float64) {
	for _, x := range values {
		sum += x
	}
	return sum
}

// viewOf leaves out the settling, whose length the plan sets. Cutting off what looks like a
// transient in each step was tried (MSER, White 1997) and rejected: near the line, a slow beginning
// is often one of the times that break the SLO, and the line came out too high. It also leaves out
// windows in which the machine was slowed down; left is how many.
func viewOf(s *measure.Step) (v view, left int) {
	first := 0
	for first < len(s.Windows)-1 && s.Windows[first].Start < s.Plan.Settle {
		first++
	}
	inside := 0
	if first > 0 {
		inside = s.Windows[first-1].InFlight + s.Windows[first-1].Waiting
	}
	v.windows = s.Windows[first:]
	for i := range v.windows {
		w := &v.windows[i]
		if i == len(v.windows)-1 && i > 0 {
			break // requests still inside when the load ended have left in this window
		}
		now := w.InFlight + w.Waiting
		v.net, v.due = append(v.net, float64(now-inside)), append(v.due, float64(w.Due))
		v.ok = append(v.ok, float64(w.Ended[measure.OK]))
		v.seconds = append(v.seconds, float64(w.Length)/float64(second))
		inside = now
	}
	return v.withoutSlow(calm(s)[first:])
}

// meanResponses returns the mean response times of the windows with answers.
func meanResponses(windows []measure.Window) (means []float64) {
	for i := range windows {
		if len(windows[i].Response.Cells) > 0 {
			means = append(means, windows[i].Response.Mean())
		}
	}
	return means
}

// merged joins the views of several steps at one rate into one.
func merged(views []view) view {
	var m view
	for _, v := range views {
		m.windows = append(m.windows, v.windows...)
		m.net, m.due = append(m.net, v.net...), append(m.due, v.due...)
		m.ok, m.seconds = append(m.ok, v.ok...), append(m.seconds, v.seconds...)
	}
	return m
}

// counts returns, per window, the requests that broke an objective, and all requests.
func (v *view) counts(o *slo.Objective) (bad, total []float64) {
	bad, total = make([]float64, len(v.windows)), make([]float64, len(v.windows))
	for i := range v.windows {
		bad[i], total[i] = o.Bad(&v.windows[i])
	}
	return bad, total
}

// designEffect returns how many requests break an objective together, as far as the step shows. If
// fewer are bad than allowed, they give little evidence. So it also looks at the slowest requests,
// as many as are allowed to be bad: they come together for the same reason.
func (v *view) designEffect(o *slo.Objective, bad, total []float64, block int) float64 {
	effect := stats.DesignEffect(bad, total, block)
	if o.Limit == 0 {
		// Failures are unrelated to the slowest answers.
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

// growth returns the growth of the requests inside as a share of the offered rate, its standard
// deviation, and whether it is more than chance. The net flow of a queue that always has work is
// independent from window to window; that of a queue at rest varies less. doubt is 0 if it cannot
// be determined.
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

// judge judges a view against the SLO.
func judge(
	v *view, objectives SLO, rng *rand.Rand,
) (record.SLOVerdict, []record.ObjectiveShare, string) {
	verdict, why := record.Pass, "every objective is met"
	against := false // why is about an objective with evidence against it
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

// breach says, in words, how a request breaks an objective.
func breach(o *slo.Objective) string {
	if o.Limit > 0 {
		return "were slower than " + time.Duration(o.Limit).String() + " or failed"
	}
	return "failed"
}

// soFar describes an objective that has held so far. It says how many requests in total would prove
// it if the others were like these.
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

// goodput returns how many good answers the service gave per second.
func (v *view) goodput(rng *rand.Rand) model.Interval {
	return interval(stats.Ratio(v.ok, v.seconds, stats.BlockLength(v.ok), 200, confidence, rng))
}

func interval(in stats.Interval) model.Interval {
	return model.Interval{Low: in.Low, Estimate: in.Point, High: in.High, Confidence: confidence}
}
