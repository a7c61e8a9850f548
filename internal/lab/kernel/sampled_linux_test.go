package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	lab "plimsoll/internal/lab/profile"
)

// sampler opens a sampler of a process. If this user may not have one, it only checks the error and
// its advice, and returns nil.
func sampler(t *testing.T, pid int) *Sampler {
	t.Helper()
	s, err := OpenSampler(pid)
	if err == nil {
		t.Cleanup(s.Close)
		return s
	}
	if effective(t)&(1<<unix.CAP_SYS_ADMIN) != 0 {
		t.Fatalf("root may not profile: %v", err)
	}
	if !strings.Contains(err.Error(), "CAP_PERFMON") {
		t.Errorf("nobody says what to do: %v", err)
	}
	t.Logf("not tested without rights: %v", err)
	return nil
}

// started starts a program that works until the test ends.
func started(t *testing.T, name string, args ...string) int {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = t.TempDir()                                 // Node leaves a log where it runs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what it starts ends with it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
	})
	return cmd.Process.Pid
}

// found takes short profiles until one has a function with its file in the service's own code, for
// a minute at most: the machine may be slow, and the program has to start first. It says what is at
// the top.
func found(t *testing.T, s *Sampler, function, file string) (at lab.Place, ok bool) {
	t.Helper()
	if s == nil {
		return lab.Place{}, false
	}
	var last []lab.Place
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		p, err := s.Take(t.Context(), 300*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		last = labProfile(t, p).Top(lab.CPU, lab.FirstUser, 3)
		for _, one := range last {
			if one.Function == function && strings.HasSuffix(one.File, file) && one.Share > .5 {
				return one, true
			}
		}
	}
	t.Errorf("%s %s is not at the top: %+v; %q", function, file, last, s.Notes())
	return lab.Place{}, false
}

