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

func TestOfANamedSubcommandOnlyItsOwnGrammarIsBuilt(t *testing.T) {
	whole, err := kong.New(&commandLine{}, longHelp)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range whole.Model.Children {
		one, err := kong.New(grammar(&commandLine{}, []string{c.Name, "--help"}), longHelp)
		if err != nil || len(one.Model.Children) != 1 || one.Model.Children[0].Name != c.Name {
			t.Errorf("%s: %v, %d subcommands", c.Name, err, len(one.Model.Children))
		}
	}
	for _, args := range [][]string{nil, {"--help"}, {"nothing"}} {
		if all := new(commandLine); grammar(all, args) != all {
			t.Errorf("%q leaves subcommands out", args)
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
