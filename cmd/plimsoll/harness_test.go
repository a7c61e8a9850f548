package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"plimsoll/internal/freeport"
)

func TestMain(m *testing.M) {
	// A copy of the test's program is what a generator runs.
	if len(os.Args) == 2 && os.Args[1] == "generator" {
		main()
	}
	testscript.Main(m, map[string]func(){"plimsoll": main})
}

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

// command runs the program with a gateway that is a function, and returns the exit code and what
// was printed.
func command(gateway gatewayRunner, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(args, &console{out: &o, err: &e}, gateway)
	return code, o.String(), e.String()
}

// freePorts are the demo's flags for addresses that nothing listens on.
func freePorts(t *testing.T) []string {
	t.Helper()
	ports, err := freeport.Find(3)
	if err != nil {
		t.Fatal(err)
	}
	var flags []string
	for i, name := range []string{"--http", "--https", "--admin"} {
		flags = append(flags, name, fmt.Sprintf("127.0.0.1:%d", ports[i]))
	}
	return flags
}
