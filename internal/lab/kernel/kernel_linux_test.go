package kernel

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/measure"
)

// open opens all sources of a process. ok is false where this user may not have them all: then it
// is only checked that this is said.
func open(t *testing.T, pid int) (read func() map[string]float64, ok bool) {
	t.Helper()
	sources, missing, shut := Open(pid)
	t.Cleanup(func() {
		if err := shut(); err != nil {
			t.Error(err)
		}
	})
	if len(sources) < 3 {
		checkAdvice(t, sources, missing)
		if own, _ := os.Readlink("/proc/self/ns/pid"); own == firstPIDNamespace && effective(t)&(1<<unix.CAP_SYS_ADMIN) != 0 {
			t.Fatalf("root has not all sources: %q", missing)
		}
		t.Logf("not tested without rights: %q", missing)
		return nil, false
	}
	return func() map[string]float64 {
		t.Helper()
		values := make(map[string]float64)
		for _, s := range sources {
			if err := s.Read(values); err != nil {
				t.Fatalf("%s: %v", s.Name(), err)
			}
		}
		return values
	}, true
}

// checkAdvice checks that what is missing is said, with what to do.
func checkAdvice(t *testing.T, sources []Source, missing []string) {
	t.Helper()
	text := strings.Join(missing, "\n")
	scheduler := "CAP_BPF"
	if own, _ := os.Readlink("/proc/self/ns/pid"); own != firstPIDNamespace {
		scheduler = "--pid=host"
	}
	there := make(map[string]bool)
	for _, s := range sources {
		there[s.Name()] = true
	}
	for name, advice := range map[string]string{
		(*perfEvents)(nil).Name(): "perf_event_paranoid", (*offCPU)(nil).Name(): scheduler, (*retransmits)(nil).Name(): "CAP_BPF",
	} {
		if !there[name] && (!strings.Contains(text, name+": ") || !strings.Contains(text, advice)) {
			t.Errorf("%s is missing, and nobody says what to do: %s", name, text)
		}
	}
}

// effective are this thread's rights.
func effective(t *testing.T) uint64 {
	t.Helper()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		t.Fatal(err)
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective)
}

// dropRights takes from this thread the right to watch others, for the rest of the test. The thread
// is not given back: a locked one ends with its goroutine, which is the test's.
func dropRights(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capset(&header, &data[0]); err != nil {
		t.Fatal(err)
	}
}

// echo is a shell that answers.
type echo struct {
	shell *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
}

// start starts a shell, which ends with the test.
func start(t *testing.T, arguments ...string) *echo {
	t.Helper()
	e := &echo{shell: exec.Command(arguments[0], arguments[1:]...)}
	var err error
	if e.in, err = e.shell.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := e.shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	e.out = bufio.NewReader(out)
	if err := e.shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.in.Close()
		e.shell.Wait()
	})
	return e
}

// startEcho starts a shell whose child sends back each line that it gets.
func startEcho(t *testing.T) *echo {
	t.Helper()
	e := start(t, "sh", "-c", "cat; :")
	e.trip(t) // from now on the child is there
	return e
}

func (e *echo) trip(t *testing.T) {
	t.Helper()
	e.ask(t, "ping\n", "ping\n")
}

// ask sends a line and waits for the answer.
func (e *echo) ask(t *testing.T, line, want string) {
	t.Helper()
	if _, err := io.WriteString(e.in, line); err != nil {
		t.Fatal(err)
	}
	if answer, err := e.out.ReadString('\n'); err != nil || answer != want {
		t.Fatalf("%q, %v", answer, err)
	}
}

// until asks again and again; what it waits for comes from the kernel, soon.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for start := time.Now(); !holds(); runtime.Gosched() {
		if time.Since(start) > 2*time.Minute {
			t.Fatalf("%s: not within two minutes", what)
		}
	}
}

// burn uses a processor for so long.
func burn(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
		continue
	}
}

func TestTheNamesAreThoseThatAreDocumented(t *testing.T) {
	read, ok := open(t, os.Getpid())
	if !ok {
		return
	}
	first := read()
	burn(10 * time.Millisecond)
	second := read()
	document, err := os.ReadFile("../../../docs/run-directory.md")
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, v := range Values {
		known[v.Name] = true
		if second[v.Name] < first[v.Name] {
			t.Errorf("%s is a counter, and fell from %v to %v", v.Name, first[v.Name], second[v.Name])
		}
		if !strings.Contains(string(document), "`"+v.Name+"`") {
			t.Errorf("%s is not in docs/run-directory.md", v.Name)
		}
		if !v.Counter || v.Means == "" {
			t.Errorf("%+v", v)
		}
	}
	for name := range second {
		if !known[name] && !strings.HasPrefix(name, measure.BPFRetransmitsOf) {
			t.Errorf("%s is in no list", name)
		}
	}
}

