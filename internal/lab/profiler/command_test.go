package profiler

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func take(t *testing.T, text string) (string, error) {
	t.Helper()
	c, err := NewCommand(text, 4711, 0)
	if err != nil {
		t.Fatal(err)
	}
	c.blocks = 1 << 10
	p, err := c.Take(t.Context(), 3*time.Second)
	if err != nil {
		return "", err
	}
	return p.Sample[0].Location[0].Line[0].Function.Name, nil
}

func TestACommandWritesAProfile(t *testing.T) {
	c, err := NewCommand("echo 'main;pid {pid} for {seconds} 50' > {out}", 4711, 25)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Take(t.Context(), 3900*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	name := p.Sample[0].Location[0].Line[0].Function.Name
	if name != "pid 4711 for 3" || p.Sample[0].Value[1] != 2e9 || p.DurationNanos != 3e9 {
		t.Errorf("%q weighs %v in %d ns", name, p.Sample[0].Value, p.DurationNanos)
	}
	if left, _ := filepath.Glob(os.TempDir() + "/plimsoll-profile-*"); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
}

func TestWhatACommandMayDoWrong(t *testing.T) {
	for text, want := range map[string]string{
		"echo no such process >&2; exit 3 # {out}": "it failed (exit status 3): no such process",
		"true # {out}":       "without writing a profile",
		"echo hello > {out}": "what it wrote is not a profile: line 1: ",
		"mkfifo {out}":       "is not a file",
		"printf '\\033[2Jevil' >&2; exit 1 # {out}":       "·[2Jevil",
		"dd if=/dev/zero of={out}.raw bs=1M count=2 2>&1": "it failed",
	} {
		if _, err := take(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := NewCommand("py-spy record", 1, 0); err == nil || !strings.Contains(err.Error(), "{out}") {
		t.Errorf("a command that does not name its file: %v", err)
	}
	c, _ := NewCommand("touch {pid} {out}", 0, 0)
	if _, err := c.Take(t.Context(), time.Second); err == nil || !strings.Contains(err.Error(), "--pid") {
		t.Errorf("a command for a process that is not known: %v", err)
	}
}

// gone reports whether a process has ended. A zombie counts as gone: a killed process has no parent
// here but init to wait for it.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(status), ") Z ")
}

// until waits for a state that comes by itself, for at most a minute.
func until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	over := time.After(time.Minute)
	for !reached() {
		select {
		case <-tick.C:
		case <-over:
			t.Error(what)
			return
		}
	}
}

// child reads the PID that a command has written of a process it started.
func child(file string) int {
	data, _ := os.ReadFile(file)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return pid
}

func TestACommandIsKilledWithItsGroup(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		end  bool // ctx ends
		want string
	}{
		"its time is over": {
			"trap '' TERM; sleep 1000 & echo $! > FILE; wait; sleep 1000 # {out}", false, "was killed",
		},
		"it is stopped": {"sleep 1000 & echo $! > FILE; wait # {out}", true, "was stopped"},
		"it leaves a process behind": {
			"sleep 1000 >/dev/null 2>&1 & echo $! > FILE; echo 'a 1' > {out}", false, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			cmd := &Command{Text: strings.ReplaceAll(c.text, "FILE", file), PID: 1,
				grace: time.Minute, blocks: mostFile}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.want == "was killed" {
				cmd.grace = 0
			}
			if c.end {
				go func() {
					defer cancel()
					until(t, "the command never started its own", func() bool { return child(file) > 0 })
				}()
			}
			_, err := cmd.Take(ctx, time.Second)
			if c.want == "" && err != nil || c.want != "" && (err == nil ||
				!strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
			pid := child(file)
			if pid == 0 {
				t.Fatal("the command never started its own")
			}
			until(t, "a process of the command's is still there", func() bool { return gone(pid) })
		})
	}
}
