package tlsio

import (
	"bytes"
	"io"
)

// How reading works. Bytes are received into a buffer of the loop, the lease, and crypto/tls is
// asked only when there is a whole record in it, which it then decrypts in place. When everything
// in the lease has been read, it goes back to the loop. Invariants:
//   - inner's two input buffers are empty, or their memory is the lease (or inner's own, right
//     after the handshake);
//   - no other connection sees a lease before both are empty;
//   - inner is never asked when it would have to ask for bytes, except after a record that carries
//     no data.
// So a drained socket costs no system call and no call of crypto/tls, and nothing here allocates.

// Read decrypts into p, which is not empty: n > 0 with a nil error; or 0 with the Socket's own
// temporary error when nothing can be read now; io.EOF when the peer said that it is done
// (close_notify); io.ErrUnexpectedEOF when the connection ended without that, so that what came may
// have been cut off by anybody; or another final error. After one of the last three every Read
// returns the same.
//
// A loop that is woken on edges reads until the temporary error, or asks Buffered before it sleeps.
func (c *Conn) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if !c.lends {
		return c.readPlainly(p)
	}
	for {
		if !c.hasRecord() {
			if err := c.fill(); err != nil {
				return 0, c.stop(err)
			}
			continue
		}
		c.reading = true
		n, err := c.inner.Read(p)
		c.reading = false
		if inside.raw(c.inner).Len() == 0 && inside.plain(c.inner).Len() == 0 {
			c.forget()
		}
		if c.flooded {
			err = ErrKeyUpdates
		}
		if err != nil {
			c.stop(err)
		}
		if n > 0 {
			c.received += int64(n)
			return n, nil
		}
		if c.err != nil {
			return 0, c.err
		}
	}
}

// Buffered says whether Read has something to say (plaintext, a whole record, the end) without
// asking the socket. A connection that reads on edges must not sleep on it.
func (c *Conn) Buffered() bool {
	if c.err != nil {
		return true
	}
	if !c.lends {
		return !c.dry
	}
	return c.hasRecord()
}

// Holding says, after a Read that found nothing, that a part of a record is there and its rest is
// not. It is false where inner's buffers cannot be reached.
func (c *Conn) Holding() bool { return c.lease != nil }

// hasRecord says whether inner can go on without more bytes: plaintext is left, or a whole record,
// or a header that inner refuses without waiting for the rest (every established record says
// version 3.3, RFC 8446, section 5.1).
func (c *Conn) hasRecord() bool {
	if inside.plain(c.inner).Len() > 0 {
		return true
	}
	b := inside.raw(c.inner).Bytes()
	if len(b) < recordHeader {
		return false
	}
	n := recordHeader + int(b[3])<<8 + int(b[4])
	return len(b) >= n || n > maxRecord || b[1] != 3 || b[2] != 3
}

// fill receives once. What inner holds of an unfinished record moves to the front of the lease
// first, so there is always room for the rest of it.
func (c *Conn) fill() error {
	raw := inside.raw(c.inner)
	if c.lease == nil {
		c.lease = c.loop.take()
	}
	have := copy(c.lease, raw.Bytes())
	n, err := c.sock.Read(c.lease[have:])
	c.ended = err == io.EOF
	if have+n == 0 {
		c.forget()
		return err
	}
	*raw = *bytes.NewBuffer(c.lease[:have+n])
	return err
}

// forget empties inner's input and gives the lease back.
func (c *Conn) forget() {
	*inside.raw(c.inner) = bytes.Buffer{}
	inside.plain(c.inner).Reset(nil)
	if c.lease != nil {
		c.loop.give(c.lease)
		c.lease = nil
	}
}

// stop keeps an error that ends the reading, and gives the lease back because nothing will be read
// from it; temporary ones pass.
func (c *Conn) stop(err error) error {
	if again(err) {
		return err
	}
	if c.ended {
		err = io.ErrUnexpectedEOF
	}
	c.err = outward(err)
	if c.lends {
		c.forget()
	}
	return c.err
}

// readPlainly is Read when inner's buffers cannot be reached: crypto/tls receives into memory of
// its own.
func (c *Conn) readPlainly(p []byte) (int, error) {
	c.dry, c.reading = false, true
	n, err := c.inner.Read(p)
	c.reading = false
	if c.flooded {
		err = ErrKeyUpdates
	}
	if err != nil {
		err = c.stop(err)
	}
	if n > 0 {
		c.received += int64(n)
		return n, nil
	}
	c.dry = c.err == nil
	return 0, err
}
