// Package survey finds the load line of a service: the highest rate that still meets its SLO, as a
// confidence interval. It decides what to try next and what a step has shown. A Bench performs the
// steps, so that in tests whole surveys run in virtual time against simulated queues. The package
// must not know sockets, clocks, files or terminals.
package survey

import (
	"context"
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/slo"
)

// Bench does steps. Its methods are called one at a time.
type Bench interface {
	// Step offers a load and measures. stop, which may be nil, is shown each window when it is
	// over, on any goroutine, one at a time; when it returns a reason the step ends early, and is
	// returned with what it has, and with the reason. An error means that no step could be done at
	// all.
	Step(
		ctx context.Context, p measure.StepPlan, stop func(w *measure.Window) (reason string),
	) (s *measure.Step, stopped string, err error)
	// Settle waits until what the last step left behind is gone: requests in flight and sockets are
	// back where they were. It says how long that took, and fails when it does not happen within a
	// bounded time.
	Settle(ctx context.Context) (took time.Duration, err error)
}

// Options are what is asked for.
type Options struct {
	SLO SLO
	// Arrivals of the steps: "poisson" (the default) or "constant".
	Arrivals string
	// Runs is how often the rates next to the line are tried; 5.
	Runs int
	// Quick trades certainty for time: shorter steps and fewer of them.
	Quick bool
	// Start is the first rate; 0 has it found.
	Start float64
	// Limit is the highest rate that is ever offered; 0 is none but Overshoot.
	Limit float64
	// Overshoot is the multiple of the highest rate that passed which is never exceeded; 2.
	Overshoot float64
	// Connections the generator may use in a step; 0 chooses by the rate and the SLO.
	Connections int
	// Streams is how many requests a connection carries at once; 0 or 1 is one.
	Streams int
	Seed    uint64
	// Profiled adds two steps, at half of the line and at the line, for a caller that takes
	// profiles: what they cost the target must not move the line.
	Profiled bool
	// Cores of the machine the target runs on, for the model; 0 is unknown. Local says that the
	// generator shares them.
	Cores int
	Local bool
	// Predict estimates the line from steps that were all below half of it, among them a closed
	// loop with one connection (Plan.Rate 0) where there was one. It returns nil when it cannot. It
	// may be nil itself.
	Predict func(steps []measure.Step) *model.Prediction
	// Fit makes the result's model from all steps, when the survey has ended; the predictions are
	// kept. It may be nil.
	Fit func(steps []measure.Step) model.Model
	// Tell is told what happens, for a progress line. It may be nil.
	Tell func(Event)
	// Done is given each step when it has been judged, for the run directory. An error ends the
	// survey. It may be nil.
	Done func(s *measure.Step, j record.Judgement) error
}

// SLO is what a survey holds a service to.
type SLO = slo.SLO

// Event is a piece of news.
type Event struct {
	Plan measure.StepPlan // of the step that begins or goes on
	// Window is the newest window of the step; nil when it begins or when the news is something
	// else.
	Window *measure.Window
	// Judgement of the step when it has ended.
	Judgement *record.Judgement
	// Text says in words what happened when it is not a step: "cooling down", a prediction, the
	// line so far.
	Text string
	// Elapsed is the time of the plan so far and Left an estimate of what is still to come, in
	// nanoseconds.
	Elapsed, Left int64
	// Low and High are the line so far; 0 while unknown.
	Low, High float64
}
