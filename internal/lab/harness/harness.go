// Package harness runs a survey from its options to a run directory. It gives the generator the
// descriptors and processors that it needs, finds the target's process, sets up probes, scrapes and
// profiles, runs the survey, and records each step and the result. It must not print anything, and
// must not know what the command line looks like.
package harness

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"plimsoll/internal/lab/kernel"
	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/probe"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/runner"
	"plimsoll/internal/lab/scrape"
	"plimsoll/internal/lab/survey"
)

// Options say what to survey, how, and where the results go.
type Options struct {
	// Survey has the survey's options; Run fills in Cores, Local, Profiled, Predict, Fit and Done.
	Survey survey.Options
	// Dir is the run directory, new or empty.
	Dir string
	// Manifest describes the run; Run fills in Kind, Started, SLO and Machine, and adds the setting
	// "loops".
	Manifest record.Manifest
	Target   load.Target
	Script   load.Script
	// Generators send the load from other machines; nil sends it from this process.
	Generators Generators
	// PID is the target's process. If 0 and the target is on this machine, it is found by its port.
	PID int
	// Loops is the number of the generator's loops; 0 chooses, as the function Loops does.
	Loops   int
	Timeout time.Duration
	// NewConnections makes each request use a new connection.
	NewConnections bool
	// Pprof is the URL of profiles, and Metrics the pages to sample; empty for none.
	Pprof   string
	Metrics []string
	// ProfileCommand is a program that takes processor profiles; empty for none. ProfileHertz is
	// its sampling rate in samples a second; 0 for the usual.
	ProfileCommand string
	ProfileHertz   float64
	// Perf makes the kernel take processor profiles.
	Perf bool
	// Inspect is the V8 inspector that takes processor profiles; empty for none.
	Inspect string
	// Deep makes the kernel count the target's events.
	Deep bool
}

// Generators is a fleet on other machines.
type Generators interface {
	runner.Generators
	// Loops is the total number of their event loops, for the given number of connections. Near
	// says that one of them is on the target's machine.
	Loops(connections int) int
	Near() bool
}

// harness is the bench of a survey: the generator, the probes, and notes about them.
type harness struct {
	*runner.Runner
	o     Options
	near  bool     // the target is on this machine
	notes []string // what could not be done; goes into the result
	// server is the Server field of the target's first answer.
	server string
	// runtime is what the target is written in, a constant of package measure; empty if not known.
	runtime string
	ahead   bool // the generator takes precedence over the target
	// processor takes processor profiles instead of Pprof; nil if nothing else does.
	processor processorProfiler
	threads   threadProfiler // nil if the target is not a JVM
}

// Run surveys and writes the run directory. A result returned with an error is what was found until
// then; it is in the directory if it could be written. Without a result nothing was measured. A
// target that does not answer at all leaves no directory.
func Run(ctx context.Context, o Options) (*record.Result, error) {
	h := &harness{o: o, near: Local(&o.Target)}
	release, err := h.reserve()
	if err != nil {
		return nil, err
	}
	defer release()
	// Try one connection briefly, so that an unreachable target gives one line and no run
	// directory.
	run := load.Run
	if o.Generators != nil {
		run = o.Generators.Run
	}
	tried, err := run(ctx, load.Options{
		Target:      o.Target,
		Script:      o.Script,
		Connections: 1,
		Streams:     min(o.Survey.Streams, 1),
		Duration:    time.Millisecond,
		Timeout:     o.Timeout,
	})
	if err != nil {
		return nil, err
	}
	h.server = tried.Server
	h.find()
	m := h.manifest()
	h.runtime = m.Machine.TargetRuntime
	w, err := record.Create(o.Dir, m)
	if err != nil {
		return nil, err
	}
	result, err := h.survey(ctx, w)
	if result != nil {
		// After an error, what follows usually fails for the same reason, such as a full disk. It
		// is tried, but the first error is returned.
		err = cmp.Or(err, w.Result(result))
	}
	return result, cmp.Or(err, w.Close())
}

// reserve takes what the generator needs from this process. It determines the number of loops and
// whether the generator shares the target's machine.
func (h *harness) reserve() (release func(), err error) {
	o := &h.o
	connections := cmp.Or(o.Survey.Connections, survey.MostConnections)
	if o.Generators != nil {
		o.Survey.Local, o.Loops = o.Generators.Near(), o.Generators.Loops(connections)
		return func() {}, nil
	}
	o.Survey.Local = h.near
	o.Loops = Loops(o.Loops, connections, h.near)
	return Reserve(connections, o.Loops)
}

// survey does and records the steps, and adds to the result what a survey does not know: when it
// ended, and what could not be measured.
func (h *harness) survey(ctx context.Context, w *record.Writer) (*record.Result, error) {
	sampler, missing, shut := Probes(&h.o.Target, h.o.PID, h.o.Metrics, h.o.Deep,
		h.near || h.o.Generators == nil)
	for _, text := range missing {
		h.miss(text)
	}
	end, err := h.openProcessor()
	if err != nil {
		return nil, errors.Join(err, shut())
	}
	defer end()
	defer h.openThreads()()
	h.Runner = runner.New(h.runnerOptions(sampler))
	o := h.o.Survey
	o.Profiled, o.Predict = h.o.Pprof != "" || h.processor != nil || h.threads != nil, h.predict
	o.Fit = func(steps []measure.Step) model.Model { return model.Fit(steps, h.model()) }
	o.Done = func(s *measure.Step, _ record.Judgement) error {
		err := w.Step(s)
		// They are in files now, and too large to keep.
		s.Profiles = nil
		return err
	}
	result, err := survey.Run(ctx, h, o)
	if failed := shut(); failed != nil {
		h.miss("the kernel's events: " + failed.Error())
	}
	if result == nil {
		return nil, err
	}
	result.Ended = time.Now()
	result.NotMeasured = slices.Concat(result.NotMeasured, h.notes, sampler.NotMeasured())
	return result, err
}

