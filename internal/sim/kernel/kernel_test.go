package kernel

import (
	"bytes"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/internal/reactor"
)

// bufferBytes is how large socket buffers are where few bytes are to fill them.
const bufferBytes = 64 << 10

// calm is a profile in which nothing misbehaves.
var calm = Profile{
	Latency: time.Millisecond, SendBuffer: bufferBytes, RecvBuffer: bufferBytes, Descriptors: 100,
}

// harsh is a profile in which everything that a kernel leaves open goes badly, with buffers that
// messages do not fit.
var harsh = Profile{
	Latency: 5 * time.Millisecond, Fragment: 0.5, ShortWrite: 0.3,
	SendBuffer: 8 << 10, RecvBuffer: 4 << 10,
	Subset: 0.5, Stall: 0.1, StallFor: 10 * time.Millisecond, Delay: time.Millisecond,
	WallSteps: 0.1, Descriptors: 100,
}

// site is a model with loops in it, and an address on which they listen.
type site struct {
	*Kernel
	loops   []*reactor.Loop
	at      string
	running int
}

// onSite runs a test in a bubble, with loops that serve connections by accepted. All loops have
// ended when it returns.
func onSite(
	t *testing.T, seed uint64, p Profile, loops int, accepted reactor.Acceptor,
	test func(*testing.T, *site),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &site{Kernel: New(seed, p)}
		reactor.Simulate(s.Kernel)
		defer reactor.Simulate(nil)
		var err error
		if s.loops, err = reactor.NewGroup(loops, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		at := reactor.Address{IP: netip.MustParseAddrPort("127.0.0.1:80")}
		s.at = at.String()
		for _, l := range s.loops {
			fd, err := reactor.BindListener(at, 8)
			if err != nil {
				t.Fatal(err)
			}
			l.Post(func() {
				if _, err := l.Listen(fd, accepted); err != nil {
					t.Error(err)
				}
			})
			s.running++
			go func() {
				l.Run()
				s.running--
			}()
		}
		test(t, s)
		for _, l := range s.loops {
			l.Post(l.Stop)
		}
		s.violation = nil
		if err := s.Drive(func() bool { return s.running == 0 }); err != nil {
			t.Error("the loops do not end:", err)
		}
	})
}

// client sends a message and reads what comes until it has as much back.
type client struct {
	*Endpoint
	sent, got []byte
}

// dial has a client send n bytes as soon as it is connected.
func (s *site) dial(name string, n int, changed func()) *client {
	c := &client{sent: bytes.Repeat([]byte(name+" "), n/len(name)+1)[:n]}
	c.Endpoint = s.Dial(name, s.at, netip.AddrPort{}, func(bool) { c.Write(c.sent) })
	c.Changed = func() {
		c.got = append(c.got, c.Read(1<<20)...)
		changed()
	}
	return c
}

func (c *client) whole() bool { return len(c.got) == len(c.sent) }

func TestDescriptorsRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := harsh
		p.Descriptors = 3
		k := New(1, p)
		at := reactor.Address{IP: netip.MustParseAddrPort("127.0.0.1:80")}
		listener, err := k.Listen(at, 8, true)
		if err != nil {
			t.Fatal(err)
		}
		connected := false
		k.Dial("a client", at.String(), netip.AddrPort{}, func(ok bool) { connected = ok })
		if err := k.Drive(func() bool { return connected }); err != nil {
			t.Fatal(err)
		}
		reserve := k.Reserve()
		if _, err := k.Socket(at); err != nil {
			t.Fatal(err)
		}
		expect(t, "Open with all in use", len(k.Open(0)), 3)
		if _, err := k.Socket(at); err != syscall.EMFILE {
			t.Errorf("Socket: %v, want EMFILE", err)
		}
		expect(t, "Reserve", k.Reserve(), -1)
		if _, _, errno := k.Accept(listener); errno != syscall.EMFILE {
			t.Errorf("Accept: %v, want EMFILE", errno)
		}
		k.Close(reserve)
		if _, _, errno := k.Accept(listener); errno != 0 {
			t.Errorf("Accept with a freed descriptor: %v; the connection was to stay queued", errno)
		}
		k.Process = 1
		if _, err := k.Socket(at); err != nil {
			t.Errorf("Socket of another process: %v", err)
		}
		k.Dup(listener, 1)
		expect(t, "Open of process 0", len(k.Open(0)), 3)
		expect(t, "Open of process 1", len(k.Open(1)), 2)
	})
}

func expect(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %d, want %d", what, got, want)
	}
}

// greedy accepts connections that make so many calls in one turn, each for so many bytes.
type greedy struct{ calls, bytes int }

func (g greedy) Accepted(l *reactor.Loop, s reactor.Socket) {
	c := &greedyConn{greedy: g}
	c.Attach(l, s, c)
}
func (greedy) Shed(*reactor.Loop)         {}
func (greedy) Accepts(*reactor.Loop) bool { return true }

