// Package store is the memory tier of the cache: what is stored, for all loops at once, in a bounded
// number of bytes.
//
// What is kept and what goes is W-TinyLFU's choice (otter). Heads and bodies stand outside of the
// garbage collector's heap, in an arena of blocks; an entry is counted by those that use it, so that a
// loop may send a hit's bytes while the entry is evicted, and the bytes are used again only when the
// last one has let go.
//
// A fetch is a Fill: one for a key, however many wait. Its body can be read as it arrives. What is
// purged is found out by hits, from counts that a purge raises, so that a purge takes no time and
// holds at once everywhere, for fetches under way too.
//
// Everything may be called from any goroutine, but for what a Fill and a Reader say of themselves. A
// hit takes no lock and allocates nothing.
package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/hash"
)

// Options of a store.
type Options struct {
	// Bytes bounds the memory that the store takes, its own structures included: at least MinBytes.
	Bytes int64
	// MaxObject is the longest body that is stored, in bytes: at most an eighth of Bytes, which is also
	// meant by 0.
	MaxObject int64
	// MaxWaiters bounds the requests that wait for one fetch; 0 means 100,000.
	MaxWaiters int
}

const (
	// MinBytes is the smallest store.
	MinBytes = 2 << 20
	// MaxTags is how many tags a response may have that is stored.
	MaxTags = 32
	// entryOverhead is what an entry costs beside its blocks, in bytes: its structures, and as much
	// again, because the garbage collector lets the heap grow to twice what lives. A test measures it.
	entryOverhead = 900
	shards        = 64
)

type hashKey [2]uint64

// Store is the memory tier.
type Store struct {
	bytes, maxObject, fixed int64
	maxWaiters              int

	secret *hash.Secret
	cache  *otter.Cache[hashKey, *Entry]
	arena  *arena
	heap   atomic.Int64 // bytes of the heap: overhead of entries, windows
	blocks atomic.Int64 // bytes of the arena's blocks
	target atomic.Int64 // the policy's bound, which fragmentation lowers
	room   sync.Mutex   // of those that evict out of turn
	quiet  atomic.Int64 // entries stored since the last time that was needed

	fills  [shards]shard
	purges purges
	stats  counters
}

type shard struct {
	mu sync.Mutex
	m  map[hashKey]*Fill
}

// New makes a store. The error names what cannot be meant.
func New(o Options) (*Store, error) {
	if o.Bytes < MinBytes {
		return nil, fmt.Errorf("a cache of %d bytes is too small: give it at least %d", o.Bytes, MinBytes)
	}
	if o.MaxObject == 0 {
		o.MaxObject = o.Bytes / 8
	}
	if o.MaxObject < 0 || o.MaxObject > o.Bytes/8 {
		return nil, fmt.Errorf("objects of up to %d bytes do not fit a cache of %d: let them have "+
			"at most %d, "+
			"an eighth", o.MaxObject, o.Bytes, o.Bytes/8)
	}
	if o.MaxWaiters == 0 {
		o.MaxWaiters = 100_000
	}
	s := &Store{bytes: o.Bytes, maxObject: o.MaxObject, maxWaiters: o.MaxWaiters,
		secret: hash.NewSecret(rand.Uint64)}
	var err error
	if s.arena, err = newArena(o.Bytes); err != nil {
		return nil, err
	}
	s.purges.init(o.Bytes)
	for i := range s.fills {
		s.fills[i].m = make(map[hashKey]*Fill)
	}
	s.fixed = s.purges.bytes() + s.arena.bytes()
	s.target.Store(s.bytes - s.fixed - s.reserve())
	s.cache, err = otter.New(&otter.Options[hashKey, *Entry]{
		MaximumWeight:    uint64(s.target.Load()),
		Weigher:          func(_ hashKey, e *Entry) uint32 { return e.weight() },
		OnAtomicDeletion: s.deleted,
		// On the goroutine that stores or looks up: a hit would otherwise start one now and then.
		Executor: func(f func()) { f() },
	})
	return s, err
}

// reserve is what the policy leaves free for fetches under way, and for entries that were evicted
// and are still read.
func (s *Store) reserve() int64 { return s.bytes / 20 }

func (s *Store) deleted(e otter.DeletionEvent[hashKey, *Entry]) {
	if e.WasEvicted() {
		s.stats.evicted.Add(1)
	}
	e.Value.Release()
}

func (s *Store) hash(key []byte) hashKey {
	a, b := s.secret.Sum(key)
	return hashKey{a, b}
}

// Lookup is what is stored under a key, held for the caller; nil when there is nothing.
func (s *Store) Lookup(key []byte) *Entry {
	h := s.hash(key)
	e, ok := s.cache.GetIfPresent(h)
	if !ok || !e.acquire() {
		s.stats.misses.Add(1)
		return nil
	}
	if !bytes.Equal(e.key, key) {
		e.Release()
		s.stats.misses.Add(1)
		return nil
	}
	if s.purges.hit(e) {
		s.remove(h, e)
		e.Release()
		s.stats.purged.Add(1)
		s.stats.misses.Add(1)
		return nil
	}
	s.stats.hits.Add(1)
	return e
}

