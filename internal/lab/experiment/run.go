package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"plimsoll/internal/lab/disk"
	"plimsoll/internal/lab/probe"
)

// Options say how an experiment is done.
type Options struct {
	// Dir is the directory to write. It is created, and must be empty if it exists.
	Dir string
	// Seed makes the order of the values and the load's random choices repeatable.
	Seed uint64
	// Loops is the number of the generator's event loops; 0 for one.
	Loops int
	// Tell is called for each event, on one goroutine at a time. It may be nil.
	Tell func(e Event)
	// Tool and Command are for the manifest.
	Tool    string
	Command []string
}

// Event is what an experiment is doing.
type Event struct {
	// Round, Turn and Value of the run; Round is 0 during the setup.
	Round, Rounds, Turn, Turns int
	Value                      string
	// Doing is "setting up", "starting", "warming up", "measuring", "stopping" or "cooling down".
	Doing string
	// Run is the run that has just ended; nil at other times.
	Run *Run
	// Left is the approximate remaining time.
	Left time.Duration
}

// givenUp is the number of consecutive failures after which a value is not tried again: each may
// take as long as the service may take to become ready.
const givenUp = 2

// Run does an experiment: its setup, then its rounds. It returns the result, even if ctx ends
// before it is done; then Result.Early is set. If the service fails with a value, the value is
// marked so and the others continue. An error means that nothing was measured, or that it could not
// be written.
func (e *Experiment) Run(ctx context.Context, o Options) (*Result, error) {
	if e.Isolated() {
		if err := insideNamespace(); err != nil {
			return nil, err
		}
	}
	work, err := os.MkdirTemp("", "plimsoll-experiment-*")
	if err != nil {
		return nil, fmt.Errorf("a folder to work in cannot be made: %w", disk.Cause(err))
	}
	defer os.RemoveAll(work)
	d := &doing{
		experiment: e,
		options:    o,
		work:       work,
		record:     Record{Manifest: e.Manifest(o)},
		failures:   make([]int, len(e.Values)),
		done:       make([]int, len(e.Values)),
	}
	// Before creating the directory, so that the same command can be repeated after a failed setup.
	err = d.setUp(ctx)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	if d.writer, err = create(o.Dir, &d.record.Manifest); err != nil {
		return nil, err
	}
	if ctx.Err() == nil {
		err = d.rounds(ctx)
	}
	return d.conclude(ctx, err)
}

// conclude makes the result and writes it. err is why the rounds ended early, unless ctx ended.
func (d *doing) conclude(ctx context.Context, err error) (*Result, error) {
	early := ""
	switch {
	case ctx.Err() != nil:
		early, err = "it was stopped", nil
	case err != nil:
		early = "a run could not be written"
	}
	result := Analyse(&d.record, early)
	if err == nil || len(d.record.Runs) > 0 {
		err = cmp.Or(err, d.writer.replace(resultFile, result))
	}
	if err = cmp.Or(err, d.writer.close()); err != nil {
		return nil, err
	}
	return result, nil
}

// Again analyses the raw results of a directory again.
func (r *Record) Again() *Result { return Analyse(r, r.Early) }

// Manifest is the plan in the form in which it is written.
func (e *Experiment) Manifest(o Options) Manifest {
	return Manifest{
		SchemaVersion: SchemaVersion,
		Tool:          o.Tool,
		Command:       o.Command,
		Started:       time.Now(),
		Name:          e.Name,
		Question:      e.Question,
		Variable:      e.Variable,
		Values:        e.Values,
		Pairing:       e.Pairing,
		Figures:       e.Figures,
		Repeat:        e.Repeat,
		Alpha:         e.Alpha,
		Relevant:      e.Relevant,
		Seed:          o.Seed,
		Machine:       probe.Machine(),
		File:          e.source,
	}
}

// doing is the state of a running experiment.
type doing struct {
	experiment *Experiment
	options    Options
	work       string
	writer     *writer
	record     Record
	failures   []int // consecutive failures of each value
	done       []int // runs of each value
	spent      time.Duration
}

