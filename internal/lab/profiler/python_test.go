package profiler

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	lab "plimsoll/internal/lab/profile"
)

// pythonService works in one function. It writes its stacks to a file on a signal, which is all
// that Python's library offers for looking from outside.
const pythonService = `import faulthandler, os, signal, sys

def score(t):
    for i in range(1000):
        t = (t * 31 + i) % 1000003
    return t

def handle(t):
    return score(t)

faulthandler.register(signal.SIGUSR1, file=open(sys.argv[1] + ".dump", "w"))
os.rename(sys.argv[1] + ".dump", sys.argv[1])
t = 1
while True:
    t = handle(t)
`

// pythonSampler asks for stacks and folds them, as py-spy does.
const pythonSampler = `import collections, os, re, signal, sys, time

pid, dump, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
for _ in range(100):
    os.kill(pid, signal.SIGUSR1)
    time.sleep(0.01)
stacks, at = collections.Counter(), []

def whole():
    if at:
        stacks[";".join(reversed(at))] += 1
    at.clear()

for line in open(dump):
    frame = re.match(r'  File "(.*)", line (\d+) in (.*)', line)
    if frame:
        at.append("%s (%s:%s)" % (frame[3], frame[1], frame[2]))
    else:
        whole()
whole()
with open(out, "w") as f:
    for stack, n in stacks.items():
        f.write("%s %d\n" % (stack, n))
`

func TestAHotFunctionOfPythonByACommand(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("there is no python3 here: scripts/tools.sh installs it")
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	dump := filepath.Join(dir, "stacks")
	service := exec.Command(python, write("shop.py", pythonService), dump)
	service.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // pyenv's python3 is a script
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-service.Process.Pid, syscall.SIGKILL)
		_ = service.Wait()
	})
	until(t, "the service never said that it is there", func() bool {
		_, err := os.Stat(dump)
		return err == nil
	})
	c, err := NewCommand(python+" "+write("sampler.py", pythonSampler)+" {pid} "+dump+" {out}",
		service.Process.Pid, 100)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Take(t.Context(), 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	read, err := lab.Parse(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	top := read.Top(lab.CPU, lab.FirstUser, 1)
	if len(top) != 1 || top[0].Function != "score" || filepath.Base(top[0].File) != "shop.py" ||
		top[0].Line < 3 || top[0].Line > 6 || top[0].Share < .5 {
		t.Errorf("score of shop.py, lines 3 to 6, is not at the top: %+v of %d stacks", top,
			len(p.Sample))
	}
}
