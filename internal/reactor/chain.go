package reactor

import "plimsoll/internal/invariant"

// Chain is a first-in, first-out queue of bytes in buffers of one loop. The zero value is an empty
// chain. The owner must call Drop when it no longer needs the chain; otherwise the loop loses the
// buffers. Loop only.
//
// A buffer whose bytes have all been taken stays in the chain until the next call that may change
// the chain, so the bytes that Take returned last remain valid.
type Chain struct {
	first, last *Buffer
	length      int // bytes in the chain
	memory      int // total size of its buffers, in bytes
}

// While a chain has less than chainSmall bytes, it gets no buffer larger than chainBuffer, so that
// its memory is not much more than its contents.
const (
	chainSmall  = 64 << 10
	chainBuffer = 16 << 10
)

// Len is how many bytes are in the chain.
func (c *Chain) Len() int { return c.length }

// Memory is the total size of the chain's buffers in bytes, including the buffer of the bytes taken
// last.
func (c *Chain) Memory() int { return c.memory }

// Append copies data to the end of the chain.
func (c *Chain) Append(l *Loop, data []byte) {
	c.trim(l)
	for len(data) > 0 {
		if c.last == nil || len(c.last.Room()) == 0 {
			c.grow(l, len(data))
		}
		n := copy(c.last.Room(), data)
		c.last.End += n
		c.length += n
		data = data[n:]
	}
}

// nextSize is the size of a new buffer when n bytes are to be appended. It is at least the chain's
// length, up to a limit, so that a chain has few buffers.
func (c *Chain) nextSize(n int) int {
	if n = max(n, c.length); c.length < chainSmall {
		return min(n, chainBuffer)
	}
	return min(n, ScratchSize)
}

// grow makes room for at least some of n bytes. It replaces a chain's only buffer by a larger one
// until that has chainBuffer bytes, because Take returns at most one buffer's bytes, and each Take
// may become a system call. Sizes double, so every byte is copied about once.
func (c *Chain) grow(l *Loop, n int) {
	only := c.first
	if only == nil || only != c.last || len(only.Bytes) >= chainBuffer {
		c.add(l.GetBuffer(c.nextSize(n)))
		return
	}
	larger := l.GetBuffer(min(c.length+max(n, c.length), chainBuffer))
	larger.End = copy(larger.Bytes, only.Data())
	c.drop(l)
	c.add(larger)
}

func (c *Chain) add(b *Buffer) {
	if c.last == nil {
		c.first = b
	} else {
		c.last.next = b
	}
	c.last = b
	c.memory += len(b.Bytes)
}

// Take removes up to most bytes from the front and returns them as buf[from:to]. The caller may
// overwrite buf[:from]. The bytes stay valid until the next call of a method that may change the
// chain. If the chain is empty, to equals from.
func (c *Chain) Take(l *Loop, most int) (buf []byte, from, to int) {
	c.trim(l)
	b := c.first
	if b == nil {
		return nil, 0, 0
	}
	from = b.Start
	to = min(b.End, from+most)
	b.Start = to
	c.length -= to - from
	return b.Bytes, from, to
}

// trim returns the first buffer to the loop if all its bytes were taken. No other buffer can be
// empty.
func (c *Chain) trim(l *Loop) {
	if b := c.first; b != nil && b.Start == b.End {
		c.drop(l)
	}
}

// drop returns the first buffer to the loop.
func (c *Chain) drop(l *Loop) {
	b := c.first
	c.first, b.next = b.next, nil
	if c.first == nil {
		c.last = nil
	}
	c.memory -= len(b.Bytes)
	l.PutBuffer(b)
}

// Drop discards the contents and returns all buffers to the loop.
func (c *Chain) Drop(l *Loop) {
	for c.first != nil {
		c.drop(l)
	}
	c.length = 0
	if invariant.On && c.memory != 0 {
		panic("reactor: a chain without buffers has memory")
	}
}
