package store

import "sync/atomic"

type counters struct {
	hits, misses, stored, evicted, squeezed, purged, tooLarge, noRoom atomic.Int64
}

// Stats are the counters of a store since it was made, and what it holds.
type Stats struct {
	Hits     int64 // look-ups that found something
	Misses   int64 // look-ups that did not, of which:
	Purged   int64 // misses of entries that had been purged
	Stored   int64 // responses, and markers of what varies
	Evicted  int64 // entries that were evicted, of which:
	Squeezed int64 // for lack of memory for something new, before the policy had made room
	TooLarge int64 // responses that were not stored because of their length or their tags
	NoRoom   int64 // responses that were not stored because what is still read fills the store
	Entries  int64
	Bytes    int64 // memory held: resident pages, overhead of entries, tables
	Live     int64 // of these, bytes of blocks in use
	Fills    int64 // fetches under way
}

// Stats returns the counters. It briefly locks each shard of the table of fills.
func (s *Store) Stats() Stats {
	c := &s.stats
	fills := int64(0)
	for i := range s.fills {
		sh := &s.fills[i]
		sh.mu.Lock()
		for h, f := range sh.m {
			if f.hash == h { // otherwise it is listed here under its alias
				fills++
			}
		}
		sh.mu.Unlock()
	}
	return Stats{
		Hits: c.hits.Load(), Misses: c.misses.Load(), Purged: c.purged.Load(), Stored: c.stored.Load(),
		Evicted: c.evicted.Load(), Squeezed: c.squeezed.Load(), TooLarge: c.tooLarge.Load(),
		NoRoom:  c.noRoom.Load(),
		Entries: int64(s.cache.EstimatedSize()), Live: s.blocks.Load(), Fills: fills,
		Bytes: s.fixed + s.heap.Load() + int64(s.arena.pages())*PieceBytes,
	}
}
