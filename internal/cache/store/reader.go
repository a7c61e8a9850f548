package store

import "sync/atomic"

// Reader waits for a fill, and then reads its body as it arrives. It is for one goroutine. Its zero
// value is ready for Fill.Join.
type Reader struct {
	fill *Fill
	at   int64 // bytes of the body that Advance has passed

	waker      Waker
	armed      atomic.Bool
	revoked    atomic.Bool
	nextArmed  *Reader
	prev, next *Reader // of the fill's open readers
}

// Join makes r a reader of the fill. It returns false if the fill is over or has the maximum number
// of readers; then the request must fetch on its own. w is woken when there is news after the
// reader had nothing to return.
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

// Head returns the entry that the fill makes, which has its head but perhaps not yet its body. It
// is nil before the head has arrived; the reader is then woken when it arrives, or when the fill
// ends. The entry is valid until Close.
func (r *Reader) Head() (*Entry, Phase) {
	f := r.fill
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.phase == Waiting {
		r.arm()
	}
	return f.entry, f.phase
}

// Length is the length of the body in bytes, head.Unknown while it is not known. Entry.Meta and
// Entry.Length have it only for entries that were looked up. Length may be called once the head has
// arrived.
func (r *Reader) Length() int64 {
	f := r.fill
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.phase == Whole {
		return f.written
	}
	return f.declared
}

// Peek appends to dst the available bytes of the body after what Advance has passed, in at most as
// many slices as dst has room for, none longer than PieceBytes. They are valid until Advance has
// passed them. If there are none, the phase says whether more will come: while it is Filling, the
// reader is woken when it does.
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

// parts is parts for a content whose pieces after the first one may have been dropped.
func (f *Fill) parts(dst [][]byte, from int64) [][]byte {
	c := f.content
	if f.dropped == 0 {
		return parts(dst, c.pieces, c.skip, from, f.written)
	}
	// Every reader has passed the first piece and what was dropped.
	first := int64(len(c.pieces[0].data) - c.skip)
	return parts(dst, c.pieces[1:], 0, from-first-f.dropped, f.written-first-f.dropped)
}

// arm registers the reader to be woken. The caller holds the lock.
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

// Why is the filler's argument to Fail; 0 if it has not failed.
func (r *Reader) Why() uint32 {
	f := r.fill
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.why
}

// Revoked reports whether the reader is too slow for the others that share the body. It must then
// be closed.
func (r *Reader) Revoked() bool { return r.revoked.Load() }

// Finished reports whether the body is complete and the reader has passed all of it.
func (r *Reader) Finished() bool {
	f := r.fill
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.phase == Whole && r.at == f.written
}

// Close ends reading. Slices from Peek must not be used afterwards.
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
