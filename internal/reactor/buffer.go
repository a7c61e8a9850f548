package reactor

import "plimsoll/internal/invariant"

// Buffer is a piece of memory of one of the loop's sizes. The one that took it gives it back
// with PutBuffer, once.
type Buffer struct {
	Bytes []byte // all of it; length is its size
	Start int    // what its owner has in it is Bytes[Start:End]
	End   int
	next  *Buffer
	class uint8
	out   bool
}

// Data is what the owner has in the buffer.
func (b *Buffer) Data() []byte { return b.Bytes[b.Start:b.End] }

// Room is what is free behind the data.
func (b *Buffer) Room() []byte { return b.Bytes[b.End:] }

// Sizes are the sizes of buffers in bytes, smallest first.
var Sizes = [...]int{512, 1 << 10, 2 << 10, 4 << 10, 16 << 10, 64 << 10}

// keptBytes is how much memory of each size a loop keeps for the next use; what comes back beyond
// it is left to the garbage collector.
const keptBytes = 1 << 20

// pool keeps buffers that are not in use, the last one used first, because its memory is still in
// the CPU's cache.
type pool struct {
	free  [len(Sizes)]*Buffer
	kept  [len(Sizes)]int
	least [len(Sizes)]int // of kept, since DropSpareBuffers was called last
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

// PutBuffer gives a buffer back.
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

// DropSpareBuffers leaves half of the buffers to the garbage collector that were not in use at any
// time since it was called last.
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
