package probe

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// roleVariable makes this test binary run as a child with its own role.
const roleVariable = "PLIMSOLL_PROBE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "service":
		if err := serve(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	case "burner":
		go func() {
			//lint:ignore SA5002 it burns a processor on purpose
			for {
			}
		}()
		os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve listens in an empty network namespace, has one connected client and one that has left, and
// stays until its input ends.
func serve() error {
	if err := setUp("lo"); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"core/somaxconn":           "123",
		"ipv4/ip_local_port_range": "20000 20099",
	} {
		if err := os.WriteFile("/proc/sys/net/"+name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		return err
	}
	for left := range 2 {
		client, err := net.Dial("tcp", "127.0.0.1:8080")
		if err != nil {
			return err
		}
		server, err := l.Accept()
		if err != nil {
			return err
		}
		defer server.Close()
		defer client.Close()
		if left == 1 {
			client.Close()
			server.Read(make([]byte, 1))
		}
	}
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
	return nil
}

func setUp(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// serviceElsewhere starts the service in a network namespace of its own, and waits until it is
// ready.
func serviceElsewhere(t *testing.T) (pid int) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), roleVariable+"=service")
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	in, err1 := child.StdinPipe()
	out, err2 := child.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); child.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	return child.Process.Pid
}

func TestATargetInANamespaceOfItsOwnIsReadThere(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("only root can make a network namespace: not tested")
		return
	}
	// This program has a listener with the same address, which must not be taken for it.
	if l, err := net.Listen("tcp", "127.0.0.1:8080"); err == nil {
		defer l.Close()
	}
	pid := serviceElsewhere(t)
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{PID: pid, Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:8080")}})
	becomes(t, s, map[string]float64{
		"listener.queue_limit":             123,
		"listener.connections.established": 1,
		"listener.connections.close_wait":  1,
		"host.tcp.somaxconn":               123,
		"host.tcp.ports":                   100,
		"host.tcp.ports_used":              2,
		"host.tcp.opened_active":           2,
		"host.tcp.opened_passive":          2,
		"host.net.received_bytes":          0,
		// The listener, a client, and both accepted ends. The socket of the client that has left
		// belongs to no process.
		"host.tcp.in_use": 4,
	})
	if missing := strings.Join(s.NotMeasured(), "\n"); strings.Contains(missing, "sockets") {
		t.Error(missing)
	}
	if now, err := os.Readlink("/proc/self/ns/net"); now != own || err != nil {
		t.Errorf("this program was in %s and is in %s now, %v", own, now, err)
	}
}

func TestANamespaceThatMayNotBeEnteredIsSaidAndItsFilesAreRead(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("only root can make a network namespace: not tested")
		return
	}
	pid := serviceElsewhere(t)
	// The address that clients know: a packet filter may translate it.
	s := New(Options{PID: pid, Listen: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.9:8080")}})
	censusOf(s).namespace = "/proc/self/ns/uts" // not a network namespace
	becomes(t, s, map[string]float64{
		"listener.queue":                   0,
		"listener.connections.established": 1,
		"listener.connections.close_wait":  1,
	})
	values := fresh(s)
	for _, name := range []string{
		"host.tcp.somaxconn", "host.tcp.ports", "host.tcp.ports_used", "listener.queue_limit",
	} {
		if v, there := values[name]; there {
			t.Errorf("%s is given as %v, which is not the target's", name, v)
		}
	}
	if missing := strings.Join(s.NotMeasured(), "\n"); strings.Count(missing,
		"the target's network namespace cannot be entered") != 1 {
		t.Error(missing)
	}
}

func TestTheFirstThreadNeverLeavesItsNamespace(t *testing.T) {
	for range 50 {
		done := make(chan int)
		// Many goroutines at once use all available threads.
		for range 8 {
			go func() {
				onSpareThread(func() bool {
					if unix.Gettid() == os.Getpid() {
						done <- 1
					} else {
						done <- 0
					}
					return true
				})
			}()
		}
		for range 8 {
			if <-done != 0 {
				t.Fatal("the process's first thread was used")
			}
		}
	}
}

func TestSettingsAndListenersOfAnotherNamespaceCanBeRead(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("only root can make a network namespace: not tested")
		return
	}
	pid := serviceElsewhere(t)
	var there []byte
	err := Inside("/proc", pid, func() (err error) {
		there, err = os.ReadFile("/proc/sys/net/core/somaxconn")
		return err
	})
	if string(there) != "123\n" || err != nil {
		t.Errorf("somaxconn is %q there, %v; want 123", there, err)
	}
	if here, err := os.ReadFile("/proc/sys/net/core/somaxconn"); string(here) == "123\n" ||
		err != nil {
		t.Errorf("somaxconn is %q here, %v", here, err)
	}
	list, err := Listening("/proc", pid)
	if len(list) != 1 || list[0] != netip.MustParseAddrPort("127.0.0.1:8080") || err != nil {
		t.Errorf("it listens on %v, %v", list, err)
	}
}
