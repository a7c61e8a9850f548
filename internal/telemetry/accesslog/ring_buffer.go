package accesslog

import "sync/atomic"

// ringBuffer carries lines from one loop to the writer without a lock: one goroutine puts in, one
// takes out.
//
// Positions count bytes since the beginning and only grow; a position's place in buf is its low
// bits. A line is encoded in place and therefore must be contiguous. Where it might not fit before
// the end of buf, the rest of the lap is left out:
//
//  1. the putter reserves room for the longest form of the line, skipping to the next lap if need
//     be;
//  2. it encodes, stores in lapEnd where the lap it left ends (only when it skipped), then stores
//     head;
//  3. the taker loads head, then lapEnd: what is between tail and head spans at most one lap
//     boundary, because head is never more than len(buf) ahead of tail, so one lapEnd is enough,
//     and one of an older lap lies below tail;
//  4. the taker stores tail when the bytes are written, and the putter may use their place again.
//
// Rejected: a frame header per line (the writer would have to copy lines together, here it writes
// straight from buf), and a channel of buffers (a lock per line, and an owner for every buffer).
type ringBuffer struct {
	buf  []byte
	mask uint64

	_     [64]byte // what follows belongs to the putter
	pos   uint64   // where the last line ended
	start uint64   // where the reserved line begins
	seen  uint64   // tail when the putter looked last
	asked bool     // the writer was woken and has not been seen to catch up

	_      [64]byte
	head   atomic.Uint64
	lapEnd atomic.Uint64

	_    [64]byte
	tail atomic.Uint64
	_    [64]byte
}

// newRingBuffer makes a ring of size bytes, a power of two and at least twice maxLine.
func newRingBuffer(size int) *ringBuffer {
	return &ringBuffer{buf: make([]byte, size), mask: uint64(size - 1)}
}

// reserve is empty room for n bytes, at most half the ring's size; ok is false when the ring is too
// full. Putter only.
func (r *ringBuffer) reserve(n int) (room []byte, ok bool) {
	size := uint64(len(r.buf))
	r.start = r.pos
	if left := size - r.pos&r.mask; left < uint64(n) {
		r.start += left
	}
	if r.start+uint64(n)-r.seen > size {
		r.seen = r.tail.Load()
		if r.start+uint64(n)-r.seen > size {
			return nil, false
		}
	}
	at := int(r.start & r.mask)
	return r.buf[at : at : at+n], true
}

// commit publishes the first n bytes of the reserved room. Putter only.
func (r *ringBuffer) commit(n int) {
	if r.start != r.pos {
		r.lapEnd.Store(r.pos)
	}
	r.pos = r.start + uint64(n)
	r.head.Store(r.pos)
}

// wantsWriter says, once, that the ring has become more than half full. Putter only.
func (r *ringBuffer) wantsWriter() bool {
	half := uint64(len(r.buf) / 2)
	if r.pos-r.seen > half {
		r.seen = r.tail.Load()
	}
	before := r.asked
	r.asked = r.pos-r.seen > half
	return r.asked && !before
}

// readable is the next contiguous run of whole lines, empty when there is none. Taker only; valid
// until release.
func (r *ringBuffer) readable() []byte {
	head, tail := r.head.Load(), r.tail.Load()
	if nextLap := (tail | r.mask) + 1; head > nextLap {
		end := nextLap
		if skipped := r.lapEnd.Load(); skipped >= tail {
			end = skipped
		}
		if end > tail {
			return r.at(tail, end)
		}
		tail = nextLap
		r.tail.Store(tail)
	}
	return r.at(tail, head)
}

// at is the bytes between two positions of the same lap.
func (r *ringBuffer) at(from, to uint64) []byte {
	i := from & r.mask
	return r.buf[i : i+to-from]
}

// release gives back the first n bytes of what readable returned. Taker only.
func (r *ringBuffer) release(n int) {
	r.tail.Store(r.tail.Load() + uint64(n))
}
