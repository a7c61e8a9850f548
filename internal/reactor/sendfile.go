package reactor

import (
	"errors"
	"syscall"
)

// Errors of SendFile that are the file's. What was in front of it is sent, or queued, and the
// connection is as good as before.
var (
	// ErrNoSendFile says that the kernel cannot send from a file of this kind: it must be read.
	ErrNoSendFile = errors.New("the kernel cannot send from this file")
	// ErrFileCut says that the file ends early, or that its disk fails.
	ErrFileCut = errors.New("the file ends early or cannot be read")
)

// CanSendFile says whether SendFile may be called: on Linux, and not in a simulation, whose sockets
// the kernel does not know.
func CanSendFile() bool { return hasSendFile && model == nil }

// SendFile sends front and, behind it, up to n bytes that stand at the offset at in the file fd,
// without a copy through our memory. It says how many of the n went into the socket. What is left of
// front is queued as by Write; of the file nothing is: when not all of it went, the Conn is Congested
// until Drained tells that there is room, and the caller comes back for the rest. The pages should be
// in memory: a read of the disk would stall the loop.
//
// An error is ErrNoSendFile, ErrFileCut or one of Write's.
//
// The kernel is told that more follows front (MSG_MORE), so that the two leave in the same segments:
// two calls in all, and no others to cork the socket.
func (c *Conn) SendFile(front []byte, fd int, at, n int64) (sent int64, err error) {
	if !c.Open() {
		return 0, ErrClosed
	}
	if err := c.write(front, true); err != nil {
		return 0, err
	}
	if c.queued > 0 || c.flags&(connecting|batched) != 0 {
		c.flags |= tellDrained
		return 0, nil
	}
	began := Clock()
	for sent < n {
		m, errno := sysSendFile(int(c.fd), fd, at+sent, n-sent)
		switch {
		case errno == 0 && m > 0:
			// A part only: the file may end here, a signal may have come, or the socket may be
			// full. Only after EAGAIN an event tells of room.
			sent += int64(m)
			c.written += int64(m)
			c.sent = began
		case errno == 0:
			return sent, ErrFileCut
		case errno == syscall.EAGAIN:
			c.flags |= tellDrained
			return sent, nil
		case errno == syscall.EINVAL || errno == syscall.ENOSYS || errno == syscall.EOPNOTSUPP:
			return sent, ErrNoSendFile
		case errno == syscall.EIO:
			return sent, ErrFileCut
		case errno != syscall.EINTR:
			c.fail(errno)
			return sent, errno
		}
	}
	return sent, nil
}

// LimitUnsent sets how many bytes the kernel holds of the connection that it has not sent, in place of
// UnsentLimit. One system call.
func (c *Conn) LimitUnsent(bytes int) {
	if c.Open() && model == nil {
		limitUnsent(int(c.fd), bytes)
	}
}
