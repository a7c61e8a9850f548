package experiment_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/lab/experiment"
)

// self is this test binary.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// read reads an experiment from a text, in which SELF is this binary and PIDS a file.
func read(t *testing.T, text string) (e *experiment.Experiment, pids string) {
	t.Helper()
	dir := t.TempDir()
	pids = filepath.Join(dir, "pids")
	text = strings.NewReplacer("SELF", self(t), "PIDFILE", pids).Replace(text)
	path := filepath.Join(dir, "trial.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := experiment.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return e, pids
}

// errorsOf are the lines of what is wrong with a text.
func errorsOf(t *testing.T, text string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trial.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := experiment.Read(path)
	if err == nil {
		return nil
	}
	return strings.Split(strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", ""), "\n")
}

func TestEverythingThatIsWrongIsSaidAtOnceWithItsPlace(t *testing.T) {
	got := errorsOf(t, `questoin: why
vary: {name: pool, values: [10, 10, "a/b", {name: off}]}
baseline: of
start: ./server --pool=10
ready: {url: "http://127.0.0.1:${prt}/", port: 80}
setup: [[go, build, "${port}"]]
load: {url: "http://127.0.0.1/", rate: -1, duration: 10, arrivals: often}
measure: [goodput, p98, gc_cycles, command.x, goodput]
config: {file: app.yaml, content: "${value"}
sysctl: {vm.swappiness: 1}
env: {"A B": 1}
repeat: 0
alpha: 0.9
compare: all
`)
	want := []string{
		`trial.yaml:1:1: questoin: unknown key; did you mean question?`,
		`trial.yaml:2:33: vary.values[1]: value 2 has the name of another one, "10"; give it one of its own, as {name: off, value: "0"}`,
		`trial.yaml:2:37: vary.values[2]: "a/b" cannot be a name, which is up to 40 letters, digits and . _ + % = -; give it one, as {name: off, value: ...}`,
		`trial.yaml:3:11: baseline: "of" is not one of the values; did you mean off?`,
		`trial.yaml:4:8: start: a command is a list, as no shell reads it; write ["./server", "--port=${port}"]`,
		`trial.yaml:5:8: ready: one of url, line, port is needed, and here are url and port; keep exactly one`,
		`trial.yaml:6:21: setup[0][2]: ${port} has no value here; known are name, value, work ("$${" is a literal "${")`,
		`trial.yaml:7:40: load.rate: -1 requests a second cannot be offered; give a rate above 0, or leave it out for a closed loop`,
		`trial.yaml:7:54: load.duration: "10" has no unit; write "10s" for seconds or "10ms" for milliseconds`,
		`trial.yaml:7:68: load.arrivals: "often" is not a kind of arrivals; known are constant, poisson`,
		`trial.yaml:8:20: measure[1]: "p98" is not a figure; did you mean p90?`,
		`trial.yaml:8:25: measure[2]: gc_cycles is read from a page of metrics; add metrics: http://127.0.0.1:${admin_port}/metrics`,
		`trial.yaml:8:36: measure[3]: command.x is read from what a command prints; add command: [...]`,
		`trial.yaml:8:47: measure[4]: goodput is measured already; remove it`,
		`trial.yaml:9:16: config.file: the file is written, and so must lie in the experiment's own folder; write ${work}/app.yaml`,
		`trial.yaml:9:35: config.content: a "${" is not closed; add the "}", or write "$${" for a literal "${"`,
		`trial.yaml:10:10: sysctl.vm.swappiness: "vm.swappiness" cannot be set; only settings of the network, as net.ipv4.tcp_tw_reuse, exist once for each namespace`,
		`trial.yaml:11:7: env.A B: "A B" is not a name of an environment variable; it has letters, digits and "_"`,
		`trial.yaml:12:9: repeat: 0 is not within 1 and 500`,
		`trial.yaml:13:8: alpha: 0.9 is not a share that makes sense here; write one such as 0.05 or 5%`,
		`trial.yaml:14:10: compare: each value is compared with each, so that there is no baseline; remove one of the two`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhichValuesAreComparedCanBeChosen(t *testing.T) {
	for _, c := range []struct {
		compare, problem string
		want             [][2]int
	}{
		{"", "", [][2]int{{0, 1}, {0, 2}}},
		{"baseline: 2", "", [][2]int{{1, 0}, {1, 2}}},
		{"baseline: 2\ncompare: baseline", "", [][2]int{{1, 0}, {1, 2}}},
		{"compare: all", "", [][2]int{{0, 1}, {0, 2}, {1, 2}}},
		{"compare: previous", "", [][2]int{{0, 1}, {1, 2}}},
		{"baseline: 2\ncompare: previous", "trial.yaml:10:10: compare: each value is compared " +
			"with the one before it, so that there is no baseline; remove one of the two", nil},
		{"compare: previuos", `trial.yaml:9:10: compare: "previuos" is not a way to compare; did you mean previous?`, nil},
	} {
		if c.problem != "" {
			if got := strings.Join(errorsOf(t, small+c.compare), "\n"); got != c.problem {
				t.Errorf("%q: %s; want %s", c.compare, got, c.problem)
			}
			continue
		}
		e, _ := read(t, small+c.compare)
		if diff := cmp.Diff(c.want, e.Comparisons()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.compare, diff)
		}
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	got := strings.Join(errorsOf(t, "name: nothing\n"), "\n")
	for _, want := range []string{"vary: missing", "start: missing", "ready: missing", "measure: missing", "nothing measures; add a load"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not said in:\n%s", want, got)
		}
	}
	if got := strings.Join(errorsOf(t, ""), "\n"); !strings.Contains(got, "the file is empty") {
		t.Errorf("an empty file: %s", got)
	}
}

const small = `
vary: {name: n, values: [1, 2, 3]}
start: ["./server", "--n=${value}", "$${HOME}"]
ready: {port: "${port}"}
load: {url: "http://127.0.0.1:${port}/", duration: 4s, warmup: 1s}
measure: [goodput, p99]
env: {N: "${value}"}
repeat: 5
`

func TestAnExperimentSaysHowLongItTakesAndWhatItCanShow(t *testing.T) {
	e, _ := read(t, small)
	// 15 runs of 1 s to warm up, 4 s of load, 1 s to cool down, and about 1 s to start.
	if e.Time().Seconds() != 105 || e.Runs() != 15 {
		t.Errorf("%d runs in %v, want 15 in 105s", e.Runs(), e.Time())
	}
	// Two values against the baseline in two figures.
	if e.Tests() != 4 || e.Needed() != 8 {
		t.Errorf("%d tests, %d rounds needed; want 4 and 8", e.Tests(), e.Needed())
	}
	if got := e.Start(e.Values[1]); got != "./server --n=2 ${HOME}" {
		t.Errorf("the start is %q", got)
	}
	if got := e.Settings(e.Values[1]); len(got) != 1 || got[0] != "N=2" {
		t.Errorf("the settings are %q", got)
	}
	if e.Name != "trial" {
		t.Errorf("without a name it is called %q, want that of the file", e.Name)
	}
}

// A directory of an experiment with two values, and a run of it.
const (
	manifestText = `{"schema_version": 2, "values": [{"name": "a"}, {"name": "b"}],
		"figures": [{"name": "p50", "unit": "s", "up": "slower", "down": "faster", "better": "faster"}], "repeat": 3, "alpha": 0.05, "relevant_share": 0.01}`
	runText = `{"round": 1, "turn": 1, "value": "a", "figures": {"p50": 1}}` + "\n"
)

// written writes files into a directory; those that are empty are not there.
func written(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestADamagedDirectoryIsRefusedOrReadUpToItsLastWholeRun(t *testing.T) {
	manifest, run := manifestText, runText
	values := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"name": "v%d"}`, i))
		}
		return strings.Replace(manifest, `{"name": "a"}, {"name": "b"}`, strings.Join(all, ", "), 1)
	}
	with := func(text string) string { return strings.Replace(manifest, `"repeat"`, text+`, "repeat"`, 1) }
	for _, c := range []struct{ name, manifest, rounds, want string }{
		{"no manifest", "", run, "is not an experiment's directory"},
		{"an invalid manifest", "{", run, "is damaged"},
		{"a newer one", strings.Replace(manifest, "2,", "99,", 1), run, "its schema_version is 99"},
		{"the same name twice", strings.Replace(manifest, `"b"`, `"a"`, 1), run, "two have the same name"},
		{"too many rounds", strings.Replace(manifest, `"repeat": 3`, `"repeat": 1000000000`, 1), run, "more figures or rounds"},
		{"no alpha", strings.Replace(manifest, `"alpha": 0.05`, `"alpha": 7`, 1), run, "not a share that makes sense"},
		{"all of many pairs", strings.Replace(values(6), `"repeat"`, `"all_pairs": true, "repeat"`,
			1), run, "more pairs of values than there can be"},
		{"two ways to compare", with(`"all_pairs": true, "previous": true`), run, "more pairs of values than there can be"},
		{"a figure that there is not", strings.Replace(manifest, `"p50"`, `"p51"`, 1), run, `its figure "p51" is unknown`},
		{"a figure in a unit of its own", strings.Replace(manifest, `"unit": "s"`, `"unit": "\u001b[2J"`, 1), run, `its figure "p50" is unknown`},
		{"a figure with words of its own", strings.Replace(manifest, `"slower"`, `"\u001b[2J"`, 1), run, `its figure "p50" is unknown`},
		{"a run of no value", manifest, strings.Replace(run, `"a"`, `"z"`, 1), "line 1: it is of a value"},
		{"a run of no round", manifest, strings.Replace(run, `"round": 1`, `"round": -4`, 1), "line 1: it is of a value"},
		{"the same run again and again", manifest, run + run, "line 2: round 1 of a is there twice"},
		{"a run that misses everything", manifest, strings.Replace(run, `"turn": 1`,
			`"missing": [""`+strings.Repeat(`,""`, 100)+"]", 1), "line 1: it misses more"},
		{"a line that is not a run", manifest, run + "[]\n", "line 2"},
		{"a line without end", manifest, run + strings.Repeat("x", 3<<20), "longer than"},
		{"a figure beyond everything", manifest, strings.Replace(run, `"p50": 1`, `"p50": 1e300`, 1), "which nothing can be"},
		{"cut off", manifest, run + `{"round": 1, "tu`, ""},
	} {
		dir := written(t, map[string]string{"experiment.json": c.manifest, "rounds.jsonl": c.rounds})
		r, err := experiment.Open(dir)
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: the error is %v, want %q in it", c.name, err, c.want)
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want == "":
			if result := r.Again(); result.Early == "" || result.Values[0].Runs != 1 || len(result.Notes) == 0 {
				t.Errorf("%s: %+v", c.name, result)
			}
		}
	}
}

func TestOfARunOnlyWhatIsJudgedIsReadAgain(t *testing.T) {
	run := `{"round": 2, "turn": 1, "value": "a", "figures": {"p50": 1, "p99": 1e300}, "before": {"x": 1}, "after": {"x": 2},
		"totals": {"due": 3, "response": {"sum_ns": 2, "buckets": [{"from_ns": 1, "to_ns": 1, "count": 2}]}}, "missing": ["rss: no"]}`
	r, err := experiment.Open(written(t, map[string]string{"experiment.json": manifestText, "rounds.jsonl": strings.ReplaceAll(run, "\n", " ") + "\n"}))
	if err != nil {
		t.Fatal(err)
	}
	want := []experiment.Run{{Round: 2, Turn: 1, Value: "a", Figures: map[string]float64{"p50": 1}, Missing: []string{"rss: no"}}}
	if diff := cmp.Diff(want, r.Runs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnExperimentThatWasCutOffSaysSo(t *testing.T) {
	for _, c := range []struct{ name, result, want string }{
		{"it came to its end", "{}", ""},
		{"it was stopped", `{"early": "it was stopped"}`, "it was stopped"},
		{"it has no result", "", "it was cut off, as it has no result.json that can be read"},
		{"its result is not whole", `{"early": `, "it was cut off, as it has no result.json that can be read"},
	} {
		r, err := experiment.Open(written(t, map[string]string{"experiment.json": manifestText, "rounds.jsonl": runText, "result.json": c.result}))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := r.Again().Early; got != c.want {
			t.Errorf("%s: it ended early since %q, want %q", c.name, got, c.want)
		}
	}
}

func TestADirectoryOfPipesIsRefusedAndNotWaitedFor(t *testing.T) {
	files := map[string]string{"experiment.json": manifestText, "rounds.jsonl": runText}
	for name := range files {
		dir := written(t, files)
		path := filepath.Join(dir, name)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := experiment.Open(dir); err == nil || !strings.Contains(err.Error(), name+" cannot be read: it is not a regular file") {
			t.Errorf("a pipe in the place of %s: %v", name, err)
		}
	}
}

func TestTheExamplesAreRightAndCanShowSomething(t *testing.T) {
	files, err := filepath.Glob("../../../examples/experiments/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	for _, f := range files {
		e, err := experiment.Read(f)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if e.Repeat < e.Needed() {
			t.Errorf("%s has %d rounds, and %d are needed to call anything real", f, e.Repeat, e.Needed())
		}
	}
}
