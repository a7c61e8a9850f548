package loadline

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/slo"
)

// The history of a target is its last ten minutes, in parts of a minute. How long a request takes
// for a given number of others at the target depends little on the rate, so the rate may vary
// within a part. Parts of similar rates are grouped into steps, to which the survey's model is
// fitted.

const (
	second = int64(1e9)
	// part is the length of a part of a target's history in nanoseconds, and kept is how many parts
	// there are.
	part = 60 * second
	kept = 10
	// groups is the largest number of steps made from a history. For each step, the fit simulates a
	// queue for every candidate.
	groups = 2
	// arrivals is the number of requests in each of these simulations.
	arrivals = 36_000
	// alike is the largest ratio of rates within a group, unless that would make too many groups.
	alike = 1.25
	// enough is how many requests of a step count at most. More would make the fit slower but not
	// better, because the error of the model itself is larger than the remaining uncertainty.
	enough = 500_000
	// fewest is how many requests in total a fit needs.
	fewest = 500
	// mostBad is the share of requests that may fail or be answered too late in a gentle part.
	// Above its line, a target is one long queue, which does not show its stations.
	mostBad = .01
	// changed is the ratio by which the time of uncrowded requests must change for the target to
	// count as a different one.
	changed = 1.3
	// fewestAlone is how many uncrowded requests that takes.
	fewestAlone = 100
)

// Objective is the service-level objective for the answers of an upstream.
type Objective struct {
	Name  string  // of the class, for people
	Share float64 // of the requests that may be bad
	Limit int64   // nanoseconds after which an answer is bad; 0 for no limit
}

// history is what was recently seen of one target.
type history struct {
	parts  []span // oldest first
	newest int64  // end of the newest window with requests
}

// span is a part of a history.
type span struct {
	begin, length int64
	Seen
}

func (s *span) rate() float64 { return float64(s.Requests()) * 1e9 / float64(max(s.length, 1)) }

// add adds a window of the given length that ended now.
func (h *history) add(now, length int64, s *Seen) {
	h.forget(now)
	if n := len(h.parts); n == 0 || now-h.parts[n-1].begin > part {
		h.parts = append(h.parts, span{begin: now - length})
	}
	last := &h.parts[len(h.parts)-1]
	last.length += length
	last.Add(s)
	if s.Requests() > 0 {
		h.newest = now
	}
}

// forget drops the parts that are too old.
func (h *history) forget(now int64) {
	old := 0
	for old < len(h.parts) && now-h.parts[old].begin > kept*part {
		old++
	}
	h.parts = slices.Delete(h.parts, 0, old)
}

// requests is the number of requests in the history.
func (h *history) requests() (n uint64) {
	for i := range h.parts {
		n += h.parts[i].Requests()
	}
	return n
}

// alone is the mean time, in nanoseconds, of requests that found no other request at the target. ok
// is false if there are fewer than fewestAlone.
func alone(s *Seen) (mean float64, ok bool) {
	if len(s.Met) == 0 || s.Met[0].Count < fewestAlone {
		return 0, false
	}
	return s.Met[0].Sum / float64(s.Met[0].Count), true
}

// settled is the newest parts over which the target has not changed: after a deployment or a move
// to another machine, it is a different service. A request that finds no other request of its own
// loop may still wait for those of other loops. So a time that changed together with the rate is no
// evidence.
func settled(parts []span) []span {
	for cut := len(parts) - 1; cut > 0; cut-- {
		was, is := merged(parts[:cut]), merged(parts[cut:])
		before, known := alone(&was.Seen)
		after, now := alone(&is.Seen)
		if !known || !now {
			continue
		}
		slower := after > changed*before && is.rate() < alike*was.rate()
		faster := before > changed*after && was.rate() < alike*is.rate()
		if slower || faster {
			return parts[cut:]
		}
	}
	return parts
}

// merged is several parts merged into one.
func merged(parts []span) (all span) {
	for i := range parts {
		all.length += parts[i].length
		all.Add(&parts[i].Seen)
	}
	return all
}

// gentle is the parts in which the target met the objective.
func gentle(parts []span, o Objective) (good []span) {
	limit := cmp.Or(o.Limit, math.MaxInt64)
	for i := range parts {
		s := &parts[i]
		if n := float64(s.Requests()); n > 0 && s.late(limit) <= max(o.Share, mostBad)*n &&
			float64(s.Failed) <= mostBad*n {
			good = append(good, *s)
		}
	}
	return good
}

