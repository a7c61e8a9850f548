// Package profiler takes CPU profiles of processes that, unlike Go services, do not offer them over
// HTTP: by a command that a person names, by the JDK's jfr tool, and by the inspector of Node and
// other V8 runtimes. It must know nothing of loads and runs, or of what profiles are used for. What
// programs and peers return is not trusted: time, sizes and output are bounded.
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
	// grace is how much longer than the profile itself its making may take.
	grace = 20 * time.Second
	// dying is how long a program that was told to end may take before it is killed.
	dying = 2 * time.Second
	// mostFile bounds the files that a command may write, in the blocks of 512 bytes that ulimit
	// counts: 512 MB. A recording is larger than the profile that is made of it.
	mostFile = 1 << 20
	// mostSaid is how much is kept of what a command prints.
	mostSaid = 4 << 10
)

// Command is a shell command that writes a profile to a file. {out} in it is the file, {seconds}
// the time for which to profile, in whole seconds, and {pid} the process.
type Command struct {
	Text string
	PID  int // 0 where it is not known
	// Hertz is how many samples a second the command takes; 0 is the usual rate of its format.
	Hertz float64

	grace  time.Duration
	blocks int // of 512 bytes, which a file may have that the command writes
}

// NewCommand checks a command's text; its error is for who wrote it.
func NewCommand(text string, pid int, hertz float64) (*Command, error) {
	if !strings.Contains(text, "{out}") {
		return nil, errors.New("the command has to say where its profile goes, with {out}: " +
			"py-spy record -d {seconds} -p {pid} -f raw -o {out}")
	}
	return &Command{Text: text, PID: pid, Hertz: hertz, grace: grace, blocks: mostFile}, nil
}

// Take runs the command for so long, at least a second, and reads its profile. It returns when the
// command has ended, at the latest some seconds after its time or soon after ctx has ended; nothing
// of its process group is left then. It may be called from any goroutine, one at a time.
func (c *Command) Take(ctx context.Context, length time.Duration) (*profile.Profile, error) {
	if c.PID == 0 && strings.Contains(c.Text, "{pid}") {
		return nil, errors.New("the target's process is not known: name it with --pid")
	}
	dir, err := os.MkdirTemp("", "plimsoll-profile-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	// A name that any tool takes: some choose their format by its end, and none do by this.
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
	p, _, err := stacks.Read(data, o)
	if errors.Is(err, stacks.ErrRecording) {
		recording := out + ".jfr" // the tool takes no other name
		if err = os.Rename(out, recording); err == nil {
			p, err = Recording(ctx, recording, o)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("what it wrote is not a profile: %w", err)
	}
	return p, nil
}

// readFile reads what a command has written, whatever it made of it.
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

// jfrDepth is how many frames of a stack the jfr tool prints: all that the recorder keeps. It
// prints five otherwise, which often end in a library.
const jfrDepth = "64"

// Recording has the JDK's jfr tool print a flight recording, and reads that.
func Recording(ctx context.Context, file string, o stacks.Options) (*profile.Profile, error) {
	if _, err := exec.LookPath("jfr"); err != nil {
		return nil, fmt.Errorf("%w: the JDK's jfr tool is not in the PATH here", stacks.ErrRecording)
	}
	out := bound{most: stacks.Most}
	err := run(ctx, time.Minute, &out,
		"jfr", "print", "--json", "--events", "jdk.ExecutionSample", "--stack-depth", jfrDepth, file)
	if err != nil {
		return nil, err
	}
	if out.cut {
		return nil, fmt.Errorf("the recording has more than %d MiB of samples", stacks.Most>>20)
	}
	p, _, err := stacks.Read(out.kept.Bytes(), o)
	return p, err
}

// bound keeps the beginning of what is written to it, and takes the rest too.
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

// run runs a program in a process group of its own, with nothing to read, and waits for it. When
// its time is over or ctx has ended the whole group is told to end, and killed if it does not; what
// a program that has ended left behind is killed as well. An error has the last that it said.
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
	// A program that has ended may have left others that hold its output open, so those are killed
	// before Wait asks for the end of the output.
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

// words is the end of what a program said, for a message of one line.
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
