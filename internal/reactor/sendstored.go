package reactor

import "syscall"

// SendStored sends front and, behind it, parts, whose bytes nobody changes, in one system call. It says
// how many bytes of the parts went into the socket. What is left of front is queued as by Write; of the
// parts nothing is: when not all of them went, the Conn is Congested until Drained tells that there is
// room, and the caller comes back for the rest. So a client that takes a stored response slowly costs no
// memory. SendStored may change the slices of parts.
//
// An error is one of Write's.
func (c *Conn) SendStored(front []byte, parts [][]byte) (sent int64, err error) {
	if !c.Open() {
		return 0, ErrClosed
	}
	c.written += int64(len(front))
	if c.queued > 0 || c.flags&(connecting|batched) != 0 {
		c.enqueue(front)
		c.flags |= tellDrained
		return 0, nil
	}
	began := Clock()
	for len(front) > 0 || len(parts) > 0 {
		n, errno := c.loop.sendVector(int(c.fd), front, parts)
		switch {
		case errno == 0:
			c.sent = began
			inFront := min(n, len(front))
			front, n = front[inFront:], n-inFront
			sent += int64(n)
			parts = skipBytes(parts, n)
		case errno == syscall.EAGAIN:
			// Only after this error an event tells of room, so a call that sent a part is followed by
			// another.
			c.enqueue(front)
			c.flags |= tellDrained
			c.written += sent
			return sent, nil
		case errno != syscall.EINTR:
			c.fail(errno)
			c.written += sent
			return sent, errno
		}
	}
	c.written += sent
	return sent, nil
}

// skipBytes is parts without their first n bytes.
func skipBytes(parts [][]byte, n int) [][]byte {
	for len(parts) > 0 && n >= len(parts[0]) {
		n -= len(parts[0])
		parts = parts[1:]
	}
	if n > 0 {
		parts[0] = parts[0][n:]
	}
	return parts
}
