package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/remote"
)

// generatorCommand is what a copy of this program does on a generator's machine. Nobody types it.
type generatorCommand struct{}

// Run does loads for the fleet that speaks on standard input, until that ends.
func (generatorCommand) Run(ctx context.Context, _ *console) error {
	sum, err := remote.Sum()
	if err != nil {
		return err
	}
	return remote.Serve(ctx, os.Stdin, os.Stdout, sum)
}

// generatorFlags are where a load comes from.
type generatorFlags struct {
	Generator []string `sep:"none" placeholder:"USER@HOST[:PORT]" help:"${generator}"`
}

// checkGenerators refuses addresses that ssh cannot reach, before anything is touched.
func (k *generatorFlags) checkGenerators() error {
	seen := map[string]bool{}
	for _, g := range k.Generator {
		if err := remote.CheckAddress(g); err != nil {
			return fmt.Errorf("--generator: %w", err)
		}
		if seen[g] {
			return fmt.Errorf("--generator: %s is given twice: a generator has all loops that its "+
				"machine can run, so name each machine once, and give it more with --loops", g)
		}
		seen[g] = true
	}
	return nil
}

// far says that the load comes from other machines.
func (k *generatorFlags) far() bool { return len(k.Generator) > 0 }

// names are the generators, for a run's settings.
func (k *generatorFlags) names() string {
	if !k.far() {
		return "this machine"
	}
	return strings.Join(k.Generator, ", ")
}

// open starts the generators and tells them the work, whose script this machine has read as given.
func (k *generatorFlags) open(
	ctx context.Context, c *console, work *remote.Work, script load.Script, loops int,
) (*remote.Fleet, error) {
	if err := work.ReadTLS(); err != nil {
		return nil, withExit{exitUsage, err}
	}
	p := c.progress()
	p.show("starting " + many(len(k.Generator), "generator"))
	defer p.clear()
	fleet, err := remote.Open(ctx, remote.Options{
		Generators: k.Generator,
		Work:       work,
		Script:     script,
		Loops:      loops,
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, stoppedEarly(ctx, errors.Join(context.Canceled, err))
		}
		return nil, err
	}
	return fleet, nil
}

// work is what generators are told of a target and of the one request that is sent, where no scenario
// takes its place.
func (k *connectionFlags) work(
	ctx context.Context, url string, http3 bool, r *requestFlags, t load.Target,
) (*remote.Work, error) {
	method, request, err := r.prepare(ctx, t)
	if err != nil {
		return nil, err
	}
	return &remote.Work{
		URL:   url,
		TLS:   k.options(),
		HTTP3: http3,
		Request: &remote.Request{
			Name:  method + " " + t.Path,
			Bytes: request,
			Head:  method == "HEAD",
		},
	}, nil
}
