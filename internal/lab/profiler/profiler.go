// Package profiler takes CPU profiles of processes that, unlike Go services, do not offer them over
// HTTP: by a command that a person names, by the JDK's jfr tool, by the inspector of Node and other V8
// runtimes, and from thread dumps of a JVM. It must know nothing of loads and runs, or of what profiles
// are used for. What programs and peers return is not trusted: time, sizes and output are bounded.
package profiler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/pprof/profile"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/stacks"
	"plimsoll/internal/plainfile"
)

const (
	// grace is how much longer than the profile's length taking the profile may take.
	grace = 20 * time.Second
	// dying is how long a program may take to end after SIGTERM before it is killed.
	dying = 2 * time.Second
	// mostFile limits the files that a command may write, in the blocks of 512 bytes that ulimit
	// counts: 512 MB. A recording is larger than the profile made from it.
	mostFile = 1 << 20
	// mostSaid limits how much is kept of what a command prints: 16 times as many bytes.
	mostSaid = 4 << 10
)

// Command is a shell command that writes a profile to a file. In it, {out} is the file, {seconds}
// is the time to profile in whole seconds, and {pid} is the process.
type Command struct {
	Text string
	PID  int // 0 if it is not known
	// Hertz is how many samples per second the command takes; 0 means the usual rate of its format.
	Hertz float64

	grace  time.Duration
	blocks int // limit, in blocks of 512 bytes, on files that the command writes
	waits  *profile.Profile
	notes  []string
}

// Waits returns where threads waited for locks while the last profile was taken, as a profile with the
// weights of Go's mutex profiles. It is nil unless the command wrote a flight recording that has
// such waits.
func (c *Command) Waits() *profile.Profile { return c.waits }

// Notes returns what the last profile lacks, for a person.
func (c *Command) Notes() []string { return c.notes }

// NewCommand checks a command's text. Its error is for the person who wrote it.
func NewCommand(text string, pid int, hertz float64) (*Command, error) {
	if !strings.Contains(text, "{out}") {
		return nil, errors.New("the command has to say where its profile goes, with {out}: " +
			"py-spy record -d {seconds} -p {pid} -f raw -o {out}")
	}
	return &Command{Text: text, PID: pid, Hertz: hertz, grace: grace, blocks: mostFile}, nil
}

