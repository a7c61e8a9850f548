package reactor

import "plimsoll/internal/invariant"

// Chain is bytes in buffers of one loop, first in, first out. The zero value is an empty one. Who has
// a chain drops it when it is not needed any more, or its buffers are lost to the loop. All methods
// are for the loop.
//
// A buffer whose bytes were taken stays in the chain until the next call that may change it: what was
// taken last is still in it.
type Chain struct {
	first, last *Buffer
	length      int // bytes that are in it
	memory      int // bytes of its buffers
}

// Of a chain that has less than chainSmall bytes no buffer is larger than chainBuffer: its memory
// stays near what is in it.
const (
	chainSmall  = 64 << 10
	chainBuffer = 16 << 10
)

// Len is how many bytes are in the chain.
func (c *Chain) Len() int { return c.length }

// Memory is how many bytes the chain's buffers have, those too that were taken last.
func (c *Chain) Memory() int { return c.memory }

// Append copies data behind what is there.
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

// nextSize is how large a buffer is to be that has room for some of n bytes: as large as all that is
// there, so that a chain has few buffers.
func (c *Chain) nextSize(n int) int {
	if n = max(n, c.length); c.length < chainSmall {
		return min(n, chainBuffer)
	}
	return min(n, ScratchSize)
}

// grow makes room for some of n bytes. A chain's only buffer is replaced by a larger one until it has
// chainBuffer: what Take gives at once is what one buffer has, and each may become a system call.
// Sizes double, so every byte is copied about once.
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

// Take takes bytes from the front, most at the most: buf[from:to], with what stands in front of from
// free to be overwritten. They stay valid until the next call of a method that may change the chain.
// Of an empty chain, to is from.
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

// trim gives the buffers back of which all was taken: only the first one can be such.
func (c *Chain) trim(l *Loop) {
	if b := c.first; b != nil && b.Start == b.End {
		c.drop(l)
	}
}

// drop gives the first buffer back.
func (c *Chain) drop(l *Loop) {
	b := c.first
	c.first, b.next = b.next, nil
	if c.first == nil {
		c.last = nil
	}
	c.memory -= len(b.Bytes)
	l.PutBuffer(b)
}

// Drop gives all buffers back, with what is in them.
func (c *Chain) Drop(l *Loop) {
	for c.first != nil {
		c.drop(l)
	}
	c.length = 0
	if invariant.On && c.memory != 0 {
		panic("reactor: a chain without buffers has memory")
	}
}
