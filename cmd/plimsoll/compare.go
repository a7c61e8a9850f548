package main

import (
	"bytes"
	"context"
	"fmt"

	"plimsoll/internal/lab/document"
	"plimsoll/internal/lab/report"
	"plimsoll/internal/lab/text"
)

type compareCommand struct {
	A    string `arg:"" help:"The run directory of the baseline."`
	B    string `arg:"" help:"The run directory to compare with the baseline."`
	File string `short:"o" name:"output" default:"compare.html" placeholder:"FILE" help:"Write the comparison to this file (${default})."`
	JSON bool   `help:"Print the differences as JSON."`
}

// Help is shown by plimsoll compare --help.
func (compareCommand) Help() string {
	return `Compares two runs. It prints the settings that differ and the change of each result, and
says whether a change is real or within the noise of repeated runs. It also writes all of this as
one self-contained HTML file.

Exit codes: 0, the comparison was written, whatever differs; 1, a directory is not a run directory,
is damaged, or is from a newer plimsoll; 2, the file cannot be written.

Examples:

    plimsoll compare runs/before runs/after
    plimsoll compare runs/before runs/after -o change.html --json`
}

// Run compares.
func (k *compareCommand) Run(_ context.Context, c *console) error {
	a, err := openRun(c, k.A)
	if err != nil {
		return err
	}
	b, err := openRun(c, k.B)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := report.Compare(&page, a, b); err != nil {
		return fmt.Errorf("the comparison of %s and %s: %w", k.A, k.B, err)
	}
	if err := writeFile(k.File, page.Bytes()); err != nil {
		return err
	}
	differences := report.Differences(a, b)
	if k.JSON {
		return c.json(document.NewCompare(k.A, k.B, k.File, differences))
	}
	return c.print([]byte(fmt.Sprintf("%s\nreport  %s\n", text.Comparison(differences), k.File)))
}
