package doctor

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// listenShort listens with a backlog, which package net does not let one choose.
func listenShort(t *testing.T, backlog int) (port int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return bound.(*unix.SockaddrInet4).Port
}

func TestThisMachineAndThisProcessAreRead(t *testing.T) {
	r, err := Examine(context.Background(), Options{PID: os.Getpid(), Speed: -1})
	if err != nil {
		t.Fatal(err)
	}
	// What every Linux has, in a container too.
	for _, name := range []string{
		"descriptors of the process", "backlog in force", "net.core.somaxconn",
		"net.ipv4.ip_local_port_range",
		"net.ipv4.tcp_tw_reuse", "net.ipv4.tcp_rmem",
		"GOMAXPROCS", "GOMEMLIMIT", "vm.swappiness", "crypto instructions",
	} {
		if f := named(t, r, name); f.Verdict == Unreadable || f.Value == "" {
			t.Errorf("%+v", f)
		}
	}
	if r.Process == nil || r.Process.PID != os.Getpid() ||
		!strings.HasPrefix(r.Process.Go, "go1.") || r.Machine.Cores < 1 {
		t.Errorf("%+v", r)
	}
}

func TestTheBacklogInForceIsTheKernels(t *testing.T) {
	port := listenShort(t, 7)
	r, err := Examine(context.Background(), Options{PID: os.Getpid(), Speed: -1})
	if err != nil {
		t.Fatal(err)
	}
	f := named(t, r, "backlog in force")
	if f.Verdict != Advise ||
		!strings.Contains(f.Value, fmt.Sprintf("127.0.0.1:%d: 0 of 7", port)) ||
		!strings.HasPrefix(f.Command, "# the program asks for less") {
		t.Errorf("%+v", f)
	}
}

func TestTheSettingsAreThoseOfTheProcesssNamespace(t *testing.T) {
	child := exec.Command("sh", "-c",
		"echo 100 > /proc/sys/net/core/somaxconn && "+
			"echo 20000 20999 > /proc/sys/net/ipv4/ip_local_port_range; echo ready; read line")
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Logf("a namespace of its own takes root: %v", err)
		return
	}
	defer child.Wait()
	defer in.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	r, err := Examine(context.Background(), Options{PID: child.Process.Pid, Speed: -1})
	if err != nil {
		t.Fatal(err)
	}
	if f := named(t, r, "net.core.somaxconn"); f.Value != "100" || f.Verdict != Advise ||
		!strings.HasPrefix(f.Command, fmt.Sprintf("nsenter -t %d -n sysctl -w "+
			"net.core.somaxconn=4096 # ", child.Process.Pid)) {
		t.Errorf("%+v", f)
	}
	if f := named(t, r, "net.ipv4.ip_local_port_range"); f.Value != "20000-20999" ||
		f.Verdict != Advise {
		t.Errorf("%+v", f)
	}
	own, err := Examine(context.Background(), Options{PID: os.Getpid(), Speed: -1})
	if err != nil {
		t.Fatal(err)
	}
	if f := named(t, own, "net.ipv4.ip_local_port_range"); f.Value == "20000-20999" {
		t.Errorf("the thread came back in the wrong namespace: %+v", f)
	}
	for _, f := range own.Findings {
		if strings.Contains(f.Command, "nsenter") {
			t.Errorf("this program is in its own namespace: %+v", f)
		}
	}
	if r.Process.Go != "" {
		t.Errorf("a shell is built with %s", r.Process.Go)
	}
	for _, f := range r.Findings {
		if strings.HasPrefix(f.Name, "GO") {
			t.Errorf("%+v", f)
		}
	}
}

func TestTheProcessBehindAURLIsFound(t *testing.T) {
	s := serve(t, nil, nil)
	r, err := Examine(context.Background(), Options{URL: s.URL, Speed: -1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Process == nil || r.Process.PID != os.Getpid() || len(r.Notes) != 0 {
		t.Errorf("%+v, %q", r.Process, r.Notes)
	}
	if f := named(t, r, "keep-alive"); f.Value != "kept" {
		t.Errorf("%+v", f)
	}
}

func TestWhereNothingAnswersThereIsAnError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := Examine(context.Background(), Options{URL: "http://" + l.Addr().String() + "/",
		Speed: -1}); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}
