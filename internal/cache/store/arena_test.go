//go:build !race

// One goroutine: the race detector finds nothing here, and gives an arena other memory.

package store

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"plimsoll/internal/invariant"
)

// Whatever is taken and given back in whatever order, no two blocks overlap, nothing is lost, and
// what is free grows together again.
func TestBlocksOfTheArenaNeverOverlap(t *testing.T) {
	const pages = 40
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 9))
		a, err := newArena(pages * PieceBytes)
		if err != nil {
			t.Fatal(err)
		}
		owner := make([]int, pages*perPage) // of each of the smallest blocks; 0 for nobody
		taken := map[int]piece{}
		mark := func(p *piece, from, to int) {
			for i := range perPart(int(p.order)) {
				if at := int(p.at) + i; owner[at] != from {
					t.Fatalf("seed %d: block %d is %d's, and not %d's", seed, at, owner[at], from)
				} else {
					owner[at] = to
				}
			}
		}
		limit := pages
		for id := 1; id < 4000; id++ {
			if id%500 == 0 {
				limit = 1 + r.IntN(pages)
			}
			if p, ok := a.alloc(r.IntN(orders), limit); ok && r.IntN(5) > 0 {
				mark(&p, 0, id)
				if len(p.data) != blockBytes(int(p.order)) || &p.data[0] != &a.memory[int(p.at)*minBlock] {
					t.Fatalf("a block of order %d has %d bytes, or others", p.order, len(p.data))
				}
				if r.IntN(3) == 0 {
					mark(&p, id, 0)
					a.trim(&p, 1+r.IntN(len(p.data)), limit)
					mark(&p, 0, id)
				}
				taken[id] = p
			} else if ok {
				a.put([]piece{p}, limit)
			}
			for other, p := range taken {
				if r.IntN(3) == 0 {
					mark(&p, other, 0)
					a.put([]piece{p}, limit)
					delete(taken, other)
				}
				break
			}
		}
		for _, p := range taken {
			a.put([]piece{p}, 3)
		}
		if a.resident > limit && a.resident > 3 || a.resident != len(a.free) ||
			len(a.free)+len(a.cold) != a.used || a.used > pages {
			t.Errorf("seed %d: of %d pages %d are resident, %d free and %d cold", seed, pages,
				a.resident, len(a.free), len(a.cold))
		}
		for order, list := range a.next {
			if len(list) > 0 {
				t.Errorf("seed %d: %d blocks of order %d have not grown together", seed, len(list), order)
			}
		}
		if err := a.close(); err != nil {
			t.Error(err)
		}
	}
}

// A simulation closes thousands of stores, with all invariants checked.
func TestClosingAnArenaGivesItsAddressSpaceBack(t *testing.T) {
	was := invariant.On
	invariant.On = true
	defer func() { invariant.On = was }()
	a, err := newArena(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Madvise(a.memory, unix.MADV_NORMAL); err != unix.ENOMEM {
		t.Errorf("the kernel says %v of its memory, want %v: it is still mapped", err, unix.ENOMEM)
	}
}
