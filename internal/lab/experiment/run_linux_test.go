package experiment_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/experiment"
)

// gone waits until every process that has noted its number has ended, as one that was killed soon
// does, and complains of one that does not.
func gone(t *testing.T, pids string) {
	t.Helper()
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		const patience = 60_000 // milliseconds
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, patience); n != 1 {
			t.Errorf("process %d is still there (%v)", pid, err)
		}
		unix.Close(fd)
	}
}

func TestAPlantedDifferenceIsFound(t *testing.T) {
	e, pids := read(t, `
question: Does waiting cost time?
vary: {name: delay, values: [5ms, {name: slow, value: 60ms}]}
start: [SELF]
env: {SERVICE: shop, PORT: "${port}", DELAY: "${value}", PIDS: PIDFILE}
ready: {url: "http://127.0.0.1:${port}/", within: 60s}
load: {url: "http://127.0.0.1:${port}/", connections: 2, warmup: 20ms, duration: 400ms}
metrics: http://127.0.0.1:${port}/metrics
measure: [p50, rss, gc_cycles, metrics.served_total]
repeat: 10
cool: 0s
`)
	dir := filepath.Join(t.TempDir(), "out")
	var told []string
	result, err := e.Run(t.Context(), experiment.Options{Dir: dir, Seed: 1,
		Tell: func(v experiment.Event) { told = append(told, v.Doing) }})
	if err != nil {
		t.Fatal(err)
	}
	c := result.Figures[0].Comparisons[0]
	if c.Verdict != experiment.Real || c.Shift < 1 || !strings.Contains(c.Says, "slower") || c.Better == nil || *c.Better {
		t.Errorf("60 ms instead of 5 ms: %+v", c)
	}
	if m := result.Figures[1].Medians[0]; m == nil || m.Median < 1e6 {
		t.Errorf("the service's memory: %v", m)
	}
	if m := result.Figures[3].Medians[0]; m == nil || m.Median < 1 {
		t.Errorf("a series of the metrics page: %v", m)
	}
	if result.Early != "" || result.Rounds != 10 || len(result.Notes) > 0 {
		t.Errorf("early %q, %d rounds, notes %q", result.Early, result.Rounds, result.Notes)
	}
	for _, want := range []string{"starting", "warming up", "measuring", "stopping", "cooling down"} {
		if !strings.Contains(strings.Join(told, ","), want) {
			t.Errorf("nothing was told of %s: %v", want, told)
		}
	}
	gone(t, pids)

	record := sameFromFiles(t, dir, result)
	kept, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	var written experiment.Result
	if err := json.Unmarshal(kept, &written); err != nil || cmp.Diff(result, &written) != "" {
		t.Errorf("result.json: %v %s", err, cmp.Diff(result, &written))
	}
	orders := map[string]bool{}
	for i := 0; i < len(record.Runs); i += 2 {
		orders[record.Runs[i].Value] = true
		if record.Runs[i].Round != record.Runs[i+1].Round || record.Runs[i].Value == record.Runs[i+1].Value {
			t.Errorf("runs %d and %d are not a round of both values", i, i+1)
		}
	}
	if len(orders) != 2 {
		t.Error("the same value has come first in every round")
	}
}

