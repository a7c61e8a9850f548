package reactor_test

import (
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"plimsoll/internal/reactor"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		runChild()
		return
	}
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must happen, before it says that it did not.
const patience = 2 * time.Minute

// newLoops makes n loops that run until the test is over. Then no buffer may be out.
func newLoops(t testing.TB, n int) []*reactor.Loop {
	t.Helper()
	loops, err := reactor.NewGroup(n, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for _, l := range loops {
		running.Go(l.Run)
	}
	t.Cleanup(func() {
		for _, l := range loops {
			on(t, l, func() {
				if out := l.BuffersOut(); out != [len(reactor.Sizes)]int{} {
					t.Errorf("loop %d has buffers out at the end: %v", l.ID, out)
				}
				l.Stop()
			})
		}
		running.Wait()
	})
	return loops
}

// on runs f on the loop and waits until it is done.
func on(t testing.TB, l *reactor.Loop, f func()) {
	t.Helper()
	if !l.Call(patience, f) {
		t.Fatalf("loop %d did not answer", l.ID)
	}
}

// settle waits until the loop has served every event that the kernel knew of when it was called. A
// posted function may run in a turn that asked the kernel before; the second one's turn has asked
// after.
func settle(t testing.TB, l *reactor.Loop) {
	t.Helper()
	on(t, l, func() {})
	on(t, l, func() {})
}

// receive takes the next value from ch.
func receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("timed out waiting for %s", what)
		panic("unreachable")
	}
}

// conn is a reactor.Conn whose handler is made of functions.
type conn struct {
	reactor.Conn
	connected func(error)
	readable  func()
	drained   func()
}

func (c *conn) Connected(err error) {
	if c.connected != nil {
		c.connected(err)
	}
}

func (c *conn) Readable() {
	if c.readable != nil {
		c.readable()
	}
}

func (c *conn) Drained() {
	if c.drained != nil {
		c.drained()
	}
}

// closeLater closes the connection when the test is over.
func (c *conn) closeLater(t testing.TB) {
	t.Cleanup(func() {
		if l := c.Loop(); l != nil {
			on(t, l, c.Close)
		}
	})
}

// echo makes the connection send back what it gets, and end when its peer has ended.
func (c *conn) echo() *conn {
	pump := func() {
		for !c.Congested() {
			buf := c.Loop().Scratch()
			n, err := c.Read(buf)
			switch {
			case err == reactor.ErrAgain:
				return
			case err == io.EOF:
				c.CloseWrite()
				return
			case err != nil:
				c.Close()
				return
			}
			if c.Write(buf[:n]) != nil {
				c.Close()
				return
			}
		}
	}
	c.readable, c.drained = pump, pump
	return c
}

// peers makes a TCP connection: an ordinary end for the test, and a socket for a loop. smallBuffers
// makes the kernel take little.
func peers(t testing.TB, smallBuffers bool) (*net.TCPConn, reactor.Socket) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near.SetDeadline(time.Now().Add(patience))
	if smallBuffers {
		// A small receive buffer too would have the kernel wait 200 ms before each piece.
		far.(*net.TCPConn).SetWriteBuffer(4096)
	}
	return near.(*net.TCPConn), reactor.Socket{FD: duplicate(t, far.(*net.TCPConn))}
}

// socketPair makes two connected sockets: one that blocks, for the test, which can use it without
// an allocation, and one for a loop.
func socketPair(t testing.TB) (int, reactor.Socket) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]) })
	if err := unix.SetNonblock(fds[1], true); err != nil {
		t.Fatal(err)
	}
	return fds[0], reactor.Socket{FD: fds[1]}
}

