// Package runner performs the steps of an experiment for real: it runs the generator against the
// target, has the probes sampled meanwhile, and waits between steps until the target is at rest
// again. It must not know what the steps are for: the code that plans them sees it as a Bench.
package runner

import (
	"context"
	"time"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/pace"
	"plimsoll/internal/lab/probe"
)

// Generators send a load from other machines, as load.Run does from this one.
type Generators interface {
	Run(ctx context.Context, o load.Options) (*measure.Totals, error)
	// Connections is how many connections there are from their machines to the target.
	Connections(ctx context.Context) (int, error)
}

// Options are what steps have in common. The zero value of each field but Target and Script is the
// default it names.
type Options struct {
	Target load.Target
	Script load.Script
	// Generators take the place of this process's own; nil is that.
	Generators Generators
	// Sampler is sampled about four times a second during a step, and between steps; nil samples
	// nothing.
	Sampler *probe.Sampler
	// Profile takes profiles of the target during a step; nil takes none. It is called when the
	// step begins, on a goroutine of its own, and has to return before the step's length is over,
	// or soon after ctx has ended, as the step waits for it.
	Profile func(ctx context.Context, p measure.StepPlan) map[string][]byte
	// Streams of a connection, in steps that have a rate; one where it is HTTP/2 and they have none,
	// as a closed loop is there to send one request after the other.
	Streams int
	// Loops, Timeout, Backlog, PerConnection, Lifetime, Lateness and Spare are the generator's.
	Loops         int
	Lateness      time.Duration
	Spare         bool
	Timeout       time.Duration
	Backlog       int
	PerConnection int
	Lifetime      time.Duration
	// Window is the length of a step's windows and the time between two samples; 250 ms.
	Window time.Duration
	// Seed makes arrivals and requests repeatable; each step has its own, made of this one and its
	// number.
	Seed uint64
}

// Runner does steps. Its methods are called one at a time, from any goroutine.
type Runner struct {
	options Options
	// run, connections and sample are the generator, the count of connections to the target, and
	// the probes.
	run         func(ctx context.Context, o load.Options) (*measure.Totals, error)
	connections func(ctx context.Context) (int, error)
	sample      func(at int64) measure.Sample
	// rest is what the target looked like before the first step; nil before it.
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

// Step offers the load of a plan and measures; a rate of 0 is a closed loop. stop, which may be
// nil, is shown each window when it is over, on another goroutine, one at a time; when it returns a
// reason the step ends early, and what was measured is returned with the reason. When ctx ends, the
// step is returned with what it has. An error means that nothing could be measured, such as a
// target that refuses connections.
//
// Before the first step the target is looked at for a second, to know what it is like at rest.
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

// profile has the target profiled; the channel gives what came of it.
func (r *Runner) profile(ctx context.Context, p measure.StepPlan) <-chan map[string][]byte {
	taken := make(chan map[string][]byte, 1)
	if r.options.Profile == nil {
		taken <- nil
		return taken
	}
	go func() { taken <- r.options.Profile(ctx, p) }()
	return taken
}

// loadOptions are a plan in the generator's words.
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
	// The schedule ends the run. A duration would cut off arrivals that were due in time and had to
	// wait.
	profile := pace.Hold(p.Rate/r.options.Script.Requests(), p.Length)
	arrivals := pace.Arrivals(p.Arrivals)
	if arrivals == "" {
		arrivals = pace.Poisson
	}
	o.Offered = &pace.Offered{Profile: profile, Arrivals: arrivals, Seed: o.Seed}
	return o
}
