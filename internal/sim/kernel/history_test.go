package kernel

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"plimsoll/internal/reactor"
)

// echoes accepts connections that send back what they get.
type echoes struct{}

func (echoes) Accepted(l *reactor.Loop, s reactor.Socket) {
	c := &echo{}
	c.Attach(l, s, c)
}
func (echoes) Shed(*reactor.Loop)         {}
func (echoes) Accepts(*reactor.Loop) bool { return true }

type echo struct{ reactor.Conn }

func (c *echo) Connected(error) {}
func (c *echo) Drained()        {}
func (c *echo) Readable() {
	for {
		p := c.Loop().Scratch()
		n, err := c.Read(p)
		switch {
		case err == reactor.ErrAgain:
			return
		case err != nil || c.Write(p[:n]) != nil:
			c.Close()
			return
		}
	}
}

// history is what happens with a seed, line by line, with times.
func history(t *testing.T, seed uint64) (lines []string) {
	onSite(t, seed, harsh, 2, echoes{}, func(t *testing.T, s *site) {
		note := func(format string, args ...any) {
			lines = append(lines, fmt.Sprintf("%d "+format, append([]any{s.Clock()}, args...)...))
		}
		s.Trace = note
		var clients []*client
		for i := range 10 {
			name := fmt.Sprintf("client %d", i)
			var c *client
			c = s.dial(name, 20_000, func() {
				note("%s has %d", name, len(c.got))
				if c.whole() {
					c.Close()
				}
			})
			clients = append(clients, c)
		}
		waits := func(c *client) bool { return !c.whole() }
		done := func() bool { return !slices.ContainsFunc(clients, waits) }
		if err := s.Drive(done); err != nil {
			t.Error(err)
		}
		for _, c := range clients {
			if !bytes.Equal(c.got, c.sent) {
				t.Errorf("%s does not get back what it has sent", c.Name)
			}
		}
	})
	return lines
}

func TestTheSameSeedGivesTheSameHistory(t *testing.T) {
	first, second := history(t, 7), history(t, 7)
	if !slices.Equal(first, second) {
		for i := range min(len(first), len(second)) {
			if first[i] != second[i] {
				t.Fatalf("the histories differ in line %d:\n%s\n%s", i, first[i], second[i])
			}
		}
		t.Fatalf("one history has %d lines, the other %d", len(first), len(second))
	}
	if slices.Equal(first, history(t, 8)) {
		t.Error("another seed gives the same history: nothing is drawn")
	}
}

// sends is what happens when several sockets send, and end, at the same time in that order, as if
// each had a goroutine of its own.
func sends(t *testing.T, p Profile, order []int) (lines []string) {
	synctest.Test(t, func(t *testing.T) {
		k := New(1, p)
		at := reactor.Address{IP: netip.MustParseAddrPort("127.0.0.1:80")}
		arrived, accepted := 0, 0
		k.Serve(at.String(), &Service{Accept: func(e *Endpoint) {
			number := accepted
			accepted++
			e.Changed = func() {
				n := len(e.Read(1 << 20))
				arrived += n
				lines = append(lines, fmt.Sprintf("%d: %d bytes for %d", k.Clock(), n, number))
			}
		}})
		var sockets []int
		watcher := newPoller(k)
		for i := range order {
			fd, _ := k.Socket(at)
			if err := k.Connect(fd, at); err != nil {
				t.Fatal(err)
			}
			if err := watcher.Add(fd, uint64(i), false); err != nil {
				t.Fatal(err)
			}
			sockets = append(sockets, fd)
		}
		if err := k.Drive(func() bool { return accepted == len(order) }); err != nil {
			t.Fatal(err)
		}
		events := make([]reactor.Event, len(order))
		for watcher.Poll(events) > 0 { // what connecting has left
		}
		sent := 0
		for _, i := range order {
			n, errno := k.Send(sockets[i], make([]byte, 5000))
			if errno != 0 {
				t.Fatal(errno)
			}
			sent += n
			k.Shutdown(sockets[i], syscall.SHUT_WR)
		}
		for _, ev := range events[:watcher.Poll(events)] {
			lines = append(lines, fmt.Sprintf("ready: %d", ev.Token))
		}
		if err := k.Drive(func() bool { return arrived == sent }); err != nil {
			t.Fatal(err)
		}
	})
	return lines
}

func TestTheOrderOfGoroutinesMakesNoDifference(t *testing.T) {
	short := harsh
	short.Latency = 0 // everything arrives at the same time
	for name, p := range map[string]Profile{"with latency": harsh, "without latency": short} {
		t.Run(name, func(t *testing.T) {
			first := sends(t, p, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
			second := sends(t, p, []int{3, 4, 9, 1, 0, 2, 8, 7, 5, 6})
			if !slices.Equal(first, second) {
				t.Errorf("the order of the calls shows in the history:\n%s\n\n%s",
					strings.Join(first, "\n"), strings.Join(second, "\n"))
			}
		})
	}
}
