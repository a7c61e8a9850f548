package main

import (
	"context"
	"errors"

	"plimsoll/internal/lab/document"
	"plimsoll/internal/lab/harness"
	"plimsoll/internal/lab/text"
)

type modelCommand struct {
	Dir  string `arg:"" name:"run" help:"A run directory that survey or load --out has written."`
	JSON bool   `help:"Print the model as JSON."`
}

// Help is shown by plimsoll model --help.
func (modelCommand) Help() string {
	return `Computes from the steps of a run what happens at loads that were not tried. It measures
nothing, and prints:

  - how much of each resource a request takes, and the rate at which the resource is used up;
  - the universal scalability law, fitted to the steps;
  - what was predicted before the load line was found, and how accurate that was;
  - whether the laws of queueing hold in each step.

Exit codes: 0, there is a model; 1, the directory is not a run directory, is damaged, or is from a
newer plimsoll; 3, the run has no complete step.

Examples:

    plimsoll model plimsoll-runs/127.0.0.1-20260101-120000
    plimsoll model runs/today --json | jq .model.smallest_resource`
}

// Run makes the model again from the raw results.
func (k *modelCommand) Run(_ context.Context, c *console) error {
	run, err := openRun(c, k.Dir)
	if err != nil {
		return err
	}
	if len(run.Steps) == 0 {
		return withExit{
			exitUnexpected,
			errors.New(k.Dir + " has no whole step to make a model of: the run ended too early"),
		}
	}
	m := harness.Model(run)
	if k.JSON {
		return c.json(document.NewModel(k.Dir, &m))
	}
	return c.print([]byte(text.Model(&m)))
}