func TestAValueWhoseServiceFailsIsMarkedAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	e, pids := read(t, `
vary:
  name: service
  values: [fine, dies, no-program]
baseline: dies
start: ["${work}/${name}"]
setup:
  - [ln, -s, SELF, "${work}/fine"]
  - [sh, -c, "printf '#!/bin/sh\nDIES=3 exec SELF' > '${work}/dies' && chmod +x '${work}/dies'"]
env: {SERVICE: shop, PORT: "${port}", PIDS: PIDFILE}
ready: {url: "http://127.0.0.1:${port}/", within: 60s}
load: {url: "http://127.0.0.1:${port}/", connections: 1, warmup: 0s, duration: 500ms}
measure: [goodput]
repeat: 3
cool: 0s
`)
	result, err := e.Run(t.Context(), experiment.Options{Dir: filepath.Join(t.TempDir(), "out"), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		runs, failures int
		why, output    string
	}{
		{3, 0, "", ""},
		{0, 2, "the service ended while it was loaded: exit status 3", "out of stock, giving up"},
		{0, 2, "no-program cannot be started: no such file or directory", ""},
	} {
		v := result.Values[i]
		if v.Runs+v.Unused != want.runs || v.Failures != want.failures ||
			!strings.Contains(v.Why, want.why) || !strings.Contains(v.Output, want.output) {
			t.Errorf("%s: %+v; want %+v", v.Name, v, want)
		}
	}
	if m := result.Figures[0].Medians[0]; m == nil || m.Median <= 0 {
		t.Errorf("the value that is fine has no figure: %v", m)
	}
	if result.Tests != 0 || !strings.Contains(strings.Join(result.Notes, " "), "nothing can be compared") {
		t.Errorf("nothing is comparable without a baseline: %d tests, notes %q", result.Tests, result.Notes)
	}
	gone(t, pids)
}

