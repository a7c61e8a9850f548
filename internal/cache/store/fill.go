package store

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"

	"plimsoll/internal/cache/rules"
)

// Errors of a fill.
var (
	// ErrLength: the body is not as long as its head said.
	ErrLength = errors.New("cache: the body's length is not the one that its head gave")
	// ErrAbandoned: the body is too long to be stored, and nobody reads it.
	ErrAbandoned = errors.New("cache: nobody waits for a body that is too long to be stored")
	// ErrOver: the fill has ended.
	ErrOver = errors.New("cache: the fetch has ended already")
	// ErrHead: key and fields are longer than a piece.
	ErrHead = errors.New("cache: the key and the fields of a response are longer than 64 KB")
	// ErrBehind: more was given than readers that are behind may make the window hold.
	ErrBehind = errors.New("cache: more of a body was given than its readers' window holds")
	// ErrNoRoom: what is in use leaves no room.
	ErrNoRoom = errors.New("cache: no room, because what clients still read fills it")
)

// Phase is how far a fill is.
type Phase uint8

// The phases.
const (
	Waiting Phase = iota // for the head
	Private              // over: the answer is for its client alone, others go on their own
	Filling              // the head is there, the body comes
	Whole                // over: all of it is there
	Broken               // over: it failed
)

// Waker is told that something has happened that it waits for. Wake is called from whatever
// goroutine made it happen, never with a lock held, at most once for each time that the reader had
// nothing to give; it may come late, after the reader was closed. It must not block: the data plane
// posts to its loop.
type Waker interface{ Wake() }

// Fill is the one fetch for a key, and what has come of it. Its methods are for one goroutine, the
// one that fetches, but for Join; Readers are for those who wait.
type Fill struct {
	store *Store
	hash  hashKey
	key   []byte
	slot  uint32 // of its URI in the table of purges
	born  uint64

	alias     []byte // the key of its entry where that is another; nil else
	aliasHash hashKey

	doomed atomic.Bool // purged while it was under way
	soft   atomic.Bool

	mu       sync.Mutex
	phase    Phase
	readers  int // joined and not closed
	open     *Reader
	armed    *Reader
	entry    *Entry // from the head on
	content  *content
	written  int64 // bytes of the body, all of them readable
	dropped  int64 // bytes of the body whose pieces were given back; overflowing only
	why      uint32
	overflow bool  // too long to be stored: it passes through a window
	feeder   Waker // waits for room in the window
	stalled  bool

	// The filler's own.
	declared int64
	limit    int64
}

// Phase is how far the fill is.
func (f *Fill) Phase() Phase {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.phase
}

// Key is what the fetch is for.
func (f *Fill) Key() []byte { return f.key }

// Refuse ends a fill whose answer may not be stored: those who wait go on their own. It may be
// called before Head alone.
func (f *Fill) Refuse() { f.end(Private) }

// Head says what answers: the key it is stored under, which may be another than the fill's when the
// answer varies, its fields, and how long its body is, head.Unknown for not known. uri is the part
// of the key that all answers for the URI have, tags are the words of Surrogate-Key. Readers see the
// head from here on. A body that is too long to be stored passes through a window from its begin. An
// error ends the fill as Refuse does.
func (f *Fill) Head(h *Head) error {
	if f.over() || f.entry != nil {
		return ErrOver
	}
	s := f.store
	if len(h.Tags) > MaxTags {
		f.end(Private)
		s.stats.tooLarge.Add(1)
		return ErrNoRoom
	}
	f.declared = h.Meta.Length
	f.limit = s.maxObject
	long, kept := f.declared > f.limit, max(f.declared, 0)
	if long {
		kept = 0
	}
	e, err := s.newEntry(h, kept)
	if err != nil {
		f.end(Private)
		return err
	}
	e.born, e.Cost, e.Makeshift = f.born, h.Cost, h.Makeshift
	e.soft.Store(f.soft.Load())
	if long {
		f.pass()
	}
	f.mu.Lock()
	f.entry, f.content, f.phase = e, e.head, Filling
	armed := f.disarm()
	f.mu.Unlock()
	if !long && !bytes.Equal(h.Key, f.key) {
		s.alias(f, bytes.Clone(h.Key)) // the entry's own may go first
	}
	wake(armed)
	return nil
}

// Append adds to the body. full says that the body passes through a window and readers are behind:
// nothing more is to come until the feeder is woken. What comes all the same is taken as far as twice
// the window, and then refused with ErrBehind. The bytes are copied.
func (f *Fill) Append(p []byte) (full bool, err error) {
	if f.over() || f.entry == nil {
		return false, ErrOver
	}
	if f.declared >= 0 && f.written+int64(len(p)) > f.declared {
		return false, ErrLength
	}
	for len(p) > 0 {
		if !f.overflow && f.written >= f.limit {
			f.pass()
		}
		room, err := f.room(len(p))
		if err != nil {
			return false, err
		}
		rest := p
		if left := f.limit - f.written; !f.overflow && int64(len(rest)) > left {
			rest = rest[:left]
		}
		k := copy(room, rest)
		p = p[k:]
		f.mu.Lock()
		f.written += int64(k)
		full = f.stalled
		armed := f.disarm()
		f.mu.Unlock()
		wake(armed)
	}
	return full, nil
}

// over says whether the fill has ended; only the filler ends it. It is asked before entry is looked
// at, which belongs to the last reader from the end on.
func (f *Fill) over() bool { return f.phase == Private || f.phase == Whole || f.phase == Broken }

