package main

import (
	"errors"
	"testing"

	"github.com/alecthomas/kong"
)

func TestEveryCommandCanBeRun(t *testing.T) {
	parser, err := kong.New(&commandLine{}, longHelp)
	if err != nil {
		t.Fatal(err)
	}
	leaves := parser.Model.Leaves(false)
	if len(leaves) < 20 {
		t.Errorf("only %d commands", len(leaves))
	}
	for _, leaf := range leaves {
		if _, ok := leaf.Target.Addr().Interface().(subcommand); !ok {
			t.Errorf("%s is not a subcommand", leaf.FullPath())
		}
	}
}

func TestHelpPrintsAndRunsNothing(t *testing.T) {
	for _, args := range [][]string{
		{"serve", "--help"}, {"serve", "-h"}, {"serve", "-c", "some.yaml", "--help"},
	} {
		code, out, errs := command(failing(errors.New("it ran")), args...)
		if code != 0 || errs != "" || out == "" {
			t.Errorf("%q: exit %d, %d bytes of help, %q", args, code, len(out), errs)
		}
	}
}
