package main

import (
	"context"
	"errors"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/document"
	"plimsoll/internal/lab/text"
)

type diagnoseCommand struct {
	Dir   string `arg:"" optional:"" name:"run" help:"A run directory that survey has written."`
	Rules bool   `help:"List the rules, with their thresholds and reasons. This needs no run."`
	JSON  bool   `help:"Print the diagnosis as JSON."`
}

// Help is shown by plimsoll diagnose --help.
func (diagnoseCommand) Help() string {
	return `Names the bottleneck at the load line (the highest rate that still meets the
objectives), and says what is wrong with the service. Each finding has the evidence for and against
it, the place in the code, what to do, the expected gain, and how to verify it. It measures nothing:
everything comes from the run directory. A healthy service has no findings.

The more data the survey has collected, the more the diagnosis can say. For a Go service, survey it
with --pprof and --metrics. Add --pid if survey does not find the target's process by its port.

Exit codes: 0, it diagnosed the run, whatever it found; 1, the directory is not a run directory, is
damaged, or is from a newer plimsoll; 3, the run is not a survey, or has no usable step.

Examples:

    plimsoll survey http://127.0.0.1:8080/ --slo 'p99<50ms' --pprof http://127.0.0.1:6060 --metrics http://127.0.0.1:6060/metrics --out run
    plimsoll diagnose run
    plimsoll diagnose run --json | jq '.diagnosis.findings[].claim'
    plimsoll diagnose --rules`
}

// Run diagnoses.
func (k *diagnoseCommand) Run(_ context.Context, c *console) error {
	if k.Rules {
		return c.print([]byte(text.Rules(diagnose.Rules())))
	}
	if k.Dir == "" {
		return withExit{
			exitUsage,
			errors.New("name a run directory, as survey --out writes it, or ask for --rules"),
		}
	}
	run, err := openRun(c, k.Dir)
	if err != nil {
		return err
	}
	if err := diagnose.Possible(run); err != nil {
		return withExit{exitUnexpected, err}
	}
	d := diagnose.Run(run)
	if k.JSON {
		return c.json(document.NewDiagnose(k.Dir, d))
	}
	return c.print([]byte(text.Diagnosis(d)))
}
