package store

import (
	"math/bits"
	"sync"
)

const (
	minBlock = 256
	// PieceBytes is the length of the longest piece of a body: the most that a loop copies or sends
	// at a time.
	PieceBytes = 64 << 10
	orders     = 9 // blocks of 256 bytes << order, up to PieceBytes
	perPage    = PieceBytes / minBlock
	onHeap     = 0xff // the order of a piece that is ordinary memory
)

// piece is memory of a stored response.
type piece struct {
	data  []byte
	at    uint32 // the number of its first block of minBlock bytes
	order uint8  // of the arena's block, or onHeap
}

// arena allocates memory for heads and bodies outside of the garbage collector's heap. The
// collector would let as many dead bytes accumulate as there are live ones, but operators are
// promised a limit on the process's memory. The arena is a buddy allocator: pages of 64 KB are
// split in halves down to 256 bytes, and merged again. A completely free page is returned to the
// system if more pages are resident than allowed.
//
// One mutex guards it. It is held for some 100 ns when something is stored or removed, and never
// for a hit.
type arena struct {
	mu       sync.Mutex
	memory   []byte
	blocks   []*blocks  // of each page, from its first use on: a cache may stay small
	next     [][]uint32 // of each order: the free blocks
	free     []uint32   // pages that are resident and free
	cold     []uint32   // pages that were in use, and are not resident
	used     int        // pages that have been in use: the first ones
	resident int        // pages, in use and free
}

// blocks is what is known of a page's blocks.
type blocks struct {
	state [perPage]uint8  // the order, plus one, of a free block that begins here; else 0
	where [perPage]uint32 // of each free block: its index in its list
}

func newArena(bytes int64) (*arena, error) {
	pages := int((bytes + PieceBytes - 1) / PieceBytes)
	a := &arena{
		blocks: make([]*blocks, pages), next: make([][]uint32, orders-1),
		cold: make([]uint32, 0, pages), free: make([]uint32, 0, pages), // so that they do not grow under mu
	}
	memory, err := reserve(pages * PieceBytes)
	a.memory = memory
	return a, err
}

// orderFor is the order of the smallest block that holds n bytes, 1 to PieceBytes.
func orderFor(n int) int { return bits.Len(uint(n-1) / minBlock) }

func blockBytes(order int) int { return minBlock << order }

// alloc returns a block of the order, or false if none is free and limit pages are resident.
func (a *arena) alloc(order, limit int) (piece, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.take(order, limit)
	if !ok {
		return piece{}, false
	}
	from := int(at) * minBlock
	to := from + blockBytes(order)
	return piece{data: a.memory[from:to:to], at: at, order: uint8(order)}, true
}

func (a *arena) take(order, limit int) (uint32, bool) {
	if order == orders-1 {
		return a.page(limit)
	}
	if list := a.next[order]; len(list) > 0 {
		at := list[len(list)-1]
		a.unlist(at)
		return at, true
	}
	at, ok := a.take(order+1, limit)
	if ok {
		a.list(at+uint32(perPart(order)), order)
	}
	return at, ok
}

// perPart is how many of the smallest blocks a block of the order consists of.
func perPart(order int) int { return 1 << order }

func (a *arena) page(limit int) (uint32, bool) {
	if n := len(a.free); n > 0 {
		page := a.free[n-1]
		a.free = a.free[:n-1]
		return page * perPage, true
	}
	if a.resident >= limit {
		return 0, false
	}
	if n := len(a.cold); n > 0 {
		page := a.cold[n-1]
		a.cold = a.cold[:n-1]
		a.resident++
		return page * perPage, true
	}
	if a.used == len(a.blocks) {
		return 0, false
	}
	page := uint32(a.used)
	a.blocks[page] = new(blocks)
	a.used++
	a.resident++
	return page * perPage, true
}

// state and where are what is known of the block, to read and to set.
func (a *arena) state(at uint32) *uint8  { return &a.blocks[at/perPage].state[at%perPage] }
func (a *arena) where(at uint32) *uint32 { return &a.blocks[at/perPage].where[at%perPage] }

func (a *arena) list(at uint32, order int) {
	*a.state(at) = uint8(order) + 1
	*a.where(at) = uint32(len(a.next[order]))
	a.next[order] = append(a.next[order], at)
}

func (a *arena) unlist(at uint32) {
	order := *a.state(at) - 1
	list := a.next[order]
	last := list[len(list)-1]
	list[*a.where(at)] = last
	*a.where(last) = *a.where(at)
	a.next[order] = list[:len(list)-1]
	*a.state(at) = 0
}

// put frees blocks. Pages that become free stay resident while at most limit pages are.
func (a *arena) put(pieces []piece, limit int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range pieces {
		if pieces[i].order != onHeap {
			a.merge(pieces[i].at, int(pieces[i].order), limit)
		}
	}
}

func (a *arena) merge(at uint32, order, limit int) {
	for order < orders-1 {
		buddy := at ^ uint32(perPart(order))
		if *a.state(buddy) != uint8(order)+1 {
			a.list(at, order)
			return
		}
		a.unlist(buddy)
		at &^= uint32(perPart(order))
		order++
	}
	page := at / perPage
	if a.resident <= limit {
		a.free = append(a.free, page)
		return
	}
	from := int(page) * PieceBytes
	release(a.memory[from : from+PieceBytes])
	a.resident--
	a.cold = append(a.cold, page)
}

// trim frees the end of a block of which n bytes are used, in halves.
func (a *arena) trim(p *piece, n, limit int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p.order > 0 && n <= blockBytes(int(p.order)-1) {
		p.order--
		a.merge(p.at+uint32(perPart(int(p.order))), int(p.order), limit)
	}
	size := blockBytes(int(p.order))
	p.data = p.data[:size:size]
}

// pages is how many pages are resident.
func (a *arena) pages() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.resident
}

// bytes is the size of the arena's own tables, with all pages in use and lists of full length.
func (a *arena) bytes() int64 { return int64(len(a.blocks)) * perPage * 9 }

// close frees the address space.
func (a *arena) close() error { return unreserve(a.memory) }
