package survey

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/slo"
	"plimsoll/internal/lab/stats"
)

// trial is a completed step and what it showed.
type trial struct {
	step      measure.Step
	view      view
	judgement record.Judgement
	rate      float64 // planned; 0 for a closed loop
	broke     string  // why the step was stopped; empty if it was not
	left      int     // windows that are not in view, as the machine was slowed down
	// carried reports that it passed, or that in bracketing it was no worse than lower rates.
	carried bool
}

// passed reports that nothing spoke against the rate; the next rates may be a multiple of such a
// rate. A step of a few seconds is often too short to prove that a percentile holds, but that is
// not a failure.
func (t *trial) passed() bool {
	return t.judgement.Verdict == record.Pass || t.judgement.OKSoFar()
}

// early is the reason why a survey ended early.
type early string

func (e early) Error() string { return string(e) }

// surveyor is a survey under way. It belongs to one goroutine, the caller of Run.
type surveyor struct {
	ctx    context.Context
	bench  Bench
	o      Options
	set    settings
	rng    *rand.Rand
	trials []*trial
	result *record.Result
	good   float64 // the highest rate that passed
	// low and high are the line so far, for progress reports; 0 while unknown.
	low, high float64
	// sets is the objective that sets the line, once that has been narrowed down.
	sets *slo.Objective
	// mean is the response time of single requests in nanoseconds, varied its squared coefficient
	// of variation.
	mean, varied float64
	reference    *trial // the gentle step to compare noise, recovery and drift with
	elapsed      int64
	phase        phase
	phaseSpent   int64
	// since is the first trial that the line is computed from. The trials before it belong to the
	// service before it changed; before is that service's line.
	since  int
	before stats.Interval
	// outran is the highest rate that failed, and did not count any more, since one clearly above
	// it passed; outruns is how often that was so.
	outran   float64
	outruns  int
	cold     coldness
	checking bool // whether the service has come back
	// disturbed is how many steps were repeated because a hypervisor delayed the generator.
	disturbed int
}

// phase is a part of the survey. Phases are in order.
type phase int

const (
	warmUp phase = iota
	bracketing
	noise
	refining
	halfway
	atLine
	overload
	recovery
	phases
)

// names are the phases' names in plans.
var names = [phases]string{
	warmUp:     measure.PhaseWarmUp,
	bracketing: measure.PhaseBracket,
	noise:      measure.PhaseNoise,
	refining:   measure.PhaseRefine,
	halfway:    measure.PhaseHalf,
	atLine:     measure.PhaseAtLine,
	overload:   measure.PhaseOverload,
	recovery:   measure.PhaseRecovery,
}

// lengths returns how long each phase is expected to take, in nanoseconds. Bracketing and
// refinement are guesses.
func (s *surveyor) lengths() [phases]int64 {
	profiled := int64(0)
	if s.o.Profiled {
		profiled = s.set.profiledLength
	}
	return [phases]int64{
		2 * s.set.warmChunk, 5 * s.set.bracketLength, 2*s.set.noiseLength + s.set.coarseLength,
		2*s.set.coarseLength + int64(s.o.Runs)*s.set.fineLength, profiled, profiled,
		int64(len(s.set.overload)-1) * s.set.overloadLength, s.set.recoveryLength,
	}
}

// left returns how long the survey will still take.
func (s *surveyor) left() int64 {
	lengths := s.lengths()
	left := max(lengths[s.phase]-s.phaseSpent, 0)
	for _, l := range lengths[s.phase+1:] {
		left += l
	}
	return left
}

func (s *surveyor) enter(p phase, text string) {
	s.phase, s.phaseSpent = p, 0
	s.say(text)
}

// say reports news that does not belong to a step.
func (s *surveyor) say(text string) { s.tell(Event{Text: text}) }

func (s *surveyor) tell(e Event) {
	if s.o.Tell == nil {
		return
	}
	e.Elapsed, e.Left, e.Low, e.High = s.elapsed, s.left(), s.low, s.high
	if e.Window != nil {
		e.Elapsed += e.Window.End()
		e.Left = max(e.Left-e.Window.End(), 0)
	}
	s.o.Tell(e)
}

// plan returns a step of the current phase.
func (s *surveyor) plan(rate float64, length, settle int64, why string) measure.StepPlan {
	p := measure.StepPlan{
		Phase:    names[s.phase],
		Rate:     rate,
		Arrivals: s.o.Arrivals,
		Length:   length,
		Settle:   settle,
		Why:      why,
	}
	p.Connections = s.connections(rate)
	if rate == 0 {
		p.Arrivals, p.Connections = "", 1
	}
	return p
}

// connections returns how many connections a rate needs.
func (s *surveyor) connections(rate float64) int {
	if s.o.Connections > 0 {
		return s.o.Connections
	}
	inside := 2 * rate * max(float64(s.o.SLO.Longest()), 4*s.mean) / float64(second)
	needed := math.Ceil(inside / float64(max(s.o.Streams, 1)))
	return int(min(max(needed, fewestConnections), MostConnections))
}

// do runs a step once the service is at rest, judges it, and reports it.
func (s *surveyor) do(p measure.StepPlan) (*trial, error) {
	for {
		if err := s.settle(); err != nil {
			return nil, err
		}
		t, err := s.doAtOnce(p)
		if err != nil || t.judgement.Verdict != record.Invalid || s.disturbed >= mostDisturbed {
			return t, err
		}
		stolen := t.stolen()
		if stolen < muchStolen {
			return t, nil
		}
		s.disturbed++
		p.Why = fmt.Sprintf("once more: a hypervisor gave %s of the processors' time to others "+
			"while the generator was late", format.Percent(stolen))
	}
}

