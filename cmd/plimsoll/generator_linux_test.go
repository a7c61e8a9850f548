package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"plimsoll/internal/freeport"
)

// sshServer is a real sshd on a port of its own, whose user's folder for caches is cache. The
// program ssh of this process finds its keys. It ends with the test.
func sshServer(t *testing.T) (host, cache string) {
	t.Helper()
	const sshd = "/usr/sbin/sshd"
	dir := t.TempDir()
	if os.Getuid() == 0 {
		// It is the service's script that makes this, and no service is started.
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"host", "user"} {
		out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir,
			key)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	ports, err := freeport.Find(1)
	if err != nil {
		t.Fatal(err)
	}
	port := ports[0]
	cache = filepath.Join(dir, "cache")
	write := func(name string, mode os.FileMode, lines ...string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(lines, "\n")+"\n"),
			mode); err != nil {
			t.Fatal(err)
		}
	}
	write("sshd.conf", 0o600, fmt.Sprintf("Port %d", port), "ListenAddress 127.0.0.1",
		"HostKey "+dir+"/host", "PidFile none",
		"AuthorizedKeysFile "+dir+"/user.pub", "StrictModes no", "UsePAM no", "PasswordAuthentication no",
		"SetEnv XDG_CACHE_HOME="+cache)
	write("client.conf", 0o600, "Host *", "IdentityFile "+dir+"/user", "IdentitiesOnly yes",
		"UserKnownHostsFile "+dir+"/known", "StrictHostKeyChecking accept-new")
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		t.Fatal(err)
	}
	write("ssh", 0o700, "#!/bin/sh", "exec "+ssh+" -F "+dir+"/client.conf \"$@\"")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	server := exec.Command(sshd, "-D", "-e", "-f", dir+"/sshd.conf")
	said, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatalf("%v: scripts/tools.sh installs it", err)
	}
	// It says when it listens, and has to be read.
	listening := make(chan bool, 1)
	var reading sync.WaitGroup
	reading.Go(func() { watch(said, "Server listening on", listening) })
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		reading.Wait()
		_ = server.Wait()
	})
	if !<-listening {
		t.Fatal("sshd has ended")
	}
	return fmt.Sprintf("%s@127.0.0.1:%d", me.Username, port), cache
}

// watch reads all and says once whether a text came.
func watch(r io.Reader, text string, came chan<- bool) {
	var all strings.Builder
	told := false
	buffer := make([]byte, 4096)
	for {
		n, err := r.Read(buffer)
		if !told {
			all.Write(buffer[:n])
			if told = strings.Contains(all.String(), text); told {
				came <- true
			}
		}
		if err != nil {
			if !told {
				came <- false
			}
			return
		}
	}
}

// shared is what load --json says of a load that generators have shared.
type shared struct {
	Totals struct {
		Due, Sent uint64
		Ended     map[string]uint64
		Generator struct {
			Loops  int
			Remote []struct {
				Name        string
				Due         uint64
				Uncertainty int64 `json:"clock_uncertainty_ns"`
			}
		}
	}
}

// A load from two generators over real ssh: the program is sent once, and each request comes once.
func TestALoadFromGeneratorsOverSSH(t *testing.T) {
	host, cache := sshServer(t)
	other := strings.Replace(host, "127.0.0.1", "localhost", 1)
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.URL.Path]++
	}))
	t.Cleanup(server.Close)
	scenario := filepath.Join(t.TempDir(), "count.yaml")
	if err := os.WriteFile(scenario, []byte("data: {n: {sequence: {to: 100000}}}\n"+
		"mix: [{name: a, request: {path: \"/${n}\"}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		clear(seen)
		code, text, errs := command(nil, "load", server.URL, "--scenario", scenario, "--rate", "200",
			"-d", "1s", "-c", "4",
			"-t", "1", "--timeout", "1m", "--generator", host, "--generator", other, "--json")
		var result shared
		// That a slow machine is late is not a failure: what was sent is what was asked for.
		if err := json.Unmarshal([]byte(text), &result); err != nil || code != 0 && code != 3 {
			t.Fatalf("exit %d: %s\n%s", code, errs, text)
		}
		got := result.Totals
		if got.Due != 200 || got.Sent != 200 || got.Generator.Loops != 2 ||
			len(got.Generator.Remote) != 2 || len(seen) != 200 {
			t.Errorf("%+v, and %d requests came", got, len(seen))
		}
		for _, g := range got.Generator.Remote {
			if g.Due != 100 || g.Uncertainty <= 0 {
				t.Errorf("%+v", g)
			}
		}
		copies, err := filepath.Glob(filepath.Join(cache, "plimsoll", "*"))
		info, _ := os.Stat(filepath.Join(cache, "plimsoll"))
		if err != nil || len(copies) != 1 || info == nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v %v: %v", copies, err, info)
		}
	}
}

// A Ctrl-C ends the generators, and what was measured is told.
func TestALoadFromGeneratorsThatIsStopped(t *testing.T) {
	host, _ := sshServer(t)
	code, text, errs := command(nil, "load", interrupting(t, 10), "--rate", "100", "-d", "10m", "-c", "2",
		"-t", "1", "--generator", host)
	if code != 3 || errs != "" || !strings.Contains(text, "Ended early: it was stopped.") ||
		!strings.Contains(text, host) {
		t.Errorf("exit %d, %q:\n%s", code, errs, text)
	}
}

func TestAGeneratorThatCannotBeReached(t *testing.T) {
	host, cache := sshServer(t)
	for what, c := range map[string]struct {
		generator string
		code      int
		want      string
	}{
		"nobody listens": {"u@" + refusing(t), 2, "Connection refused"},
		"nobody we know": {strings.Replace(host, "@", "-nobody@", 1), 2, "Permission denied"},
		"an option":      {"-oProxyCommand=false", 1, "is not where a generator can be reached"},
	} {
		code, text, errs := command(nil, "load", "http://127.0.0.1:1/", "-d", "1s",
			"--generator="+c.generator)
		if code != c.code || !strings.Contains(errs, c.want) || text != "" {
			t.Errorf("%s: exit %d, %q %q", what, code, errs, text)
		}
	}
	// A file stands where the folder of copies would be.
	if err := os.WriteFile(cache, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := command(nil, "load", "http://127.0.0.1:1/", "-d", "1s", "--generator", host)
	if code != 2 || !strings.Contains(errs, "cannot be made, or is not yours") {
		t.Errorf("exit %d, %q", code, errs)
	}
}