// tail is what is free of the last piece.
func (f *Fill) tail() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tailLocked()
}

func (f *Fill) tailLocked() []byte {
	c := f.content
	capacity := -int64(c.skip) + f.dropped
	for i := range c.pieces {
		capacity += int64(len(c.pieces[i].data))
	}
	left := capacity - f.written
	if left <= 0 {
		return nil
	}
	last := c.pieces[len(c.pieces)-1].data
	return last[int64(len(last))-left:]
}

// room gives memory for some of the next bytes.
func (f *Fill) room(want int) ([]byte, error) {
	if tail := f.tail(); tail != nil {
		return tail, nil
	}
	if f.overflow {
		return f.windowRoom()
	}
	expected := int64(want)
	if f.declared >= 0 {
		expected = f.declared - f.written
	} else {
		// Nobody knows how long it gets: as much again as there is.
		expected = max(expected, min(f.written, PieceBytes), 4<<10)
	}
	p, ok := f.store.allocate(expected)
	if !ok {
		f.pass()
		f.store.stats.noRoom.Add(1)
		return f.windowRoom()
	}
	f.add(p)
	return p.data, nil
}

// add makes a piece part of the content. Readers look at pieces under the lock.
func (f *Fill) add(p piece) {
	f.mu.Lock()
	f.content.pieces = append(f.content.pieces, p)
	f.mu.Unlock()
	f.store.count(f.content, &p)
}

// Finish says that the body is over. It is stored when it is as long as its head said, and nothing
// has purged it meanwhile.
func (f *Fill) Finish() error {
	if f.over() || f.entry == nil {
		return ErrOver
	}
	if f.declared >= 0 && f.written != f.declared {
		f.end(Broken)
		return ErrLength
	}
	if !f.overflow {
		f.complete()
	}
	f.end(Whole)
	return nil
}

// complete makes the entry what others find.
func (f *Fill) complete() {
	f.mu.Lock()
	f.store.trim(f.content, len(f.tailLocked()))
	f.content.length = f.written
	f.entry.Meta.Length = f.written
	f.mu.Unlock()
	f.publish(f.entry)
}

// publish makes what the fill brings be found, unless that was purged. The lock of the table of
// fills keeps PurgePrefix, which marks the fills and then the entries, from finding neither.
func (f *Fill) publish(e *Entry) {
	sh := &f.store.fills[f.hash[0]%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if f.doomed.Load() {
		return
	}
	if f.soft.Load() {
		e.soft.Store(true)
	}
	f.store.publish(e)
}

// Renew ends a fill that has revalidated a stored response: its new head takes the old one's place,
// with the same body, and answers those who wait. old is held by the caller. h's length is old's.
func (f *Fill) Renew(old *Entry, h *Head) error {
	if f.over() || f.entry != nil {
		return ErrOver
	}
	e, err := f.store.newEntry(h, 0)
	if err != nil {
		f.end(Private)
		return err
	}
	if len(h.Tags) == 0 { // a 304 need not repeat them
		e.slots, e.tagged = old.slots, old.tagged
	}
	old.body.hold() // old is held, so its body is
	e.body = old.body
	e.born, e.Cost = f.born, h.Cost
	e.Meta.Length = e.body.length
	f.settle(e)
	return nil
}

// settle ends a fill with an entry that is whole.
func (f *Fill) settle(e *Entry) {
	f.mu.Lock()
	f.entry, f.content, f.written = e, e.body, e.body.length
	f.mu.Unlock()
	f.publish(e)
	f.end(Whole)
}

// Fail ends a fill whose answer did not arrive, or not whole. Nothing is stored. Readers that have
// given nothing to their clients may answer as why says, in the filler's own terms; the others'
// responses have to be cut.
func (f *Fill) Fail(why uint32) {
	f.mu.Lock()
	f.why = why
	f.mu.Unlock()
	f.end(Broken)
}

// end leaves the table of fills and tells everybody.
func (f *Fill) end(phase Phase) {
	if f.over() {
		return
	}
	f.store.leave(f)
	f.mu.Lock()
	f.phase = phase
	armed := f.disarm()
	last := f.readers == 0
	f.feeder = nil
	f.mu.Unlock()
	wake(armed)
	if last {
		f.drop()
	}
}

// drop lets go of what the fill holds, once it is over and nobody reads it. Somebody may have joined
// just before: then it is dropped when that one closes.
func (f *Fill) drop() {
	f.mu.Lock()
	if f.readers > 0 {
		f.mu.Unlock()
		return
	}
	e := f.entry
	f.entry = nil
	f.mu.Unlock()
	if e != nil {
		e.Release()
	}
}

// disarm gives the readers that wait for news, for wake. The lock is held.
func (f *Fill) disarm() *Reader {
	armed := f.armed
	f.armed = nil
	return armed
}

// wake tells readers, without the lock.
func wake(r *Reader) {
	for r != nil {
		next := r.nextArmed
		r.nextArmed = nil
		waker := r.waker
		r.armed.Store(false)
		waker.Wake()
		r = next
	}
}

// Head is what Fill.Head is given. Its bytes are copied.
type Head struct {
	Key   []byte // the whole key
	URI   []byte // its part that rules.Key.AppendURI made
	Block []byte // rules.AppendBlock's
	Tags  [][]byte
	Meta  rules.Stored
	Cost  int64 // nanoseconds
	// Makeshift is Entry.Makeshift.
	Makeshift bool
}
