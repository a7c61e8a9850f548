package store

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"plimsoll/internal/hash"
)

// purges records what was purged. Each tag or URI has a slot in a table of fixed size, which holds
// the number of the last purge of that slot. An entry records how many purges there had been when
// its fetch began, and is purged if one of its slots has a higher number. So no index is needed, a
// purge is a single store, and responses of fetches that began before it are purged too. Tags that
// share a slot are purged together: with the number of slots of a store, a purge also removes one
// in a thousand or more of the entries that it was not meant for.
//
// Prefixes have no slots. Those being purged are in a list that hits check while a walk over all
// entries marks the affected ones. After the walk, the prefix leaves the list.
type purges struct {
	count atomic.Uint64 // of purges so far
	slots []slot
	bans  atomic.Pointer[[]ban]
	mu    sync.Mutex // held to change bans
}

type slot struct{ hard, soft atomic.Uint64 }

type ban struct {
	prefix []byte
	count  uint64
	soft   bool
}

// maxBans is how many prefixes may be purged at a time.
const maxBans = 16

// ErrBusy is returned if too many prefixes are being purged.
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

// hit reports whether an entry was purged, and marks it as stale if it was softly purged. It checks
// only if there was a purge since its last check.
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

// raise records a purge of a name.
func (p *purges) raise(name []byte, soft bool) {
	s := &p.slots[p.slotOf(name)]
	word := &s.hard
	if soft {
		word = &s.soft
	}
	// The slot is written before the count that makes hits check it. It gets the value that the
	// count will have, or a higher one if there are other purges meanwhile.
	for {
		n := p.count.Load() + 1
		for old := word.Load(); old < n && !word.CompareAndSwap(old, n); old = word.Load() {
		}
		if p.count.CompareAndSwap(n-1, n) {
			return
		}
	}
}

// PurgeTag removes or, with soft, makes stale every response with the tag (a word of
// Surrogate-Key). It takes effect at once. The memory is freed when the entry is next looked up,
// evicted or swept.
func (s *Store) PurgeTag(tag []byte, soft bool) { s.purges.raise(tag, soft) }

// PurgeURI does the same for every response for a URI, whatever the fields in its key. uri is made
// by rules.Key.AppendURI.
func (s *Store) PurgeURI(uri []byte, soft bool) { s.purges.raise(uri, soft) }

// PurgePrefix does the same for every response whose key begins with prefix, and returns how many
// entries it found. It takes effect for all loops when it begins. It walks over all entries on the
// caller's goroutine, which takes a tenth of a second for a million.
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

// outdated reports whether the fill's response was purged, softly or not, since the fill began. Any
// goroutine may call it.
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

// since reports whether the slot was purged after the given count of purges.
func (s *slot) since(count uint64) bool { return s.hard.Load() > count || s.soft.Load() > count }

// purge marks a fill, so that its response is not stored or, with soft, is stale.
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

// Sweep frees the memory of all purged entries and returns their number. It walks over all entries.
func (s *Store) Sweep() int { return s.walk(s.purges.hit, false) }

// walk removes or, with soft, marks as stale the entries for which match is true, and returns their
// number.
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
