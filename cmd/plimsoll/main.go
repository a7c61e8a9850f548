// Command plimsoll is an API gateway that knows how much load it, and the services behind it, can
// carry.
//
// This package is the command line and nothing else. Each subcommand has a file of its own. It
// turns flags into a call of the package that does the work, and the result into text. What several
// subcommands need is in separate files. The package must know nothing of sockets, loops or
// protocols.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

const about = `An API gateway that knows its load line.

Exit codes: 0, it worked; 1, the command line or a configuration is wrong; 2, it could not start or
continue (a port is taken, nothing listens, a file cannot be read); 3, the result is not the one
that was asked for (the help of each command says what that means).

Examples:

    plimsoll demo                       # try the gateway in front of a small shop
    plimsoll check plimsoll.yaml        # is this configuration valid?
    plimsoll serve -c plimsoll.yaml     # run the gateway with it
    plimsoll load http://127.0.0.1:8080/ --rate 1000
    plimsoll survey http://127.0.0.1:8080/ --slo 'p99<50ms,errors<0.1%'   # how much can it carry?`

// commandLine is what can be typed. Each field's type has a file of its own.
type commandLine struct {
	Serve      serveCommand      `cmd:"" help:"Run the gateway."`
	Check      checkCommand      `cmd:"" help:"Check a configuration and report every error in it."`
	Config     configCommand     `cmd:"" help:"Print the JSON Schema, the reference or the defaults of the configuration."`
	Top        topCommand        `cmd:"" help:"Show what a running gateway is doing: rates, headroom, breakers and limits."`
	Demo       demoCommand       `cmd:"" help:"Run the gateway in front of a small shop, to try it."`
	Load       loadCommand       `cmd:"" help:"Send load to an HTTP service and measure the answers."`
	Replay     replayCommand     `cmd:"" help:"Send the requests of an access log again, with the same timing."`
	Survey     surveyCommand     `cmd:"" help:"Find the load line of an HTTP service: the highest rate that still meets the objectives."`
	Model      modelCommand      `cmd:"" help:"Predict from a run what happens at loads that were not tried."`
	Report     reportCommand     `cmd:"" help:"Write the report of a run."`
	Diagnose   diagnoseCommand   `cmd:"" help:"Find the bottleneck at the load line, and what is wrong with the service."`
	Profile    profileCommand    `cmd:"" help:"Read a CPU profile of a program in any language."`
	Experiment experimentCommand `cmd:"" help:"Compare the values of one variable, and say which differences are real."`
	Doctor     doctorCommand     `cmd:"" help:"Check the settings of this machine and of a process, and give advice. It changes nothing."`
	Plan       planCommand       `cmd:"" help:"Compute instances, autoscaling and memory for production from a load line."`
	Compare    compareCommand    `cmd:"" help:"Compare two runs, and say which differences are real."`
	Schema     schemaCommand     `cmd:"" help:"Print the JSON Schema of a command's --json output, or of a file in a run directory."`
	Generator  generatorCommand  `cmd:"" hidden:"" help:"Send load for a plimsoll on another machine."`
	Version    versionCommand    `cmd:"" help:"Print the version."`
}

func main() {
	os.Exit(run(os.Args[1:], newConsole(os.Stdout, os.Stderr), runGateway))
}

// run is the whole program: it reads the arguments, runs the command they name and returns the exit
// code.
func run(args []string, c *console, gateway gatewayRunner) int {
	all := &commandLine{Serve: serveCommand{gateway: gateway}, Demo: demoCommand{gateway: gateway}}
	parser, err := kong.New(
		grammar(all, args),
		kong.Name("plimsoll"),
		kong.Description(about),
		kong.Writers(c.out, c.err),
		kong.PostBuild(fillHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
	)
	if err != nil {
		return c.fail(err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	chosen, err := parse(parser, args)
	if err != nil || chosen == nil {
		return c.fail(err)
	}
	ctx, stop := untilStopped()
	defer stop()
	return c.fail(chosen.Run(ctx, c))
}

// untilStopped is a context that ends at the first SIGINT or SIGTERM. The next one then has its
// usual effect, so that a person who does not want to wait for the drain can end the process at
// once.
func untilStopped() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