// Peek is Lookup for those who do not use what is stored: it counts nothing, and does not make the
// entry one that is asked for more often. The caller holds it likewise.
func (s *Store) Peek(key []byte) *Entry {
	found, ok := s.cache.GetEntryQuietly(s.hash(key))
	if !ok || !found.Value.acquire() {
		return nil
	}
	e := found.Value
	if !bytes.Equal(e.key, key) || s.purges.hit(e) {
		e.Release()
		return nil
	}
	return e
}

// remove takes out the entry, unless another one has taken its place.
func (s *Store) remove(h hashKey, e *Entry) {
	s.cache.ComputeIfPresent(h, func(now *Entry) (*Entry, otter.ComputeOp) {
		if now == e {
			return nil, otter.InvalidateOp
		}
		return now, otter.CancelOp
	})
}

// Remove takes out what is stored under exactly this key.
func (s *Store) Remove(key []byte) { s.cache.Invalidate(s.hash(key)) }

// Begin is the fetch for a key that is under way, or a new one, whose filler the caller then is. uri is
// the part of the key that all answers for the URI have. cancel is not needed: a filler ends its
// fill by Finish, Fail, Refuse or Renew, always.
//
// Nobody joins a fetch that began before a purge: what it brings may be what was purged. It goes on for
// those who came before that.
func (s *Store) Begin(key, uri []byte) (f *Fill, filler bool) {
	h := s.hash(key)
	sh := &s.fills[h[0]%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	old := sh.m[h]
	if old != nil && (bytes.Equal(old.key, key) || bytes.Equal(old.alias, key)) {
		if !old.outdated() {
			return old, false
		}
		old.doomed.Store(true) // it is not to take the place of what is newer
		old = nil
	}
	// The count is read under the lock: a purge counts first and looks at the fills then, so it either
	// is seen here or finds the fill.
	f = &Fill{store: s, hash: h, key: bytes.Clone(key), slot: s.purges.slotOf(uri),
		born: s.purges.count.Load()}
	if old == nil {
		sh.m[h] = f
	}
	return f, true
}

// alias has a fill be found under the key of its entry, too: it has turned out that the answers
// vary, and those who know that are to join it as well.
func (s *Store) alias(f *Fill, key []byte) {
	h := s.hash(key)
	sh := &s.fills[h[0]%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.m[h] == nil {
		f.alias, f.aliasHash = key, h
		sh.m[h] = f
	}
}

// leave takes a fill out of the table.
func (s *Store) leave(f *Fill) {
	s.unlist(f, f.hash)
	if f.alias != nil {
		s.unlist(f, f.aliasHash)
	}
}

func (s *Store) unlist(f *Fill, h hashKey) {
	sh := &s.fills[h[0]%shards]
	sh.mu.Lock()
	if sh.m[h] == f {
		delete(sh.m, h)
	}
	sh.mu.Unlock()
}

// newEntry makes an entry whose head is there and whose body, of so many bytes, is to come into the
// same content.
func (s *Store) newEntry(h *Head, body int64) (*Entry, error) {
	n := len(h.Key) + len(h.Block)
	if n == 0 || n > PieceBytes || len(h.Block) > rules.MaxBlock {
		return nil, ErrHead
	}
	p, ok := s.allocateFor(n, int64(n)+body)
	if !ok {
		s.stats.noRoom.Add(1)
		return nil, ErrNoRoom
	}
	c := &content{store: s, pieces: []piece{p}, skip: n}
	c.refs.Store(1)
	s.count(c, &p)
	s.heap.Add(entryOverhead)
	copy(p.data, h.Key)
	copy(p.data[len(h.Key):], h.Block)
	e := &Entry{Meta: h.Meta, head: c, body: c}
	e.key = p.data[:len(h.Key):len(h.Key)]
	e.block = p.data[len(h.Key):n:n]
	e.slots, e.tagged = s.purges.slotsOf(h.URI, h.Tags), len(h.Tags) > 0
	return e, nil
}

// SetVary stores that the responses for a primary key vary, by a list that rules.Options.Vary made.
// It is found under that key, and the response under the variant's.
func (s *Store) SetVary(key, uri, vary []byte) error {
	e, err := s.newEntry(&Head{Key: key, URI: uri, Block: vary}, 0)
	if err != nil {
		return err
	}
	e.vary, e.block, e.body = e.block, nil, nil
	e.born = s.purges.count.Load()
	s.publish(e)
	e.Release()
	return nil
}

// publish makes an entry be found. The caller holds it.
func (s *Store) publish(e *Entry) {
	e.acquire()
	e.checked.Store(e.born)
	s.cache.Set(s.hash(e.key), e)
	s.stats.stored.Add(1)
	s.settle()
}

// forget gives back the memory of a content that nobody uses.
func (s *Store) forget(c *content) {
	s.arena.put(c.pieces, s.pages())
	s.blocks.Add(-c.bytes)
	s.heap.Add(-entryOverhead - heapBytes(c.pieces))
	c.pieces = nil
}

// ErrClosed is given by Close when entries are still held.
var ErrClosed = errors.New("cache: closed while what it has is used")

// Close forgets everything and gives the memory back. Nothing may be held, and no fill under way.
func (s *Store) Close() error {
	s.cache.InvalidateAll()
	s.cache.CleanUp()
	if s.blocks.Load() != 0 {
		return ErrClosed
	}
	return s.arena.close()
}
