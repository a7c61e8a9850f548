package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"plimsoll/internal/lab/document"
	"plimsoll/internal/lab/experiment"
	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/harness"
	"plimsoll/internal/lab/text"
)

type experimentCommand struct {
	File   string `arg:"" optional:"" help:"The experiment file (YAML)."`
	Out    string `placeholder:"DIR" help:"Keep the raw results in this directory (plimsoll-runs/NAME-DATE-TIME)."`
	Again  string `placeholder:"DIR" help:"Measure nothing: evaluate the results in this directory again."`
	DryRun bool   `help:"Print what would be done and how long it would take."`
	Repeat int    `placeholder:"N" help:"The number of rounds, instead of the number in the file."`
	Loops  int    `short:"t" placeholder:"N" help:"The number of event loops for the load (half of the CPUs, because the service needs the others)."`
	Seed   uint64 `default:"1" placeholder:"N" help:"The seed: the same number gives the same order and random choices (${default})."`
	JSON   bool   `help:"Print the result as JSON."`
}

// Help is shown by plimsoll experiment --help.
func (experimentCommand) Help() string {
	return `Varies one thing about a service, such as a flag, an environment variable, a build or a
kernel setting, and says which measured differences are real. The service is restarted for each run.
Each round measures every value once, in shuffled order. A rank test within the rounds judges the
differences, corrected for multiple comparisons. docs/experiment.md explains the file and the table,
and examples/experiments has examples. Ctrl-C ends the experiment early and keeps what was measured
so far.

Exit codes: 0, it was completed, whatever differs; 1, the command line or the file is wrong; 2, it
could not start (the setup failed) or the results cannot be written; 3, it was stopped early, or a
value could not be measured.

Examples:

    plimsoll experiment examples/experiments/gogc.yaml --dry-run
    plimsoll experiment examples/experiments/gogc.yaml
    plimsoll experiment pool.yaml --repeat 20 --out results/pool --json
    plimsoll experiment --again results/pool`
}

// Run does the experiment, or reads one again, and prints what it has shown.
func (k *experimentCommand) Run(ctx context.Context, c *console) error {
	switch {
	case (k.File == "") == (k.Again == ""):
		return withExit{
			exitUsage,
			errors.New("name an experiment's file, or with --again the directory of " +
				"one that was done"),
		}
	case k.Repeat < 0 || k.Loops < 0:
		return withExit{exitUsage, errors.New("--repeat and --loops must be at least 1")}
	case k.Again != "":
		return k.again(c)
	}
	e, err := experiment.Read(k.File)
	if err != nil {
		return err
	}
	if k.Repeat > 0 {
		if err := e.SetRepeat(k.Repeat); err != nil {
			return withExit{exitUsage, fmt.Errorf("--repeat: %w", err)}
		}
	}
	if k.DryRun {
		return c.print([]byte(text.ExperimentPlan(e)))
	}
	if e.Isolated() && !experiment.Inside() {
		return isolated(ctx, c, e)
	}
	return k.do(ctx, c, e)
}

// again makes the table again from the raw results.
func (k *experimentCommand) again(c *console) error {
	r, err := experiment.Open(k.Again)
	if err != nil {
		return withExit{exitUsage, err}
	}
	return k.conclude(c, k.Again, &r.Manifest, r.Again())
}

// isolated runs this command again in a network namespace of its own, on the same terminal.
func isolated(ctx context.Context, c *console, e *experiment.Experiment) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's own file, to start it again: %w", err)
	}
	run := sameCommand(ctx, c, e, self)
	if err := experiment.Isolate(run); err != nil {
		return err
	}
	return howIsolated(run, run.Run())
}

// sameCommand is this command, to be started again.
func sameCommand(ctx context.Context, c *console, e *experiment.Experiment, self string) *exec.Cmd {
	run := exec.CommandContext(ctx, self, os.Args[1:]...)
	run.Stdout, run.Stderr = c.out, c.err
	// As for the parts of a demo: Ctrl-C reaches it once, from here.
	run.SysProcAttr = aside()
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGINT) }
	// When it is stopped its service has stop_within to end, and only then is the result written.
	run.WaitDelay = e.Grace + 30*time.Second
	return run
}

// howIsolated is what the end of a command in a network namespace of its own means. What it had to
// say it has printed.
func howIsolated(run *exec.Cmd, err error) error {
	ended, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil || run.ProcessState != nil && run.ProcessState.Success():
		return nil
	case ok && ended.ExitCode() > 0:
		return withExit{ended.ExitCode(), silent{err}}
	case run.Process == nil:
		return fmt.Errorf("a network namespace of its own, as kernel settings need, "+
			"cannot be made: %w: run it as root", err)
	}
	return withExit{
		exitUnexpected,
		fmt.Errorf("the experiment was ended from outside (%w): plimsoll experiment --again DIR "+
			"shows what it has measured until then", err),
	}
}

// do does the experiment.
func (k *experimentCommand) do(ctx context.Context, c *console, e *experiment.Experiment) error {
	connections, loops := 0, 1
	if e.Load != nil {
		connections = e.Load.Connections
		loops = harness.Loops(k.Loops, connections, true)
	}
	release, err := harness.Reserve(connections, loops)
	if err != nil {
		return err
	}
	defer release()
	dir := cmp.Or(k.Out, runDirectory(e.Name, time.Now()))
	if err := emptyDirectory("--out", dir); err != nil {
		return withExit{exitUsage, err}
	}
	p := c.progress()
	p.say(text.ExperimentBegins(e))
	o := experiment.Options{
		Dir:     dir,
		Seed:    k.Seed,
		Loops:   loops,
		Tool:    tool(),
		Command: withoutSecrets(os.Args),
		Tell:    func(event experiment.Event) { tellOfExperiment(p, event) },
	}
	result, err := e.Run(ctx, o)
	p.clear()
	if err != nil {
		return err
	}
	m := e.Manifest(o)
	return k.conclude(c, dir, &m, result)
}

// conclude prints what was found.
func (k *experimentCommand) conclude(
	c *console, dir string, m *experiment.Manifest, r *experiment.Result,
) error {
	var err error
	if k.JSON {
		err = c.json(document.NewExperiment(dir, m, r))
	} else {
		err = c.print([]byte(fmt.Sprintf("%s\nraw results  %s\n", text.Experiment(m, r), dir)))
	}
	if err != nil {
		return err
	}
	if r.Early != "" {
		return withExit{exitUnexpected, silent{errStopped}}
	}
	for _, v := range r.Values {
		if v.Runs == 0 {
			return withExit{exitUnexpected, silent{errors.New("a value could not be measured")}}
		}
	}
	return nil
}

// tellOfExperiment shows what an experiment does.
func tellOfExperiment(p *progress, e experiment.Event) {
	at := fmt.Sprintf("round %d of %d, %s", e.Round, e.Rounds, format.Clean(e.Value))
	switch {
	case e.Run != nil && e.Run.Failed != "":
		p.say(at + ": failed: " + text.Clip(e.Run.Failed, 200))
	case e.Run != nil && e.Run.Unused != "":
		p.say(at + ": not used: " + text.Clip(e.Run.Unused, 200))
	case e.Run != nil:
		if !p.terminal() {
			p.say(at + ": measured")
		}
	case e.Round == 0:
		p.show("setting up " + format.Clean(e.Value))
	default:
		p.show(fmt.Sprintf("%s: %s, %s left",
			at, e.Doing, format.Duration(float64(e.Left.Round(time.Second)))))
	}
}
