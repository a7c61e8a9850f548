package reactor

import "syscall"

// SendStored sends front followed by parts, whose bytes must not change, with as few system calls
// as possible. It returns how many bytes of parts went into the socket. The rest of front is queued
// as by Write. The rest of parts is not queued: the Conn is Congested, and the caller sends the
// rest after Drained. So a client that reads a stored response slowly costs no memory. SendStored
// may modify the slices in parts.
//
// Errors are those of Write.
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
			// Only after EAGAIN does an event report room, so a call that sent only a part is
			// followed by another.
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
