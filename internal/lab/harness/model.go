package harness

import (
	"strconv"

	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
)

// Model recomputes the model of a run from its raw results, as the run did. Predictions are kept,
// because they were made before the rest was known.
func Model(run *record.Run) model.Model {
	m := model.Fit(run.Steps, modelOptions(&run.Manifest))
	if run.Result != nil {
		m.Predictions = run.Result.Model.Predictions
	}
	return m
}

// modelOptions are the options with which the run made its model, so that the result is the same.
func modelOptions(m *record.Manifest) model.Options {
	o := model.Options{Local: m.Machine.Shared()}
	if m.Machine.TargetLocal {
		o.Cores = m.Machine.Cores
	}
	var err error
	if o.Seed, err = strconv.ParseUint(m.Settings["seed"], 10, 64); err != nil {
		o.Seed = 1
	}
	return o
}
