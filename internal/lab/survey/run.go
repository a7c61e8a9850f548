package survey

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
)

// Run performs a survey and returns its result. It calls b and o's functions on the caller's
// goroutine. The exception is Options.Tell with a window: it is called while b.Step runs, on the
// goroutine on which b.Step calls stop.
//
// Whatever ends a survey early is not an error: the service broke and did not come back, no step
// could be run, or the context was cancelled. Result.Early then gives the reason, and the result
// holds what was known by then. An error without a result means that not even the first step could
// be run; an error with a result comes from o.Done. The caller fills in Result.Ended, because a
// survey has no clock.
func Run(ctx context.Context, b Bench, o Options) (*record.Result, error) {
	o = withDefaults(o)
	if len(o.SLO) == 0 {
		return nil, errors.New("a survey needs an SLO to hold the service to, such as p99<50ms")
	}
	s := newSurveyor(ctx, b, o)
	err := s.survey()
	if err != nil && len(s.trials) == 0 && ctx.Err() == nil {
		return nil, err
	}
	var why early
	if errors.As(err, &why) {
		s.result.Early, err = string(why), nil
	} else if err != nil {
		s.result.Early = err.Error()
	}
	s.conclude()
	return s.result, err
}

func newSurveyor(ctx context.Context, b Bench, o Options) *surveyor {
	rng := rand.New(rand.NewPCG(o.Seed, 0xa0761d6478bd642f))
	return &surveyor{
		ctx:    ctx,
		bench:  b,
		o:      o,
		set:    settingsFor(&o),
		rng:    rng,
		result: &record.Result{SchemaVersion: record.SchemaVersion},
	}
}

func withDefaults(o Options) Options {
	if o.Arrivals == "" {
		o.Arrivals = "poisson"
	}
	if o.Runs <= 0 {
		o.Runs = 5
	}
	if o.Overshoot <= 1 {
		o.Overshoot = 2
	}
	return o
}

// survey runs the experiment, phase by phase.
func (s *surveyor) survey() error {
	start, err := s.warm()
	if err != nil {
		return err
	}
	why := "half of what a single client who waits for each answer reaches"
	if s.o.Start > 0 {
		why = "the rate that was asked for as the first"
	}
	found, err := s.bracket(start, why)
	if err != nil || s.good == 0 {
		return err
	}
	c, found, err := s.settled(found)
	if err != nil || s.good == 0 {
		return err
	}
	if c.word != "" {
		s.result.Line = record.Line{Caveat: c.word, Why: c.why}
	}
	if !found || c.word != "" {
		return s.profiled(s.good)
	}
	if err := s.refine(); err != nil {
		return err
	}
	if err := s.again(); err != nil {
		return err
	}
	if !s.result.Line.Found {
		return s.profiled(s.good)
	}
	if err := s.profiled(s.result.Line.Interval.Estimate); err != nil {
		return err
	}
	if err := s.overload(); err != nil {
		return err
	}
	return s.recover()
}

// settled measures at gentle load, and begins again as long as the service is warming up. found tells
// whether the line is between two rates that were tried. c says why there is none.
func (s *surveyor) settled(found bool) (c caveat, between bool, err error) {
	for {
		if err := s.gentle(); err != nil {
			return caveat{}, false, err
		}
		c, warming, err := s.regardless()
		if err != nil || warming == nil {
			return c, found, err
		}
		if found, err = s.beginAgain(warming); err != nil {
			return caveat{}, false, err
		}
	}
}

// conclude fills in the result from the steps so far.
func (s *surveyor) conclude() {
	r := s.result
	for _, t := range s.trials {
		r.Judgements = append(r.Judgements, t.judgement)
	}
	if !r.Line.Found && r.Line.Why == "" {
		r.Line = s.line()
	}
	s.model()
	r.Peak, r.Collapse = s.peak()
	if !r.Recovery.Tested && r.Recovery.Why == "" {
		r.Recovery.Why = "not tested: the survey ended before"
	}
	s.caveats()
	r.Validity = s.validity()
}

// model fits the model to all steps that count, and scores the predictions made before the line was
// known.
func (s *surveyor) model() {
	m := &s.result.Model
	if s.o.Fit != nil {
		var steps []measure.Step
		for _, t := range s.counted() {
			steps = append(steps, t.step)
		}
		predictions := m.Predictions
		*m = s.o.Fit(steps)
		m.Predictions = predictions
	}
	if !s.result.Line.Found {
		return
	}
	for i := range m.Predictions {
		model.Score(&m.Predictions[i], s.result.Line.Interval)
	}
}

// warm sends one request at a time until the response times have settled. It returns the rate to
// start with: Options.Start, or half of the rate of a single client that waits for each answer,
// which any service can sustain.
func (s *surveyor) warm() (start float64, err error) {
	s.enter(warmUp, "warming up, one request at a time, until the response times have settled")
	var before []float64
	for i := range s.set.warmMost {
		t, err := s.do(s.plan(0, s.set.warmChunk, 0,
			"to warm the service up, and to see how fast it answers when it is left alone"))
		if err != nil {
			return 0, err
		}
		if failed, all := t.step.Totals.Ended.Failed(),
			t.step.Totals.Ended.Total(); 2*failed > all || all == 0 {
			why := fmt.Sprintf("%d of %d requests failed though they came one at a time%s",
				failed, all, example(&t.step.Totals))
			s.result.Line.Why = why
			return 0, early(why)
		}
		if t.judgement.Verdict == record.Fail {
			if i < s.set.warmMost-1 && t.broke == "" {
				continue // a cold service may break what it keeps later
			}
			s.result.Line.Why = "the SLO is not met even by one request at a time: " +
				t.judgement.Why
			return 0, early(s.result.Line.Why)
		}
		now := meanResponses(t.view.windows)
		s.mean, s.varied = t.step.Totals.Response.Mean(), variation(&t.step.Totals.Response)
		start = t.judgement.Goodput.Estimate / 2
		if i > 0 && steady(before, now) {
			break
		}
		before = now
	}
	if s.o.Start > 0 {
		start = s.o.Start
	}
	return s.capped(start), nil
}

// variation returns the squared coefficient of variation of durations.
func variation(h *measure.Sparse) float64 {
	n, mean := float64(h.Count()), h.Mean()
	if n < 2 || mean == 0 {
		return 0
	}
	squares := 0.0
	for _, c := range h.Cells {
		lowest, highest := measure.Bounds(int(c.Bucket))
		d := float64(lowest+highest)/2 - mean
		squares += d * d * float64(c.Count)
	}
	return squares / (n - 1) / (mean * mean)
}

// example describes one of the failures.
func example(t *measure.Totals) string {
	worst, count := measure.OK, uint64(0)
	for k, n := range t.Ended {
		if kind := measure.Kind(k); kind != measure.OK && n > count {
			worst, count = kind, n
		}
	}
	if text := t.Examples[worst.String()]; text != "" {
		return fmt.Sprintf(": %s, %s", worst, text)
	}
	return ": " + worst.String()
}

// capped limits a rate to Options.Limit.
func (s *surveyor) capped(rate float64) float64 {
	if s.o.Limit > 0 {
		return min(rate, s.o.Limit)
	}
	return rate
}

// allowed limits a rate to what may be offered now.
func (s *surveyor) allowed(rate float64) float64 {
	if s.good > 0 {
		rate = min(rate, s.o.Overshoot*s.good)
	}
	return s.capped(rate)
}
