package reactor_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/reactor"
)

// The test of running out of descriptors lowers the process's limit, so it runs the test binary
// again as a child that does only that.

// childVariable tells the test binary that it is that child.
const childVariable = "REACTOR_TEST_CHILD"

// runChild prints the address it echoes on, then does what each line of its standard input says and
// answers with a line.
func runChild() {
	loops, err := reactor.NewGroup(1, slog.New(slog.DiscardHandler))
	check(err)
	l := loops[0]
	to, err := reactor.ParseAddress("127.0.0.1:0")
	check(err)
	fd, err := reactor.BindListener(to, 1024)
	check(err)
	sa, err := syscall.Getsockname(fd)
	check(err)
	shed := 0
	_, err = l.Listen(fd, acceptor{
		accepted: func(l *reactor.Loop, s reactor.Socket) {
			c := new(conn).echo()
			check(c.Attach(l, s, c))
		},
		shed: func() { shed++ },
	})
	check(err)
	go l.Run()
	fmt.Printf("127.0.0.1:%d\n", sa.(*syscall.SockaddrInet4).Port)

	var idle reactor.Timer
	for {
		var command string
		if _, err := fmt.Scanln(&command); err != nil {
			return
		}
		answered := make(chan struct{})
		answer := func() {
			fmt.Printf("%d %d\n", shed, l.Stats().Turns)
			close(answered)
		}
		l.Post(func() {
			if command == "wait" {
				l.SetTimer(&idle, expiry(answer), l.Now()+int64(250*time.Millisecond))
				return
			}
			starve(command)
			answer()
		})
		<-answered
	}
}

// fillers hold the descriptors that "fill" took.
var fillers []int

// starve changes how many descriptors the process can have. Its hard limit stays, so that it can
// have more again.
func starve(command string) {
	limit := func(n uint64) {
		var r syscall.Rlimit
		check(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r))
		r.Cur = min(n, r.Max)
		check(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &r))
	}
	switch command {
	case "fill": // none is left but the listener's reserve
		limit(64)
		for {
			fd, err := syscall.Dup(0)
			if err != nil {
				break
			}
			fillers = append(fillers, fd)
		}
	case "forbid": // even one that is closed cannot be opened again
		limit(3)
	case "free":
		limit(1024)
		for _, fd := range fillers {
			syscall.Close(fd)
		}
		fillers = nil
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// starving is the child as its parent sees it.
type starving struct {
	t       *testing.T
	in      io.Writer
	out     io.Reader
	address string
}

func startChild(t *testing.T) *starving {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	s := &starving{t: t, in: in, out: out}
	if _, err := fmt.Fscanln(out, &s.address); err != nil {
		t.Fatal(err)
	}
	return s
}

// say has the child do something, and returns how many connections it has shed and how many turns
// its loop has made.
func (s *starving) say(command string) (shed, turns int) {
	s.t.Helper()
	fmt.Fprintln(s.in, command)
	if _, err := fmt.Fscanln(s.out, &shed, &turns); err != nil {
		s.t.Fatal(err)
	}
	return shed, turns
}

func TestOutOfDescriptorsConnectionsAreShedAndTheRestIsServed(t *testing.T) {
	child := startChild(t)
	old := dial(t, "tcp", child.address)
	roundTrip(t, old)
	_, before := child.say("fill")

	const many = 20
	for range many {
		c := dial(t, "tcp", child.address)
		// A shed connection is closed at once: its client does not wait for nothing.
		if _, err := c.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Fatalf("a connection without a descriptor: %v, want it to be closed", err)
		}
		roundTrip(t, old)
	}
	shed, after := child.say("status")
	if shed != many {
		t.Errorf("%d connections were shed and counted, want %d", shed, many)
	}
	if turns := after - before; turns > 20*many {
		t.Errorf("%d turns for %d shed connections", turns, many)
	}

	child.say("free")
	roundTrip(t, dial(t, "tcp", child.address))
	roundTrip(t, old)
	if again, _ := child.say("status"); again != shed {
		t.Errorf("%d were shed, want %d: it did not recover", again, shed)
	}
}

func TestWhenNothingCanBeShedTheListenerRestsAndTheLoopToo(t *testing.T) {
	child := startChild(t)
	old := dial(t, "tcp", child.address)
	roundTrip(t, old)
	child.say("forbid")
	// These stay in the kernel's queue, which keeps the listening socket ready all the time.
	waiting := []net.Conn{dial(t, "tcp", child.address), dial(t, "tcp", child.address)}
	_, before := child.say("status")
	shed, after := child.say("wait")
	if after-before > 50 {
		t.Errorf("%d turns in which nothing could be done", after-before)
	}
	if shed != 0 {
		t.Errorf("%d connections were shed, with no descriptor to shed them by", shed)
	}
	roundTrip(t, old)

	child.say("free")
	for _, c := range waiting {
		roundTrip(t, c)
	}
	// It has its reserve back: connections can be shed again.
	child.say("fill")
	c := dial(t, "tcp", child.address)
	if _, err := c.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("a connection without a descriptor: %v, want it to be closed", err)
	}
	if shed, _ := child.say("status"); shed != 1 {
		t.Errorf("%d connections were shed, want 1", shed)
	}
}
