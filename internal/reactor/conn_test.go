package reactor_test

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"plimsoll/internal/reactor"
)

type halfCloser interface{ CloseWrite() error }

func TestWhatIsSentComesBackWholeOverEveryKindOfSocket(t *testing.T) {
	path := unixPath(t)
	for _, c := range []struct{ network, address string }{
		{"tcp", "127.0.0.1:0"}, {"tcp", "[::1]:0"}, {"unix", "unix:" + path},
	} {
		t.Run(c.address[:4], func(t *testing.T) {
			l := newLoops(t, 1)[0]
			fd, address := bind(t, c.address)
			listen(t, l, fd, echoes(t))
			client := dial(t, c.network, address)
			sent := noise(3 << 20)
			go func() {
				client.Write(sent)
				client.(halfCloser).CloseWrite()
			}()
			got, err := io.ReadAll(client)
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%d bytes of %d came back, error %v, equal %v", len(got), len(sent), err, bytes.Equal(got, sent))
			}
		})
	}
}

// reading attaches a connection that tells of each Readable, and leaves the reading to the test.
func reading(t *testing.T, l *reactor.Loop, s reactor.Socket) (*conn, chan struct{}) {
	told := make(chan struct{}, 16)
	c := &conn{readable: func() { told <- struct{}{} }}
	attach(t, l, c, s)
	return c, told
}

// read is one Read on the loop.
func read(t *testing.T, c *conn, size int) (string, error) {
	t.Helper()
	p := make([]byte, size)
	var n int
	var err error
	on(t, c.Loop(), func() { n, err = c.Read(p) })
	return string(p[:n]), err
}

func expectRead(t *testing.T, c *conn, size int, want string, wantErr error) {
	t.Helper()
	if got, err := read(t, c, size); got != want || !errors.Is(err, wantErr) {
		t.Fatalf("Read gave %q and %v, want %q and %v", got, err, want, wantErr)
	}
}

func TestAReadThatLeavesRoomMakesTheNextSayAgainWithoutAskingTheKernel(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c, told := reading(t, l, far)
	near.Write([]byte("one"))
	receive(t, told, "the first bytes")
	on(t, l, func() {
		var p [10]byte
		if n, err := c.Read(p[:]); n != 3 || err != nil {
			t.Errorf("first Read: %d, %v", n, err)
		}
		near.Write([]byte("two"))
		await(t, c.FD(), unix.POLLIN)
		// The bytes are in the socket, so only a Read that does not ask can say this.
		if _, err := c.Read(p[:]); err != reactor.ErrAgain {
			t.Errorf("second Read: %v, want ErrAgain", err)
		}
	})
	receive(t, told, "the event of the second bytes")
	expectRead(t, c, 10, "two", nil)
}

func TestAReadThatFillsItsBufferReadsOnWithoutAnEvent(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c, told := reading(t, l, far)
	near.Write([]byte("123456"))
	receive(t, told, "readiness")
	expectRead(t, c, 3, "123", nil)
	on(t, l, func() {
		if !c.MayRead() {
			t.Error("MayRead is false with bytes left")
		}
	})
	expectRead(t, c, 3, "456", nil)
	expectRead(t, c, 3, "", reactor.ErrAgain)
}

func TestThePeersEndIsSeenAfterItsBytesWhenBothCameTogether(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	near.Write([]byte("bye"))
	near.CloseWrite()
	await(t, far.FD, unix.POLLIN)
	c, told := reading(t, l, far)
	receive(t, told, "readiness")
	// The end brings no second event: reading must go on by itself, also after a read that left
	// room.
	expectRead(t, c, 100, "bye", nil)
	expectRead(t, c, 100, "", io.EOF)
	expectRead(t, c, 100, "", io.EOF)
}

func TestAnEndThatComesLaterIsAnEventOfItsOwn(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c, told := reading(t, l, far)
	near.Write([]byte("x"))
	receive(t, told, "readiness")
	expectRead(t, c, 100, "x", nil)
	expectRead(t, c, 100, "", reactor.ErrAgain)
	on(t, l, func() {
		if c.PeerEnded() {
			t.Error("the peer has not ended yet")
		}
	})
	near.CloseWrite()
	receive(t, told, "the end")
	on(t, l, func() {
		if !c.PeerEnded() {
			t.Error("PeerEnded is false at the end")
		}
	})
	expectRead(t, c, 100, "", io.EOF)
	// Half-closed: the other direction still works.
	on(t, l, func() { c.Write([]byte("still here")); c.CloseWrite() })
	if got, err := io.ReadAll(near); string(got) != "still here" || err != nil {
		t.Errorf("the peer got %q, %v", got, err)
	}
}

