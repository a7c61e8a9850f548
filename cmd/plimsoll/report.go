package main

import (
	"context"
	"fmt"
	"path/filepath"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/record"
)

type reportCommand struct {
	Dir  string `arg:"" name:"run" help:"A run directory that survey or load --out has written."`
	File string `short:"o" name:"output" placeholder:"FILE" help:"Write the report to this file (report.html in the run directory)."`
}

// Help is shown by plimsoll report --help.
func (reportCommand) Help() string {
	return `Writes the report of a run again, from its raw results alone. The report is one
self-contained HTML file.

Exit codes: 0, the report was written; 1, the directory is not a run directory, is damaged, or is
from a newer plimsoll; 2, the file cannot be written.

Examples:

    plimsoll report plimsoll-runs/127.0.0.1-20260101-120000
    plimsoll report runs/today -o today.html`
}

// Run writes the report and prints where it is.
func (k *reportCommand) Run(_ context.Context, c *console) error {
	run, err := openRun(c, k.Dir)
	if err != nil {
		return err
	}
	path := k.File
	if path == "" {
		path = filepath.Join(k.Dir, "report.html")
	}
	if path, err = writeReport(run, diagnosisOf(run), path); err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, path)
	return err
}

// openRun reads a run directory, and says on standard error what is missing of it.
func openRun(c *console, dir string) (*record.Run, error) {
	run, err := record.Open(dir)
	if err != nil {
		return nil, withExit{exitUsage, err}
	}
	for _, note := range run.Notes {
		// it may name files that somebody else made
		fmt.Fprintf(c.err, "%s: %s\n", format.Clean(dir), format.Clean(note))
	}
	return run, nil
}
