package store

// windowBytes is how much of a body that is too long to be stored is kept for readers that are
// behind. A multiple of PieceBytes.
const windowBytes = 8 * PieceBytes

// pass gives up storing: from here on the body passes through a window, for those who read it
// already. Nobody joins any more.
func (f *Fill) pass() {
	f.store.leave(f)
	f.mu.Lock()
	f.overflow = true
	f.mu.Unlock()
	f.store.stats.tooLarge.Add(1)
}

// Passes says whether the body passes through a window and is not stored. For the filler.
func (f *Fill) Passes() bool { return f.overflow }

// Feeder names who is woken when there is room again after Append was full.
func (f *Fill) Feeder(w Waker) {
	f.mu.Lock()
	f.feeder = w
	f.mu.Unlock()
}

// windowRoom gives a piece of the window. Where the slowest reader is too far behind, it is the last
// but for what is on its way already.
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

// behind is how much the window holds. The lock is held.
func (f *Fill) behind() int64 { return f.written - f.dropped - f.kept() }

// kept is how many bytes the arena's pieces hold that came before the window: they are as many as
// may be stored, and stay until every reader has passed them.
func (f *Fill) kept() int64 {
	n := int64(0)
	for i := range f.content.pieces {
		if f.content.pieces[i].order != onHeap {
			n += int64(len(f.content.pieces[i].data))
		}
	}
	return n
}

// advance gives back the pieces that every reader has passed. The first stays: it has the head. The
// lock is held.
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

// Overtake gives up the readers that are behind where a reader waits that has everything. They find
// that out by Revoked, when they are woken, and are to close: only they know that nobody looks at
// the pieces that they were given. It does nothing unless Append was full and no reader has made
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

// passed is called when a reader went on or away: a feeder that waits may have room now. What a reader
// passes in front of the window makes none. The lock is held; the feeder is woken without it.
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