func labProfile(t *testing.T, p *profile.Profile) *lab.Profile {
	t.Helper()
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	again, err := lab.Parse(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const cWork = `__attribute__((noinline)) unsigned score(unsigned t) {
	for (unsigned i = 0; i < 100000; i++)
		t = (t * 31 + i) % 1000003;
	return t;
}
int main(void) { volatile unsigned t = 1; for (;;) t = score(t); }
`

func TestAHotFunctionOfC(t *testing.T) {
	source := write(t, "work.c", cWork)
	for _, c := range []struct {
		name, file string
		flags      []string
	}{
		{"with lines", "work.c", []string{"-O1", "-g", "-fno-omit-frame-pointer"}},
		{"with symbols alone", "", []string{"-O1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			binary := filepath.Join(t.TempDir(), "work")
			out, err := exec.Command("gcc", append(c.flags, "-o", binary, source)...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			s := sampler(t, started(t, binary))
			at, ok := found(t, s, "score", c.file)
			if ok && c.file != "" && (at.Line < 1 || at.Line > 5) {
				t.Errorf("score is in line %d", at.Line)
			}
		})
	}
	t.Run("stripped", func(t *testing.T) {
		binary := filepath.Join(t.TempDir(), "work")
		out, err := exec.Command("gcc", "-O1", "-s", "-o", binary, source).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		s := sampler(t, started(t, binary))
		if s == nil {
			return
		}
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
			if _, err := s.Take(t.Context(), 300*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			if notes := strings.Join(s.Notes(), "\n"); strings.Contains(notes,
				"functions in work: the file has no symbols") {
				return
			}
		}
		t.Errorf("nothing is said of a file without symbols: %q", s.Notes())
	})
}

func TestAHotFunctionOfAProcessThatWasStartedLater(t *testing.T) {
	source := write(t, "work.c", cWork)
	binary := filepath.Join(t.TempDir(), "work")
	if out, err := exec.Command("gcc", "-O1", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// The master waits, and a worker of its works.
	s := sampler(t, started(t, "sh", "-c", binary+" & trap 'kill $!' EXIT; wait"))
	found(t, s, "score", "")
}

func TestAHotFunctionOfNode(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatal("there is no node here: scripts/tools.sh installs it")
	}
	file := write(t, "work.js", `function score(t) {
  for (let i = 0; i < 1e6; i++) t = (t * 31 + i) % 1000003;
  return t;
}
let t = 1;
for (;;) t = score(t);
`)
	s := sampler(t, started(t, "node", "--perf-basic-prof", file))
	if at, ok := found(t, s, "score", "work.js"); ok && at.Line != 1 {
		t.Errorf("score begins in line %d", at.Line)
	}
}

func TestAHotFunctionOfPython(t *testing.T) {
	python := ""
	for _, name := range []string{"python3.14", "python3.13", "python3.12", "python3"} {
		if exec.Command(name, "-X", "perf", "-c",
			"import sys; sys.activate_stack_trampoline('perf')").Run() == nil {
			python = name
			break
		}
	}
	if python == "" {
		t.Log("not tested: there is no python here that has perf support, 3.12 or later")
		return
	}
	file := write(t, "work.py", "def score(t):\n    for i in range(100000):\n        t = (t * 31 + "+
		"i) % 1000003\n"+
		"    return t\ndef main():\n    t = 1\n    while True:\n        t = score(t)\nmain()\n")
	s := sampler(t, started(t, python, "-X", "perf", file))
	found(t, s, "score", "work.py")
}

func TestAProcessThatIsNotThere(t *testing.T) {
	if _, err := OpenSampler(0); err == nil || !strings.Contains(err.Error(), "--pid") {
		t.Errorf("no process: %v", err)
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSampler(cmd.Process.Pid); err == nil || !strings.Contains(err.Error(), "no process") {
		t.Errorf("one that has ended: %v", err)
	}
}

func TestWhatIsSaidWhereAProcessMayNotBeProfiled(t *testing.T) {
	s := &Sampler{target: &target{pid: 7, name: "shop"}}
	for err, want := range map[error]string{
		unix.EACCES: "process 7 (shop) may not be profiled (kernel.perf_event_paranoid is ",
		unix.EPERM:  "CAP_PERFMON", unix.EMFILE: "ulimit -n",
	} {
		if got := s.explain(err); !strings.Contains(got.Error(), want) {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// record is a record as the kernel writes it.
func record(kind uint32, words ...uint64) []byte {
	out := binary.NativeEndian.AppendUint32(nil, kind)
	out = binary.NativeEndian.AppendUint16(out, 0)
	out = binary.NativeEndian.AppendUint16(out, uint16(8+8*len(words)))
	for _, w := range words {
		out = binary.NativeEndian.AppendUint64(out, w)
	}
	return out
}

func TestRecordsOfARing(t *testing.T) {
	c := &collector{whole: true, members: map[int]uint64{5: 1}, asked: map[int]bool{6: true},
		counts: map[string]int64{}}
	// The ring's end is within the second record, and the last has not been written whole.
	var all []byte
	for _, one := range [][]byte{
		record(unix.PERF_RECORD_SAMPLE, 5, 3, contextUser, 0x10, 0x20),
		record(unix.PERF_RECORD_SAMPLE, 5, 4, contextKernel, 0x30, contextUser, 0x10),
		record(unix.PERF_RECORD_SAMPLE, 6, 2, contextUser, 0x10), // another process
		record(unix.PERF_RECORD_LOST, 1, 7),
		record(unix.PERF_RECORD_SAMPLE, 5, 100, contextUser), // more addresses than there are
		record(unix.PERF_RECORD_SAMPLE, 5, 3, contextUser, 0x10, 0x20),
	} {
		all = append(all, one...)
	}
	const size, from = 512, 512 - 60
	data := make([]byte, size)
	for i, b := range all {
		data[(from+i)%size] = b
	}
	head, tail := uint64(from+len(all)), uint64(from)
	r := &ring{head: &head, tail: &tail, data: data}
	r.drain(c)
	if tail != head || c.lost != 7 || len(c.counts) != 2 {
		t.Errorf("read to %d of %d, %d lost, %d stacks", tail, head, c.lost, len(c.counts))
	}
	got := map[string]int64{}
	for key, n := range c.counts {
		pid, kernel, user, _ := chain(key)
		got[fmt.Sprintf("%d %x %x", pid, kernel, user)] = n
	}
	if got["5 [] [10 20]"] != 2 || got["5 [30] [10]"] != 1 {
		t.Errorf("%v", got)
	}
	// A record without a length would never end.
	head, tail = 16, 0
	copy(data, make([]byte, 16))
	if r.drain(c); tail != head {
		t.Error("a damaged ring is not passed over")
	}
}
