package main

import (
	"context"

	"plimsoll/internal/config"
)

type configCommand struct {
	Schema    configSchemaCommand `cmd:"" help:"Print the JSON Schema of the configuration, for editors."`
	Reference referenceCommand    `cmd:"" help:"Print the reference: every key, its effect, default and hazard."`
	Defaults  defaultsCommand     `cmd:"" help:"Print the value of every key that has a default, as YAML."`
}

type configSchemaCommand struct{}

// Help is shown by plimsoll config schema --help.
func (configSchemaCommand) Help() string {
	return `Examples:

    plimsoll config schema > plimsoll.schema.json
    # then write this as the first line of a configuration:
    # yaml-language-server: $schema=plimsoll.schema.json`
}

// Run prints the schema.
func (configSchemaCommand) Run(_ context.Context, c *console) error {
	return c.print(config.JSONSchema())
}

type referenceCommand struct{}

// Help is shown by plimsoll config reference --help.
func (referenceCommand) Help() string {
	return `Examples:

    plimsoll config reference | less`
}

// Run prints the reference.
func (referenceCommand) Run(_ context.Context, c *console) error {
	return c.print([]byte(config.Reference()))
}

type defaultsCommand struct{}

// Help is shown by plimsoll config defaults --help.
func (defaultsCommand) Help() string {
	return `Examples:

    plimsoll config defaults
    plimsoll config defaults | grep timeout`
}

// Run prints the defaults.
func (defaultsCommand) Run(_ context.Context, c *console) error {
	return c.print(config.Defaults())
}
