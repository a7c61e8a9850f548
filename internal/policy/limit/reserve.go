package limit

import (
	"sync/atomic"

	"plimsoll/internal/hash"
)

// A value that finds no place shares a bucket with others. If it keeps coming, it gets a place
// after all, in a part of the table that new values do not enter: the reserve. So a flood of values
// that come once or twice each cannot keep out for long a client that arrives in the middle of it.
//
// A fixed number of cells counts how often a value came without a place. A cell counts one value.
// Misses of other values reduce its count, eight misses by one, and the next value takes the cell
// when the count is used up. The fuller the reserve, the more often a value must have come: values
// that an attacker repeats a few times leave the rest of the reserve to values that come more
// often. Rejected: dropping the least frequent value, which would give that value its limit back.
//
// A value that moves to a place, in the reserve or elsewhere, must not start with a full bucket
// there if its requests passed in the shared one. So a cell keeps the state of the shared bucket
// after the last request of the cell's values that passed, and the place starts from that state. It
// includes what the value has used, so a move grants nothing.
//
// This also holds for loops that decide at the same moment. A loop that moves a value writes the
// hash into the place and then reads the cell. A loop that lets a request pass in the shared bucket
// writes the cell and then looks for the hash. So either the first has seen the request, or the
// second sees that the value moved and decides again in the new place. What it took from the shared
// bucket stays taken.
type cell struct {
	came atomic.Uint64 // the value, the misses since the count last fell, and the count
	last atomic.Uint64 // the state of the shared bucket
}

const (
	reserveShare = 8 // the table has this many sets for each set of the reserve
	heavy        = 4 // how often a value must have come while the reserve is empty
	wear         = 8 // misses of other values that reduce a count by one

	cameBits   = 16
	cameMask   = 1<<cameBits - 1
	missBits   = 4
	missMask   = 1<<missBits - 1
	cameValue  = cameBits + missBits
	valueMask  = 1<<40 - 1
	mostCells  = 256 // per shared bucket
	fewestEach = 8
)

// withReserve adds the reserve to a table.
func (t *table) withReserve() {
	main := len(t.sets)
	t.sets = append(t.sets, make([]set, max(1, main/reserveShare))...)
	t.logs = make([]atomic.Uint64, len(t.sets)*ways*t.ring)
	t.reserve = uint64(len(t.sets) - main)
	t.cells = make([]cell, spills*min(mostCells, max(fewestEach, main*ways/mostCells)))
}

// bucket is the index of a value's shared bucket. A value's cell belongs to one bucket only,
// because states of different buckets cannot be compared.
func bucket(g uint64) int { return int(hash.Below(g, spills)) }

func (t *table) cell(h, g uint64) *cell {
	each := uint64(len(t.cells) / spills)
	return &t.cells[uint64(bucket(g))*each+h>>32&(each-1)]
}

// note counts a value that found no place and returns how often it has come.
func (c *cell) note(g uint64) uint64 {
	w, value := c.came.Load(), g&valueMask
	count, misses := w&cameMask, w>>cameBits&missMask
	switch {
	case w>>cameValue == value:
		if count < cameMask {
			count++
		}
		c.came.CompareAndSwap(w, value<<cameValue|misses<<cameBits|count)
		return count
	case count == 0 || count == 1 && misses == wear-1:
		c.came.CompareAndSwap(w, value<<cameValue|1)
		return 1
	case misses == wear-1:
		c.came.CompareAndSwap(w, w&^(missMask<<cameBits)-1)
	default:
		c.came.CompareAndSwap(w, w+1<<cameBits)
	}
	return 0
}

// keep stores the state of the shared bucket after a request passed.
func (c *cell) keep(w uint64, rules *atomic.Pointer[params]) {
	for {
		last := c.last.Load()
		p := rules.Load() // after the word, so at least as new as its params
		if isLive(last) && payload(p.current(last)) >= payload(p.current(w)) {
			return
		}
		if c.last.CompareAndSwap(last, w) {
			return
		}
	}
}

// begin is the first word of a value that has its place since the given time.
func (t *table) begin(h, g uint64, rules *atomic.Pointer[params], since int64) uint64 {
	word := fresh | uint64(since)
	if t.cells == nil {
		return word
	}
	last := t.cell(h, g).last.Load()
	p := rules.Load() // after the word, so at least as new as its params
	if p.algorithm == SlidingLog || !isLive(last) || p.idle(last, since) {
		return word
	}
	return p.current(last)
}

// beginLog is begin for a log. It is unknown which entries of the shared log were the value's, so
// all entries of its own log are busy until the shared log's last entry is over.
func (t *table) beginLog(p *place, rules *atomic.Pointer[params], since int64) {
	clearRing(p.ring, since)
	if t.ring == 0 || t.cells == nil {
		return
	}
	last := t.cell(p.h, p.g).last.Load()
	if isLive(last) && !rules.Load().idle(last, since) {
		clearRing(p.ring, payload(last)>>sequence<<logTick+skew)
	}
}

// moved reports whether a value has a place, or another loop is just giving it one.
func (t *table) moved(h, g uint64) bool {
	var p place
	for n := range t.perValue() {
		t.at(&p, h, g, n)
		if p.set.hash[p.way].Load() == h && p.set.check[p.way].Load() == g && !in(p.state.Load(), free) {
			return true
		}
	}
	return false
}
