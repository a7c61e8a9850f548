package reactor_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The test of running out of descriptors lowers the process's limit, so it runs the test binary
// again as a child that does only that.

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