// setUp runs the setup's commands: each once, or once for each value if it differs between them.
func (d *doing) setUp(ctx context.Context) error {
	for _, command := range d.experiment.setup {
		values := d.experiment.Values
		if !varies(command) {
			values = values[:1]
		}
		for _, v := range values {
			d.tell(Event{Doing: "setting up", Value: v.Name})
			err := finish(ctx, fillAll(command, d.variables(v)), d.experiment.dir,
				nil, setupTime, nil)
			if err != nil {
				if output := outputOf(err); output != "" {
					err = fmt.Errorf("%w: %s", err, output)
				}
				return fmt.Errorf("setup: %w", err)
			}
		}
	}
	return nil
}

// variables are the variables of a value known before a run. The value's text may itself contain
// the work folder.
func (d *doing) variables(v Value) map[string]string {
	return map[string]string{
		varWork:  d.work,
		varName:  v.Name,
		varValue: fill(v.Value, map[string]string{varWork: d.work}),
	}
}

// rounds does the rounds. Each has its own order of the values, so that no value always follows the
// same other one.
func (d *doing) rounds(ctx context.Context) error {
	e := d.experiment
	for round := 1; round <= e.Repeat; round++ {
		order := rand.New(rand.NewPCG(d.options.Seed, uint64(round))).Perm(len(e.Values))
		for turn, i := range order {
			if d.failures[i] >= givenUp {
				continue
			}
			began := time.Now()
			o := &one{
				doing: d,
				value: e.Values[i],
				run:   Run{Round: round, Turn: turn + 1, Value: e.Values[i].Name, Began: began},
			}
			o.do(ctx)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if d.failures[i]++; o.run.Failed == "" {
				d.failures[i] = 0
			}
			if err := d.writer.run(&o.run); err != nil {
				return err
			}
			// Data that is written and not analysed is not kept: histograms of ten thousand runs
			// are gigabytes.
			o.run.Totals, o.run.Before, o.run.After = nil, nil, nil
			d.record.Runs = append(d.record.Runs, o.run)
			d.tell(Event{Round: round, Turn: turn + 1, Value: o.run.Value, Run: &o.run})
			d.tell(Event{Round: round, Turn: turn + 1, Value: o.run.Value, Doing: "cooling down"})
			if err := pause(ctx, e.Cool); err != nil {
				return err
			}
			d.done[i]++
			d.spent += time.Since(began)
		}
		if d.allFailed() {
			return nil
		}
	}
	return nil
}

// allFailed reports whether no value is left to try.
func (d *doing) allFailed() bool {
	for _, n := range d.failures {
		if n < givenUp {
			return false
		}
	}
	return true
}

// tell reports an event, with an estimate of the remaining time.
func (d *doing) tell(event Event) {
	if d.options.Tell == nil {
		return
	}
	e := d.experiment
	event.Rounds, event.Turns = e.Repeat, len(e.Values)
	left, done := 0, 0
	for i, n := range d.done {
		done += n
		if d.failures[i] < givenUp {
			left += e.Repeat - n
		}
	}
	each := e.Time() / time.Duration(e.Runs())
	if done > 0 {
		each = d.spent / time.Duration(done)
	}
	event.Left = time.Duration(left) * each
	d.options.Tell(event)
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writeConfig writes a value's configuration files. They must be in the experiment's own folder.
func (d *doing) writeConfig(files []setting, variables map[string]string) error {
	for _, s := range files {
		path := fill(s.name, variables)
		if inside, err := filepath.Rel(d.work, path); err != nil || !filepath.IsLocal(inside) {
			return errors.New("the configuration's file would lie outside of ${work}")
		}
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(fill(s.text, variables)), 0o644)
		}
		if err != nil {
			return fmt.Errorf("the configuration %s cannot be written: %w",
				filepath.Base(path), disk.Cause(err))
		}
	}
	return nil
}
