package store

// windowBytes is how many bytes of a body that is too long to be stored are kept for slow readers.
// It is a multiple of PieceBytes.
const windowBytes = 8 * PieceBytes

// pass gives up storing the response: from now on the body passes through a window to its existing
// readers. No more readers can join.
func (f *Fill) pass() {
	f.store.leave(f)
	f.mu.Lock()
	f.overflow = true
	f.mu.Unlock()
	f.store.stats.tooLarge.Add(1)
}

// Passes says whether the body passes through a window and is not stored. For the filler.
func (f *Fill) Passes() bool { return f.overflow }

// Feeder sets the Waker that is woken when there is room again after Append was full.
func (f *Fill) Feeder(w Waker) {
	f.mu.Lock()
	f.feeder = w
	f.mu.Unlock()
}

// windowRoom returns a piece of the window. If the slowest reader is too far behind, it sets
// stalled, and only bytes that are already on their way may follow.
func (f *Fill) windowRoom() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers == 0 {
		return nil, ErrAbandoned
	}
	f.advance()
	behind := f.behind()
	if behind >= 2*windowBytes {
		return nil, ErrBehind
	}
	f.stalled = f.stalled || behind >= windowBytes
	p := piece{data: make([]byte, PieceBytes), order: onHeap}
	f.content.pieces = append(f.content.pieces, p)
	f.store.count(f.content, &p)
	return p.data, nil
}

// behind is how many bytes the window holds. The caller holds the lock.
func (f *Fill) behind() int64 { return f.written - f.dropped - f.kept() }

// kept is how many bytes from before the window are in pieces of the arena. They are at most as
// many as may be stored, and stay until every reader has passed them.
func (f *Fill) kept() int64 {
	n := int64(0)
	for i := range f.content.pieces {
		if f.content.pieces[i].order != onHeap {
			n += int64(len(f.content.pieces[i].data))
		}
	}
	return n
}

// advance frees the pieces that every reader has passed, except the first, which has the head. The
// caller holds the lock.
func (f *Fill) advance() {
	slowest := f.written
	for r := f.open; r != nil; r = r.next {
		slowest = min(slowest, r.at)
	}
	c := f.content
	end := f.dropped + int64(len(c.pieces[0].data)-c.skip)
	gone := 0
	for gone+2 < len(c.pieces) && end+int64(len(c.pieces[gone+1].data)) <= slowest {
		end += int64(len(c.pieces[gone+1].data))
		f.dropped += int64(len(c.pieces[gone+1].data))
		gone++
	}
	if gone == 0 {
		return
	}
	f.store.uncount(c, c.pieces[1:1+gone])
	c.pieces = append(c.pieces[:1], c.pieces[1+gone:]...)
}

// Overtake revokes the readers that are behind if another reader waits that has read everything.
// They learn that from Revoked when they are woken, and must close: only they know when their
// pieces are no longer in use. Overtake does nothing unless Append was full and no reader has made
// room since.
func (f *Fill) Overtake() {
	f.mu.Lock()
	waits := false
	for r := f.open; r != nil; r = r.next {
		waits = waits || r.at == f.written
	}
	var wakers []Waker
	for r := f.open; r != nil && waits && f.stalled; r = r.next {
		if f.written-r.at >= windowBytes/2 && !r.revoked.Swap(true) {
			wakers = append(wakers, r.waker)
		}
	}
	f.mu.Unlock()
	for _, w := range wakers {
		w.Wake()
	}
}

// passed is called when a reader has advanced or closed. It returns the feeder if it waits and
// there is room now. Bytes before the window do not make room. The caller holds the lock, and must
// wake the feeder without it.
func (f *Fill) passed() Waker {
	if !f.stalled {
		return nil
	}
	f.advance()
	if f.behind() >= windowBytes && f.readers > 0 {
		return nil
	}
	f.stalled = false
	return f.feeder
}
