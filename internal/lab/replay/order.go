package replay

import (
	"math"

	"plimsoll/internal/lab/heap"
)

// Servers write a line when its request is over, and several of them write to one file, so lines
// are a little out of order. So are Apache's times, which are arrival times. order holds young
// items and returns the oldest first. The log's clock cannot distinguish items with the same time:
// 1,000 lines of one second did not all arrive at its beginning, so they are spread over the unit
// of the clock.
//
// Late lines are never lost: a line older than what was already returned comes next.

// reorderWindow is how far a line may be behind the latest time and still be put back in its place,
// in nanoseconds of the log.
const reorderWindow = 2 * secondNs

// Items held are bounded, in lines and in bytes. When full, order returns the oldest item early.
const (
	maxHeld      = 1 << 17
	maxHeldBytes = 32 << 20
	// maxKept and keptBytes bound the number of buffers kept for reuse, and the size of each.
	maxKept, keptBytes = 1 << 14, 512
)

// order is only used by the reading goroutine.
type order struct {
	window int64
	heap   heap.Heap[held]
	free   [][]byte
	bytes  int   // of the heap's buffers
	newest int64 // the latest time seen
	edge   int64 // the time of the last item returned: nothing older may follow
	serial uint64
	begun  bool
	group  []held // the items being returned
}

// held is an item that waits for older ones.
type held struct {
	item
	serial uint64 // keeps the log's order among equal times
}

// push holds an item and copies its bytes. outOfOrder says that a later item was pushed before it,
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

// buffer returns an empty buffer with room for n bytes.
func (o *order) buffer(n int) []byte {
	if last := len(o.free) - 1; last >= 0 && n <= cap(o.free[last]) {
		b := o.free[last]
		o.free = o.free[:last]
		return b
	}
	return make([]byte, 0, max(n, 256))
}

// ready reports whether the oldest item may be returned.
func (o *order) ready() bool {
	switch {
	case o.heap.Len() == 0:
		return false
	case o.heap.Len() >= maxHeld || o.bytes >= maxHeldBytes:
		return true
	}
	return o.newest-o.heap.Top().at >= o.window
}

// pop returns all items with the oldest time, in the log's order. They are valid until the next
// pop.
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