func TestAValueThatIsNeverReadyIsMarkedWithWhatItPrinted(t *testing.T) {
	t.Parallel()
	e, _ := read(t, `
vary: {name: service, values: [{name: fine, value: shop}, {name: never-ready, value: silent}]}
start: [SELF]
env: {SERVICE: "${value}", PORT: "${port}"}
ready: {url: "http://127.0.0.1:${port}/", within: 20s}
load: {url: "http://127.0.0.1:${port}/", connections: 1, warmup: 0s, duration: 500ms}
measure: [goodput]
repeat: 1
`)
	result, err := e.Run(t.Context(), experiment.Options{Dir: filepath.Join(t.TempDir(), "out"), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if v := result.Values[0]; v.Failures != 0 {
		t.Errorf("the value that is fine: %+v", v)
	}
	v := result.Values[1]
	if v.Failures != 1 || !strings.Contains(v.Why, "the service was not ready within 20s") ||
		!strings.Contains(v.Output, "a database that never comes") {
		t.Errorf("the value that is never ready: %+v", v)
	}
}

func TestStoppingEndsTheServiceAndKeepsWhatThereIs(t *testing.T) {
	e, pids := read(t, `
vary: {name: delay, values: [1ms, 2ms]}
start: [SELF]
env: {SERVICE: deaf, PORT: "${port}", DELAY: "${value}", PIDS: PIDFILE}
ready: {line: listening}
load: {url: "http://127.0.0.1:${port}/", connections: 2, warmup: 0s, duration: 100ms, rate: 50}
measure: [p50, errors]
repeat: 50
cool: 0s
stop_within: 10ms
`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dir := filepath.Join(t.TempDir(), "out")
	result, err := e.Run(ctx, experiment.Options{Dir: dir, Seed: 1, Tell: func(v experiment.Event) {
		if v.Round == 2 && v.Turn == 2 && v.Doing == "measuring" {
			cancel()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	// On a busy machine the generator may have been the limit in one of them.
	runs := 0
	for _, v := range result.Values {
		runs += v.Runs + v.Unused
	}
	if result.Early == "" || runs != 3 {
		t.Errorf("early %q, values %+v; want the three runs before", result.Early, result.Values)
	}
	gone(t, pids)
	sameFromFiles(t, dir, result)
}

// sameFromFiles compares a result with the one that is made of the experiment's files, and returns
// what they hold.
func sameFromFiles(t *testing.T, dir string, result *experiment.Result) *experiment.Record {
	t.Helper()
	record, err := experiment.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again := record.Again(); cmp.Diff(result, again) != "" {
		t.Errorf("from the files another result is made: %s", cmp.Diff(result, again))
	}
	return record
}

func TestWhatAServiceLeavesBehindInASessionOfItsOwnIsEnded(t *testing.T) {
	e, pids := read(t, `
vary: {name: answer, values: ["41", "42"]}
config: {file: "${work}/answer", content: "${value}"}
start: [SELF]
env: {SERVICE: shop, HERMIT: "yes", PORT: "${port}", PIDS: PIDFILE}
ready: {port: "${port}"}
command: [env, SERVICE=print, SELF, "${work}/answer"]
measure: [command.value]
repeat: 1
cool: 0s
`)
	result, err := e.Run(t.Context(), experiment.Options{Dir: filepath.Join(t.TempDir(), "out")})
	if err != nil || result.Rounds != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	gone(t, pids)
}

func TestMemoryIsWatchedWhileACommandRuns(t *testing.T) {
	e, _ := read(t, `
vary: {name: page, values: [hoard, other]}
start: [SELF]
env: {SERVICE: shop, PORT: "${port}"}
ready: {port: "${port}"}
command: [env, SERVICE=visit, SELF, "http://127.0.0.1:${port}/${value}"]
measure: [rss]
repeat: 1
cool: 0s
`)
	result, err := e.Run(t.Context(), experiment.Options{Dir: filepath.Join(t.TempDir(), "out")})
	if err != nil {
		t.Fatal(err)
	}
	m := result.Figures[0].Medians
	if m[0] == nil || m[1] == nil || m[0].Median < hoard || m[1].Median > m[0].Median-hoard/2 {
		t.Errorf("medians: %v %v; values %+v", m[0], m[1], result.Values)
	}
}

func TestWhenEveryValueWasGivenUpTheFilesSayWhatTheExperimentSaid(t *testing.T) {
	e, _ := read(t, `
vary: {name: service, values: [none, neither]}
start: ["${work}/${name}"]
ready: {port: "${port}"}
command: [SELF]
measure: [command.x]
repeat: 5
cool: 0s
`)
	dir := filepath.Join(t.TempDir(), "out")
	result, err := e.Run(t.Context(), experiment.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if v := result.Values[0]; v.Failures != 2 || result.Early != "" {
		t.Errorf("early %q, %+v; want two failures, and not early", result.Early, v)
	}
	sameFromFiles(t, dir, result)
}

func TestFiguresBeyondEverythingAreLeftOut(t *testing.T) {
	e, _ := read(t, `
vary: {name: x, values: [{name: huge, value: "1e308"}, {name: plain, value: "7"}, {name: less, value: "-1e308"}]}
config: {file: "${work}/x", content: "${value}"}
start: [SELF]
env: {SERVICE: shop, PORT: "${port}"}
ready: {port: "${port}"}
command: [env, SERVICE=print, SELF, "${work}/x"]
measure: [command.value]
repeat: 1
cool: 0s
`)
	result, err := e.Run(t.Context(), experiment.Options{Dir: filepath.Join(t.TempDir(), "out")})
	if err != nil {
		t.Fatal(err)
	}
	if m := result.Figures[0].Medians; m[0] != nil || m[1] == nil || m[1].Median != 7 || m[2] != nil {
		t.Errorf("medians: %v", m)
	}
	if notes := strings.Join(result.Notes, "\n"); !strings.Contains(notes,
		"not measured: command.value: -1e+308 is nothing that can be judged") {
		t.Errorf("notes: %s", notes)
	}
}

func TestSetupThatFailsIsToldWithItsOutputAndLeavesNoDirectory(t *testing.T) {
	e, _ := read(t, `
vary: {name: x, values: [1, 2]}
setup: [[env, SERVICE=fail, SELF, "${value}"]]
start: [SELF]
ready: {port: "${port}"}
command: [SELF]
measure: [command.x]
`)
	dir := filepath.Join(t.TempDir(), "out")
	_, err := e.Run(t.Context(), experiment.Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "exit status 7") || !strings.Contains(err.Error(), "it does not compile") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory would be refused the next time: %v", err)
	}
}

func TestAConfigurationIsWrittenAndACommandsFiguresAreRead(t *testing.T) {
	e, _ := read(t, `
vary: {name: answer, values: [{name: less, value: "41"}, {name: more, value: "42"}]}
config: {file: "${work}/conf/app-${name}", content: "${value}"}
start: [SELF]
env: {SERVICE: shop, PORT: "${port}"}
ready: {port: "${port}"}
command: [env, SERVICE=print, SELF, "${work}/conf/app-${name}"]
measure: [command.value, command.unit]
repeat: 2
cool: 0s
`)
	result, err := e.Run(t.Context(), experiment.Options{Dir: filepath.Join(t.TempDir(), "out")})
	if err != nil {
		t.Fatal(err)
	}
	m := result.Figures[0].Medians
	if m[0] == nil || m[1] == nil || m[0].Median != 41 || m[1].Median != 42 {
		t.Errorf("medians: %v %v; values %+v", m[0], m[1], result.Values)
	}
	if !strings.Contains(strings.Join(result.Notes, "\n"), `not measured: command.unit: the command's JSON has no number "unit"`) {
		t.Errorf("notes: %q", result.Notes)
	}
}

const kernel = `
vary: {name: somaxconn, values: [97, 131]}
sysctl: {net.core.somaxconn: "${value}"}
start: [SELF]
env: {SERVICE: shop, PORT: "${port}"}
ready: {url: "http://127.0.0.1:${port}/"}
command: [env, SERVICE=print, SELF, /proc/sys/net/core/somaxconn]
measure: [command.value]
repeat: 1
cool: 0s
`

func TestKernelSettingsAreNotTouchedOutsideOfANamespace(t *testing.T) {
	e, _ := read(t, kernel)
	_, err := e.Run(t.Context(), experiment.Options{Dir: filepath.Join(t.TempDir(), "out")})
	if err == nil || !strings.Contains(err.Error(), "network namespace of its own") {
		t.Errorf("the error is %v", err)
	}
}

func TestAVariableAloneMakesNoNamespace(t *testing.T) {
	t.Setenv("PLIMSOLL_OUTSIDE_NAMESPACE", "x")
	if experiment.Inside() {
		t.Error("a user who sets the variable may change the machine's settings")
	}
	e, _ := read(t, `
vary: {name: x, values: [1, 2]}
start: [SELF]
env: {SERVICE: shop, PORT: "${port}"}
ready: {port: "${port}"}
command: [sh, -c, 'echo "{\"length\": $${#PLIMSOLL_OUTSIDE_NAMESPACE}}"']
measure: [command.length]
repeat: 1
cool: 0s
`)
	result, err := e.Run(t.Context(), experiment.Options{Dir: filepath.Join(t.TempDir(), "out")})
	if err != nil {
		t.Fatal(err)
	}
	if m := result.Figures[0].Medians[0]; m == nil || m.Median != 0 {
		t.Errorf("what an experiment starts has the variable: %v, %+v", m, result.Values)
	}
}

func TestKernelSettingsAreVariedInANamespaceOfTheirOwn(t *testing.T) {
	before, err := os.ReadFile("/proc/sys/net/core/somaxconn")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "kernel.yaml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(kernel, "SELF", self(t))), 0o600); err != nil {
		t.Fatal(err)
	}
	inside := exec.Command(self(t))
	inside.Env = append(os.Environ(), "SERVICE=isolated", "FILE="+path, "DIR="+filepath.Join(dir, "out"))
	if err := experiment.Isolate(inside); err != nil {
		t.Fatal(err)
	}
	out, err := inside.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Logf("a network namespace cannot be made here, which takes root: %v", err)
		return
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var result experiment.Result
	if err := json.Unmarshal(out, &result); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m := result.Figures[0].Medians
	if m[0] == nil || m[1] == nil || m[0].Median != 97 || m[1].Median != 131 {
		t.Errorf("medians: %v %v; %+v", m[0], m[1], result.Values)
	}
	after, err := os.ReadFile("/proc/sys/net/core/somaxconn")
	if err != nil || string(after) != string(before) {
		t.Errorf("the machine's own setting was %q, and is %q (%v)", before, after, err)
	}
}
