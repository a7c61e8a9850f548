package sim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// worker is a process that plays scenarios one by one. Whatever a run does to its process, such as
// a panic on a goroutine or a turn that never ends, is a failure of the scenario, and the search
// continues.
type worker struct {
	command func() *exec.Cmd
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  *beginning
}

// verdict is the result of a scenario from a worker's process.
type verdict struct {
	Error string
}

// hung is the time after which a run's process counts as hung. A run takes some hundredths of a
// second.
const hung = 60 * time.Second

// lastWords is how long a hung process gets to print where its goroutines are.
const lastWords = 5 * time.Second

// order says what a worker's process must play.
type order struct {
	Scenario
	Drawn bool // the process draws the scenario from its seed, which costs less than sending it
}

// play makes the process play a scenario.
func (w *worker) play(s Scenario) error { return w.carryOut(order{Scenario: s}) }

// playSeed makes the process play what a seed draws.
func (w *worker) playSeed(seed uint64) error {
	return w.carryOut(order{Scenario: Scenario{Seed: seed}, Drawn: true})
}

// carryOut makes the process execute an order. It first starts the process if there is none.
func (w *worker) carryOut(o order) error {
	if w.cmd == nil {
		if err := w.start(); err != nil {
			return fmt.Errorf("start a worker: %w", err)
		}
	}
	var late atomic.Bool
	process := w.cmd.Process
	timer := time.AfterFunc(hung, func() {
		late.Store(true)
		process.Signal(syscall.SIGQUIT) // this prints its stacks
		time.AfterFunc(lastWords, func() { process.Kill() })
	})
	defer timer.Stop()
	if err := json.NewEncoder(w.in).Encode(o); err != nil {
		return w.died(&late)
	}
	for {
		line, err := w.out.ReadString('\n')
		if err != nil {
			return w.died(&late)
		}
		text, ours := strings.CutPrefix(line, verdictMark)
		if !ours {
			continue
		}
		var v verdict
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			return err
		}
		if v.Error == "" {
			return nil
		}
		w.close() // the next run must not find what a failed run left behind
		return errors.New(v.Error)
	}
}

// verdictMark begins the lines for the parent.
const verdictMark = "verdict: "

// start starts the process. The process is tied to this one, which may die without ending it. Linux
// ties it to the thread that starts it, so the goroutine keeps its thread until the process has
// ended.
func (w *worker) start() (err error) {
	cmd := w.command()
	w.stderr = &beginning{}
	cmd.Stderr = w.stderr
	if w.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	w.out = bufio.NewReader(out)
	tie(cmd)
	runtime.LockOSThread()
	if err := cmd.Start(); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	w.cmd = cmd
	return nil
}

// wait waits for the end of the process.
func (w *worker) wait() error {
	err := w.cmd.Wait()
	w.cmd = nil
	runtime.UnlockOSThread()
	return err
}

// died describes how the process ended. late says that it counted as hung.
func (w *worker) died(late *atomic.Bool) error {
	err := w.wait()
	text := w.stderr.String()
	if at := death.FindStringIndex(text); at != nil {
		line, _, _ := strings.Cut(text[at[0]:], "\n")
		stack := firstStack(text[at[0]:])
		return fmt.Errorf("%s%s\n%s", line, calls([]byte(stack)), stack)
	}
	if late.Load() {
		stack := firstStack(text)
		return fmt.Errorf("the run has not ended after %v%s\n%s", hung, calls([]byte(stack)), text)
	}
	return fmt.Errorf("the process ended: %v\n%s", err, text)
}

// death begins the runtime's message about a panic. If a signal raises the panic while the
// goroutine is pinned, the runtime reports a fatal error instead.
var death = regexp.MustCompile(`(?m)^(panic|fatal error): `)

// firstStack is the first goroutine's stack in a text with several: the goroutine that panicked or
// was running. The others are unrelated.
func firstStack(text string) string {
	_, stack, _ := strings.Cut(text, "\ngoroutine ")
	stack, _, _ = strings.Cut(stack, "\n\n")
	return stack
}

// close ends the process.
func (w *worker) close() {
	if w.cmd != nil {
		w.in.Close()
		w.cmd.Process.Kill()
		w.wait()
	}
}

// serve is a worker's process: it reads orders and reports how each went.
func serve(in io.Reader, out io.Writer, play func(Scenario) error) error {
	decoder := json.NewDecoder(in)
	for {
		var o order
		if err := decoder.Decode(&o); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		if o.Drawn {
			o.Scenario = Draw(o.Seed)
		}
		var v verdict
		if err := play(o.Scenario); err != nil {
			v.Error = err.Error()
		}
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s%s\n", verdictMark, text); err != nil {
			return err
		}
	}
}

// Memory is collected between two runs, when almost none is in use. The collector itself would
// often run in the middle of a run. With so little memory in use at times, it would also return
// pages to the system that the next run needs again.
const (
	collectAbove = 160 << 20 // bytes of heap
	memoryMost   = 1 << 30   // within one run
)

// collectBetween turns automatic collection off; collect is called instead.
func collectBetween() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(memoryMost)
}

// collect collects memory if the heap is large.
func collect() {
	used := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	if metrics.Read(used); used[0].Value.Uint64() > collectAbove {
		runtime.GC()
	}
}

// beginning keeps the first bytes written to it: a panic's message and its stack come first.
type beginning struct {
	mu sync.Mutex
	b  strings.Builder
}

func (t *beginning) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := 64<<10 - t.b.Len(); room > 0 {
		t.b.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

func (t *beginning) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}
