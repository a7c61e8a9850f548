package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

var (
	seedFlag = flag.Uint64("seed", 0, "play this seed alone, and print what happens")
	fromFlag = flag.Uint64("from", 1, "the first seed to play")
	seeds    = flag.Int("seeds", 100, "how many seeds to play")
	soak     = flag.Duration("soak", 0, "go on playing seeds for so long")
	scenario = flag.String("scenario", "", "play this file of the corpus alone, and print its history")
	write    = flag.String("write", "", "write the seeds' scenarios to this file, and play none")
	failures = flag.Int("failures", 10, "after how many seeds that fail to stop")
	shorten  = flag.Duration("shorten", 2*time.Minute,
		"how long to make a failing scenario shorter; 0 to keep none")
)

// workerVariable says that a process is a worker.
const workerVariable = "PLIMSOLL_SIM_WORKER"

// inBubble plays a scenario in a bubble. Goroutines that are left when all is over are a failure
// like any other; those that a failed run leaves are left alone.
func inBubble(t *testing.T, s Scenario, dir string, m mode) (res result) {
	defer func() {
		if p := recover(); p != nil && res.err == nil {
			res.err = fmt.Errorf("goroutines are left when all is over: %v", p)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, s.Seed)
		res = play(s, dir, m)
	})
	return res
}

