package main

import (
	"errors"
	"fmt"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/text"
)

type diagnoseCommand struct {
	Dir   string `arg:"" optional:"" name:"run" help:"A run directory, as survey --out writes it."`
	Rules bool   `help:"List what is looked for, with thresholds and their reasons, and look at no run."`
	JSON  bool   `help:"Print the diagnosis as JSON."`
}

// Help is shown by plimsoll diagnose --help.
func (diagnoseCommand) Help() string {
	return `Says what gives first at the load line, and what is sick: each finding with its evidence, what was looked at that
could speak against it, where in the code it is, what to do, what that should gain, and how to see whether it did. It
measures nothing: everything comes from the run directory. A healthy service has no findings.

The more the survey could see, the more can be said: --pprof and --metrics for a Go service, --pid where the target's
process is not found by its port.

Exit codes: 0, whatever is found; 1, the run directory is none, is damaged, or is of a newer plimsoll; 3, it is no survey's,
or has no step that says anything.

Examples:

    plimsoll survey http://127.0.0.1:8080/ --slo 'p99<50ms' --pprof http://127.0.0.1:6060 --metrics http://127.0.0.1:6060/metrics --out run
    plimsoll diagnose run
    plimsoll diagnose run --json | jq '.Diagnosis.Findings[].Claim'
    plimsoll diagnose --rules`
}

// Run diagnoses.
func (k *diagnoseCommand) Run(c *console) error {
	if k.Rules {
		return c.print([]byte(text.Rules(diagnose.Rules())))
	}
	if k.Dir == "" {
		return withExit{exitUsage, errors.New("name a run directory, as survey --out writes it, or ask for --rules")}
	}
	run, err := openRun(c, k.Dir)
	if err != nil {
		return err
	}
	if run.Manifest.Kind != record.KindSurvey {
		return withExit{exitUnexpected, fmt.Errorf("%s is a run of plimsoll %s: what gives first is only seen by plimsoll survey", k.Dir, format.Clean(run.Manifest.Kind))}
	}
	if len(run.Steps) == 0 {
		return withExit{exitUnexpected, errors.New(k.Dir + " has no whole step to look at: the run ended too early")}
	}
	d := diagnose.Run(run)
	if k.JSON {
		return c.json(struct {
			Command, Directory string
			Diagnosis          *diagnose.Diagnosis
		}{"diagnose", k.Dir, withoutFlames(d)})
	}
	return c.print([]byte(text.Diagnosis(d)))
}