func TestAResetIsAnErrorAndNotAnEnd(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c, told := reading(t, l, far)
	near.SetLinger(0)
	near.Close()
	receive(t, told, "the reset")
	expectRead(t, c, 100, "", syscall.ECONNRESET)
}

// The kernel tells of a reset once. When sending learns of it first, receiving says "end", and a
// body that has no length would be taken for whole (response cut off, then cached or delivered as
// complete).
func TestAResetThatSendingMetFirstIsStillAnErrorForRead(t *testing.T) {
	t.Run("in Write", func(t *testing.T) {
		l := newLoops(t, 1)[0]
		near, far := peers(t, false)
		c, told := reading(t, l, far)
		on(t, l, func() {
			near.SetLinger(0)
			near.Close()
			await(t, c.FD(), unix.POLLIN)
			if err := c.Write([]byte("x")); err != syscall.ECONNRESET {
				t.Errorf("Write: %v", err)
			}
		})
		receive(t, told, "the reset")
		expectRead(t, c, 100, "", syscall.ECONNRESET)
	})
	t.Run("in the queue", func(t *testing.T) {
		l := newLoops(t, 1)[0]
		near, far := peers(t, true)
		c, told := reading(t, l, far)
		on(t, l, func() {
			c.Write(noise(1 << 20))
			if c.Queued() == 0 {
				t.Error("the kernel took a megabyte: nothing is queued")
			}
			near.SetLinger(0)
			near.Close()
		})
		receive(t, told, "the reset")
		expectRead(t, c, 100, "", syscall.ECONNRESET)
		on(t, l, func() {
			if c.Queued() != 0 || c.Congested() {
				t.Errorf("%d bytes are still queued for a peer that is gone", c.Queued())
			}
		})
	})
}

func TestAPeerThatTakesNoMoreIsAnErrorThoughItDoesNotEnd(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := socketPair(t)
	c, told := reading(t, l, far)
	on(t, l, func() {
		for c.Queued() == 0 {
			c.Write(noise(100_000))
		}
		unix.Shutdown(near, unix.SHUT_RD)
	})
	// A unix socket tells of this by nothing but becoming writable, when what it took before has
	// been read.
	for p := make([]byte, 64<<10); ; {
		if n, err := unix.Read(near, p); n <= 0 {
			if err != nil {
				t.Error(err)
			}
			break
		}
	}
	receive(t, told, "the failure of the queue")
	expectRead(t, c, 100, "", syscall.EPIPE)
}

func TestBytesBeforeTheResetAreReadFirstWhenSendingMetIt(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c, told := reading(t, l, far)
	on(t, l, func() {
		near.Write([]byte("partial"))
		near.SetLinger(0)
		near.Close()
		await(t, c.FD(), unix.POLLHUP)
		if err := c.Write([]byte("x")); err == nil {
			t.Error("Write to a reset connection succeeded")
		}
	})
	receive(t, told, "readiness")
	expectRead(t, c, 100, "partial", nil)
	expectRead(t, c, 100, "", syscall.ECONNRESET)
}

func TestAnEndThatArrivedBeforeAFailedWriteStaysAnEnd(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c, told := reading(t, l, far)
	on(t, l, func() {
		near.Write([]byte("whole"))
		near.Close()
		await(t, c.FD(), unix.POLLIN)
		// The peer is gone: the first bytes make it send a reset, the next ones meet it.
		for c.Write([]byte("more")) == nil {
			await(t, c.FD(), unix.POLLOUT)
		}
	})
	receive(t, told, "readiness")
	expectRead(t, c, 100, "whole", nil)
	expectRead(t, c, 100, "", io.EOF)
}

func TestAliveIsFalseForAPeerThatClosedOrSpoke(t *testing.T) {
	l := newLoops(t, 1)[0]
	alive := func(c *conn) (yes bool) {
		on(t, l, func() { yes = c.Alive() })
		return yes
	}
	near, far := peers(t, false)
	c, told := reading(t, l, far)
	if !alive(c) {
		t.Error("a quiet connection is not alive")
	}
	near.Write([]byte("x"))
	receive(t, told, "readiness")
	if alive(c) {
		t.Error("a connection with unread bytes is fit for a new request")
	}
	expectRead(t, c, 10, "x", nil)
	near.Close()
	receive(t, told, "the end")
	if alive(c) {
		t.Error("a connection whose peer has closed is alive")
	}
	on(t, l, c.Close)
	if alive(c) {
		t.Error("a closed connection is alive")
	}
}

