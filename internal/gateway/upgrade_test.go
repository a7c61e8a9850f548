package gateway

import (
	"fmt"
	"net"
	"net/http"
	"os"
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
	yaml := strings.Replace(oneUpstream(s.address()), "127.0.0.1:0", address, 1) +
		"loops: 2\nadmin: {address: \"" + admin + "\"}\ndrain: {timeout: 1m}\n"
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
	if want := "begins_without=\"counters, rate limits that are not shared"; !strings.Contains(c.logged.String(), want) {
		t.Errorf("the log does not say what the new process begins without: %s", c.logged.String())
	}
	eventually(t, "the log says which process ended, and why", func() bool {
		return strings.Contains(c.logged.String(), "why=upgraded pid="+strconv.Itoa(c.cmd.Process.Pid))
	})
}

// Clients of HTTP/2 ask with four streams at once, and send again only what GOAWAY says was not begun.
func TestAnUpgradeUnderLoadOfHTTP2LosesNothing(t *testing.T) {
	for _, p := range allSpoken {
		if !p.http2 {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s, ca := newService(t, answering(okResponse)), newAuthority(t)
			secure, plain := freeAddress(t), freeAddress(t)
			c := startChild(t, spokenConfig(ca.issue(t, "a"), secure, plain, "", fmt.Sprintf(
				"upstreams: {s: {targets: [%q]}}\nroutes: [{match: /, upstream: s}]\ndrain: {timeout: 1m}\n", s.address())))
			eventually(t, "the gateway serves", func() bool { return strings.Contains(c.logged.String(), "msg=serving") })
			l := (&sessions{p, ca, secure, plain}).startLoad(t, 2)
			l.more(50)
			c.signal(syscall.SIGUSR2)
			eventually(t, "the old process ends", c.over)
			l.more(50)
			if failed := l.end(); failed != nil {
				t.Errorf("clients met failures: %s", strings.Join(failed, "; "))
			}
			if !strings.Contains(c.logged.String(), "exchanges_cut=0") {
				t.Errorf("the old process has cut exchanges: %s", c.logged.String())
			}
		})
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
	eventually(t, "the failure is logged", func() bool {
		return strings.Contains(c.logged.String(),
			"the upgrade failed; this process goes on")
	})
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

// Connections that wait in the accept queue of an address belong to the old process when the new
// one has no use for the address.
func TestAnUpgradeThatDropsAListenerServesWhatWaitsInItsQueue(t *testing.T) {
	held := newGate(t)
	s := newService(t, held.script)
	kept, dropped, admin := freeAddress(t), freeAddress(t), freeAddress(t)
	yaml := func(listeners string) string {
		return "loops: 1\nlisteners: [" + listeners + "]\nupstreams: {s: {targets: [\"" + s.address() + "\"]}}\nroutes:\n" +
			"  - {match: /, respond: {}}\n  - {match: /held, upstream: s}\nadmin: {address: \"" + admin + "\"}\ndrain: {timeout: 1m}\n"
	}
	c := startChild(t, yaml("{address: \""+kept+"\"}, {address: \""+dropped+"\"}"))
	eventually(t, "the gateway serves", func() bool { return strings.Contains(c.logged.String(), "msg=serving") })
	// Keeps the old process from ending before it has said what came of the others.
	last := dialRaw(t, kept)
	last.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
	held.next(t)
	r, err := http.Get("http://" + admin + "/dial?address=" + dropped)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	writeFile(t, c.path, yaml("{address: \""+kept+"\"}"))
	c.signal(syscall.SIGUSR2)
	eventually(t, "the dropped address refuses", func() bool { return strings.Contains(c.logged.String(), "dialled: ") })
	_, said, _ := strings.Cut(c.logged.String(), "dialled: ")
	said, _, _ = strings.Cut(said, "\n")
	if strings.HasPrefix(said, "0 answered") || !strings.HasSuffix(said, " 0 lost") {
		t.Errorf("of the connections to the address that was dropped: %s", said)
	}
	held.let <- okResponse
	if r, _ := last.response("GET"); r.StatusCode != 200 {
		t.Errorf("an exchange under way got %d", r.StatusCode)
	}
	eventually(t, "the old process ends", c.over)
}

func TestTheReadyMessageOfOlderAndNewerProcessesIsUnderstood(t *testing.T) {
	var many []string
	for n := range 1000 {
		many = append(many, "127.0.0.1:"+strconv.Itoa(n))
	}
	for _, c := range []struct {
		name  string
		write func(w *os.File)
		has   map[string]bool
		fails bool
	}{
		{"an older process", func(w *os.File) { w.Write([]byte{1}) }, map[string]bool{"127.0.0.1:1": false, "": false}, false},
		{"one that took two", func(w *os.File) { (&inherited{pipe: w, took: []string{"127.0.0.1:1", "unix:/a"}}).ready() },
			map[string]bool{"127.0.0.1:1": true, "unix:/a": true, "127.0.0.1:2": false, "": false}, false},
		{"one that took none", func(w *os.File) { (&inherited{pipe: w}).ready() }, map[string]bool{"127.0.0.1:1": false, "": false}, false},
		{"one with many", func(w *os.File) { (&inherited{pipe: w, took: many}).ready() }, map[string]bool{"127.0.0.1:1": false}, false},
		{"one that broke off", func(w *os.File) { w.WriteString("\x01took\n127.0.0.1:1\n127.0.0.1:2") },
			map[string]bool{"127.0.0.1:1": true, "127.0.0.1:2": false}, false},
		{"one that broke off early", func(w *os.File) { w.WriteString("\x01took") }, map[string]bool{"": false}, false},
		{"one that ended", func(w *os.File) {}, nil, true},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		c.write(w)
		w.Close()
		next, err := readSuccessor(r)
		r.Close()
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", c.name, err)
		}
		for address, want := range c.has {
			if next.has(address) != want {
				t.Errorf("%s has %q: %v, want %v", c.name, address, !want, want)
			}
		}
	}
	if (*successor)(nil).has("127.0.0.1:1") {
		t.Error("no successor has an address")
	}
}