// stolen returns the share of the processors' time that a hypervisor gave to others during the
// step, on the machine of the only generator; 0 if unknown.
func (t *trial) stolen() float64 {
	cores, _, ok := t.step.Spent(measure.HostCPUSteal)
	_, last := t.step.Ends(measure.HostCores)
	if !ok || last == nil || len(t.step.Totals.Generator.Remote) > 0 {
		return 0
	}
	return cores / max(last.Values[measure.HostCores], 1)
}

// settle waits until the service is at rest.
func (s *surveyor) settle() error {
	if len(s.trials) == 0 {
		return nil
	}
	took, err := s.bench.Settle(s.ctx)
	s.elapsed += took.Nanoseconds()
	if s.ctx.Err() != nil {
		return early("stopped by the user")
	}
	if err != nil {
		return early(fmt.Sprintf("the service was still working on the load of %s: %v",
			s.trials[len(s.trials)-1].words(), err))
	}
	return nil
}

func (t *trial) words() string {
	if t.rate == 0 {
		return "one request at a time"
	}
	return format.Digits(t.rate) + " requests a second"
}

// doAtOnce runs a step without waiting.
func (s *surveyor) doAtOnce(p measure.StepPlan) (*trial, error) {
	if s.ctx.Err() != nil {
		return nil, early("stopped by the user")
	}
	p.Number = len(s.trials) + 1
	s.tell(Event{Plan: p})
	b := breaker{long: max(silentFor, 2*s.o.SLO.Longest())}
	done, stopped, err := s.bench.Step(s.ctx, p, func(w *measure.Window) string {
		s.tell(Event{Plan: p, Window: w})
		return b.see(w)
	})
	if s.ctx.Err() != nil {
		return nil, early("stopped by the user")
	}
	t := &trial{rate: p.Rate, broke: stopped}
	if err != nil {
		if len(s.trials) == 0 {
			return nil, err
		}
		return nil, early(fmt.Sprintf("no step could be done at %s: %v", t.words(), err))
	}
	t.step = *done
	spent := t.step.Totals.Length + t.step.Totals.Drain
	s.elapsed += spent
	s.phaseSpent += spent
	t.view, t.left = viewOf(&t.step)
	s.trials = append(s.trials, t)
	s.judge(t)
	if s.o.Done != nil {
		if err := s.o.Done(&t.step, t.judgement); err != nil {
			return nil, fmt.Errorf("step %d could not be kept: %w", p.Number, err)
		}
	}
	s.tell(Event{Plan: p, Judgement: &t.judgement})
	if t.broke != "" {
		return t, s.alive(t)
	}
	return t, nil
}

// alive checks whether the service has come back after a step in which it broke. If not, the survey
// is over.
func (s *surveyor) alive(broken *trial) error {
	dead := early(fmt.Sprintf("the service broke at %s and did not come back: %s",
		broken.words(), broken.broke))
	if s.checking {
		return dead
	}
	s.checking = true
	defer func() { s.checking = false }()
	_, err := s.do(s.plan(niceRate(s.good*s.set.gentleHigh), s.set.warmChunk, 0,
		"to see whether the service has come back"))
	var why early
	if errors.As(err, &why) && s.ctx.Err() == nil {
		return dead
	}
	return err
}

// judge gives a step its verdict, together with all steps at its rate in the same phase that count.
func (s *surveyor) judge(t *trial) {
	j := record.Judgement{Step: t.step.Plan.Number, Rate: t.rate, Goodput: t.view.goodput(s.rng)}
	var same []view
	var totals []*measure.Totals
	for _, u := range s.counted() {
		if u == t || u.rate == t.rate && u.step.Plan.Phase == t.step.Plan.Phase && u.usable() {
			same = append(same, u.view)
			totals = append(totals, &u.step.Totals)
		}
	}
	together := merged(same)
	j.Verdict, j.Objectives, j.Why = judge(&together, s.o.SLO, s.rng)
	if len(same) > 1 {
		j.Why += fmt.Sprintf(" (%d steps at this rate together)", len(same))
	}
	if t.broke != "" {
		j.Verdict, j.Why = record.Fail, t.broke
	}
	invalid := t.step.Totals.Generator.Invalid
	switch {
	case t.rate == 0 && j.Verdict != record.Fail:
		j.Verdict, j.Why = record.Undecided, fmt.Sprintf("one request at a time: %s a second",
			format.Digits(j.Goodput.Estimate))
	case invalid == "":
	case len(t.step.Totals.Generator.Remote) > 0: // one of them may be gone
		j.Verdict, j.Why = record.Invalid, invalid
	case t.broke != "" || j.Verdict == record.Fail && !lateGenerator(&t.step.Totals, s.o.SLO):
		j.Why += " (the generator was late too, by less than would matter)"
	case j.Verdict == record.Fail && timed(&t.step.Totals) &&
		slices.ContainsFunc(excuses(totals), func(by excuse) bool {
			return slowAnyway(&together, by, s.o.SLO, s.rng)
		}):
		j.Why += " (the generator was late too, but the requests were slower by more than that)"
	// The line is computed from all valid steps. If one that is too short to pass was valid there,
	// and an equal one that is slow was not, the line would come out too high.
	case (j.Verdict == record.Pass || j.OKSoFar() && s.phase == bracketing) &&
		bounds(&t.step.Totals, s.o.SLO):
		j.Why += " (the generator was late, which the response times include)"
	default:
		j.Verdict, j.Why = record.Invalid, invalid
	}
	t.judgement = j
	t.carried = t.passed() || s.phase == bracketing && t.rate > 0 && s.noWorse(t)
	if t.rate > 0 && t.carried {
		s.good = max(s.good, t.rate)
	}
}

// usable reports that a step's results are the service's.
func (t *trial) usable() bool { return t.rate > 0 && t.judgement.Verdict != record.Invalid }
