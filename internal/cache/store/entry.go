package store

import (
	"sync/atomic"

	"plimsoll/internal/cache/rules"
)

// content is memory that entries share: a body, with the key and the fields that it came with. It
// is given back when the last who uses it lets go.
type content struct {
	store  *Store
	refs   atomic.Int64
	pieces []piece // a complete content's do not change
	skip   int     // bytes of the first piece in front of the body
	length int64   // of the body, once it is complete
	bytes  int64   // of memory, as it is counted
}

// hold takes a reference; false when the last one has gone.
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

// Entry is a stored response, or a marker that says by which fields the responses for a key vary.
// Who gets one from the store holds it until Release: its bytes stay what they are that long,
// whatever happens to the entry. It is immutable but for its marks.
type Entry struct {
	// Meta is what the rules have to know.
	Meta rules.Stored
	// Cost is how long fetching it took, nanoseconds: for rules.EarlyRefresh.
	Cost int64

	// Second says that it came from a second tier of the cache, and not from the origin.
	Second bool

	// Makeshift says that the response could have been better: it is to be fetched whole the next time, and
	// not revalidated.
	Makeshift bool

	key, block, vary []byte
	head             *content // has key, block and vary
	body             *content // the same, but for one whose head was renewed; nil for a marker
	born             uint64   // the store's count of purges when its fetch began
	slots            []uint32 // of its URI and tags in the table of purges
	checked          atomic.Uint64
	tagged           bool
	soft             atomic.Bool
	refreshing       atomic.Bool
}

// Block is the response's fields, as rules.AppendBlock made them.
func (e *Entry) Block() []byte { return e.block }

// Vary is the list that the key of a variant has to have (rules.Key.AppendVariant), nil where the
// entry is a response and no marker.
func (e *Entry) Vary() []byte { return e.vary }

// Length is the number of bytes of the body.
func (e *Entry) Length() int64 {
	if e.body == nil {
		return 0
	}
	return e.body.length
}

// Tagged says whether the response had tags. Which ones is not known any more.
func (e *Entry) Tagged() bool { return e.tagged }

// Soft says whether the entry was purged softly: it counts as stale.
func (e *Entry) Soft() bool { return e.soft.Load() }

// Outdate makes the entry stale, as a soft purge does.
func (e *Entry) Outdate() { e.soft.Store(true) }

// Refresh says whether the caller is the one that may refresh the entry in the background: nobody
// else does, until it has called RefreshOver or the entry is replaced.
func (e *Entry) Refresh() bool { return e.refreshing.CompareAndSwap(false, true) }

// RefreshOver lets others try again.
func (e *Entry) RefreshOver() { e.refreshing.Store(false) }

// acquire holds the entry; false when it is being forgotten.
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

// Hold holds an entry once more that the caller holds already: it is to be released once more.
func (e *Entry) Hold() { e.acquire() }

// Release lets go of the entry. Nothing of it may be used afterwards.
func (e *Entry) Release() {
	head, body := e.head, e.body
	if body != head && body != nil {
		body.release()
	}
	head.release()
}

// weight is what the entry counts in the policy of eviction.
func (e *Entry) weight() uint32 {
	n := e.head.bytes + entryOverhead
	if e.body != e.head && e.body != nil {
		n += e.body.bytes
	}
	return uint32(min(n, 1<<32-1))
}

// Slices appends the parts of the body from byte from to byte to, none longer than PieceBytes, in
// order. They are valid while the entry is held. A loop that sends a large body asks for some parts
// at a time.
func (e *Entry) Slices(dst [][]byte, from, to int64) [][]byte {
	if e.body == nil {
		return dst
	}
	return parts(dst, e.body.pieces, e.body.skip, from, min(to, e.body.length))
}

// parts appends what pieces hold of a body that begins skip bytes into the first. It looks at no
// more pieces than dst has room for, and at all where dst has none.
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

// Key is the whole key that the entry is stored under.
func (e *Entry) Key() []byte { return e.key }