func (h *harness) runnerOptions(sampler *probe.Sampler) runner.Options {
	o := &h.o
	r := runner.Options{
		Target:   o.Target,
		Script:   o.Script,
		Sampler:  sampler,
		Streams:  o.Survey.Streams,
		Loops:    o.Loops,
		Timeout:  o.Timeout,
		Lateness: survey.Lateness(o.Survey.SLO),
		Spare:    o.Survey.Local,
		Profile:  h.profiles(o.Pprof),
		Seed:     o.Survey.Seed,
	}
	if o.NewConnections {
		r.PerConnection = 1
	}
	if o.Generators != nil {
		r.Generators = o.Generators
	}
	return r
}

// Probes makes the sampler of a target: /proc and INET_DIAG, pages of metrics and, with deep, the
// kernel's counters. The speed of this machine's processors matters if here says that the target or a
// generator runs on it. missing says what cannot be sampled; shut ends the kernel's counting, and the
// looks at the processors' speed.
func Probes(
	t *load.Target, pid int, metrics []string, deep, here bool,
) (s *probe.Sampler, missing []string, shut func() error) {
	o := probe.Options{PID: pid, Listen: t.IPs()}
	if len(metrics) > 0 {
		o.More = append(o.More, scrape.New(metrics...))
	}
	shut = func() error { return nil }
	if here {
		speed := probe.NewSpeed()
		o.More = append(o.More, speed)
		shut = func() error { speed.Stop(); return nil }
	}
	switch {
	case deep && pid == 0:
		missing = []string{"the kernel's events: the target's process is not known: " +
			"name it with --pid when it runs on this machine"}
	case deep:
		var counted []kernel.Source
		var end func() error
		counted, missing, end = kernel.Open(pid)
		for _, source := range counted {
			o.More = append(o.More, source)
		}
		stop := shut
		shut = func() error { return errors.Join(stop(), end()) }
	}
	return probe.New(o), missing, shut
}

// manifest makes the manifest of the run directory.
func (h *harness) manifest() record.Manifest {
	m := h.o.Manifest
	m.Kind, m.Started, m.SLO = record.KindSurvey, time.Now(), h.o.Survey.SLO.String()
	m.Machine = Machine(h.near, h.o.PID)
	if m.Machine.TargetServer == "" {
		m.Machine.TargetServer = serverOf(h.server, m.Machine.TargetRuntime)
	}
	m.Machine.Apart = h.near && !h.o.Survey.Local
	m.Settings = map[string]string{"loops": strconv.Itoa(h.o.Loops)}
	maps.Copy(m.Settings, h.o.Manifest.Settings)
	return m
}

// miss notes once what could not be done. Only one goroutine at a time may call it.
func (h *harness) miss(text string) {
	if !slices.Contains(h.notes, text) {
		h.notes = append(h.notes, text)
	}
}

// find finds the facts about a target on this machine: its processors and, unless it was named, its
// process, by the port.
func (h *harness) find() {
	if !h.near {
		return
	}
	h.o.Survey.Cores = probe.Machine().Cores
	at := h.o.Target.Addresses[0]
	if h.o.PID != 0 || at.Path != "" {
		return
	}
	pid, _, err := probe.FindPID(int(at.IP.Port()))
	if err != nil {
		h.notes = append(h.notes, err.Error())
		return
	}
	h.o.PID = pid
}

func (h *harness) model() model.Options {
	s := &h.o.Survey
	return model.Options{Cores: s.Cores, Local: s.Local, Seed: s.Seed}
}

// predict predicts the line from a survey's gentle steps.
func (h *harness) predict(steps []measure.Step) *model.Prediction {
	p, why := model.Predict(steps, h.o.Survey.SLO, model.PredictOptions{
		Options: h.model(),
		Poisson: h.o.Survey.Arrivals != "constant",
	})
	if p == nil {
		h.notes = append(h.notes, "a prediction: "+why)
	}
	return p
}

// Step is the runner's Step. If a generator on the target's machine was late, it gets precedence
// over the target from then on. It does not have it from the start, because a target with
// processors to spare is disturbed less by a generator of equal priority.
func (h *harness) Step(
	ctx context.Context, p measure.StepPlan, stop func(w *measure.Window) (reason string),
) (*measure.Step, string, error) {
	s, stopped, err := h.Runner.Step(ctx, p, stop)
	if h.o.Survey.Local && h.o.Generators == nil && !h.ahead && s != nil && s.Totals.Generator.Invalid != "" {
		h.ahead = true
		if failed := precede(); failed != nil {
			h.miss(failed.Error())
		}
	}
	return s, stopped, err
}