// furnished is a directory for scenarios that are played one after the other.
func furnished(t *testing.T) string {
	dir := t.TempDir()
	if err := furnish(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestWorker is a worker's process; by itself it tests nothing.
func TestWorker(t *testing.T) {
	if os.Getenv(workerVariable) == "" {
		return
	}
	runtime.GOMAXPROCS(1)
	collectBetween()
	dir := furnished(t)
	verdictOn := func(s Scenario) error {
		collect()
		return inBubble(t, s, dir, forVerdict).err
	}
	if err := serve(os.Stdin, os.Stdout, verdictOn); err != nil {
		t.Fatal(err)
	}
}

// newWorker makes a worker whose files are gone when the test is over, however it ends.
func newWorker(t *testing.T) *worker {
	dir := t.TempDir()
	return &worker{command: func() *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=^TestWorker$", "-test.timeout=0")
		cmd.Env = append(os.Environ(), workerVariable+"=1", "TMPDIR="+dir,
			"GOTRACEBACK=single")
		return cmd
	}}
}

// TestSeeds plays scenarios that nobody has thought of. With -seed it plays one, with its history.
func TestSeeds(t *testing.T) {
	if *seedFlag != 0 {
		lines, failure := historyOf(t, Draw(*seedFlag))
		fmt.Println(strings.Join(lines, "\n"))
		if failure != nil {
			t.Errorf("seed %d fails: %v", *seedFlag, failure)
		}
		return
	}
	if *write != "" {
		writeScenarios(t)
		return
	}
	began := time.Now()
	var mu sync.Mutex
	next, last := *fromFlag, *fromFlag+uint64(*seeds)
	var failed []uint64
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		over := next == last
		if *soak > 0 {
			over = time.Since(began) > *soak
		}
		if over || len(failed) >= *failures {
			return 0, false
		}
		next++
		return next - 1, true
	}
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			w := newWorker(t)
			defer w.close()
			for seed, ok := take(); ok; seed, ok = take() {
				if err := w.playSeed(seed); err != nil {
					mu.Lock()
					failed = append(failed, seed)
					after := time.Since(began).Round(time.Second)
					fmt.Printf("after %v, seed %d: %v\n", after, seed, firstLine(err))
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%d seeds in %v", next-*fromFlag, time.Since(began).Round(time.Millisecond))
	slices.Sort(failed)
	for i, seed := range failed {
		if i < 3 && *shorten > 0 {
			shrink(t, seed)
		} else {
			t.Errorf("seed %d fails", seed)
		}
	}
}

// writeScenarios writes what a worker reads.
func writeScenarios(t *testing.T) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for i := range uint64(*seeds) {
		if err := encoder.Encode(Draw(*fromFlag + i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(*write, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// shrink makes a failing seed's scenario shorter, keeps it in the corpus, and reports it.
func shrink(t *testing.T, seed uint64) {
	w := newWorker(t)
	defer w.close()
	s := Draw(seed)
	failure := w.play(s)
	if failure == nil {
		t.Errorf("seed %d failed once and not again: something is not drawn from the seed", seed)
		return
	}
	file := filepath.Join(corpus, fmt.Sprintf("seed-%d.json", seed))
	keep(t, s, file)
	t.Errorf("seed %d: %v\nIt runs again with: go test ./internal/sim -v -seed %d",
		seed, failure, seed)
	s, failure = shorter(s, failure, *shorten, w.play)
	keep(t, s, file)
	t.Logf("A shorter scenario that fails like it is kept as %s: %v\n"+
		"go test ./internal/sim -v -run Corpus -scenario %s prints its history:",
		file, failure, filepath.Base(file))
	lines, _ := historyOf(t, s)
	t.Log("\n" + strings.Join(lines[max(0, len(lines)-150):], "\n"))
}

// keep writes a scenario to a file.
func keep(t *testing.T, s Scenario, file string) {
	text, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	err = os.MkdirAll(filepath.Dir(file), 0o755)
	if err := errors.Join(err, os.WriteFile(file, append(text, '\n'), 0o644)); err != nil {
		t.Error(err)
	}
}

// historyOf is what happens in a scenario, as a process of its own tells it. Where a panic ends
// that before it can tell, another one tells what came before the panic. One that hangs tells
// nothing.
func historyOf(t *testing.T, s Scenario) (lines []string, failure error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	for _, mode := range []string{"history", "panic"} {
		ctx, cancel := context.WithTimeout(t.Context(), hung)
		defer cancel()
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHistory$", "-test.timeout=0")
		cmd.WaitDelay = lastWords
		cmd.Env = append(os.Environ(), workerVariable+"="+mode, "TMPDIR="+t.TempDir())
		cmd.Stdin = bytes.NewReader(text)
		out, err := cmd.CombinedOutput()
		lines, failure = strings.Split(string(out), "\n"), errors.Join(err, ctx.Err())
		if !death.Match(out) {
			break
		}
	}
	return lines, failure
}

// TestHistory prints what happens in the scenario on its standard input; by itself it tests
// nothing.
func TestHistory(t *testing.T) {
	if os.Getenv(workerVariable) == "" {
		return
	}
	var s Scenario
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		t.Fatal(err)
	}
	runtime.GOMAXPROCS(1)
	m := forHistory
	if os.Getenv(workerVariable) == "panic" {
		m = forPanic
	}
	res := inBubble(t, s, furnished(t), m)
	fmt.Println(strings.Join(res.history, "\n"))
	if res.err != nil {
		t.Fatalf("seed %d: %v", s.Seed, res.err)
	}
}

// corpus are scenarios that failed once, made shorter. None may fail again.
const corpus = "testdata/corpus"

func TestCorpus(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(corpus, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorker(t)
	defer w.close()
	played := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s Scenario
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		switch {
		case *scenario == filepath.Base(file):
			lines, failure := historyOf(t, s)
			fmt.Println(strings.Join(lines, "\n"))
			if failure != nil {
				t.Errorf("%s fails: %v", file, failure)
			}
		case *scenario == "":
			if err := w.play(s); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		default:
			continue
		}
		played++
	}
	if played == 0 {
		t.Errorf("%s has no scenario %q", corpus, *scenario)
	}
}

// Everything that happens must follow from the seed: else no failure could be looked at twice.
func TestTheSameSeedMakesTheSameHistory(t *testing.T) {
	for seed := range uint64(10) {
		s := Draw(1000 + seed)
		first, again := ordered(t, s), ordered(t, s)
		for i := range max(len(first), len(again)) {
			if a, b := lineAt(first, i), lineAt(again, i); a != b {
				t.Errorf("seed %d: line %d is %q and then %q", s.Seed, i, a, b)
				break
			}
		}
		if len(first) < 10 {
			t.Errorf("seed %d has no history: %q", s.Seed, first)
		}
	}
}

// ordered is the history of a scenario, with what the gateway logs in one moment in the alphabet's
// order: goroutines that one event wakes may log in any.
func ordered(t *testing.T, s Scenario) (lines []string) {
	lines, failure := historyOf(t, s)
	if failure != nil {
		t.Errorf("seed %d fails: %v", s.Seed, failure)
	}
	moment := func(line string) string {
		at, _, logged := strings.Cut(line, "  log: ")
		if !logged {
			return ""
		}
		return at
	}
	for from := 0; from < len(lines); {
		to := from + 1
		for m := moment(lines[from]); m != "" && to < len(lines) && moment(lines[to]) == m; {
			to++
		}
		slices.Sort(lines[from:to])
		from = to
	}
	return lines
}

// lineAt is a line of a history, without what differs between two processes.
func lineAt(lines []string, i int) string {
	if i >= len(lines) {
		return "missing"
	}
	return processes.ReplaceAllString(lines[i], "")
}

var processes = regexp.MustCompile(`pid=\d+|version=\w+|/tmp/\S+|\([\d.]+s\)`)
