package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/lab/experiment"
)

// trial writes an experiment's directory by hand: ten rounds, in which b is 12 % slower, and c
// fails.
func trial(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	manifest := `{"schema_version": 2, "name": "pool", "question": "How many?", "variable": "pool", "values": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
		"figures": [{"name": "p99", "unit": "s", "up": "slower", "down": "faster", "better": "faster"}], "repeat": 10, "alpha": 0.05, "relevant_share": 0.01}`
	var rounds strings.Builder
	for i := 1; i <= 10; i++ {
		fmt.Fprintf(&rounds, `{"round": %d, "value": "a", "figures": {"p99": %g}}`+"\n", i, .01*float64(i))
		fmt.Fprintf(&rounds, `{"round": %d, "value": "b", "figures": {"p99": %g}}`+"\n", i, .0112*float64(i))
		if i <= 2 {
			fmt.Fprintf(&rounds, `{"round": %d, "value": "c", "failed": "the service was not ready within 10s", "output": "no\u001b[2J database"}`+"\n", i)
		}
	}
	for name, text := range map[string]string{
		"experiment.json": manifest, "rounds.jsonl": rounds.String(), "result.json": "{}",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAnExperimentsTableIsMadeOfItsFiles(t *testing.T) {
	dir := trial(t)
	var out, failed bytes.Buffer
	c := &console{out: &out, err: &failed}
	if code := c.fail((&experimentCommand{Again: dir}).Run(t.Context(), c)); code != exitUnexpected {
		t.Errorf("the exit code is %d, want %d: a value could not be measured (%s)", code, exitUnexpected,
			failed.String())
	}
	want := `pool: How many?
10 of 10 rounds, 1 comparison judged together: 1 difference real

  p99              median                 95 %              against a
    a             55.0 ms   20.0 ms to 90.0 ms
    b             61.6 ms   22.4 ms to 101 ms   +12.0 % (+12.0 to +12.0)   real: 12 % slower (worse)
    c                   -

c: 2 runs failed, 0 runs measured; the last: round 2: the service was not ready within 10s
    | no·[2J database

raw results  ` + dir + "\n"
	if diff := cmp.Diff(linesOf(want), linesOf(out.String())); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, out.String())
	}
}

func TestAnExperimentThatWasCutOffExitsAsOneThatWasStopped(t *testing.T) {
	dir := trial(t)
	if err := os.Remove(filepath.Join(dir, "result.json")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c := &console{out: &out, err: &out}
	code := c.fail((&experimentCommand{Again: dir}).Run(t.Context(), c))
	if want := "Ended early: it was cut off, as it has no result.json that can be read.\n"; code != exitUnexpected || !strings.Contains(out.String(), want) {
		t.Errorf("exit code %d, want %d, and %q in:\n%s", code, exitUnexpected, want, out.String())
	}
}

func TestAnIsolatedExperimentMayTakeTheTimeThatItsServiceMay(t *testing.T) {
	e := &experiment.Experiment{Grace: time.Hour}
	if run := sameCommand(t.Context(), &console{}, e, os.Args[0]); run.WaitDelay <= e.Grace {
		t.Errorf("it is killed %v after Ctrl-C, when its service may take %v to end", run.WaitDelay, e.Grace)
	}
}

func TestTheEndOfAnIsolatedExperimentSaysWhatItMeans(t *testing.T) {
	for _, c := range []struct {
		script string
		code   int
		want   string
	}{
		{"exit 0", 0, ""}, {"exit 3", 3, ""},
		{"kill -9 $$", exitUnexpected, "the experiment was ended from outside (signal: killed)"},
	} {
		run := exec.Command("sh", "-c", c.script)
		var out bytes.Buffer
		code := 0
		if err := howIsolated(run, run.Run()); err != nil {
			code = (&console{out: &out, err: &out}).fail(err)
		}
		if code != c.code || !strings.Contains(out.String(), c.want) || c.want == "" && out.Len() > 0 {
			t.Errorf("%s: exit code %d, want %d: %s", c.script, code, c.code, out.String())
		}
	}
	none := exec.Command(filepath.Join(t.TempDir(), "none"))
	if err := howIsolated(none, none.Run()); err == nil || !strings.Contains(err.Error(), "cannot be made") {
		t.Errorf("one that cannot be started: %v", err)
	}
}

// linesOf are the lines of a text without what only aligns them.
func linesOf(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestAnExperimentIsToldBeforeItIsDone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gogc.yaml")
	text := `
vary: {name: GOGC, values: [100, 200, 400]}
start: [./server, "--listen=${port}"]
env: {GOGC: "${value}"}
ready: {port: "${port}"}
load: {url: "http://127.0.0.1:${port}/", rate: 500, duration: 5s, warmup: 1s}
measure: [goodput, p99]
repeat: 4
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	k := &experimentCommand{File: path, DryRun: true}
	if err := k.Run(t.Context(), &console{out: &out, err: &out}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"gogc: 3 values in 4 rounds, about 96.0 s", "With 4 rounds no difference can be called " +
			"real: 8 are needed for 4 comparisons (--repeat 8).",
		"100 (baseline)   ./server --listen=${port}   GOGC=100",
		"500/s, poisson arrivals over 64 connections for 5s, after 1s to warm up",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}

func TestAnExperimentRefusesWhatMakesNoSense(t *testing.T) {
	dir := t.TempDir()
	wrong := filepath.Join(dir, "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("vray: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command experimentCommand
		want    string
	}{
		{experimentCommand{}, "name an experiment's file"},
		{experimentCommand{File: "x", Again: "y"}, "name an experiment's file"},
		{experimentCommand{File: wrong}, "wrong.yaml:1:1: vray: unknown key; did you mean vary?"},
		{experimentCommand{File: filepath.Join(dir, "none.yaml")},
			"the experiment cannot be read: no such file or directory"},
		{experimentCommand{Again: dir}, "is not an experiment's directory"},
	} {
		var out bytes.Buffer
		console := &console{out: &out, err: &out}
		if code := console.fail(c.command.Run(context.Background(), console)); code != exitUsage ||
			!strings.Contains(out.String(), c.want) {
			t.Errorf("%+v: exit code %d, want %d: %s", c.command, code, exitUsage, out.String())
		}
	}
}

func TestAnExperimentsProgressIsALineForEachRunWhereThereIsNoTerminal(t *testing.T) {
	var out bytes.Buffer
	p := (&console{out: &out, err: &out}).progress()
	tellOfExperiment(p, experiment.Event{Round: 1, Rounds: 3, Value: "a", Doing: "measuring"})
	tellOfExperiment(p, experiment.Event{Round: 1, Rounds: 3, Value: "a", Run: &experiment.Run{}})
	tellOfExperiment(p, experiment.Event{Round: 2, Rounds: 3, Value: "b",
		Run: &experiment.Run{Failed: errors.New("it ended").Error()}})
	if got := out.String(); got != "round 1 of 3, a: measured\nround 2 of 3, b: failed: it ended\n" {
		t.Errorf("%q", got)
	}
}
