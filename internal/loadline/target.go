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

// What is kept of a target is the last ten minutes, in parts of a minute: how long a request takes
// by how many others it finds depends little on the rate, so that the rates inside one part may
// differ. Of the parts some groups of alike rates are made, which are the steps that the survey's
// model is fitted to.

const (
	second = int64(1e9)
	// part is how long a part of a target's history is, and kept how many there are.
	part = 60 * second
	kept = 10
	// groups is how many steps a history is made into at most: each costs the fit the simulation of
	// a queue for every candidate.
	groups = 2
	// arrivals is how many requests each of these simulations has.
	arrivals = 36_000
	// alike is the ratio of rates in one group, where there are not too many groups.
	alike = 1.25
	// enough is how many requests a step counts at most. More would not make the fit better, as
	// the model itself is off by more than these leave in doubt; but slower.
	enough = 500_000
	// fewest is how many requests in all a fit is tried with.
	fewest = 500
	// mostBad is the share of requests that a part may fail, or answer too late, to be gentle: what
	// is above its line has a queue of everything that waits, and shows no station.
	mostBad = .01
	// changed is the ratio by which the time of an uncrowded request must have moved for the target
	// to be another one than before.
	changed = 1.3
	// fewestAlone is how many uncrowded requests say so.
	fewestAlone = 100
)

// Objective is what the answers of an upstream are held to.
type Objective struct {
	Name  string  // of the class, for a person
	Share float64 // of the requests that may be bad
	Limit int64   // nanoseconds after which an answer is bad; 0 where none is too late
}

// history is what was seen of one target lately.
type history struct {
	parts  []span // the oldest first
	newest int64  // end of the newest window with requests
}

// span is a part of a history.
type span struct {
	begin, length int64
	Seen
}

func (s *span) rate() float64 { return float64(s.Requests()) * 1e9 / float64(max(s.length, 1)) }

// add adds a window that ended now.
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

// forget drops what is too old.
func (h *history) forget(now int64) {
	old := 0
	for old < len(h.parts) && now-h.parts[old].begin > kept*part {
		old++
	}
	h.parts = slices.Delete(h.parts, 0, old)
}

// requests is how many there were.
func (h *history) requests() (n uint64) {
	for i := range h.parts {
		n += h.parts[i].Requests()
	}
	return n
}

// alone is the mean time, in nanoseconds, of the requests that found nobody at the target.
func alone(s *Seen) (mean float64, ok bool) {
	if len(s.Met) == 0 || s.Met[0].Count < fewestAlone {
		return 0, false
	}
	return s.Met[0].Sum / float64(s.Met[0].Count), true
}

// settled are the newest parts over which the target was the same: a deployment, or another
// machine, makes what went before a different service. Who finds nobody of this loop may still wait
// for requests of another, so that a rate that changed as well is not evidence.
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

// merged is several parts as one.
func merged(parts []span) (all span) {
	for i := range parts {
		all.length += parts[i].length
		all.Add(&parts[i].Seen)
	}
	return all
}

// gentle are the parts that kept the objective.
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

// crowded is how many times longer requests take than those that find nobody, where they wait.
const crowded = 3

// slow says that answers come late although hardly anything waits: the target takes that long.
func slow(parts []span) bool {
	all := merged(parts)
	mean, ok := alone(&all.Seen)
	return ok && all.Times.Mean() < crowded*mean
}

// grouped merges parts of alike rates.
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

// steps are groups as the survey's model takes them.
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

// fitted is what a fit found of a target.
type fitted struct {
	line Interval
	how  string
	why  string // there is no line: what is missing
}

// used is the share of the workers' time up to which a rate may be said to be carried: at all of it
// the queue has no end, however much patience an objective has.
const used = .98

// off is by how much of the line the station may be another thing than the target and yet fit: that
// much the estimates of simulated services are off where the fit is sure of itself.
const off = .05

// fit estimates the rate that a target can carry, from parts of its history. It takes tenths of a
// second of a processor.
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

// times is the interval of so many times the value.
func (i Interval) times(factor float64) Interval {
	return Interval{i.Low * factor, i.Estimate * factor, i.High * factor}
}
