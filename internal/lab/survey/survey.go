// Package survey finds the load line of a service: the highest rate that still meets its SLO, as a
// confidence interval. It decides what to try next and what a step has shown. A Bench runs the
// steps, so tests can run whole surveys in virtual time against simulated queues. The package must
// not know sockets, clocks, files or terminals.
package survey

import (
	"context"
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/slo"
)

// Bench runs steps. Its methods are called one at a time.
type Bench interface {
	// Step offers a load and measures. It calls stop, which may be nil, with each window when it is
	// over, on any goroutine, one at a time. If stop returns a reason, the step ends early, and
	// Step returns what it has and the reason. An error means that the step could not be run at
	// all.
	Step(
		ctx context.Context, p measure.StepPlan, stop func(w *measure.Window) (reason string),
	) (s *measure.Step, stopped string, err error)
	// Settle waits until the effects of the last step are gone: requests in flight and sockets are
	// back to where they were. It returns how long that took, and an error if it does not happen
	// within a bounded time.
	Settle(ctx context.Context) (took time.Duration, err error)
}

// Options configure a survey.
type Options struct {
	SLO SLO
	// Arrivals is the arrival process of the steps: "poisson" (the default) or "constant".
	Arrivals string
	// Runs is how often the rates next to the line are tried; default 5.
	Runs int
	// Quick trades certainty for time: shorter steps and fewer of them.
	Quick bool
	// Start is the first rate; 0 lets the survey find one.
	Start float64
	// Limit is the highest rate to offer; 0 means no limit except Overshoot.
	Limit float64
	// Overshoot is the maximum rate, as a multiple of the highest rate that passed; default 2.
	Overshoot float64
	// Connections is how many the generator may use in a step; 0 chooses by the rate and the SLO.
	Connections int
	// Streams is how many requests a connection carries at once; 0 means one.
	Streams int
	Seed    uint64
	// Profiled adds two steps, at half of the line and at the line, for a caller that takes
	// profiles. The profiles' cost to the target must not move the line.
	Profiled bool
	// Cores is the number of cores of the target's machine, for the model; 0 means unknown. Local
	// reports that the generator shares them.
	Cores int
	Local bool
	// Predict estimates the line from steps below half of it. If there was a closed loop with one
	// connection (Plan.Rate 0), it is among them. Predict returns nil if it cannot estimate. It may
	// be nil itself.
	Predict func(steps []measure.Step) *model.Prediction
	// Fit fits the result's model to all steps when the survey has ended, or to those since the service
	// has warmed up. The predictions are kept.
	// It may be nil.
	Fit func(steps []measure.Step) model.Model
	// Tell is called with news for a progress line. It may be nil.
	Tell func(Event)
	// Done is called with each step once it has been judged, for the run directory. An error ends
	// the survey. It may be nil.
	Done func(s *measure.Step, j record.Judgement) error
}

// SLO is what a survey tests a service against.
type SLO = slo.SLO

// Event is a piece of news.
type Event struct {
	Plan measure.StepPlan // of the current step
	// Window is the latest window of the step; nil when the step begins, or for other news.
	Window *measure.Window
	// Judgement is the step's, once it has ended.
	Judgement *record.Judgement
	// Text describes news that is not a step: "cooling down", a prediction, the line so far.
	Text string
	// Elapsed is the time of the plan so far, and Left an estimate of the rest, in nanoseconds.
	Elapsed, Left int64
	// Low and High are the line so far; 0 while unknown.
	Low, High float64
}
