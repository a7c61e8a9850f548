package experiment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"plimsoll/internal/config/strict"
	"plimsoll/internal/lab/disk"
)

const (
	// maxTail is how many bytes of a program's output are kept for display: its end.
	maxTail = 4 << 10
	// maxPrinted is the largest output of a command whose figures are read.
	maxPrinted = 1 << 20
	// pipeDelay is how long after a program's end the processes that it left behind may keep its
	// output open.
	pipeDelay = time.Second
	// setupTime and commandTime bound commands that run to their end.
	setupTime   = 15 * time.Minute
	commandTime = 2 * time.Minute
)

// outsideVariable tells a program in its own network namespace from which namespace it was started.
// The program does not pass it on.
const outsideVariable = "PLIMSOLL_OUTSIDE_NAMESPACE"

// markVariable is in the environment of all processes of a run. Its value is unique to the run.
const markVariable = "PLIMSOLL_RUN"

// process is a started program, with all its children that stayed in its process group.
type process struct {
	cmd   *exec.Cmd
	out   *tail
	ended chan struct{} // closed when the program has ended
	err   error         // how it ended; valid once ended is closed
}

// launch starts a program. waitFor is a text that closes out.seen; it may be empty. stdout is nil
// if the output is only for display.
func launch(
	words []string, dir string, env []setting, waitFor string, stdout *tail,
) (*process, error) {
	p := &process{out: newTail(maxTail, waitFor), ended: make(chan struct{})}
	path := words[0]
	if strings.ContainsRune(path, filepath.Separator) && !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	p.cmd = exec.Command(path, words[1:]...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, p.out, p.out
	if stdout != nil {
		p.cmd.Stdout = stdout
	}
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool {
		return strings.HasPrefix(s, outsideVariable+"=")
	})
	for _, s := range env {
		p.cmd.Env = append(p.cmd.Env, s.name+"="+s.text)
	}
	p.cmd.SysProcAttr = attributes()
	p.cmd.WaitDelay = pipeDelay
	started := make(chan error)
	go func() {
		// Pdeathsig ends a process with the thread that started it, so that thread must live as
		// long as the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", strict.Clip(words[0]), plainError(err))
	}
	return p, nil
}

// plainError is an error without the operation and the program name before it.
func plainError(err error) error {
	if bare, ok := errors.AsType[*exec.Error](err); ok {
		return bare.Err
	}
	return disk.Cause(err)
}

// how says how the program ended: "exit status 2". Call it only after the end.
func (p *process) how() string {
	if p.cmd.ProcessState == nil {
		return fmt.Sprint(p.err)
	}
	return p.cmd.ProcessState.String()
}

// stop ends the program and its process group: with SIGTERM, and after grace with SIGKILL. It
// returns after the program has ended. endStrays ends what has left the group.
func (p *process) stop(grace time.Duration) {
	// An error means that no process is left, which is fine.
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case <-p.ended:
	case <-patience.C:
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

// finish runs a command to its end. The command is killed after limit, or when ctx ends.
func finish(
	ctx context.Context, words []string, dir string, env []setting, limit time.Duration,
	stdout *tail,
) error {
	p, err := launch(words, dir, env, "", stdout)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	command := strict.Clip(strings.Join(words, " "))
	select {
	case <-p.ended:
	case <-bounded.Done():
		p.stop(0)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return withOutput{fmt.Errorf("%s did not end within %v", command, limit), p.out.text()}
	}
	p.stop(0)
	if p.err != nil {
		return withOutput{fmt.Errorf("%s failed: %s", command, p.how()), p.out.text()}
	}
	return nil
}

// withOutput is a program's error with the end of its output.
type withOutput struct {
	error
	output string
}

func (e withOutput) Unwrap() error { return e.error }

// outputOf returns the output that an error carries.
func outputOf(err error) string {
	if o, ok := errors.AsType[withOutput](err); ok {
		return o.output
	}
	return ""
}

// tail keeps the end of what is written to it. Any goroutine may use it.
type tail struct {
	mu     sync.Mutex
	kept   []byte
	limit  int
	cut    bool
	wanted []byte
	seen   chan struct{} // closed when wanted has been written
}

func newTail(limit int, wanted string) *tail {
	return &tail{limit: limit, wanted: []byte(wanted), seen: make(chan struct{})}
}

// Write implements io.Writer. It never fails: a program must not end because it prints a lot.
func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, text...)
	if len(t.wanted) > 0 && bytes.Contains(t.kept, t.wanted) {
		t.wanted = nil
		close(t.seen)
	}
	if over := len(t.kept) - t.limit; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
		t.cut = true
	}
	return len(text), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(string(t.kept)), "·")
}
