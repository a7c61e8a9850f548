package replay

import (
	"math"

	"plimsoll/internal/lab/heap"
)

// Servers write a line when its request is over, and several of them write to one file, so lines
// stand a little out of order, and Apache's times, which are those of the arrival, too. order holds
// what is young, and gives it back oldest first. What then has the same time cannot be
// distinguished by the log's clock: 1,000 lines of one second did not all arrive at its beginning,
// so they are spread over the unit of the clock.
//
// Late lines are never lost: one that is older than what has been given back already comes next.

// reorderWindow is how far behind the latest time a line may be and still be put back in its place,
// in nanoseconds of the log.
const reorderWindow = 2 * secondNs

// What is held is bounded, in lines and in bytes; when it is full the oldest goes before its time.
const (
	maxHeld      = 1 << 17
	maxHeldBytes = 32 << 20
	// What is not held any more leaves so many buffers to be used again, each of so many bytes at
	// most.
	maxKept, keptBytes = 1 << 14, 512
)

// order is used by the reading goroutine alone.
type order struct {
	window int64
	heap   heap.Heap[held]
	free   [][]byte
	bytes  int   // of the heap's buffers
	newest int64 // the latest time seen
	edge   int64 // the time of what was given back last: nothing older may follow
	serial uint64
	begun  bool
	group  []held // what is being given back
}

// held is an item that waits for older ones.
type held struct {
	item
	serial uint64 // keeps the log's order among equal times
}

// push holds an item and copies its bytes. outOfOrder says that a later one was pushed before it,
// and late that it cannot be put back in its place.
func (o *order) push(it *item) (outOfOrder, late bool) {
	h := held{item: *it, serial: o.serial}
	o.serial++
	if !o.begun {
		o.begun, o.newest, o.edge = true, it.at, math.MinInt64
	}
	outOfOrder, late = it.at < o.newest, it.at < o.edge
	if late {
		h.at = o.edge
	}
	o.newest = max(o.newest, it.at)
	h.bytes = append(o.buffer(len(it.bytes)), it.bytes...)
	o.bytes += cap(h.bytes)
	o.heap.Push(h)
	return outOfOrder, late
}

// buffer is an empty buffer with room for n bytes.
func (o *order) buffer(n int) []byte {
	if last := len(o.free) - 1; last >= 0 && n <= cap(o.free[last]) {
		b := o.free[last]
		o.free = o.free[:last]
		return b
	}
	return make([]byte, 0, max(n, 256))
}

// ready says whether the oldest may go.
func (o *order) ready() bool {
	switch {
	case o.heap.Len() == 0:
		return false
	case o.heap.Len() >= maxHeld || o.bytes >= maxHeldBytes:
		return true
	}
	return o.newest-o.heap.Top().at >= o.window
}

// pop gives back everything that has the oldest time, in the log's order. It is valid until the
// next pop.
func (o *order) pop() []held {
	for i := range o.group {
		if b := o.group[i].bytes; cap(b) <= keptBytes && len(o.free) < maxKept {
			o.free = append(o.free, b[:0])
		}
		o.group[i].bytes = nil
	}
	o.group = o.group[:0]
	o.edge = o.heap.Top().at
	for o.heap.Len() > 0 && o.heap.Top().at == o.edge {
		h := o.heap.Pop()
		o.bytes -= cap(h.bytes)
		o.group = append(o.group, h)
	}
	return o.group
}

// Before implements heap.Ordered.
func (a held) Before(b held) bool {
	return a.at < b.at || a.at == b.at && a.serial < b.serial
}
