package sim

import (
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
	scenario = flag.String("scenario", "", "play this scenario of the corpus alone, and print what happens")
	shorten  = flag.Int("shorten", 600, "how often a failing scenario is played to make it shorter")
)

// workerVariable says that a process is a worker.
const workerVariable = "PLIMSOLL_SIM_WORKER"

// play runs a scenario in a bubble. Goroutines that are left when all is over are a failure like
// any other; those that a failed run leaves are left alone.
func play(t *testing.T, s Scenario, mode Mode) (res Result) {
	defer func() {
		if p := recover(); p != nil && res.Err == nil {
			res.Err = fmt.Errorf("goroutines are left when all is over: %v", p)
		}
	}()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, s.Seed)
		res = Play(s, dir, mode)
	})
	return res
}

// TestWorker is a worker's process, and does nothing elsewhere.
func TestWorker(t *testing.T) {
	if os.Getenv(workerVariable) == "" {
		return
	}
	runtime.GOMAXPROCS(1)
	if err := Serve(os.Stdin, os.Stdout, func(s Scenario) error { return play(t, s, ForVerdict).Err }); err != nil {
		t.Fatal(err)
	}
}

func newWorker() *Worker {
	return NewWorker(func() *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=^TestWorker$", "-test.timeout=0")
		cmd.Env = append(os.Environ(), workerVariable+"=1", "GOTRACEBACK=single", "GOGC=1600", "GOMEMLIMIT=1GiB")
		return cmd
	})
}

// TestSeeds plays scenarios that nobody has thought of. With -seed it plays one, with its history.
func TestSeeds(t *testing.T) {
	if *seedFlag != 0 {
		lines, failure := historyOf(Draw(*seedFlag))
		fmt.Println(strings.Join(lines, "\n"))
		if failure != nil {
			t.Errorf("seed %d fails", *seedFlag)
		}
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
		if over || len(failed) >= 10 {
			return 0, false
		}
		next++
		return next - 1, true
	}
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			w := newWorker()
			defer w.Close()
			for seed, ok := take(); ok; seed, ok = take() {
				if err := w.Play(Draw(seed)); err != nil {
					mu.Lock()
					failed = append(failed, seed)
					fmt.Printf("after %v, seed %d: %v\n", time.Since(began).Round(time.Second), seed, firstLine(err))
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%d seeds in %v", next-*fromFlag, time.Since(began).Round(time.Millisecond))
	slices.Sort(failed)
	for i, seed := range failed {
		if i < 3 {
			shrink(t, seed)
		} else {
			t.Errorf("seed %d fails too", seed)
		}
	}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// shrink makes a failing seed's scenario shorter, keeps it in the corpus, and reports it.
func shrink(t *testing.T, seed uint64) {
	w := newWorker()
	defer w.Close()
	s := Draw(seed)
	failure := w.Play(s)
	if failure == nil {
		t.Errorf("seed %d failed once and not again: something in it is not drawn from the seed", seed)
		return
	}
	s, failure = Shrink(s, failure, *shorten, w.Play)
	text, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(corpus, fmt.Sprintf("seed-%d.json", seed))
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, append(text, '\n'), 0o644)); err != nil {
		t.Error(err)
	}
	lines, _ := historyOf(s)
	t.Errorf("seed %d: %v\nIt runs again with: go test ./internal/sim -seed %d\nA shorter scenario that fails like it is kept as %s; go test ./internal/sim -run Corpus -scenario %s prints its history:\n%s",
		seed, failure, seed, file, filepath.Base(file), strings.Join(lastLines(lines, 150), "\n"))
}

// historyOf is what happens in a scenario, as a process of its own tells it. Where a panic ends
// that before it can tell, another one tells what came before the panic.
func historyOf(s Scenario) (lines []string, failure error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	for _, mode := range []string{"history", "panic"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHistory$", "-test.timeout=0")
		cmd.Env = append(os.Environ(), workerVariable+"="+mode)
		cmd.Stdin = strings.NewReader(string(text))
		out, err := cmd.CombinedOutput()
		if lines, failure = strings.Split(string(out), "\n"), err; !strings.HasPrefix(string(out), "panic: ") {
			break
		}
	}
	return lines, failure
}

func lastLines(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }

// TestHistory prints what happens in the scenario on its standard input, and does nothing
// elsewhere.
func TestHistory(t *testing.T) {
	if os.Getenv(workerVariable) == "" {
		return
	}
	var s Scenario
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		t.Fatal(err)
	}
	runtime.GOMAXPROCS(1)
	mode := ForHistory
	if os.Getenv(workerVariable) == "panic" {
		mode = ForPanic
	}
	res := play(t, s, mode)
	fmt.Println(strings.Join(res.History, "\n"))
	if res.Err != nil {
		t.Fatalf("seed %d: %v", s.Seed, res.Err)
	}
}

// corpus are scenarios that failed once, made shorter. None may fail again.
const corpus = "testdata/corpus"

func TestCorpus(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(corpus, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorker()
	defer w.Close()
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
			lines, _ := historyOf(s)
			fmt.Println(strings.Join(lines, "\n"))
		case *scenario == "":
			if err := w.Play(s); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

// Everything that happens must follow from the seed: else no failure could be looked at twice.
func TestTheSameSeedMakesTheSameHistory(t *testing.T) {
	for seed := range uint64(20) {
		s := Draw(1000 + seed)
		// Goroutines that one event wakes may log in any order.
		first, again := sortedHistory(t, s), sortedHistory(t, s)
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

func sortedHistory(t *testing.T, s Scenario) []string {
	lines, failure := historyOf(s)
	if failure != nil {
		t.Errorf("seed %d fails", s.Seed)
	}
	return slices.Sorted(slices.Values(lines))
}

// lineAt is a line of a history, without what differs between two processes.
func lineAt(lines []string, i int) string {
	if i >= len(lines) {
		return "missing"
	}
	return processes.ReplaceAllString(lines[i], "")
}

var processes = regexp.MustCompile(`pid=\d+|version=\w+|/tmp/\S+|\([\d.]+s\)`)