type greedyConn struct {
	reactor.Conn
	greedy
	turns int
}

func (c *greedyConn) Connected(error) {}
func (c *greedyConn) Drained()        {}
func (c *greedyConn) Readable() {
	c.turns++
	if c.turns > 1 {
		return
	}
	p := make([]byte, c.bytes)
	for range c.calls {
		if _, err := c.RawRead(p); err == io.EOF {
			return
		}
	}
}

func TestATurnThatDoesTooMuchIsAViolation(t *testing.T) {
	for _, c := range []struct {
		name         string
		does         greedy
		sent         int
		wantViolated bool
	}{
		{"as many calls as are fair", greedy{turnCalls, 1}, 10, false},
		{"one call more", greedy{turnCalls + 1, 1}, 10, true},
		{"as many bytes as are fair", greedy{1, turnBytes}, turnBytes, false},
		{"one byte more", greedy{1, turnBytes + 1}, turnBytes + 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := calm
			p.RecvBuffer = 2 * turnBytes
			onSite(t, 1, p, 1, c.does, func(t *testing.T, s *site) {
				var client *Endpoint
				client = s.Dial("a client", s.at, netip.AddrPort{}, func(bool) {
					client.Write(make([]byte, c.sent))
				})
				client.Buffers(1, 2*turnBytes)
				over := false
				s.After(time.Second, func() { over = true })
				err := s.Drive(func() bool { return over })
				if violated := err != nil; violated != c.wantViolated {
					t.Errorf("Drive: %v; a violation is wanted: %v", err, c.wantViolated)
				}
			})
		})
	}
}

func TestASocketTakesLittleThatItCannotSend(t *testing.T) {
	p := calm
	p.SendBuffer, p.RecvBuffer = 4<<20, 4<<20
	synctest.Test(t, func(t *testing.T) {
		k := New(1, p)
		at := reactor.Address{IP: netip.MustParseAddrPort("127.0.0.1:80")}
		var other *Endpoint
		k.Serve(at.String(), &Service{Accept: func(e *Endpoint) {
			e.Buffers(bufferBytes, 1)
			other = e
		}})
		fd, err := k.Socket(at)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Connect(fd, at); err != nil {
			t.Fatal(err)
		}
		if err := k.Drive(func() bool { return other != nil }); err != nil {
			t.Fatal(err)
		}
		n, _ := k.Send(fd, make([]byte, 1<<20))
		expect(t, "what Send takes", n, bufferBytes+reactor.UnsentLimit)
		_, errno := k.Send(fd, make([]byte, 1))
		expect(t, "the error of the next", int(errno), int(syscall.EAGAIN))
	})
}

func TestMisuseOfADescriptorIsAViolation(t *testing.T) {
	const used = "not an open connection"
	for _, c := range []struct {
		name string
		do   func(k *Kernel, closed int)
		want string
	}{
		{"close twice", func(k *Kernel, fd int) { k.Close(fd) }, "which is not open"},
		{"close of what was never open", func(k *Kernel, _ int) { k.Close(4) }, "which is not open"},
		{"recv after close", func(k *Kernel, fd int) { k.Recv(fd, make([]byte, 1)) }, used},
		{"send after close", func(k *Kernel, fd int) { k.Send(fd, []byte("x")) }, used},
		{"peek after close", func(k *Kernel, fd int) { k.Peek(fd) }, used},
		{"shutdown after close", func(k *Kernel, fd int) { k.Shutdown(fd, syscall.SHUT_RDWR) }, used},
		{"accept after close", func(k *Kernel, fd int) { k.Accept(fd) }, "which does not listen"},
		{"dup after close", func(k *Kernel, fd int) { k.Dup(fd, 0) }, "which is not open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := New(1, calm)
				fd, err := k.Socket(reactor.Address{IP: netip.MustParseAddrPort("127.0.0.1:80")})
				if err != nil {
					t.Fatal(err)
				}
				k.Close(fd)
				if err := k.Drive(func() bool { return len(k.agenda.entries) == 0 }); err != nil {
					t.Fatal("before:", err)
				}
				c.do(k, fd)
				err = k.Drive(func() bool { return true })
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("Drive: %v, want an error with %q", err, c.want)
				}
			})
		})
	}
}

func TestALoopThatHasEndedGetsNoFurtherTurn(t *testing.T) {
	onSite(t, 1, calm, 1, echoes{}, func(t *testing.T, s *site) {
		c := s.dial("a client", 10, func() {})
		if err := s.Drive(c.whole); err != nil {
			t.Fatal(err)
		}
		s.loops[0].Post(s.loops[0].Stop)
		if err := s.Drive(func() bool { return s.running == 0 }); err != nil {
			t.Fatal(err)
		}
		c.Write([]byte("more"))
		over := false
		s.After(time.Second, func() { over = true })
		if err := s.Drive(func() bool { return over }); err != nil {
			t.Error(err)
		}
	})
}
