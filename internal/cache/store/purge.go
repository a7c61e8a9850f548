package store

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"plimsoll/internal/hash"
)

// purges is what was purged. A tag, or a URI, has a slot in a table of fixed size, which says after
// how many purges it was last purged; an entry was born after so many, and is gone when one of its
// slots says more. So the memory of an index is not needed, a purge is one store, and what a fetch
// brings that began before it is purged too. Tags that share a slot are purged together: with the
// slots that a store has, one in a thousand or more entries are lost to a purge that did not mean
// them.
//
// Prefixes have no slots. A list has those that are being purged, which hits look at, while a walk
// over all entries marks them; then the list is short again.
type purges struct {
	count atomic.Uint64 // of purges so far
	slots []slot
	bans  atomic.Pointer[[]ban]
	mu    sync.Mutex // of who changes bans
}

type slot struct{ hard, soft atomic.Uint64 }

type ban struct {
	prefix []byte
	count  uint64
	soft   bool
}

// maxBans is how many prefixes are purged at a time.
const maxBans = 16

// ErrBusy is given when too many prefixes are being purged.
var ErrBusy = errors.New("cache: 16 prefixes are being purged already; ask again when one is done")

func (p *purges) init(bound int64) {
	n := 1 << 10
	for n < 1<<16 && int64(n)*16*512 < bound {
		n *= 2
	}
	p.slots = make([]slot, n)
	p.bans.Store(&[]ban{})
}

func (p *purges) bytes() int64 { return int64(len(p.slots)) * 16 }

func (p *purges) slotOf(name []byte) uint32 {
	return uint32(hash.Below(hash.Bytes(1, name), uint64(len(p.slots))))
}

// slotsOf are the slots of an entry.
func (p *purges) slotsOf(uri []byte, tags [][]byte) []uint32 {
	list := make([]uint32, 0, 1+len(tags))
	list = append(list, p.slotOf(uri))
	for _, tag := range tags {
		list = append(list, p.slotOf(tag))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// hit says whether an entry was purged, and marks one that was softly. It looks only when something
// was purged since it last did.
func (p *purges) hit(e *Entry) bool {
	now := p.count.Load()
	if e.checked.Load() == now {
		return false
	}
	soft := false
	for _, i := range e.slots {
		if p.slots[i].hard.Load() > e.born {
			return true
		}
		soft = soft || p.slots[i].soft.Load() > e.born
	}
	for _, b := range *p.bans.Load() {
		if b.count > e.born && bytes.HasPrefix(e.key, b.prefix) {
			if !b.soft {
				return true
			}
			soft = true
		}
	}
	if soft {
		e.soft.Store(true)
	}
	e.checked.Store(now)
	return false
}

// raise counts a purge of a name.
func (p *purges) raise(name []byte, soft bool) {
	s := &p.slots[p.slotOf(name)]
	word := &s.hard
	if soft {
		word = &s.soft
	}
	// The slot is written before the count that makes hits look: it says what the count will be, or
	// more when others purge meanwhile.
	for {
		n := p.count.Load() + 1
		for old := word.Load(); old < n && !word.CompareAndSwap(old, n); old = word.Load() {
		}
		if p.count.CompareAndSwap(n-1, n) {
			return
		}
	}
}

// PurgeTag forgets, or when soft makes stale, every response with the tag (a word of Surrogate-Key),
// at once. Its memory is free when the entry is next looked for, evicted or swept.
func (s *Store) PurgeTag(tag []byte, soft bool) { s.purges.raise(tag, soft) }

// PurgeURI does the same with every response for a URI, whatever its fields; uri is as
// rules.Key.AppendURI makes it.
func (s *Store) PurgeURI(uri []byte, soft bool) { s.purges.raise(uri, soft) }

// PurgePrefix does the same with every response whose key begins with prefix, and says how many
// entries it found. It holds for all loops when it begins, and walks over all entries on the
// caller's goroutine: a tenth of a second for a million.
func (s *Store) PurgePrefix(prefix []byte, soft bool) (int, error) {
	b := ban{prefix: bytes.Clone(prefix), soft: soft}
	if !s.purges.add(&b) {
		return 0, ErrBusy
	}
	defer s.purges.drop(b.count)
	for i := range s.fills {
		sh := &s.fills[i]
		sh.mu.Lock()
		for _, f := range sh.m {
			if f.born < b.count && bytes.HasPrefix(f.key, prefix) {
				f.purge(soft)
			}
		}
		sh.mu.Unlock()
	}
	return s.walk(func(e *Entry) bool { return e.born < b.count && bytes.HasPrefix(e.key, prefix) },
		soft), nil
}

// outdated says whether what the fill brings, or a part of it, was purged, softly or not, since it
// began. Any goroutine may ask.
func (f *Fill) outdated() bool {
	p := &f.store.purges
	if p.count.Load() == f.born {
		return false
	}
	if f.doomed.Load() || f.soft.Load() || p.slots[f.slot].since(f.born) {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.entry == nil {
		return false
	}
	for _, i := range f.entry.slots { // those of its tags, which its head has brought
		if p.slots[i].since(f.born) {
			return true
		}
	}
	return false
}

// since says whether anything of the slot was purged after so many purges.
func (s *slot) since(count uint64) bool { return s.hard.Load() > count || s.soft.Load() > count }

// purge marks a fill, so that what it brings is not stored, or is stale.
func (f *Fill) purge(soft bool) {
	if soft {
		f.soft.Store(true)
		return
	}
	f.doomed.Store(true)
}

// add puts a prefix on the list and counts it.
func (p *purges) add(b *ban) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := *p.bans.Load()
	if len(old) >= maxBans {
		return false
	}
	for {
		b.count = p.count.Load() + 1
		list := append(slices.Clone(old), *b)
		p.bans.Store(&list)
		if p.count.CompareAndSwap(b.count-1, b.count) {
			return true
		}
	}
}

func (p *purges) drop(count uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(*p.bans.Load()), func(b ban) bool { return b.count == count })
	p.bans.Store(&list)
}

// Sweep frees the memory of everything that was purged, and says how much that was in entries. It
// walks over all of them.
func (s *Store) Sweep() int { return s.walk(s.purges.hit, false) }

// walk removes, or marks as stale, the entries for which match says so.
func (s *Store) walk(match func(*Entry) bool, soft bool) int {
	n := 0
	for h, e := range s.cache.All() {
		if !e.acquire() {
			continue
		}
		if match(e) {
			n++
			if soft {
				e.soft.Store(true)
			} else {
				s.remove(h, e)
			}
		}
		e.Release()
	}
	return n
}
