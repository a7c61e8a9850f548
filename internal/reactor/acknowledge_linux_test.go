package reactor_test

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestAcknowledgeDoesNotWaitForDataToSend(t *testing.T) {
	l := newLoops(t, 1)[0]
	near, far := peers(t, false)
	c, told := reading(t, l, far)
	raw, err := near.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	unacknowledged := func() (n int) {
		raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	on(t, l, func() { // as after some exchanges of short messages
		if err := unix.SetsockoptInt(c.FD(), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0); err != nil {
			t.Error(err)
		}
	})
	near.Write([]byte("x"))
	receive(t, told, "the byte")
	expectRead(t, c, 10, "x", nil)
	on(t, l, c.Acknowledge)
	if n := unacknowledged(); n != 0 {
		t.Errorf("%d bytes are not acknowledged", n)
	}
}