func TestAClosedConnectionSaysSoAndMayBeClosedAgain(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c, told := reading(t, l, far)
	near.Write([]byte("unread"))
	receive(t, told, "readiness")
	on(t, l, func() {
		c.Close()
		c.Close()
		c.Reset()
		if _, err := c.Read(make([]byte, 1)); err != reactor.ErrClosed {
			t.Errorf("Read: %v", err)
		}
		if err := c.Write([]byte("x")); err != reactor.ErrClosed {
			t.Errorf("Write: %v", err)
		}
		if c.Open() || c.FD() != -1 {
			t.Error("it says that it is open")
		}
	})
}

func TestErrAgainIsTemporary(t *testing.T) {
	var temporary interface{ Temporary() bool }
	if !errors.As(reactor.ErrAgain, &temporary) || !temporary.Temporary() {
		t.Error("crypto/tls would take ErrAgain for the end of the connection")
	}
}

func TestAConnectionMayCloseItselfWhileItIsTold(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c := &conn{}
	closed := make(chan struct{})
	c.drained = func() { c.Close(); close(closed) }
	c.readable = func() { t.Error("Readable was told to a connection that its own handler has just closed") }
	attach(t, l, c, far)
	settle(t, l)
	on(t, l, func() {
		written := 0
		for !c.Congested() {
			c.Write(noise(10_000))
			written += 10_000
		}
		// One event will carry both: room for the whole queue, and a byte.
		near.Write([]byte("x"))
		if _, err := io.CopyN(io.Discard, near, int64(written-c.Queued())); err != nil {
			t.Error(err)
		}
		await(t, c.FD(), unix.POLLOUT)
	})
	receive(t, closed, "Drained")
	settle(t, l)
}

func TestAnEventFetchedForAConnectionThatIsClosedMeanwhileGoesNowhere(t *testing.T) {
	l := newLoops(t, 1)[0]
	nearA, farA := peers(t, false)
	nearB, farB := peers(t, false)
	nearC, farC := peers(t, false)
	var a, b, c conn
	told := ""
	// Whichever of a and b is told first closes the other, whose event is fetched already, and
	// gives its slot to c.
	closesTheOther := func(name string, other *conn) func() {
		return func() {
			told += name
			other.Close()
			if err := c.Attach(l, farC, &c); err != nil {
				t.Error(err)
			}
		}
	}
	heard := make(chan struct{}, 1)
	a.readable, b.readable = closesTheOther("a", &b), closesTheOther("b", &a)
	c.readable = func() { told += "c"; heard <- struct{}{} }
	attach(t, l, &a, farA)
	attach(t, l, &b, farB)
	c.closeLater(t)
	settle(t, l)
	on(t, l, func() {
		nearA.Write([]byte("x"))
		nearB.Write([]byte("x"))
		await(t, a.FD(), unix.POLLIN)
		await(t, b.FD(), unix.POLLIN)
	})
	settle(t, l)
	on(t, l, func() {
		if told != "a" && told != "b" {
			t.Errorf("told %q, want one of a and b", told)
		}
	})
	nearC.Write([]byte("x"))
	receive(t, heard, "the event of the connection that has the slot now")
}

func TestAConnectionMovesBetweenLoopsAndLosesNothing(t *testing.T) {
	loops := newLoops(t, 2)
	near, far := peers(t, false)
	c := &conn{}
	var failed error
	// Each byte is answered by one loop, which then gives the connection to the other.
	c.readable = func() {
		var p [1]byte
		if _, err := c.Read(p[:]); err != nil {
			return
		}
		c.Write(p[:])
		s, next := c.Detach(), loops[1-c.Loop().ID]
		next.Post(func() {
			if err := c.Attach(next, s, c); err != nil {
				failed = err
			}
		})
	}
	attach(t, loops[0], c, far)
	go near.Write(noise(2000))
	got := make([]byte, 2000)
	if _, err := io.ReadFull(near, got); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	if !bytes.Equal(got, noise(2000)) {
		t.Error("bytes were lost or changed places")
	}
	// Wait until the last move is over, so that closing finds it.
	settle(t, loops[0])
	settle(t, loops[1])
}
