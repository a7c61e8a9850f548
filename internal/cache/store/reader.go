package store

import "sync/atomic"

// Reader is one who waits for a fill, and then reads its body as it comes. It is for one goroutine;
// its zero value is ready for Fill.Join.
type Reader struct {
	fill *Fill
	at   int64 // bytes of the body that were given

	waker      Waker
	armed      atomic.Bool
	revoked    atomic.Bool
	nextArmed  *Reader
	prev, next *Reader // of the fill's open readers
}

// Join makes r a reader of the fill. false when the fill is over or has as many readers as it may
// have; then the request goes on its own. w is woken when there is news after the reader has had
// nothing to give.
func (f *Fill) Join(r *Reader, w Waker) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.phase == Private || f.phase == Broken || f.entry == nil && f.phase == Whole || f.dropped > 0 ||
		f.readers >= f.store.maxWaiters {
		return false
	}
	*r = Reader{fill: f, waker: w}
	f.readers++
	r.next = f.open
	if r.next != nil {
		r.next.prev = r
	}
	f.open = r
	return true
}

// Head is the entry that the fill makes, as far as it is there: its head, and not yet its body. nil
// before the head has come; the reader is then woken when it does, or when the fill ends. The entry
// is valid until Close.
func (r *Reader) Head() (*Entry, Phase) {
	f := r.fill
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.entry == nil && f.phase == Waiting {
		r.arm()
	}
	return f.entry, f.phase
}

// Length is how many bytes the body has, head.Unknown while nobody knows: Entry.Meta and
// Entry.Length say it only of an entry that was looked up. It may be asked once the head is there.
func (r *Reader) Length() int64 {
	f := r.fill
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.phase == Whole {
		return f.written
	}
	return f.declared
}

// Peek appends what there is of the body behind what Advance has passed, to as many slices as dst
// has room for, none longer than PieceBytes. They are valid until Advance has passed them. Where
// there is nothing, the phase says whether anything will come: while it is Filling the reader is
// woken when it does.
func (r *Reader) Peek(dst [][]byte) ([][]byte, Phase) {
	f := r.fill
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.phase == Waiting {
		r.arm()
		return dst, f.phase
	}
	if f.content == nil || r.at >= f.written {
		if f.phase == Filling {
			r.arm()
		}
		return dst, f.phase
	}
	return f.parts(dst, r.at), f.phase
}

// parts is parts for a content whose pieces behind the first one may have gone.
func (f *Fill) parts(dst [][]byte, from int64) [][]byte {
	c := f.content
	if f.dropped == 0 {
		return parts(dst, c.pieces, c.skip, from, f.written)
	}
	// Every reader has passed the first piece and what was dropped.
	first := int64(len(c.pieces[0].data) - c.skip)
	return parts(dst, c.pieces[1:], 0, from-first-f.dropped, f.written-first-f.dropped)
}

// arm asks to be woken. The lock is held.
func (r *Reader) arm() {
	if !r.armed.Swap(true) {
		r.nextArmed = r.fill.armed
		r.fill.armed = r
	}
}

// Advance says that n bytes were sent, or copied.
func (r *Reader) Advance(n int) {
	f := r.fill
	f.mu.Lock()
	r.at += int64(n)
	w := f.passed()
	f.mu.Unlock()
	if w != nil {
		w.Wake()
	}
}

// Passes says whether the body passes through a window and is not stored.
func (r *Reader) Passes() bool {
	f := r.fill
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.overflow
}

// Why is what the filler said when it failed, 0 where it has not.
func (r *Reader) Why() uint32 {
	f := r.fill
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.why
}

// Revoked says that the reader is too slow for those that it shares a body with, and is to be closed.
func (r *Reader) Revoked() bool { return r.revoked.Load() }

// Finished says whether the reader was given all of a body that has come whole.
func (r *Reader) Finished() bool {
	f := r.fill
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.phase == Whole && r.at == f.written
}

// Close lets go. What Peek gave is not to be used afterwards.
func (r *Reader) Close() {
	f := r.fill
	if f == nil {
		return
	}
	r.fill = nil
	f.mu.Lock()
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		f.open = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	f.readers--
	last := f.readers == 0 && (f.phase == Private || f.phase == Whole || f.phase == Broken)
	w := f.passed()
	f.mu.Unlock()
	if w != nil {
		w.Wake()
	}
	if last {
		f.drop()
	}
}
