package main

import (
	"context"
	"errors"
	"fmt"

	"plimsoll/internal/config"
	"plimsoll/internal/gateway"
)

type checkCommand struct {
	File string `arg:"" help:"The configuration file (YAML)."`
	JSON bool   `help:"Print the result as JSON."`
}

// Help is shown by plimsoll check --help.
func (checkCommand) Help() string {
	return `Reads a configuration as serve does, and opens no ports. It prints every error with its
line and column on standard error, or a one-line summary if there are none. With --json, it prints
the result on standard output: {"schema_version", "file", "ok", "errors": [{"line", "column",
"path", "problem"}]}.

Exit codes: 0, the configuration is valid; 1, it is not.

Examples:

    plimsoll check plimsoll.yaml
    plimsoll check --json plimsoll.yaml | jq -r .errors[].problem`
}

// outcome is what check --json prints.
type outcome struct {
	SchemaVersion int       `json:"schema_version"`
	File          string    `json:"file"`
	OK            bool      `json:"ok"`
	Errors        []mistake `json:"errors"`
}

type mistake struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path,omitempty"`
	Problem string `json:"problem"`
}

// Run checks the file.
func (k *checkCommand) Run(_ context.Context, c *console) error {
	loaded, err := gateway.Check(k.File)
	if k.JSON {
		return k.printJSON(c, err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "%s is valid: %s, %s, %s\n",
		k.File, many(len(loaded.Listeners), "listener"),
		many(len(loaded.Upstreams), "upstream"), many(len(loaded.Routes), "route"))
	return err
}

func (k *checkCommand) printJSON(c *console, err error) error {
	o := outcome{SchemaVersion: 1, File: k.File, OK: err == nil, Errors: []mistake{}}
	wrong, ok := errors.AsType[config.Errors](err)
	if err != nil && !ok {
		return err
	}
	for _, e := range wrong {
		o.Errors = append(o.Errors, mistake{e.Line, e.Column, e.Path, e.Problem})
	}
	if err := c.json(o); err != nil {
		return err
	}
	if !o.OK {
		return withExit{exitUsage, silent{err}}
	}
	return nil
}

// many is "1 route" or "2 routes".
func many(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
