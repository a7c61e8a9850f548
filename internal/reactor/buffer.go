package reactor

import "plimsoll/internal/invariant"

// Buffer is a piece of memory of one of the loop's sizes. Whoever took it with GetBuffer returns it
// with PutBuffer, exactly once.
type Buffer struct {
	Bytes []byte // all of it; length is its size
	Start int    // the owner's data is Bytes[Start:End]
	End   int
	next  *Buffer
	class uint8
	out   bool
}

// Data is the owner's data in the buffer.
func (b *Buffer) Data() []byte { return b.Bytes[b.Start:b.End] }

// Room is the free space after the data.
func (b *Buffer) Room() []byte { return b.Bytes[b.End:] }

// Sizes are the sizes of buffers in bytes, smallest first.
var Sizes = [...]int{512, 1 << 10, 2 << 10, 4 << 10, 16 << 10, 64 << 10}

// keptBytes is how many bytes of free buffers of each size a loop keeps for reuse. Buffers returned
// beyond it are left to the garbage collector.
const keptBytes = 1 << 20

// pool keeps the buffers that are not in use. The one returned last is taken first, because its
// memory is still in the CPU's cache.
type pool struct {
	free  [len(Sizes)]*Buffer
	kept  [len(Sizes)]int
	least [len(Sizes)]int // the least value of kept since the last call of DropSpareBuffers
	out   [len(Sizes)]int
}

// GetBuffer takes an empty buffer of at least n bytes; n is at most the largest of Sizes.
func (l *Loop) GetBuffer(n int) *Buffer {
	l.check()
	class := 0
	for Sizes[class] < n {
		class++
	}
	p := &l.buffers
	p.out[class]++
	b := p.free[class]
	if b == nil {
		b = &Buffer{Bytes: make([]byte, Sizes[class]), class: uint8(class)}
	} else {
		p.free[class], b.next = b.next, nil
		p.kept[class]--
		p.least[class] = min(p.least[class], p.kept[class])
	}
	b.out = true
	return b
}

// PutBuffer returns a buffer to the loop.
func (l *Loop) PutBuffer(b *Buffer) {
	l.check()
	if invariant.On {
		if !b.out {
			panic("reactor: a buffer was given back twice")
		}
		b.Bytes[0] = 0xdb
		for n := 1; n < len(b.Bytes); n *= 2 { // copies are faster than a loop over the bytes
			copy(b.Bytes[n:], b.Bytes[:n])
		}
	}
	p, class := &l.buffers, b.class
	p.out[class]--
	b.out, b.Start, b.End = false, 0, 0
	if p.kept[class] >= keptBytes/Sizes[class] {
		return
	}
	b.next, p.free[class] = p.free[class], b
	p.kept[class]++
}

// DropSpareBuffers leaves to the garbage collector half of the buffers that have not been in use at
// any time since its last call.
func (l *Loop) DropSpareBuffers() {
	l.check()
	p := &l.buffers
	for class := range Sizes {
		for range p.least[class] / 2 {
			b := p.free[class]
			p.free[class], b.next = b.next, nil
			p.kept[class]--
		}
		p.least[class] = p.kept[class]
	}
}

// BuffersOut is how many buffers of each of Sizes are in use.
func (l *Loop) BuffersOut() [len(Sizes)]int { return l.buffers.out }
