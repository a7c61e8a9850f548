package reactor_test

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"plimsoll/internal/reactor"
)

// crowded is a unix socket whose accept queue is full of connections that have ended, and its
// address.
func crowded(t *testing.T) (net.Listener, reactor.Address) {
	t.Helper()
	to := address(t, "unix:"+unixPath(t))
	fd, err := reactor.BindListener(to, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "crowded")
	defer f.Close()
	ln, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	for range 8 {
		c, err := net.Dial("unix", to.Path)
		if errors.Is(err, syscall.EAGAIN) {
			return ln, to
		}
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	t.Fatal("the queue of a listener that does not accept never became full")
	return nil, to
}

// waiters are connections that wait for room, distinguished by what they have written. Each sends its
// number to outcome.
func waiters(t *testing.T, l *reactor.Loop, to reactor.Address, n int) (all []*conn, outcome chan error) {
	outcome = make(chan error, n)
	on(t, l, func() {
		for i := range n {
			c := &conn{connected: func(err error) { outcome <- err }}
			if err := c.Dial(l, to, c); err != nil {
				t.Errorf("Dial: %v", err)
			}
			c.Write([]byte{'a' + byte(i)})
			c.CloseWrite()
			all = append(all, c)
		}
	})
	t.Cleanup(func() {
		on(t, l, func() {
			for _, c := range all {
				c.Close()
			}
		})
	})
	return all, outcome
}

// arrivals is what the next n connections that say something say.
func arrivals(t *testing.T, ln net.Listener, n int) (said string) {
	t.Helper()
	for len(said) < n {
		c, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(c)
		c.Close()
		said += string(b)
	}
	return said
}

func TestDialsToAFullUnixSocketWaitInLine(t *testing.T) {
	l := newLoops(t, 1)[0]
	ln, to := crowded(t)
	_, outcome := waiters(t, l, to, 20)
	settle(t, l)
	if len(outcome) > 0 {
		t.Fatalf("a dial to a full socket had an outcome: %v", <-outcome)
	}
	if said := arrivals(t, ln, 20); said != "abcdefghijklmnopqrst" {
		t.Errorf("they arrived as %s, want the order in which they were dialled", said)
	}
	for range 20 {
		if err := receive(t, outcome, "an outcome"); err != nil {
			t.Error(err)
		}
	}
}

func TestADialThatWaitsForRoomCanBeGivenUp(t *testing.T) {
	for name, gone := range map[string][]int{
		"the first": {0}, "one between": {1}, "the last": {2}, "two": {0, 2}, "all": {0, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoops(t, 1)[0]
			ln, to := crowded(t)
			all, outcome := waiters(t, l, to, 3)
			want := "abc"
			on(t, l, func() {
				for n, i := range gone {
					all[i].Close()
					want = want[:i-n] + want[i-n+1:]
				}
			})
			waiters(t, l, to, 1)
			if said := arrivals(t, ln, len(want)+1); said[:len(want)] != want {
				t.Errorf("%q arrived, want %q first", said, want)
			}
			for range want {
				if err := receive(t, outcome, "an outcome"); err != nil {
					t.Error(err)
				}
			}
			settle(t, l)
			if len(outcome) > 0 {
				t.Error("a dial that was given up had an outcome")
			}
		})
	}
}

func TestDialsThatWaitForRoomFailWhenTheListenerEnds(t *testing.T) {
	l := newLoops(t, 1)[0]
	ln, to := crowded(t)
	all, outcome := waiters(t, l, to, 200) // more than a turn settles
	ln.Close()
	for range all {
		if err := receive(t, outcome, "an outcome"); !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the outcome is %v, want a refusal", err)
		}
	}
	on(t, l, func() {
		for _, c := range all {
			if c.Open() {
				t.Error("a dial that failed holds a socket")
			}
		}
	})
}
