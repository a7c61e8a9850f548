package store

import (
	"math/bits"
	"sync"

	"plimsoll/internal/invariant"
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
	state    []uint8 // of each block: order of a free block that begins here, or taken, or inside
	next     [][]uint32
	where    []uint32 // of each free block: its index in its list
	free     []uint32 // pages that are resident and free
	cold     []uint32 // pages that are not resident
	resident int      // pages, in use and free
	release  func([]byte)
}

const inside = 0xfe // not the beginning of a free block

func newArena(bytes int64) (*arena, error) {
	pages := int((bytes + PieceBytes - 1) / PieceBytes)
	a := &arena{
		state: make([]uint8, pages*perPage), where: make([]uint32, pages*perPage),
		next: make([][]uint32, orders-1), cold: make([]uint32, 0, pages), free: make([]uint32, 0, pages),
	}
	for i := range a.state {
		a.state[i] = inside
	}
	for i := range pages {
		a.cold = append(a.cold, uint32(pages-1-i))
	}
	if invariant.On {
		// The race detector does not see memory outside the heap.
		a.memory, a.release = make([]byte, pages*PieceBytes), func([]byte) {}
		return a, nil
	}
	memory, err := reserve(pages * PieceBytes)
	a.memory, a.release = memory, release
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
	n := len(a.cold)
	if n == 0 || a.resident >= limit {
		return 0, false
	}
	page := a.cold[n-1]
	a.cold = a.cold[:n-1]
	a.resident++
	return page * perPage, true
}

func (a *arena) list(at uint32, order int) {
	a.state[at] = uint8(order)
	a.where[at] = uint32(len(a.next[order]))
	a.next[order] = append(a.next[order], at)
}

func (a *arena) unlist(at uint32) {
	order := a.state[at]
	list := a.next[order]
	last := list[len(list)-1]
	list[a.where[at]] = last
	a.where[last] = a.where[at]
	a.next[order] = list[:len(list)-1]
	a.state[at] = inside
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
		if a.state[buddy] != uint8(order) {
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
	a.release(a.memory[from : from+PieceBytes])
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

// bytes is the size of the arena's own tables, with lists of full length.
func (a *arena) bytes() int64 { return int64(len(a.state)) * 9 }

// close frees the address space.
func (a *arena) close() error {
	if invariant.On {
		return nil
	}
	return unreserve(a.memory)
}
