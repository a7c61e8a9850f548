package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The variables that make the test's own binary a gateway instead.
const (
	childConfig      = "GATEWAY_TEST_CONFIG"      // the configuration's file
	childDescriptors = "GATEWAY_TEST_DESCRIPTORS" // the hard limit of descriptors
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childConfig); path != "" {
		os.Exit(beGateway(path))
	}
	os.Exit(m.Run())
}

// beGateway is the child's whole life.
func beGateway(path string) int {
	if n, err := strconv.ParseUint(os.Getenv(childDescriptors), 10, 64); err == nil {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 3
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := Run(ctx, Options{
		ConfigPath: path, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Version: "test",
		Admin: func(g *Gateway, _ *AdminAddress) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/metrics", g.Metrics())
			mux.HandleFunc("/dial", func(_ http.ResponseWriter, r *http.Request) { dialEachTurn(g, r.FormValue("address")) })
			mux.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) {
				g.loops[len(g.loops)-1].Post(func() { panic("the test\nwants it") })
			})
			return mux
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return 0
}

// dialEachTurn makes loop 0 a client of its own gateway: in each turn it opens a connection and
// sends a request, until it is refused. What it opens in the turn in which a listener is closed is
// in the accept queue then. Standard error is told what came of them.
func dialEachTurn(g *Gateway, address string) {
	var clients sync.WaitGroup
	var answered, lost atomic.Int64
	var dial func()
	dial = func() {
		// Before the connection is open: so it runs before whatever ends the listener in the next
		// turn.
		g.loops[0].Post(dial)
		c, err := net.DialTimeout("tcp", address, patience)
		if err != nil {
			dial = func() {}
			go func() {
				clients.Wait()
				fmt.Fprintf(os.Stderr, "dialled: %d answered, %d lost\n", answered.Load(), lost.Load())
			}()
			return
		}
		clients.Go(func() {
			defer c.Close()
			c.SetDeadline(time.Now().Add(patience))
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			if b, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 200 ") {
				lost.Add(1)
			} else {
				answered.Add(1)
			}
		})
	}
	g.loops[0].Post(dial)
}

// child is a gateway in a process of its own, and what upgrades make of it.
type child struct {
	t      *testing.T
	path   string // of its configuration
	logged *logBuffer
	cmd    *exec.Cmd
	ended  chan struct{}
}

// startChild runs a gateway process until the test ends. Its logs, and those of the processes that
// take over from it, are gathered.
func startChild(t *testing.T, yaml string, env ...string) *child {
	t.Helper()
	c := &child{t: t, path: filepath.Join(t.TempDir(), "plimsoll.yaml"), logged: &logBuffer{}, ended: make(chan struct{})}
	writeFile(t, c.path, yaml)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd = exec.Command(program)
	c.cmd.Env = append(append(os.Environ(), childConfig+"="+c.path), env...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd.Stdout, c.cmd.Stderr = w, w
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			fmt.Fprintln(c.logged, lines.Text())
		}
		if err := lines.Err(); err != nil {
			fmt.Fprintln(c.logged, "what the child prints is not read any more:", err)
		}
	}()
	go func() {
		c.cmd.Wait()
		close(c.ended)
	}()
	t.Cleanup(func() {
		syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // the group: those who took over are in it
		<-c.ended
		<-drained
		r.Close()
		if t.Failed() {
			t.Log(c.logged.String())
		}
	})
	return c
}

// signal sends the first process a signal.
func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// over says whether the first process has ended.
func (c *child) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}