// Take runs the command for the given length, at least a second, and reads its profile. It returns
// when the command has ended: at the latest grace and dying after its time, or soon after ctx has
// ended. If the command wrote a flight recording, reading it may take another two minutes. No process
// of the command's group is left afterwards. Take may be called from any goroutine, one at a time.
func (c *Command) Take(ctx context.Context, length time.Duration) (*profile.Profile, error) {
	if c.PID == 0 && strings.Contains(c.Text, "{pid}") {
		return nil, errors.New("the target's process is not known: name it with --pid")
	}
	dir, err := os.MkdirTemp("", "plimsoll-profile-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	// Any tool accepts this name: some choose their format by its extension, and none do for this
	// one.
	out := filepath.Join(dir, "profile")
	seconds := max(1, int(length/time.Second))
	text := strings.NewReplacer("{pid}", strconv.Itoa(c.PID), "{out}", format.Command(out),
		"{seconds}", strconv.Itoa(seconds)).Replace(c.Text)
	limit := time.Duration(seconds)*time.Second + c.grace
	if err := run(ctx, limit, io.Discard, "sh", "-c",
		fmt.Sprintf("ulimit -f %d\n%s", c.blocks, text)); err != nil {
		return nil, err
	}
	data, err := readFile(out)
	if err != nil {
		return nil, err
	}
	o := stacks.Options{Hertz: c.Hertz, Seconds: float64(seconds)}
	c.waits, c.notes = nil, nil
	p, _, err := stacks.Read(data, o)
	if errors.Is(err, stacks.ErrRecording) {
		recording := out + ".jfr" // the tool accepts no other extension
		if err = os.Rename(out, recording); err == nil {
			if p, err = Recording(ctx, recording, o); err == nil {
				c.readWaits(ctx, recording, o.Seconds)
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("what it wrote is not a profile: %w", err)
	}
	return p, nil
}

// readFile reads what a command has written, whatever kind of file it is.
func readFile(name string) ([]byte, error) {
	data, err := plainfile.Read(name, stacks.Most)
	switch {
	case errors.Is(err, os.ErrNotExist):
		err = errors.New("it ended without writing a profile to {out}")
	case errors.Is(err, plainfile.ErrKind):
		err = errors.New("what it made of {out} is not a file")
	case errors.Is(err, plainfile.ErrSize):
		err = fmt.Errorf("its profile is larger than %d MiB: profile for a shorter time, or less often",
			stacks.Most>>20)
	}
	return data, err
}

// jfrDepth is how many frames of a stack the jfr tool prints: all that the recorder keeps. By
// default it prints five, which often end in a library.
const jfrDepth = "64"

// Recording has the JDK's jfr tool print a flight recording, and reads that.
func Recording(ctx context.Context, file string, o stacks.Options) (*profile.Profile, error) {
	if _, err := exec.LookPath("jfr"); err != nil {
		return nil, fmt.Errorf("%w: the JDK's jfr tool is not in the PATH here", stacks.ErrRecording)
	}
	text, err := printed(ctx, file, "jdk.ExecutionSample", jfrDepth)
	if err != nil {
		return nil, err
	}
	p, _, err := stacks.Read(text, o)
	return p, err
}

// readWaits keeps the waits for locks in a flight recording. The profile of the processor time is worth
// having without them, so a failure is a note.
func (c *Command) readWaits(ctx context.Context, file string, seconds float64) {
	text, err := printed(ctx, file, "jdk.JavaMonitorEnter", waitDepth)
	if err == nil {
		c.waits, err = stacks.ReadWaits(text, seconds)
	}
	if err != nil {
		c.notes = append(c.notes, "waits for locks in the flight recording: "+err.Error())
	}
}

// waitDepth is how many frames of a thread that waits are printed. Each takes some 700 bytes.
const waitDepth = "24"

// printed has the JDK's jfr tool print the events of a type.
func printed(ctx context.Context, file, events, depth string) ([]byte, error) {
	out := bound{most: stacks.Most}
	err := run(ctx, time.Minute, &out,
		"jfr", "print", "--json", "--events", events, "--stack-depth", depth, file)
	if err == nil && out.cut {
		err = fmt.Errorf("the recording has more than %d MiB of %s", stacks.Most>>20, events)
	}
	return out.kept.Bytes(), err
}

// bound keeps the beginning of what is written to it, and accepts the rest too.
type bound struct {
	kept bytes.Buffer
	most int
	cut  bool
}

func (b *bound) Write(p []byte) (int, error) {
	room := min(len(p), b.most-b.kept.Len())
	b.kept.Write(p[:room])
	b.cut = b.cut || room < len(p)
	return len(p), nil
}

// run runs a program in its own process group, without input, and waits for it. When its time is
// over or ctx has ended, the whole group gets SIGTERM, and SIGKILL if it does not end. Processes
// that a finished program left behind are killed as well. An error includes the end of the
// program's output.
func run(ctx context.Context, limit time.Duration, out io.Writer, name string, args ...string) error {
	soon, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	said := bound{most: 16 * mostSaid}
	cmd := exec.CommandContext(soon, name, args...)
	cmd.Stdout, cmd.Stderr = out, &said
	if out == io.Discard {
		cmd.Stdout = &said
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = dying
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s cannot be started: %w", name, err)
	}
	// After WaitDelay, exec kills only the program itself. Other processes of its group may hold
	// its output open, so the whole group is killed.
	ended := make(chan struct{})
	defer close(ended)
	context.AfterFunc(soon, func() {
		hard := time.NewTimer(dying)
		defer hard.Stop()
		select {
		case <-hard.C:
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		case <-ended:
		}
	})
	err := cmd.Wait()
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success():
		return nil
	case ctx.Err() != nil:
		return errors.New("it was stopped before it had ended")
	case soon.Err() != nil:
		return fmt.Errorf("it had not ended %v after it was started, and was killed%s", limit, words(&said))
	}
	return fmt.Errorf("it failed (%w)%s", err, words(&said))
}

// words returns the end of a program's output, for a message of one line.
func words(said *bound) string {
	text := strings.TrimSpace(said.kept.String())
	const most = 300
	if len(text) > most {
		text = "…" + text[len(text)-most:]
	}
	if text == "" {
		return ""
	}
	return ": " + format.Clean(strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), ""))
}
