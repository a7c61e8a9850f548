package store

import (
	"sync/atomic"

	"plimsoll/internal/cache/rules"
)

// content is memory that entries share: a body, with the key and the fields that it came with. It
// is freed with its last reference.
type content struct {
	store  *Store
	refs   atomic.Int64
	pieces []piece // a complete content's do not change
	skip   int     // bytes of the first piece in front of the body
	length int64   // of the body, once it is complete
	bytes  int64   // of memory, as it is counted
}

// hold takes a reference. It returns false if there are no references left.
func (c *content) hold() bool {
	for {
		n := c.refs.Load()
		if n == 0 {
			return false
		}
		if c.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (c *content) release() {
	switch n := c.refs.Add(-1); {
	case n == 0:
		c.store.forget(c)
	case n < 0:
		panic("a stored response was released more often than it was held")
	}
}

// Entry is a stored response, or a marker that says by which fields the responses for a key vary. A
// caller that gets one from the store holds it until Release: until then, its bytes do not change,
// whatever happens to the entry. It is immutable except for its marks.
type Entry struct {
	// Meta is what the rules must know.
	Meta rules.Stored
	// Cost is how many nanoseconds fetching it took, for rules.EarlyRefresh.
	Cost int64

	// Second says that it came from the second tier of the cache, not from the origin.
	Second bool

	// Makeshift says that the response is not as good as it could be: next time it must be fetched
	// completely, not revalidated.
	Makeshift bool

	key, block, vary []byte
	head             *content // holds key, block and vary
	body             *content // the same as head, unless the head was renewed; nil for a marker
	born             uint64   // the store's count of purges when its fetch began
	slots            []uint32 // of its URI and tags in the table of purges
	checked          atomic.Uint64
	tagged           bool
	soft             atomic.Bool
	refreshing       atomic.Bool
}

// Block is the response's fields, as rules.AppendBlock made them.
func (e *Entry) Block() []byte { return e.block }

// Vary is the list for the keys of variants (rules.Key.AppendVariant); nil if the entry is a
// response and not a marker.
func (e *Entry) Vary() []byte { return e.vary }

// Length is the number of bytes of the body.
func (e *Entry) Length() int64 {
	if e.body == nil {
		return 0
	}
	return e.body.length
}

// Tagged reports whether the response had tags. The tags themselves are not kept.
func (e *Entry) Tagged() bool { return e.tagged }

// Soft reports whether the entry was softly purged and so counts as stale.
func (e *Entry) Soft() bool { return e.soft.Load() }

// Outdate makes the entry stale, as a soft purge does.
func (e *Entry) Outdate() { e.soft.Store(true) }

// Refresh reports whether the caller may refresh the entry in the background. It then returns false
// for all other callers until RefreshOver is called or the entry is replaced.
func (e *Entry) Refresh() bool { return e.refreshing.CompareAndSwap(false, true) }

// RefreshOver lets others try again.
func (e *Entry) RefreshOver() { e.refreshing.Store(false) }

// acquire holds the entry. It returns false if the entry is being freed.
func (e *Entry) acquire() bool {
	if !e.head.hold() {
		return false
	}
	if e.body != e.head && e.body != nil && !e.body.hold() {
		e.head.release()
		return false
	}
	return true
}

// Hold takes another reference to an entry that the caller already holds. Each needs its own
// Release.
func (e *Entry) Hold() { e.acquire() }

// Release releases the entry. Nothing of it may be used afterwards.
func (e *Entry) Release() {
	head, body := e.head, e.body
	if body != head && body != nil {
		body.release()
	}
	head.release()
}

// weight is the entry's weight for the eviction policy.
func (e *Entry) weight() uint32 {
	n := e.head.bytes + entryOverhead
	if e.body != e.head && e.body != nil {
		n += e.body.bytes
	}
	return uint32(min(n, 1<<32-1))
}

// Slices appends the parts of the body from byte from to byte to, none longer than PieceBytes, in
// order. They are valid while the entry is held. A loop that sends a large body gets a few parts at
// a time.
func (e *Entry) Slices(dst [][]byte, from, to int64) [][]byte {
	if e.body == nil {
		return dst
	}
	return parts(dst, e.body.pieces, e.body.skip, from, min(to, e.body.length))
}

// parts appends the bytes from from to to of a body that begins skip bytes into the first of
// pieces. It appends at most as many slices as dst has room for, or all if dst has no capacity.
func parts(dst [][]byte, pieces []piece, skip int, from, to int64) [][]byte {
	at, room := -int64(skip), cap(dst)
	for i := range pieces {
		data := pieces[i].data
		begin, end := max(from, at, 0), min(to, at+int64(len(data)))
		if begin < end {
			dst = append(dst, data[begin-at:end-at:end-at])
			if len(dst) == room && end < to {
				return dst
			}
		}
		at += int64(len(data))
		if at >= to {
			break
		}
	}
	return dst
}

// Key is the complete key under which the entry is stored.
func (e *Entry) Key() []byte { return e.key }
