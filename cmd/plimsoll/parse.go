package main

import (
	"context"
	"errors"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// subcommand is what each of them is: a command line, read, that can be run.
type subcommand interface {
	Run(ctx context.Context, c *console) error
}

// grammar is what kong has to know to read args: the one subcommand that they begin with, or all. Kong
// makes a model of each flag when it begins, and searches its texts with a regular expression: for all
// subcommands that takes a quarter of the time in which the binary starts.
func grammar(all *commandLine, args []string) any {
	if len(args) == 0 {
		return all
	}
	for field, value := range reflect.ValueOf(all).Elem().Fields() {
		if args[0] == strings.ToLower(field.Name) {
			one := reflect.New(reflect.StructOf([]reflect.StructField{field}))
			one.Elem().Field(0).Set(value)
			return one.Interface()
		}
	}
	return all
}

// parse fills in the command line and returns the command that it names, or nil when help was asked
// for, which it has printed then.
//
// It takes the steps of kong's own Parse and Run without the hooks between them. Kong finds those
// by their names, and in a program that can reach a call of reflect's MethodByName the linker keeps
// every exported method of every type: a third of the binary.
func parse(parser *kong.Kong, args []string) (subcommand, error) {
	line, err := kong.Trace(parser, args)
	if err != nil {
		return nil, err
	}
	if line.Error != nil {
		return nil, usageError(line, line.Error)
	}
	for _, given := range line.Path {
		if given.Flag != nil && given.Flag == parser.Model.HelpFlag {
			return nil, line.PrintUsage(false)
		}
	}
	if err := line.Reset(); err != nil {
		return nil, usageError(line, err)
	}
	if _, err := line.Apply(); err != nil {
		return nil, usageError(line, err)
	}
	if err := line.Validate(); err != nil {
		return nil, usageError(line, err)
	}
	return line.Selected().Target.Addr().Interface().(subcommand), nil
}

// usageError adds where the right usage can be read.
func usageError(line *kong.Context, err error) error {
	name := "plimsoll"
	if node := line.Selected(); node != nil {
		name = node.FullPath()
	}
	// The parser lists "" among the choices of what may be left out, and calls values, and what it
	// found in their place, by its own names.
	said := strings.NewReplacer(`,"" but`, ` but`,
		"expected duration but", "expected a time such as 30s or 1m30s but",
		"expected duration value but", "expected a time such as 30s or 1m30s but",
		"expected string value but", "expected a value but",
		"expected float value but", "expected a number but",
		"expected int value but", "expected a whole number but",
		"expected uint value but", "expected a whole number from 0 on but",
		`"EOL" (<EOL>)`, "nothing", " (short flag)", "", " (long flag)", "",
	).Replace(err.Error())
	said, _, _ = strings.Cut(said, ": time: ")
	return withExit{
		exitUsage, errors.New(said + " (" + name + " --help says what can be given)"),
	}
}
