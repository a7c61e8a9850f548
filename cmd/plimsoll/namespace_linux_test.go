package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// namespace is a network namespace that stands for another machine: it has one address, and a link
// to this one, which has the other.
type namespace struct{ name, here, there string }

// namespaces makes one or two of them, and a program ssh that starts what it is asked to in the one
// whose name is the host's. They end with the test, and with its process if that dies. Where they
// are not permitted it says so, and there are none.
func namespaces(t *testing.T, n int) (all []namespace) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Log("not tested: only root may make a network namespace")
		return nil
	}
	pid := os.Getpid()
	for i := range n {
		// Of the block for measurements between networks (RFC 2544), four addresses for each.
		net := fmt.Sprintf("198.%d.%d.", 18+pid>>14&1, pid>>6&255)
		last := pid<<2&255 + i*128
		all = append(all, namespace{
			fmt.Sprintf("plimsoll-%d-%d", pid, i), fmt.Sprint(net, last&255|1), fmt.Sprint(net, last&255|2),
		})
	}
	clean := "read -r _\n"
	for _, s := range all {
		clean += "ip netns del " + s.name + " 2>/dev/null\n"
	}
	sweeper := exec.Command("sh", "-c", clean+"exit 0")
	sweeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is not for it
	hold, err := sweeper.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sweeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		hold.Close()
		if err := sweeper.Wait(); err != nil {
			t.Errorf("the namespaces are still there: %v", err)
		}
	})
	for i, s := range all {
		near, far := fmt.Sprintf("plm%da%d", pid, i), fmt.Sprintf("plm%db%d", pid, i)
		for _, line := range []string{
			"netns add " + s.name,
			"link add " + near + " type veth peer name " + far + " netns " + s.name,
			"-n " + s.name + " link set lo up",
			"addr add " + s.here + "/30 dev " + near,
			"link set " + near + " up",
			"-n " + s.name + " addr add " + s.there + "/30 dev " + far,
			"-n " + s.name + " link set " + far + " up",
			"-n " + s.name + " route add default via " + s.here,
		} {
			if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
				t.Logf("not tested without network namespaces: ip %s: %s (%v)", line, out, err)
				return nil
			}
		}
	}
	dir := t.TempDir()
	script := "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nhost=${2#*@}; shift 2\n" +
		"XDG_CACHE_HOME=" + dir + "/$host exec ip netns exec \"$host\" sh -c \"$*\"\n"
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return all
}

// Generators in network namespaces of their own have nothing of this machine's network but a link
// to it: what reaches the service has come from them.
func TestGeneratorsOnOtherNetworksLoadAService(t *testing.T) {
	all := namespaces(t, 2)
	if all == nil {
		return
	}
	var mu sync.Mutex
	from := map[string]int{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		mu.Lock()
		defer mu.Unlock()
		from[host]++
	}))
	server.Listener.Close()
	var err error
	if server.Listener, err = net.Listen("tcp", all[0].here+":0"); err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(server.Close)
	code, text, errs := command(nil, "load", server.URL, "--rate", "200", "-d", "1s", "-c", "4", "-t", "1",
		"--timeout", "1m", "--generator", "ann@"+all[0].name, "--generator", all[1].name, "--json")
	var result shared
	if err := json.Unmarshal([]byte(text), &result); err != nil || code != 0 && code != 3 {
		t.Fatalf("exit %d: %s\n%s", code, errs, text)
	}
	got := result.Totals
	if got.Due != 200 || got.Sent != 200 || len(got.Generator.Remote) != 2 {
		t.Errorf("%+v", got)
	}
	for _, g := range got.Generator.Remote {
		if g.Due != 100 || g.Uncertainty <= 0 {
			t.Errorf("%+v", g)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if from[all[0].there] != 100 || from[all[1].there] != 100 || len(from) != 2 {
		t.Errorf("requests came from %v; the generators are %v", from, all)
	}
}

// What is on this machine's loopback is not on the generator's.
func TestAGeneratorWhoseServiceCannotBeReachedFromItsNetworkSaysSo(t *testing.T) {
	all := namespaces(t, 1)
	if all == nil {
		return
	}
	l := listen(t) // on the loopback of this machine, which is not that of the generator
	code, text, errs := command(nil, "load", "http://"+l.Addr().String()+"/", "--rate", "20", "-d", "1s",
		"-c", "1", "-t", "1", "--generator", all[0].name)
	if code == 0 || !strings.Contains(text+errs, "refused") {
		t.Errorf("exit %d, %q:\n%s", code, errs, text)
	}
}