func TestATargetThatEndsOrIsAnotherIsSaid(t *testing.T) {
	e := startEcho(t)
	sources, missing, shut := Open(e.shell.Process.Pid)
	defer shut()
	e.in.Close()
	until(t, "the shell ends", func() bool {
		proc, _ := procfs.NewDefaultFS()
		s, err := statOf(proc, e.shell.Process.Pid)
		return err != nil || s.State == "Z"
	})
	for _, s := range sources {
		values := make(map[string]float64)
		if err := s.Read(values); err == nil || !strings.Contains(err.Error(), "(sh) ended while it was measured") || len(values) != 0 {
			t.Errorf("%s: %v, %v", s.Name(), err, values)
		}
	}
	if len(sources) == 0 {
		t.Logf("not tested without rights: %q", missing)
	}
	other, err := newTarget(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	other.start-- // what follows is what a process would look like that got the number of another
	if err := other.check(); err == nil || !strings.Contains(err.Error(), "its number went to another one") {
		t.Error(err)
	}
	if sources, missing, _ := Open(1 << 30); len(sources) != 0 || len(missing) != 1 ||
		!strings.Contains(missing[0], "there is no process 1073741824") {
		t.Errorf("%v %q", sources, missing)
	}
}

func TestWithoutRightsItIsSaidWhatToDo(t *testing.T) {
	dropRights(t)
	keepGarbage(t)
	before := descriptors(t)
	sources, missing, shut := Open(os.Getpid())
	checkAdvice(t, sources, missing)
	if len(missing) == 0 {
		t.Error("everything is there without any rights")
	}
	for _, s := range sources {
		if err := s.Read(make(map[string]float64)); err != nil {
			t.Errorf("%s: %v", s.Name(), err)
		}
	}
	if err := shut(); err != nil {
		t.Error(err)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, and %d after", before, after)
	}
}

// keepGarbage keeps the garbage collector from closing what was forgotten.
func keepGarbage(t *testing.T) {
	t.Helper()
	before := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(before) })
}

// descriptors counts those that this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func TestNothingIsLeftWhenItIsShut(t *testing.T) {
	keepGarbage(t)
	var programs []ebpf.ProgramID
	for round := range 3 {
		before := descriptors(t)
		sources, _, shut := Open(os.Getpid())
		for _, s := range sources {
			if o, ok := s.(*offCPU); ok {
				for _, p := range o.collection.Programs {
					if info, err := p.Info(); err == nil {
						id, _ := info.ID()
						programs = append(programs, id)
					}
				}
			}
		}
		during := descriptors(t)
		if err := shut(); err != nil {
			t.Error(err)
		}
		if after := descriptors(t); after > before && round > 0 { // the first one opens what the runtime keeps
			t.Errorf("%d descriptors before, and %d after", before, after)
		}
		if len(sources) > 0 && during <= before {
			t.Errorf("%d descriptors before and %d during: this shows nothing", before, during)
		}
	}
	for _, id := range programs {
		until(t, "the program is gone from the kernel", func() bool {
			p, err := ebpf.NewProgramFromID(id)
			if err == nil {
				p.Close()
			}
			return errors.Is(err, os.ErrNotExist)
		})
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for want, err := range map[string]error{
		"kernel.perf_event_paranoid=1": unix.EACCES, "seccomp": unix.EPERM,
		"give the container CAP_PERFMON": unix.ENOSYS, "ulimit -n": unix.EMFILE,
		"argument list too long": unix.E2BIG,
	} {
		if text := (&perfEvents{}).explain(err).Error(); !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
	for want, err := range map[string]error{
		"CAP_BPF and CAP_PERFMON": fmt.Errorf("program: %w", unix.EPERM), "CONFIG_DEBUG_INFO_BTF": ebpf.ErrNotSupported,
		"differ from those of Linux 5.18": &ebpf.VerifierError{Cause: unix.EACCES,
			Log: []string{"invalid bpf_context access off=24 size=8"}},
	} {
		if text := explain(err).Error(); !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
}
