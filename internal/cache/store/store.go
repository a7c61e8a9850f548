// Package store is the memory tier of the cache: the stored responses, shared by all loops, in a
// bounded number of bytes.
//
// The W-TinyLFU policy (otter) chooses what to keep and what to evict. Heads and bodies are outside
// of the garbage collector's heap, in an arena of blocks. Entries are reference-counted, so that a
// loop may send a hit's bytes while the entry is evicted. The bytes are reused only when the last
// reference is released.
//
// A fetch is a Fill. There is one for a key, however many requests wait for it, and its body can be
// read as it arrives. Hits detect that an entry was purged, from counters that a purge raises. So a
// purge takes no time and takes effect at once everywhere, also for fetches under way.
//
// All functions may be called from any goroutine, except as documented for Fill and Reader. A hit
// takes no lock and allocates nothing.
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
	// Bytes is the most memory that the store takes, including its own structures. It must be at
	// least MinBytes.
	Bytes int64
	// MaxObject is the longest body that is stored, in bytes. It is at most an eighth of Bytes; 0
	// means that eighth.
	MaxObject int64
	// MaxWaiters is how many requests may wait for one fetch; 0 means 100,000.
	MaxWaiters int
}

const (
	// MinBytes is the smallest store.
	MinBytes = 2 << 20
	// MaxTags is how many tags a stored response may have.
	MaxTags = 32
	// entryOverhead is what an entry costs besides its blocks, in bytes: twice the size of its
	// structures, because the garbage collector lets the heap grow to twice the live bytes. A test
	// measures it.
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
	room   sync.Mutex   // held by goroutines that evict out of turn
	quiet  atomic.Int64 // entries stored since the last eviction out of turn

	fills  [shards]shard
	purges purges
	stats  counters
}

type shard struct {
	mu sync.Mutex
	m  map[hashKey]*Fill
}

// New makes a store. The error names the option that is out of range.
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
		// Run on the goroutine that stores or looks up. Otherwise a hit would sometimes start a
		// goroutine.
		Executor: func(f func()) { f() },
	})
	return s, err
}

// reserve is how many bytes the policy leaves free for fetches under way, and for evicted entries
// that are still being read.
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

// Lookup returns what is stored under a key, or nil. The caller must Release the entry.
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

// Peek is Lookup without use of the entry: it counts neither as a hit nor as a miss, and does not
// make the policy consider the entry as more popular. The caller must Release the entry too.
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

// remove removes the entry, unless another one has replaced it.
func (s *Store) remove(h hashKey, e *Entry) {
	s.cache.ComputeIfPresent(h, func(now *Entry) (*Entry, otter.ComputeOp) {
		if now == e {
			return nil, otter.InvalidateOp
		}
		return now, otter.CancelOp
	})
}

// Remove removes what is stored under exactly this key.
func (s *Store) Remove(key []byte) { s.cache.Invalidate(s.hash(key)) }

// Begin returns the fetch for a key that is under way, or a new one. filler says that it is new:
// then the caller is its filler and must end it with Finish, Fail, Refuse, Renew or Take. uri is
// the part of the key that is common to all answers for the URI.
//
// No request joins a fetch that began before a purge, because its response may be what was purged.
// The fetch goes on for requests that have joined it earlier.
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
		old.doomed.Store(true) // it must not replace what is newer
		old = nil
	}
	// The count is read under the lock. A purge first raises the count and then looks at the fills,
	// so either the purge is seen here or it finds the fill.
	f = &Fill{store: s, hash: h, key: bytes.Clone(key), slot: s.purges.slotOf(uri),
		born: s.purges.count.Load()}
	if old == nil {
		sh.m[h] = f
	}
	return f, true
}

// alias makes a fill available also under the key of its entry: the answers have turned out to
// vary, and requests that know that must be able to join it too.
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

// leave removes a fill from the table.
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

// newEntry makes an entry with a head. Its body, of the given number of bytes, will be added to the
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

// SetVary stores a marker that the responses for a primary key vary, by a list made by
// rules.Options.Vary. The marker is found under the primary key, and the response under the
// variant's key.
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

// publish makes an entry available to look-ups. The caller must hold it.
func (s *Store) publish(e *Entry) {
	e.acquire()
	e.checked.Store(e.born)
	s.cache.Set(s.hash(e.key), e)
	s.stats.stored.Add(1)
	s.settle()
}

// forget frees the memory of a content without references.
func (s *Store) forget(c *content) {
	s.arena.put(c.pieces, s.pages())
	s.blocks.Add(-c.bytes)
	s.heap.Add(-entryOverhead - heapBytes(c.pieces))
	c.pieces = nil
}

// ErrClosed is returned by Close if entries are still held.
var ErrClosed = errors.New("cache: closed while what it has is used")

// Close removes everything and frees the memory. No entry may be held and no fill may be under way.
func (s *Store) Close() error {
	s.cache.InvalidateAll()
	s.cache.CleanUp()
	if s.blocks.Load() != 0 {
		return ErrClosed
	}
	return s.arena.close()
}
