//go:build !race

package main

import (
	"slices"
	"testing"

	"github.com/alecthomas/kong"
)

func TestEveryCommandCanBeRun(t *testing.T) {
	parser, err := kong.New(&commandLine{}, kong.PostBuild(fillHelp))
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
	whole, err := kong.New(&commandLine{}, kong.PostBuild(fillHelp))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range whole.Model.Children {
		one, err := kong.New(grammar(&commandLine{}, []string{c.Name, "--help"}), kong.PostBuild(fillHelp))
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

func TestSeveralMetricsPagesCanBeGiven(t *testing.T) {
	var c commandLine
	parser, err := kong.New(&c, kong.PostBuild(fillHelp))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"http://a/metrics?match[]=x,y", "http://b/debug/vars"}
	if _, err := parser.Parse([]string{
		"survey", "http://a/", "--slo", "p99<50ms", "--metrics", want[0], "--metrics", want[1],
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Survey.Metrics, want) {
		t.Errorf("%q", c.Survey.Metrics)
	}
}
