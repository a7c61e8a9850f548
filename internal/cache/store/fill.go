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
	// ErrLength: the body does not have the length announced by its head.
	ErrLength = errors.New("cache: the body's length is not the one that its head gave")
	// ErrAbandoned: the body is too long to be stored, and has no reader.
	ErrAbandoned = errors.New("cache: nobody waits for a body that is too long to be stored")
	// ErrOver: the fill has ended.
	ErrOver = errors.New("cache: the fetch has ended already")
	// ErrHead: the key and fields do not fit in one piece.
	ErrHead = errors.New("cache: the key and the fields of a response are longer than 64 KB")
	// ErrBehind: readers are behind, and more was appended than the window may hold.
	ErrBehind = errors.New("cache: more of a body was given than its readers' window holds")
	// ErrNoRoom: the entries in use leave no room.
	ErrNoRoom = errors.New("cache: no room, because what clients still read fills it")
)

// Phase is how far a fill is.
type Phase uint8

// The phases.
const (
	Waiting Phase = iota // for the head
	Private              // over: the answer is only for its client; the others fetch on their own
	Filling              // the head has arrived, the body is arriving
	Whole                // over: the response is complete
	Broken               // over: it failed
)

// Waker is notified of news that it waits for. Wake is called on the goroutine that causes the
// news, never with a lock held, at most once for each time that the reader had nothing to return.
// It may come late, after the reader was closed. It must not block: the data plane posts to its
// loop.
type Waker interface{ Wake() }

// Fill is the single fetch for a key, and its result so far. Its methods, except Join, are for one
// goroutine, which does the fetch. Requests that wait for it use Readers.
type Fill struct {
	store *Store
	hash  hashKey
	key   []byte
	slot  uint32 // of its URI in the table of purges
	born  uint64

	alias     []byte // the key of its entry if that is different; nil otherwise
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
	dropped  int64 // bytes of the body whose pieces were freed; only with overflow
	why      uint32
	overflow bool  // too long to be stored: it passes through a window
	feeder   Waker // waits for room in the window
	stalled  bool

	// Used only by the filler:
	declared int64
	limit    int64
}

// Phase returns the fill's phase.
func (f *Fill) Phase() Phase {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.phase
}

// Key is the key that the fetch is for.
func (f *Fill) Key() []byte { return f.key }

// Refuse ends a fill whose answer may not be stored; waiting requests then fetch on their own. It
// may be called only before Head.
func (f *Fill) Refuse() { f.end(Private) }

// Head sets the head of the response: the key under which it is stored, which may differ from the
// fill's if the answer varies, its fields, and the length of its body, head.Unknown if not known.
// h.URI is the part of the key that is common to all answers for the URI; h.Tags are the words of
// Surrogate-Key. Readers see the head from now on. A body that is too long to be stored passes
// through a window from its beginning. An error ends the fill as Refuse does.
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
		s.alias(f, bytes.Clone(h.Key)) // a copy, because the entry's own key may be freed first
	}
	wake(armed)
	return nil
}

// Append copies p to the end of the body. full says that the body passes through a window and
// readers are behind: the filler should stop until the feeder is woken. Bytes that come
// nevertheless are accepted up to twice the window, and then refused with ErrBehind.
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

// over reports whether the fill has ended. Only the filler ends it. Check it before accessing
// entry, which belongs to the last reader once the fill has ended.
func (f *Fill) over() bool { return f.phase == Private || f.phase == Whole || f.phase == Broken }

// tail is the free space of the last piece.
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

// room returns memory for some of the next bytes.
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
		// The length is not known: expect as many bytes again as there are.
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

// Finish ends the body. The response is stored if the body has the announced length and was not
// purged meanwhile.
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

// complete finishes the entry and makes it available to look-ups.
func (f *Fill) complete() {
	f.mu.Lock()
	f.store.trim(f.content, len(f.tailLocked()))
	f.content.length = f.written
	f.entry.Meta.Length = f.written
	f.mu.Unlock()
	f.publish(f.entry)
}

// publish makes the fill's entry available to look-ups, unless it was purged. PurgePrefix marks the
// fills and then the entries; the lock of the table of fills ensures that it finds one of them.
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

// Renew ends a fill that has revalidated a stored response: a new head replaces the old one, with
// the same body, and answers waiting requests. The caller must hold old. The length in h must be
// that of old.
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

// settle ends a fill with a complete entry. Readers see the entry and the end of the fill at once: one
// that saw the entry of a fill that still waits would take it for news, and not be woken at the end.
func (f *Fill) settle(e *Entry) {
	f.publish(e)
	f.endWith(Whole, e)
}

// Fail ends a fill whose answer did not arrive completely. Nothing is stored. Readers that have not
// yet sent anything to their clients may answer according to why, whose values the filler defines;
// the responses of the others must be cut off.
func (f *Fill) Fail(why uint32) {
	f.mu.Lock()
	f.why = why
	f.mu.Unlock()
	f.end(Broken)
}

// end removes the fill from the table and wakes all that wait.
func (f *Fill) end(phase Phase) { f.endWith(phase, nil) }

// endWith is end, and gives the fill an entry unless it is nil.
func (f *Fill) endWith(phase Phase, e *Entry) {
	if f.over() {
		return
	}
	f.store.leave(f)
	f.mu.Lock()
	f.phase = phase
	if e != nil {
		f.entry, f.content, f.written = e, e.body, e.body.length
	}
	armed := f.disarm()
	last := f.readers == 0
	f.feeder = nil
	f.mu.Unlock()
	wake(armed)
	if last {
		f.drop()
	}
}

// drop releases what the fill holds once it is over and has no readers. If a reader has joined just
// before, that is done when the reader closes.
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

// disarm returns the readers that wait for news, to be passed to wake. The caller holds the lock.
func (f *Fill) disarm() *Reader {
	armed := f.armed
	f.armed = nil
	return armed
}

// wake wakes readers. It must be called without the lock.
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

// Head is the argument of Fill.Head, which copies its bytes.
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
