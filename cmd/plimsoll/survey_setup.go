package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"plimsoll/internal/lab/kernel"
	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/probe"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/runner"
	"plimsoll/internal/lab/scrape"
	"plimsoll/internal/lab/slo"
	"plimsoll/internal/lab/survey"
)

// surveyConnections is the most connections that a survey chooses to open by itself.
const surveyConnections = 2048

// surveySetup is what a survey works with: the generator, the probes, and what they are used on.
type surveySetup struct {
	*runner.Runner
	sampler *probe.Sampler
	loops   int
	near    bool
	pid     int // of the target; 0 is unknown
	cores   int // of the target's machine; 0 is unknown
	steps   []measure.Step
	notes   []string     // what could not be done, for the result
	ahead   bool         // the generator takes precedence over the target
	shut    func() error // ends what the kernel counts; nil where nothing is
}

// setUp makes sure that the target answers at all, finds its process, and sets up the generator.
func (k *surveyCommand) setUp(
	ctx context.Context, target load.Target, script load.Script, objectives slo.SLO,
) (*surveySetup, error) {
	connections := cmp.Or(k.Connections, surveyConnections)
	if err := allowDescriptors(connections); err != nil {
		return nil, err
	}
	near := local(&target)
	b := &surveySetup{near: near, loops: loopsFor(k.Loops, connections, near), pid: k.PID}
	// One connection for a moment: what cannot be reached is one line, and no run directory.
	probing := load.Options{
		Target:      target,
		Script:      script,
		Connections: 1,
		Duration:    time.Millisecond,
		Timeout:     k.Timeout,
	}
	if _, err := load.Run(ctx, probing); err != nil {
		return nil, stoppedEarly(ctx, err)
	}
	if near {
		b.cores = probe.Machine().Cores
		b.find(&target)
	}
	o := probe.Options{PID: b.pid}
	for _, a := range target.Addresses {
		if a.Path == "" {
			o.Listen = append(o.Listen, a.IP)
		}
	}
	if len(k.Metrics) > 0 {
		o.More = append(o.More, scrape.New(k.Metrics...))
	}
	if k.Deep {
		o.More = append(o.More, b.deep()...)
	}
	b.sampler = probe.New(o)
	b.Runner = runner.New(runner.Options{
		Target:        target,
		Script:        script,
		Sampler:       b.sampler,
		Loops:         b.loops,
		Timeout:       k.Timeout,
		Lateness:      survey.Lateness(objectives),
		Spare:         near,
		PerConnection: k.perConnection(),
		Profile:       b.profiles(k.Pprof),
		Seed:          k.Seed,
	})
	return b, nil
}

// profiles has the target profiled at half of its line, at it and beyond it: in the steps that the
// line is not made of, as a profile costs the target some of what it can do. nil when there is
// nothing to profile with.
func (b *surveySetup) profiles(
	url string,
) func(ctx context.Context, p measure.StepPlan) map[string][]byte {
	if url == "" {
		return nil
	}
	profiler := scrape.NewProfiler(url)
	return func(ctx context.Context, p measure.StepPlan) map[string][]byte {
		kinds := profilesOf(p.Phase)
		if len(kinds) == 0 {
			return nil
		}
		// What it costs to open the connections, and to warm up, is not part of what requests cost.
		settled := time.NewTimer(time.Duration(p.Settle))
		defer settled.Stop()
		select {
		case <-settled.C:
		case <-ctx.Done():
			return nil
		}
		taken, errs := profiler.Take(ctx, kinds, time.Duration(p.Length-p.Settle)-profileMaking)
		for _, err := range errs {
			b.miss(err.Error())
		}
		return taken
	}
}

// profileMaking is kept for the writing of profiles, so that they are there when the step is over.
const profileMaking = 500 * time.Millisecond

// profilesOf are the kinds of profile that a phase is there for. Beyond the line, and after it,
// what matters is what the processor does and where goroutines pile up.
func profilesOf(phase string) []scrape.Kind {
	switch phase {
	case measure.PhaseHalf, measure.PhaseAtLine:
		return scrape.Kinds
	case measure.PhaseOverload, measure.PhaseRecovery:
		return []scrape.Kind{scrape.CPU, scrape.Goroutine}
	}
	return nil
}

// miss notes once what could not be done. It is called from one goroutine at a time.
func (b *surveySetup) miss(text string) {
	if !slices.Contains(b.notes, text) {
		b.notes = append(b.notes, text)
	}
}

// find finds the target's process by its port when it was not named.
func (b *surveySetup) find(target *load.Target) {
	if b.pid != 0 || target.Addresses[0].Path != "" {
		return
	}
	pid, _, err := probe.FindPID(int(target.Addresses[0].IP.Port()))
	if err != nil {
		b.notes = append(b.notes, err.Error())
		return
	}
	b.pid = pid
}

func (b *surveySetup) model(seed uint64) model.Options {
	return model.Options{Cores: b.cores, Local: b.near, Seed: seed}
}

// predict makes a prediction of the line from a survey's gentle steps.
func (b *surveySetup) predict(
	objectives slo.SLO, k *surveyCommand,
) func(steps []measure.Step) *model.Prediction {
	return func(steps []measure.Step) *model.Prediction {
		p, why := model.Predict(steps, objectives, model.PredictOptions{
			Options: b.model(k.Seed),
			Poisson: k.Arrivals == "poisson",
		})
		if p == nil {
			b.notes = append(b.notes, "a prediction: "+why)
		}
		return p
	}
}

// perConnection is how many requests a connection carries; 0 means no limit.
func (k *surveyCommand) perConnection() int {
	if k.NewConnections {
		return 1
	}
	return 0
}

// Step is the runner's. A generator that was late beside its target takes precedence over it from
// then on. It does not from the start: a target that has processors to spare is disturbed less by a
// generator of its own rank.
func (b *surveySetup) Step(
	ctx context.Context, p measure.StepPlan, stop func(w *measure.Window) (reason string),
) (*measure.Step, string, error) {
	s, stopped, err := b.Runner.Step(ctx, p, stop)
	if b.near && !b.ahead && s != nil && s.Totals.Generator.Invalid != "" {
		b.ahead = true
		if failed := precede(); failed != nil {
			b.miss(failed.Error())
		}
	}
	return s, stopped, err
}

// deep has the kernel count the target's events.
func (b *surveySetup) deep() (sources []probe.Source) {
	if b.pid == 0 {
		b.miss("the kernel's events: the target's process is not known: " +
			"name it with --pid when it runs on this machine")
		return nil
	}
	open, missing, shut := kernel.Open(b.pid)
	for _, s := range open {
		sources = append(sources, s)
	}
	for _, text := range missing {
		b.miss(text)
	}
	b.shut = shut
	return sources
}

// close ends what was begun for the survey.
func (b *surveySetup) close() {
	if b.shut == nil {
		return
	}
	if err := b.shut(); err != nil {
		b.miss("the kernel's events: " + err.Error())
	}
	b.shut = nil
}

// complete fills in what a survey does not know itself.
func (b *surveySetup) complete(r *record.Result, seed uint64) {
	r.Ended = time.Now()
	fitted := model.Fit(b.steps, b.model(seed))
	fitted.Predictions = r.Model.Predictions
	r.Model = fitted
	r.NotMeasured = append(append(r.NotMeasured, b.notes...), b.sampler.NotMeasured()...)
}
