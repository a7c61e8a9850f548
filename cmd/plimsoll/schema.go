package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"plimsoll/internal/lab/document"
	"plimsoll/internal/lab/format"
	"plimsoll/internal/top"
)

type schemaCommand struct {
	Name string `arg:"" optional:"" help:"A command that has --json, or a file in a run directory. Without a name, all names are listed."`
}

// Help is shown by plimsoll schema --help.
func (schemaCommand) Help() string {
	return `docs/json.md explains the documents. For the schema of the configuration, use plimsoll
config schema.

Examples:

    plimsoll schema
    plimsoll schema load > load.schema.json
    plimsoll schema steps.jsonl | jq '.properties.totals.required'`
}

// Run prints a schema.
func (k *schemaCommand) Run(_ context.Context, c *console) error {
	if k.Name == "" {
		return c.print([]byte(strings.Join(schemas(), "\n") + "\n"))
	}
	if k.Name == top.Command {
		return c.print(document.SchemaOf(top.Command, reflect.TypeFor[top.Document]()))
	}
	text, ok := document.Schema(k.Name)
	if !ok {
		return withExit{exitUsage, errors.New(noSchema(k.Name))}
	}
	return c.print(text)
}

func noSchema(name string) string {
	return fmt.Sprintf("there is no schema of %q: there is one of each of %s",
		format.Clean(name), strings.Join(schemas(), ", "))
}

// schemas are the names of what has a schema: the lab's documents, and what top prints.
func schemas() []string {
	names := append(document.Names(), top.Command)
	slices.Sort(names)
	return names
}
