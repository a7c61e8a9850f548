// Package runner performs the steps of an experiment: it runs the generator against the target,
// samples the probes meanwhile, and waits between steps until the target is at rest again. It must
// not know what the steps are for: the code that plans them sees it as a Bench.
package runner

import (
	"context"
	"time"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/pace"
	"plimsoll/internal/lab/probe"
)

// Generators send a load from other machines. Run has the contract of load.Run.
type Generators interface {
	Run(ctx context.Context, o load.Options) (*measure.Totals, error)
	// Connections returns the number of connections from their machines to the target.
	Connections(ctx context.Context) (int, error)
}

// Options are what all steps share. Except for Target and Script, the zero value of a field means
// the default that its comment names.
type Options struct {
	Target load.Target
	Script load.Script
	// Generators replace this process's own generator; nil for that one.
	Generators Generators
	// Sampler is sampled about four times a second during a step, and between steps; nil for no
	// samples.
	Sampler *probe.Sampler
	// Profile takes profiles of the target during a step; nil for none. It is called at the
	// beginning of the step, on its own goroutine. It must return before the end of the step's
	// length, or soon after ctx ends, because the step waits for it.
	Profile func(ctx context.Context, p measure.StepPlan) map[string][]byte
	// Streams is the number of streams per connection in steps with a rate. Steps without a rate
	// use one on HTTP/2, because a closed loop sends one request after another.
	Streams int
	// Loops, Timeout, Backlog, PerConnection, Lifetime, Lateness and Spare are the generator's
	// options.
	Loops         int
	Lateness      time.Duration
	Spare         bool
	Timeout       time.Duration
	Backlog       int
	PerConnection int
	Lifetime      time.Duration
	// Window is the length of a step's windows and the interval between samples; default 250 ms.
	Window time.Duration
	// Seed makes arrivals and requests repeatable. Each step's seed is this one plus the step's
	// number.
	Seed uint64
}

// Runner performs steps. Its methods are called one at a time, from any goroutine.
type Runner struct {
	options Options
	// run is the generator, connections counts the connections to the target, and sample samples
	// the probes.
	run         func(ctx context.Context, o load.Options) (*measure.Totals, error)
	connections func(ctx context.Context) (int, error)
	sample      func(at int64) measure.Sample
	// rest describes the target before the first step; nil until then.
	rest *rest
}

// New makes a runner.
func New(o Options) *Runner {
	if o.Window <= 0 {
		o.Window = 250 * time.Millisecond
	}
	r := &Runner{
		options: o,
		run:     load.Run,
		sample:  func(at int64) measure.Sample { return measure.Sample{At: at} },
	}
	r.connections = func(context.Context) (int, error) {
		return probe.Connections(o.Target.IPs()...)
	}
	if o.Generators != nil {
		r.run, r.connections = o.Generators.Run, o.Generators.Connections
	}
	if o.Sampler != nil {
		r.sample = o.Sampler.Sample
	}
	return r
}

// Step offers the load of a plan and measures; a rate of 0 means a closed loop. stop may be nil. It
// is called with each window at its end, on another goroutine, one at a time. If it returns a
// reason, the step ends early, and Step returns the measurements and the reason. If ctx ends, Step
// returns what it has. An error means that nothing could be measured, for example because the
// target refuses connections.
//
// Before the first step, Step observes the target for a second, to know its state at rest.
func (r *Runner) Step(
	ctx context.Context, p measure.StepPlan, stop func(w *measure.Window) (reason string),
) (*measure.Step, string, error) {
	if r.rest == nil {
		rest, err := r.lookAtRest(ctx)
		if err != nil {
			return nil, "", err
		}
		r.rest = rest
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	step := &measure.Step{Plan: p, Began: time.Now()}
	stopped := ""
	sampling := newSampling(r.sample, r.options.Window)
	o := r.loadOptions(p)
	o.Began = sampling.began
	o.Observe = func(w *measure.Window) {
		sampling.windowEnded()
		step.Windows = append(step.Windows, *w)
		if stop == nil || stopped != "" {
			return
		}
		if stopped = stop(w); stopped != "" {
			cancel()
		}
	}
	profiles := r.profile(ctx, p)
	totals, err := r.run(ctx, o)
	if err != nil {
		cancel()
	}
	step.Samples, step.Profiles = sampling.end(), <-profiles
	if err != nil {
		return nil, "", err
	}
	step.Totals = *totals
	if !sampling.start.IsZero() {
		step.Began = sampling.start.Round(0)
	}
	return step, stopped, nil
}

// profile starts the profiling of the target; the channel returns the profiles.
func (r *Runner) profile(ctx context.Context, p measure.StepPlan) <-chan map[string][]byte {
	taken := make(chan map[string][]byte, 1)
	if r.options.Profile == nil {
		taken <- nil
		return taken
	}
	go func() { taken <- r.options.Profile(ctx, p) }()
	return taken
}

// loadOptions converts a plan to the generator's options.
func (r *Runner) loadOptions(p measure.StepPlan) load.Options {
	o := load.Options{
		Target:        r.options.Target,
		Script:        r.options.Script,
		Connections:   p.Connections,
		Streams:       r.options.Streams,
		Loops:         r.options.Loops,
		Timeout:       r.options.Timeout,
		Backlog:       r.options.Backlog,
		PerConnection: r.options.PerConnection,
		Lifetime:      r.options.Lifetime,
		Window:        r.options.Window,
		Lateness:      r.options.Lateness,
		Spare:         r.options.Spare,
		Seed:          r.options.Seed + uint64(p.Number),
	}
	if p.Rate <= 0 {
		o.Duration = time.Duration(p.Length)
		o.Streams = min(o.Streams, 1)
		return o
	}
	// The schedule ends the run. A duration would cut off arrivals that were due in time but had to
	// wait.
	profile := pace.Hold(p.Rate/r.options.Script.Requests(), p.Length)
	arrivals := pace.Arrivals(p.Arrivals)
	if arrivals == "" {
		arrivals = pace.Poisson
	}
	o.Offered = &pace.Offered{Profile: profile, Arrivals: arrivals, Seed: o.Seed}
	return o
}
