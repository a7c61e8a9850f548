package reactor

import (
	"errors"
	"syscall"
)

// Errors of SendFile that concern the file. front has been sent or queued, and the connection is
// still usable.
var (
	// ErrNoSendFile says that the kernel cannot send from a file of this kind. The caller must read
	// it instead.
	ErrNoSendFile = errors.New("the kernel cannot send from this file")
	// ErrFileCut says that the file is shorter than expected, or that its disk fails.
	ErrFileCut = errors.New("the file ends early or cannot be read")
)

// CanSendFile reports whether SendFile may be called: on Linux, but not in a simulation, whose
// sockets are unknown to the kernel.
func CanSendFile() bool { return hasSendFile && model == nil }

// SendFile sends front, followed by up to n bytes of the file fd from offset at, without copying
// the file through our memory. It returns how many of the n bytes went into the socket. The rest of
// front is queued as by Write. The rest of the file is not queued: the Conn is Congested, and the
// caller sends the rest after Drained. The file's pages should be in memory, because a disk read
// would stall the loop.
//
// Errors are ErrNoSendFile, ErrFileCut and those of Write.
//
// The kernel is told that more follows front (MSG_MORE), so that the two leave in the same
// segments: two system calls in all, and none to cork the socket.
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
			// This may be only a part: the file may end here, a signal may have come, or the socket
			// may be full. Only after EAGAIN does an event report room.
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

// LimitUnsent sets how many unsent bytes of the connection the kernel holds, instead of
// UnsentLimit. It makes one system call.
func (c *Conn) LimitUnsent(bytes int) {
	if c.Open() && model == nil {
		limitUnsent(int(c.fd), bytes)
	}
}