// crowded is how many times longer than uncrowded requests a mean request takes when requests wait.
const crowded = 3

// slow reports that requests hardly wait, so that late answers are due to the target's own service
// time.
func slow(parts []span) bool {
	all := merged(parts)
	mean, ok := alone(&all.Seen)
	return ok && all.Times.Mean() < crowded*mean
}

// grouped merges parts of similar rates into at most groups groups.
func grouped(parts []span) []span {
	sorted := slices.Clone(parts)
	slices.SortStableFunc(sorted, func(a, b span) int { return cmp.Compare(a.rate(), b.rate()) })
	for ratio := alike; ; ratio *= alike {
		var all []span
		first := 0.0
		for i := range sorted {
			s := &sorted[i]
			if len(all) == 0 || s.rate() > ratio*first {
				all, first = append(all, span{}), s.rate()
			}
			to := &all[len(all)-1]
			to.length += s.length
			to.Add(&s.Seen)
		}
		if len(all) <= groups {
			return all
		}
	}
}

// steps converts groups to the steps that the survey's model takes.
func steps(parts []span, loops int) []measure.Step {
	all := make([]measure.Step, len(parts))
	for i := range parts {
		s := &parts[i]
		share := min(1, enough/float64(s.Requests()))
		t := measure.Totals{
			Length:  int64(float64(s.length) * share),
			Service: sparse(&s.Times, share),
		}
		t.Response = t.Service
		t.Ended[measure.OK] = t.Service.Count()
		t.Ended[measure.BadStatus] = uint64(float64(s.Failed)*share + .5)
		t.Due = t.Ended.Total()
		t.Sent = t.Due
		t.Generator.Loops = loops
		for found, m := range s.Met {
			n := uint64(float64(m.Count)*share + .5)
			if n == 0 {
				continue
			}
			scale := float64(n) / float64(m.Count)
			t.ConcurrencyAtSend = append(t.ConcurrencyAtSend, measure.ConcurrencyAtSend{
				Found: found, Count: n, Sum: m.Sum * scale, Squares: m.Squares * scale,
			})
		}
		all[i] = measure.Step{
			Plan: measure.StepPlan{
				Number: i + 1, Rate: s.rate(), Arrivals: "poisson", Length: t.Length,
			},
			Totals: t,
		}
	}
	return all
}

// fitted is the result of a fit.
type fitted struct {
	line Interval
	how  string
	why  string // what is missing, if no line was found
}

// used is the largest share of the workers' time at which a rate counts as sustained. At the full
// time the queue grows without end, whatever the objective allows.
const used = .98

// off widens the interval for the error of the model: a station that differs from the target may
// still fit. It is the relative error of estimates for simulated services when the fit itself is
// certain.
const off = .05

// fit estimates the rate that a target can carry, from parts of its history. It takes some tenths
// of a second of processor time.
func fit(parts []span, o Objective, loops int, seed uint64) fitted {
	parts = settled(parts)
	good, objective := gentle(parts, o), slo.Objective{Share: o.Share, Limit: o.Limit}
	if len(good) == 0 && slow(parts) {
		objective.Limit = 0
		good = gentle(parts, Objective{Share: o.Share})
	}
	if len(good) == 0 {
		return fitted{why: "too many of its answers failed or came later than the objective allows"}
	}
	var n uint64
	for i := range good {
		n += good[i].Requests()
	}
	if n < fewest {
		return fitted{why: "too few requests were seen"}
	}
	options := model.PredictOptions{
		Options: model.Options{Seed: seed}, Poisson: true, Sustained: used,
		Arrivals: arrivals,
	}
	measured := steps(grouped(good), loops)
	p, why := model.Predict(measured, slo.SLO{objective}, options)
	if p == nil && objective.Limit > 0 && strings.Contains(why, "no rate keeps the objectives") {
		objective.Limit = 0
		p, why = model.Predict(measured, slo.SLO{objective}, options)
	}
	if p == nil {
		return fitted{why: why}
	}
	f := fitted{how: p.How, line: Interval{
		p.Line.Low * (1 - off), p.Line.Estimate, p.Line.High * (1 + off),
	}}
	if objective.Limit == 0 && o.Limit > 0 {
		f.how += "; no rate keeps the objective of " + o.Name + ", so this is where the workers " +
			"have no time left"
	}
	return f
}

// times multiplies the interval by factor.
func (i Interval) times(factor float64) Interval {
	return Interval{i.Low * factor, i.Estimate * factor, i.High * factor}
}
