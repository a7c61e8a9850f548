package harness

import (
	"cmp"
	"errors"
	"time"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/pace"
	"plimsoll/internal/lab/record"
)

// LoadRun is a finished load, to be recorded as a run of one step.
type LoadRun struct {
	// Dir is the run directory, new or empty.
	Dir string
	// Manifest describes the run and its start; Record fills in Kind and Machine.
	Manifest record.Manifest
	Target   *load.Target
	// Generators sent the load from other machines; nil if this process did.
	Generators  Generators
	Connections int
	// Arrivals is empty for a closed loop.
	Arrivals pace.Arrivals
	Seed     uint64
	Totals   *measure.Totals
	Windows  []measure.Window
	// Early says why the load ended before it was done; empty if it was done.
	Early string
}

// Record writes the run directory.
func (o *LoadRun) Record() error {
	near := Local(o.Target)
	shared := near
	if o.Generators != nil {
		shared = o.Generators.Near()
	}
	m := o.Manifest
	m.Kind, m.Machine = record.KindLoad, Machine(near, 0)
	m.Machine.Apart = near && !shared
	w, err := record.Create(o.Dir, m)
	if err != nil {
		return err
	}
	plan := measure.StepPlan{
		Number:      1,
		Phase:       measure.PhaseLoad,
		Arrivals:    string(o.Arrivals),
		Length:      o.Totals.Length,
		Connections: o.Connections,
		Why:         o.Early,
	}
	if o.Arrivals != "" {
		plan.Rate = o.Totals.Rate()
	}
	step := measure.Step{Plan: plan, Began: m.Started, Totals: *o.Totals, Windows: o.Windows}
	return errors.Join(w.Step(&step), w.Result(o.result(step, shared)), w.Close())
}

// result is the result of a run of one step. It has no line: only a survey finds one.
func (o *LoadRun) result(step measure.Step, shared bool) *record.Result {
	const why = "not measured: this was a load at given rates, not a survey"
	invalid := step.Totals.Generator.Invalid
	return &record.Result{
		Ended:    time.Now(),
		Early:    o.Early,
		Line:     record.Line{Why: why},
		Peak:     record.Collapse{Why: why},
		Collapse: record.Collapse{Why: why},
		Recovery: record.Recovery{Why: why},
		Model:    model.Fit([]measure.Step{step}, model.Options{Local: shared, Seed: o.Seed}),
		Validity: []record.Validity{{
			What: "the generator kept its schedule",
			OK:   invalid == "",
			Why:  cmp.Or(invalid, "it was not the limit"),
		}},
		NotMeasured: []string{
			"counters of the machine and the target: a survey reads them, a load does not",
		},
	}
}
