package main

import (
	"fmt"
	"io"
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
