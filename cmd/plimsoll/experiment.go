package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"plimsoll/internal/lab/document"
	"plimsoll/internal/lab/experiment"
	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/harness"
	"plimsoll/internal/lab/text"
)

type experimentCommand struct {
	File   string `arg:"" optional:"" help:"The experiment, a YAML file."`
	Out    string `placeholder:"DIR" help:"Keep the raw results in this directory (plimsoll-runs/NAME-DATE-TIME)."`
	Again  string `placeholder:"DIR" help:"Measure nothing: evaluate the results in this directory again."`
	DryRun bool   `help:"Print what would be done, and how long it takes."`
	Repeat int    `placeholder:"N" help:"The number of rounds, instead of the file's."`
	Loops  int    `short:"t" placeholder:"N" help:"The number of event loops for the load (half of the CPUs: the service needs the others)."`
	Seed   uint64 `default:"1" placeholder:"N" help:"Repeat the same order and random choices for the same number (${default})."`
	JSON   bool   `help:"Print what was found as JSON."`
}

// Help is shown by plimsoll experiment --help.
func (experimentCommand) Help() string {
	return `Varies one thing of a service, such as a flag, an environment variable, a build or a
kernel setting, and says which measured differences are real. The service is restarted for each run;
the values take turns, in shuffled order, round after round; differences are judged by a rank test
within the rounds, corrected for multiple comparisons. docs/experiment.md explains the file and the
table, and examples/experiments has examples. Ctrl-C ends it early and keeps what was measured until
then.

Exit codes: 0, it was done, whatever differs; 1, the command line or the file is wrong; 2, it could
not start (the setup failed) or the results cannot be written; 3, it was stopped early, or a value
could not be measured.

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
		return withExit{exitUsage, errors.New("--repeat and --loops are at least 1")}
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
		return c.print([]byte(planOfExperiment(e)))
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
	p.say(beginning(e))
	result, err := e.Run(ctx, experiment.Options{
		Dir:     dir,
		Seed:    k.Seed,
		Loops:   loops,
		Tool:    tool(),
		Command: withoutSecrets(os.Args),
		Tell:    func(event experiment.Event) { tellOfExperiment(p, event) },
	})
	p.clear()
	if err != nil {
		return err
	}
	return k.conclude(c, dir, &experiment.Manifest{
		Name:     e.Name,
		Question: e.Question,
		Variable: e.Variable,
		Values:   e.Values,
		Pairing:  e.Pairing,
	}, result)
}

// conclude prints what was found.
func (k *experimentCommand) conclude(
	c *console, dir string, m *experiment.Manifest, r *experiment.Result,
) error {
	var err error
	if k.JSON {
		err = c.json(document.NewExperiment(dir, m, r))
	} else {
		err = c.print([]byte(fmt.Sprintf("%s\nraw results  %s\n", experimentTable(m, r), dir)))
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

// beginning is what an experiment says before it begins: how long it takes, and whether it can show
// anything.
func beginning(e *experiment.Experiment) string {
	line := fmt.Sprintf("%s: %s in %s, about %s",
		format.Clean(e.Name), many(len(e.Values), "value"), many(e.Repeat, "round"),
		format.Duration(float64(e.Time())))
	if e.Repeat < e.Needed() {
		line += fmt.Sprintf("\nWith %s no difference can be called real: "+
			"%d are needed for %s (--repeat %d).", many(e.Repeat, "round"), e.Needed(),
			many(e.Tests(), "comparison"), e.Needed())
	}
	return line
}

// planOfExperiment is what --dry-run prints.
func planOfExperiment(e *experiment.Experiment) string {
	var b strings.Builder
	b.WriteString(beginning(e) + "\n\n")
	values := text.Table{Left: []int{1, 2}}
	values.Row(text.Clip(e.Variable, 30), "starts", "with")
	for i, v := range e.Values {
		name := format.Clean(v.Name)
		if i == e.Baseline && e.HasBaseline() {
			name += " (baseline)"
		}
		values.Row(name, text.Clip(e.Start(v), 80), text.Clip(strings.Join(e.Settings(v), " "), 60))
	}
	b.WriteString(values.String() + "\n")
	names := make([]string, len(e.Figures))
	for i, f := range e.Figures {
		names[i] = format.Clean(f.Name)
	}
	fmt.Fprintf(&b, "measured   %s\n", strings.Join(names, ", "))
	if l := e.Load; l != nil {
		rate := "a closed loop"
		if l.Rate > 0 {
			rate = format.Rate(l.Rate) + ", " + l.Arrivals + " arrivals"
		}
		fmt.Fprintf(&b, "load       %s over %s for %v, after %v to warm up: %s\n",
			rate, many(l.Connections, "connection"), l.Duration, l.Warmup,
			text.Clip(l.URL, 80))
	}
	fmt.Fprintf(&b, "judged     %s together, alpha %g; what is under %s does not matter\n",
		many(e.Tests(), "comparison"), e.Alpha, format.Percent(e.Relevant))
	if e.Isolated() {
		b.WriteString("where      in a network namespace of its own, " +
			"where the kernel settings are changed\n")
	}
	return b.String()
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

// experimentTable is what was found, for a person.
func experimentTable(m *experiment.Manifest, r *experiment.Result) string {
	var b strings.Builder
	b.WriteString(format.Clean(m.Name))
	if m.Question != "" {
		b.WriteString(": " + format.Clean(m.Question))
	}
	fmt.Fprintf(&b, "\n%d of %s, %s judged together: ",
		r.Rounds, many(r.Repeat, "round"), many(r.Tests, "comparison"))
	if r.Real == 0 {
		b.WriteString("no difference is real\n\n")
	} else {
		b.WriteString(many(r.Real, "difference") + " real\n\n")
	}
	for i := range r.Figures {
		b.WriteString(figureTable(m, &r.Figures[i]) + "\n")
	}
	for _, v := range r.Values {
		if v.Failures+v.Unused == 0 {
			continue
		}
		how := many(v.Runs, "run") + " measured"
		if v.Failures > 0 {
			how = many(v.Failures, "run") + " failed, " + how
		}
		if v.Unused > 0 {
			how = many(v.Unused, "run") + " not used, " + how
		}
		fmt.Fprintf(&b, "%s: %s; the last: %s\n", format.Clean(v.Name), how, format.Clean(v.Why))
		for line := range strings.Lines(v.Output) {
			fmt.Fprintf(&b, "    | %s\n", text.Clip(strings.TrimRight(line, "\r\n"), 120))
		}
	}
	if r.Early != "" {
		fmt.Fprintf(&b, "Ended early: %s.\n", format.Clean(r.Early))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "Note: %s.\n", format.Clean(n))
	}
	return b.String()
}

// figureTable is one figure: a line for each value, and under them, where each is compared with
// each, a line for each pair.
func figureTable(m *experiment.Manifest, f *experiment.FigureResult) string {
	t := text.Table{Left: []int{4}}
	head := "difference"
	switch {
	case m.HasBaseline():
		head = "against " + text.Clip(m.Values[m.Baseline].Name, 24)
	case m.Previous:
		head = "against the one before"
	}
	t.Row(text.Clip(f.Name, 60), "median", "95 %", head, "")
	for i, v := range m.Values {
		median, interval := "-", ""
		if e := f.Medians[i]; e != nil {
			median = inUnit(e.Median, f.Unit)
			interval = inUnit(e.Low, f.Unit) + " to " + inUnit(e.High, f.Unit)
		}
		difference, says := "", ""
		if !m.AllPairs {
			for _, c := range f.Comparisons {
				if c.Value == v.Name {
					difference, says = shiftOf(f, &c), verdictOf(&c)
				}
			}
		}
		t.Row("  "+format.Clean(v.Name), median, interval, difference, says)
	}
	if m.AllPairs {
		for _, c := range f.Comparisons {
			t.Row("  "+format.Clean(c.Value)+" against "+format.Clean(c.Than), "", "",
				shiftOf(f, &c), verdictOf(&c))
		}
	}
	return t.String()
}

// shiftOf is a difference with its interval.
func shiftOf(f *experiment.FigureResult, c *experiment.Comparison) string {
	if c.Share {
		return fmt.Sprintf("%+.1f %% (%+.1f to %+.1f)", 100*c.Shift, 100*c.Low, 100*c.High)
	}
	return fmt.Sprintf("%s (%s to %s)",
		inUnit(c.Shift, f.Unit), inUnit(c.Low, f.Unit), inUnit(c.High, f.Unit))
}

// verdictOf is a verdict, and whether it is good news.
func verdictOf(c *experiment.Comparison) string {
	says := format.Clean(c.Says)
	if c.Better != nil && *c.Better {
		return says + " (better)"
	}
	if c.Better != nil {
		return says + " (worse)"
	}
	return says
}

// inUnit is a figure's value.
func inUnit(v float64, unit string) string {
	switch unit {
	case "share":
		return format.Percent(v)
	case "B":
		return format.Bytes(v)
	case "":
		return strings.TrimSpace(format.Figure(v, ""))
	}
	return format.Figure(v, format.Clean(unit))
}
