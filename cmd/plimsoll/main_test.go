package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"plimsoll/internal/config"
	"plimsoll/internal/demo"
)

func TestMain(m *testing.M) {
	// A copy of the test's program is what a generator runs.
	if len(os.Args) == 2 && os.Args[1] == "generator" {
		main()
	}
	testscript.Main(m, map[string]func(){"plimsoll": main})
}

// TestTheCommandLine runs the scripts in which the program does things at the same time. Those in
// testdata/alone, in which it does not, or what other tests show to the race detector, run without
// it (alone_test.go).
func TestTheCommandLine(t *testing.T) { runScripts(t, "testdata/script") }

// runScripts runs each script in a folder. $TAKEN is an address that something
// listens on; $FREE, $FREE2 and $FREE3 are addresses that nothing does, and $CLOSED is one that
// nothing can: other tests may take the free ones meanwhile. $TARGET and $TLS are
// services to load, see offerTargets. $PLIMSOLL is the program, for scripts without a $PATH.
func runScripts(t *testing.T, dir string) {
	t.Helper()
	taken := listen(t).Addr().String()
	ports, closed := freePorts(t), refusing(t)
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"valid": valid,
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("TAKEN", taken)
			env.Setenv("CLOSED", closed)
			env.Setenv("FREE", ports[1])
			env.Setenv("FREE2", ports[3])
			env.Setenv("FREE3", ports[5])
			program, err := exec.LookPath("plimsoll")
			env.Setenv("PLIMSOLL", program)
			// Without what the Makefile says there, every program waits a second before it ends.
			env.Setenv("GORACE", os.Getenv("GORACE"))
			return errors.Join(err, offerTargets(env))
		},
	})
}

// refusing is an address that is taken by a socket which does not listen, until the test ends.
func refusing(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestTheDemosConfigurationIsRight(t *testing.T) {
	files, err := demo.WriteFiles(t.TempDir(), demo.Addresses{HTTP: "127.0.0.1:8080",
		HTTPS: "127.0.0.1:8443", Admin: "127.0.0.1:9900",
		Shop: [2]string{"127.0.0.1:9001", "127.0.0.1:9002"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	limited := func() bool {
		is, err := config.Load(files.Config)
		if err != nil {
			t.Fatalf("the demo's configuration is refused:\n%v", err)
		}
		return is.Upstreams["shop"].Concurrency != nil
	}
	if limited() {
		t.Error("the concurrency at the shop is limited, which hides what the survey is to find")
	}
	if err := demo.Protect(files.Config); err != nil {
		t.Fatal(err)
	}
	if !limited() {
		t.Error("the overload finds a shop that is not protected")
	}
}

func TestTheReadmesConfigurationIsRight(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "```yaml\n")
	block, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("README.md has no block of YAML")
	}
	file := filepath.Join(t.TempDir(), "readme.yaml")
	if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(file); err != nil {
		t.Errorf("the configuration in README.md is refused:\n%v", err)
	}
}
