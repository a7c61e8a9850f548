package limit

import (
	"sync/atomic"

	"plimsoll/internal/hash"
)

// A value that finds no place shares a bucket with others. When it keeps coming it gets a place
// after all, in a part of the table that newcomers do not enter: the reserve. So a flood of values
// that come once or twice each cannot keep a client out for long that arrives in the middle of it.
//
// How often a value has come without a place is counted in a fixed number of cells. A cell counts
// one value; others wear its count down, eight of them by one, and the next takes the cell when
// nothing is left. The fuller the reserve, the more often a value must have come: values that an
// attacker repeats a few times leave the rest of the reserve to those that come more often. The
// rejected choice was to drop the least frequent value, which would give it its limit back.
//
// A value that moves to a place, in the reserve or in any other, must not begin with a full bucket there
// if its requests have passed in the shared one. A cell therefore keeps the state that the shared
// bucket had after the last request of the cell's values that passed, and the place begins from it.
// What a value has used is part of that state, so a move grants nothing.
//
// That holds for loops that decide at the same moment, too. One that moves a value writes the hash
// into the place and then reads the cell; one that lets a request pass in the shared bucket writes
// the cell and then looks for the hash. So the first has seen the request, or the second sees that
// the value has moved, and decides again in the new place. What it took of the shared bucket stays
// taken.
type cell struct {
	came atomic.Uint64 // the value, the misses since the count was worn down, and the count
	last atomic.Uint64 // the state of the shared bucket
}

const (
	reserveShare = 8 // the reserve has one set for so many others
	heavy        = 4 // times that a value must have come, when the reserve is empty
	wear         = 8 // other values that take one from a count

	cameBits   = 16
	cameMask   = 1<<cameBits - 1
	missBits   = 4
	missMask   = 1<<missBits - 1
	cameValue  = cameBits + missBits
	valueMask  = 1<<40 - 1
	mostCells  = 256 // of one shared bucket
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

// bucket is which of the shared buckets is a value's, and cell its cell, which all belong to one
// bucket: states of several could not be compared.
func bucket(g uint64) int { return int(hash.Below(g, spills)) }

func (t *table) cell(h, g uint64) *cell {
	each := uint64(len(t.cells) / spills)
	return &t.cells[uint64(bucket(g))*each+h>>32&(each-1)]
}

// note counts a value that has found no place, and says how often it has come.
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

// keep notes the state of the shared bucket after a request has passed.
func (c *cell) keep(w uint64, rules *atomic.Pointer[params]) {
	for {
		last := c.last.Load()
		p := rules.Load() // after the word, and so at least as new as what it was written by
		if isLive(last) && payload(p.current(last)) >= payload(p.current(w)) {
			return
		}
		if c.last.CompareAndSwap(last, w) {
			return
		}
	}
}

// begin is the word from which a value begins that has its place since a time.
func (t *table) begin(h, g uint64, rules *atomic.Pointer[params], since int64) uint64 {
	word := fresh | uint64(since)
	if t.cells == nil {
		return word
	}
	last := t.cell(h, g).last.Load()
	p := rules.Load() // after the word, and so at least as new as what it was written by
	if p.algorithm == SlidingLog || !isLive(last) || p.idle(last, since) {
		return word
	}
	return p.current(last)
}

// beginLog is begin for a log. Which entries of the shared log were the value's is not known, so
// all of its own are busy until the last of those is over.
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

// moved says whether a value has a place, or somebody is just giving it one.
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