// duplicate gives another descriptor of c's socket, still non-blocking and unknown to Go's own
// poller.
func duplicate(t testing.TB, c syscall.Conn) int {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var dup int
	raw.Control(func(fd uintptr) { dup, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		t.Fatal(err)
	}
	return dup
}

// attach puts c on the loop with the socket given.
func attach(t testing.TB, l *reactor.Loop, c *conn, s reactor.Socket) {
	t.Helper()
	on(t, l, func() {
		if err := c.Attach(l, s, c); err != nil {
			t.Error(err)
		}
	})
	c.closeLater(t)
}

// await blocks until the kernel has one of the events for the descriptor. On a loop it holds the
// loop, which is how tests make several things happen before its next turn.
func await(t testing.TB, fd int, events int16) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
	for {
		n, err := unix.Poll(fds, int(patience/time.Millisecond))
		if err == unix.EINTR {
			continue
		}
		if n != 1 || err != nil {
			t.Errorf("descriptor %d never became ready: %v", fd, err)
		}
		return
	}
}

// bind makes a listening socket on a free port and says its address.
func bind(t testing.TB, address string) (int, string) {
	t.Helper()
	a, err := reactor.ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := reactor.BindListener(a, 128)
	if err != nil {
		t.Fatal(err)
	}
	if a.Path != "" {
		return fd, a.Path
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port := 0
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		port = sa.Port
	case *unix.SockaddrInet6:
		port = sa.Port
	}
	return fd, net.JoinHostPort(a.IP.Addr().String(), strconv.Itoa(port))
}

// acceptor is a reactor.Acceptor made of functions.
type acceptor struct {
	accepted func(*reactor.Loop, reactor.Socket)
	shed     func()
	accepts  func() bool // nil for always
}

func (a acceptor) Accepted(l *reactor.Loop, s reactor.Socket) { a.accepted(l, s) }
func (a acceptor) Shed(*reactor.Loop)                         { a.shed() }
func (a acceptor) Accepts(*reactor.Loop) bool {
	return a.accepts == nil || a.accepts()
}

// listen makes the loop accept from fd until the test is over.
func listen(t testing.TB, l *reactor.Loop, fd int, a acceptor) *reactor.Listener {
	t.Helper()
	var ln *reactor.Listener
	on(t, l, func() {
		var err error
		if ln, err = l.Listen(fd, a); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { on(t, l, func() { ln.Close(false) }) })
	return ln
}

// echoes accepts connections that echo, and closes them when the test is over.
func echoes(t testing.TB) acceptor {
	return acceptor{accepted: func(l *reactor.Loop, s reactor.Socket) {
		c := new(conn).echo()
		if err := c.Attach(l, s, c); err != nil {
			t.Error(err)
			return
		}
		c.closeLater(t)
	}}
}

// dial connects an ordinary client that is closed when the test is over.
func dial(t testing.TB, network, address string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout(network, address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// roundTrip sends a byte and waits for it to come back.
func roundTrip(t testing.TB, c net.Conn) {
	t.Helper()
	b := []byte{'?'}
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatal(err)
	}
}

func unixPath(t testing.TB) string { return filepath.Join(t.TempDir(), "s") }

// accepts is a client of a loop that accepts, and the loop's end of the connection.
func accepts(t *testing.T, l *reactor.Loop) (net.Conn, *conn) {
	fd, to := bind(t, "127.0.0.1:0")
	accepted := make(chan *conn, 1)
	listen(t, l, fd, acceptor{accepted: func(l *reactor.Loop, s reactor.Socket) {
		c := &conn{}
		if err := c.Attach(l, s, c); err != nil {
			t.Error(err)
		}
		accepted <- c
	}})
	near := dial(t, "tcp", to)
	c := receive(t, accepted, "the connection")
	c.closeLater(t)
	return near, c
}

// ran counts how often it was run, and what had been sent by then.
type ran struct {
	c     *conn
	sent  int64
	times int
}

func (r *ran) Run() { r.times, r.sent = r.times+1, r.c.Sent() }

// noise is n bytes that no misplaced or repeated piece can pass for.
func noise(n int) []byte {
	p := make([]byte, n)
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

func address(t testing.TB, s string) reactor.Address {
	t.Helper()
	a, err := reactor.ParseAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// expiry is a reactor.Expirer that is a function.
type expiry func()

func (f expiry) Expire(*reactor.Timer, int64) { f() }
