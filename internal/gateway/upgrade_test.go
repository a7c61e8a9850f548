package gateway

import (
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAnUpgradeUnderLoadFailsNothingAndTakesTheAdminAddressAlong(t *testing.T) {
	s := newService(t, answering(okResponse))
	address, admin := freeAddress(t), freeAddress(t)
	yaml := strings.Replace(oneUpstream(s.address()), "127.0.0.1:0", address, 1) + "loops: 2\nadmin: {address: \"" + admin + "\"}\ndrain: {timeout: 10s}\n"
	c := startChild(t, yaml)
	eventually(t, "the gateway serves", func() bool { return strings.Contains(c.logged.String(), "msg=serving") })
	l := startLoad(t, address, 3)
	l.more(50)
	c.signal(syscall.SIGUSR2)
	eventually(t, "the old process ends", c.over)
	l.more(50)
	if failed := l.end(); failed != nil {
		t.Errorf("clients met failures: %s", strings.Join(failed, "; "))
	}
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the old process ended with %d", code)
	}
	r, err := http.Get("http://" + admin + "/metrics")
	if err != nil {
		t.Fatalf("the new process does not answer on the admin address: %v", err)
	}
	r.Body.Close()
	if !strings.Contains(c.logged.String(), "why=upgraded pid="+strconv.Itoa(c.cmd.Process.Pid)) {
		t.Error("the log does not say which process ended, and why")
	}
}

func TestANewProcessThatFailsToStartLeavesTheOldOneServing(t *testing.T) {
	s := newService(t, answering(okResponse))
	address := freeAddress(t)
	yaml := strings.Replace(oneUpstream(s.address()), "127.0.0.1:0", address, 1)
	c := startChild(t, yaml)
	eventually(t, "the gateway serves", func() bool { return strings.Contains(c.logged.String(), "msg=serving") })
	l := startLoad(t, address, 2)
	writeFile(t, c.path, "nonsense")
	c.signal(syscall.SIGUSR2)
	eventually(t, "the failure is logged", func() bool { return strings.Contains(c.logged.String(), "the upgrade failed; this process goes on") })
	l.more(20)
	writeFile(t, c.path, yaml)
	c.signal(syscall.SIGUSR2)
	eventually(t, "a second try works and the old process ends", c.over)
	l.more(20)
	if failed := l.end(); failed != nil {
		t.Errorf("clients met failures: %s", strings.Join(failed, "; "))
	}
}

func TestSystemdIsToldOfTheNewProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	ln, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c := startChild(t, "listeners: [{address: \""+freeAddress(t)+"\"}]\nroutes: [{match: /, respond: {}}]\n", "NOTIFY_SOCKET="+path)
	ln.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 4096)
	n, err := ln.Read(buf)
	if err != nil || !strings.Contains(string(buf[:n]), "READY=1") {
		t.Fatalf("told %q, %v", buf[:n], err)
	}
	c.signal(syscall.SIGUSR2)
	pids := map[string]bool{}
	for range 2 { // one message of the new process, one of the old
		n, err := ln.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		_, pid, _ := strings.Cut(string(buf[:n]), "MAINPID=")
		pids[strings.TrimSpace(pid)] = true
	}
	if len(pids) != 1 {
		t.Errorf("told of the main processes %v, want both times the new one", pids)
	}
	eventually(t, "the old process ends", c.over)
	ln.SetReadDeadline(time.Now().Add(time.Millisecond))
	if n, err := ln.Read(buf); err == nil {
		t.Errorf("an upgraded process told systemd %q as it ended, which would stop the service", buf[:n])
	}
}
