package diagnose

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
	"plimsoll/internal/lab/record"
)

// Evidence is what a run shows, in the form in which rules use it. Rules only read it.
type Evidence struct {
	Run *record.Run
	// Line is the load line in requests a second: the estimate, or, if there is none, the highest
	// rate that kept the SLO.
	Line float64
	// Before and After are steps at the same gentle rate, before and after everything else: a
	// difference between them is there to stay. Half and AtLine are the steps at half of the line
	// and at the line, and Over is the step that offered the most. Each may be nil.
	Before, Half, AtLine, Over, After *Moment
	// Reserves are the resources whose use at the line is known; see Reserve.
	Reserves []Reserve
	// Classes are the shares of the target's processor time at the line, by class. Places are where
	// in the service's own code each class's time was spent. Both are nil without a profile.
	Classes map[string]float64
	Places  map[string][]profile.Place
	// Garbage is each class's share of the bytes allocated at the line; nil if allocation was not
	// profiled.
	Garbage map[string]float64
	// held caches the result of places.
	held *places
	// wastes caches the result of wasting.
	wastes *wasteSought
	// looked caches the result of looks.
	looked *[loads][]look
	// unread are the profiles that exist but cannot be read.
	unread []string
}

// profileKinds are the profiles that rules use.
var profileKinds = []string{"cpu", "allocs", "goroutine", "mutex", "block"}

// newEvidence reads what the rules need from a run. A profile that cannot be read counts as
// missing, and is reported.
func newEvidence(run *record.Run) *Evidence {
	e := &Evidence{Run: run}
	verdicts := map[int]record.SLOVerdict{}
	if r := run.Result; r != nil {
		e.Line = r.Line.Interval.Estimate
		if !r.Line.Found {
			e.Line = r.Line.Interval.Low
		}
		for _, j := range r.Judgements {
			verdicts[j.Step] = j.Verdict
		}
	}
	valid := func(s *measure.Step) bool {
		return s.Plan.Rate > 0 && verdicts[s.Plan.Number] != record.Invalid
	}
	highest := 0.0
	for i := range run.Steps {
		if s := &run.Steps[i]; valid(s) && verdicts[s.Plan.Number] != record.Fail {
			highest = max(highest, s.Plan.Rate)
		}
	}
	if e.Line == 0 {
		e.Line = highest
	}
	e.Half = e.moment(e.pick(measure.PhaseHalf, e.Line/2, valid))
	e.AtLine = e.moment(e.pick(measure.PhaseAtLine, e.Line, valid))
	if e.AtLine == nil && highest == 0 {
		e.AtLine = e.moment(e.alonest())
	}
	e.Over = e.moment(e.pick("", math.Inf(1), func(s *measure.Step) bool {
		return s.Plan.Phase == measure.PhaseOverload
	}))
	e.After = e.moment(e.pick(measure.PhaseRecovery, 0, func(*measure.Step) bool { return false }))
	if e.After != nil {
		rate := e.After.Step.Plan.Rate
		e.Before = e.moment(e.first(func(s *measure.Step) bool {
			return valid(s) && s.Plan.Number < e.After.Step.Plan.Number &&
				math.Abs(s.Plan.Rate/rate-1) < .05
		}))
	}
	e.Reserves = reserves(e)
	e.classify()
	e.garbage()
	return e
}

// pick returns the step of a phase. If there is none, it returns the step that fits and whose rate
// is nearest to rate.
func (e *Evidence) pick(phase string, rate float64, fits func(s *measure.Step) bool) *measure.Step {
	var best *measure.Step
	for i := range e.Run.Steps {
		s := &e.Run.Steps[i]
		if phase != "" && s.Plan.Phase == phase {
			return s
		}
		if !fits(s) {
			continue
		}
		if best == nil || math.IsInf(rate, 1) && s.Plan.Rate > best.Plan.Rate ||
			math.Abs(s.Plan.Rate-rate) < math.Abs(best.Plan.Rate-rate) {
			best = s
		}
	}
	return best
}

// alonest returns the last step in which requests came one after the other, if the survey offered
// no rate: none of those requests was quick enough, and there is nothing else to look at.
func (e *Evidence) alonest() (last *measure.Step) {
	for i := range e.Run.Steps {
		s := &e.Run.Steps[i]
		switch {
		case s.Plan.Rate > 0:
			return nil
		case s.Plan.Phase == measure.PhaseWarmUp:
			last = s
		}
	}
	return last
}

func (e *Evidence) first(fits func(s *measure.Step) bool) *measure.Step {
	for i := range e.Run.Steps {
		if fits(&e.Run.Steps[i]) {
			return &e.Run.Steps[i]
		}
	}
	return nil
}

// moment reads a step's profiles.
func (e *Evidence) moment(s *measure.Step) *Moment {
	if s == nil {
		return nil
	}
	m := &Moment{
		Step:     s,
		near:     e.Run.Manifest.Machine.TargetLocal,
		profiles: map[string]*profile.Profile{},
	}
	for _, kind := range profileKinds {
		raw, err := e.Run.Profile(s.Plan.Number, kind)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var p *profile.Profile
		if err == nil {
			p, err = profile.Parse(raw)
		}
		if err != nil {
			e.unread = append(e.unread, fmt.Sprintf("the %s profile of step %d: %v",
				kind, s.Plan.Number, err))
			continue
		}
		m.profiles[kind] = p
	}
	return m
}
