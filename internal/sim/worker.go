package sim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Worker is a process that plays scenarios, one after the other. What a run may do to its process,
// from a panic on a goroutine to a turn that never ends, is a failure of the scenario's and no end
// of the search.
type Worker struct {
	command func() *exec.Cmd
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  *beginning
}

// verdict is what a worker's process says of a scenario.
type verdict struct {
	Error string
}

// hung is how long a run may take until its process is taken for hung. A run takes some hundredths
// of a second.
const hung = 60 * time.Second

// NewWorker makes a worker whose process command makes; that process calls Serve. It is started
// when it is needed.
func NewWorker(command func() *exec.Cmd) *Worker { return &Worker{command: command} }

// Play has the process play a scenario.
func (w *Worker) Play(s Scenario) error {
	if w.cmd == nil {
		if err := w.start(); err != nil {
			return fmt.Errorf("start a worker: %w", err)
		}
	}
	timer := time.AfterFunc(hung, func() { w.cmd.Process.Kill() })
	defer timer.Stop()
	if err := json.NewEncoder(w.in).Encode(s); err != nil {
		return w.died()
	}
	for {
		line, err := w.out.ReadString('\n')
		if err != nil {
			return w.died()
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
		w.Close() // what a failed run leaves behind is not the next one's to find
		return errors.New(v.Error)
	}
}

// verdictMark begins the lines that are meant for the parent.
const verdictMark = "verdict: "

func (w *Worker) start() (err error) {
	w.cmd = w.command()
	w.stderr = &beginning{}
	w.cmd.Stderr = w.stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	w.out = bufio.NewReader(out)
	return w.cmd.Start()
}

// died says how the process ended.
func (w *Worker) died() error {
	err := w.cmd.Wait()
	w.cmd = nil
	text := w.stderr.String()
	if at := strings.Index(text, "panic: "); at >= 0 {
		line, _, _ := strings.Cut(text[at:], "\n")
		_, stack, _ := strings.Cut(text[at:], "\ngoroutine ")
		stack, _, _ = strings.Cut(stack, "\n\n") // the others' have nothing to do with it
		return fmt.Errorf("%s%s\n%s", line, Calls([]byte(stack)), stack)
	}
	return fmt.Errorf("the process ended (%v), or was killed after %v\n%s", err, hung, text)
}

// Close ends the process.
func (w *Worker) Close() {
	if w.cmd != nil {
		w.in.Close()
		w.cmd.Process.Kill()
		w.cmd.Wait()
		w.cmd = nil
	}
}

// Serve is a worker's process: it reads scenarios and says how each went.
func Serve(in io.Reader, out io.Writer, play func(Scenario) error) error {
	decoder := json.NewDecoder(in)
	for {
		var s Scenario
		if err := decoder.Decode(&s); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		var v verdict
		if err := play(s); err != nil {
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

// beginning keeps the first bytes that are written to it: a panic's message and its stack come
// first.
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
