package tlsio

import (
	"bytes"
	"io"
)

// How reading works: bytes are received into a buffer of the loop, called the lease. crypto/tls is
// called only when the lease has a whole record, which it decrypts in place. When everything in the
// lease has been read, it is returned to the loop. Invariants:
//   - inner's two input buffers are empty, or their memory is the lease (or inner's own, right
//     after the handshake);
//   - no other connection sees a lease before both are empty;
//   - inner is never called when it would need more bytes, except after a record that carries no
//     data.
//
// So reading a drained socket costs no system call and no call of crypto/tls, and nothing here
// allocates.

// Read decrypts into p, which must not be empty. It returns n > 0 with a nil error, or 0 with one
// of these: the Socket's own temporary error if nothing can be read now; io.EOF if the peer has
// sent close_notify; io.ErrUnexpectedEOF if the connection ended without that, so that an attacker
// may have truncated the data; or another final error. After one of the last three, every Read
// returns the same error.
//
// A loop with edge-triggered events must read until the temporary error, or check Buffered before
// it sleeps.
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

// Buffered reports whether Read would return a result (plaintext, a whole record, the end) without
// asking the socket. With edge-triggered events, the loop must not wait for an event while it is
// true.
func (c *Conn) Buffered() bool {
	if c.err != nil {
		return true
	}
	if !c.lends {
		return !c.dry
	}
	return c.hasRecord()
}

// Holding reports, after a Read that found nothing, whether only a part of a record has arrived. It
// is false if inner's buffers cannot be reached.
func (c *Conn) Holding() bool { return c.lease != nil }

// hasRecord reports whether inner can proceed without more bytes: because of plaintext, a whole
// record, or a header that inner refuses without waiting for the rest (after the handshake every
// record has version 3.3; RFC 8446, section 5.1).
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

// fill does one receive. It first moves the partial record that inner holds to the front of the
// lease, so that there is always room for the rest.
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

// forget empties inner's input and returns the lease to the loop.
func (c *Conn) forget() {
	*inside.raw(c.inner) = bytes.Buffer{}
	inside.plain(c.inner).Reset(nil)
	if c.lease != nil {
		c.loop.give(c.lease)
		c.lease = nil
	}
}

// stop records an error that ends reading, and returns the lease, from which nothing more will be
// read. It returns temporary errors unchanged and does not record them.
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

// readPlainly is Read for the case that inner's buffers cannot be reached: crypto/tls receives into
// memory of its own.
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
