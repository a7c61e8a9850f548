package probe

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/measure"
)

// writer starts a process that writes lines of 20 bytes to its standard output, as many as it is
// asked for. Its other output is nothing that counts.
func writer(t *testing.T, output *os.File) (pid int, write func(lines int)) {
	t.Helper()
	ask, asked, err := os.Pipe()
	must(t, err)
	c := exec.Command("/bin/sh", "-c", `while read n; do i=0; while [ $i -lt $n ]; do
		echo 1234567890123456789; i=$((i+1)); done; done`)
	c.Stdin, c.Stdout = ask, output
	must(t, c.Start())
	must(t, ask.Close())
	t.Cleanup(func() {
		asked.Close()
		c.Wait()
	})
	calls := func() float64 {
		text, err := readSmall(fmt.Sprintf("/proc/%d/io", c.Process.Pid), make([]byte, 512))
		must(t, err)
		return number(text, "\nsyscw:")
	}
	return c.Process.Pid, func(lines int) {
		t.Helper()
		until, end := calls()+float64(lines), time.Now().Add(time.Minute)
		_, err := fmt.Fprintln(asked, lines)
		must(t, err)
		for calls() < until {
			if time.Now().After(end) {
				t.Fatalf("%d lines are not written in a minute", lines)
			}
			runtime.Gosched()
		}
	}
}

func TestAStandardOutputThatIsNoFileIsToldOfWhoWritesOften(t *testing.T) {
	end, pipe, err := os.Pipe() // it has room for 64 KiB
	must(t, err)
	defer end.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(pair[1])
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	must(t, err)
	for name, c := range map[string]struct {
		output *os.File
		want   float64
	}{
		"a pipe": {pipe, 1}, "a Unix socket": {os.NewFile(uintptr(pair[0]), "pair"), 1},
		"a file": {file, 0}, "nothing": {null, 0},
	} {
		pid, write := writer(t, c.output)
		s := New(Options{PID: pid})
		s.Sample(0)
		write(2 * manyWrites)
		if got, told := s.Sample(1).Values[measure.TargetOutputPiped]; got != c.want || !told {
			t.Errorf("%s: %v processes, want %v", name, got, c.want)
		}
		write(manyWrites / 2)
		if got := s.Sample(2).Values[measure.TargetOutputPiped]; got != 0 {
			t.Errorf("%s: %v processes write often, and few lines were written", name, got)
		}
		must(t, c.output.Close())
	}
}

func TestATerminalIsNoFile(t *testing.T) {
	for name, want := range map[string]bool{
		"/dev/pts/3": true, "/dev/tty1": true, "/dev/console": true,
		"/dev/null": false, "/srv/dev/tty": false,
	} {
		if terminal(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

func TestASocketOfAnotherKindIsNotAUnixSocket(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	must(t, err)
	var l localSockets
	for _, link := range []string{link, "socket:[", "socket:[]", "pipe:[7]", ""} {
		if l.is("/proc", "/proc/self", link) {
			t.Errorf("%q is taken for a Unix socket", link)
		}
	}
	for i := range 2 * maxLocalAsked {
		l.is("/nowhere", "/nowhere", fmt.Sprintf("socket:[%d]", i))
	}
	if len(l.known) != maxLocalAsked {
		t.Errorf("%d sockets are kept, want %d", len(l.known), maxLocalAsked)
	}
}

func TestAFileThatIsTheStandardOutputIsTold(t *testing.T) {
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "out"))
	must(t, err)
	defer file.Close()
	pid, write := writer(t, file)
	s := New(Options{PID: pid})
	s.Sample(0)
	write(fewWrites)
	s.Sample(1)
	write(fewWrites)
	values := s.Sample(2).Values
	if grown := values[measure.TargetAppended+file.Name()]; grown != 20*fewWrites {
		t.Errorf("it has grown by %v, want %v", grown, 20*fewWrites)
	}
	if values[measure.TargetOutputFile+file.Name()] != 1 {
		t.Error("it is not told to be the standard output")
	}
	// This process has it open too, and not as its output.
	log, err := os.Create(filepath.Join(dir, "app.log"))
	must(t, err)
	defer log.Close()
	s = New(Options{PID: os.Getpid()})
	s.Sample(0)
	known := 0.0
	for range 3 {
		known = values[measure.TargetAppended+log.Name()]
		for range fewWrites {
			_, err := log.Write(make([]byte, 4096)) // gathered lines
			must(t, err)
		}
		values = s.Sample(1).Values
	}
	if grown := values[measure.TargetAppended+log.Name()] - known; grown != fewWrites*4096 {
		t.Errorf("lines that are gathered: it has grown by %v", grown)
	}
	if _, told := values[measure.TargetOutputFile+log.Name()]; told {
		t.Error("any file is told to be the standard output")
	}
}
