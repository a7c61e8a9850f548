package store

// A second tier of the cache gives responses whole, and takes them.

// Make makes an entry of a response that is there whole, for the fill, and holds it for the caller.
// Nobody finds it before Take or Offer. It may be called beside everything else of the fill. soft
// says that it was purged softly.
func (f *Fill) Make(h *Head, body []byte, soft bool) (*Entry, error) {
	s := f.store
	if int64(len(body)) > s.maxObject || len(h.Tags) > MaxTags {
		s.stats.tooLarge.Add(1)
		return nil, ErrNoRoom
	}
	e, err := s.newEntry(h, int64(len(body)))
	if err != nil {
		return nil, err
	}
	e.born, e.Cost, e.Second = f.born, h.Cost, true
	e.soft.Store(soft)
	c := e.head
	n := copy(c.pieces[0].data[c.skip:], body)
	for n < len(body) {
		p, ok := s.allocate(int64(len(body) - n))
		if !ok {
			s.stats.noRoom.Add(1)
			e.Release()
			return nil, ErrNoRoom
		}
		c.pieces = append(c.pieces, p)
		s.count(c, &p)
		n += copy(p.data, body[n:])
	}
	last := c.pieces[len(c.pieces)-1].data
	used := len(body) + c.skip
	for i := range c.pieces[:len(c.pieces)-1] {
		used -= len(c.pieces[i].data)
	}
	s.trim(c, len(last)-used)
	c.length, e.Meta.Length = int64(len(body)), int64(len(body))
	return e, nil
}

// Take ends the fill with an entry of Make's, which is the store's from now on.
func (f *Fill) Take(e *Entry) {
	if f.entry != nil || f.over() {
		e.Release()
		return
	}
	f.settle(e)
}

// Offer makes an entry of Make's be found, while the fetch goes on: it is stale, and what the fetch
// brings takes its place. The caller holds it still.
func (f *Fill) Offer(e *Entry) { f.publish(e) }

// Entry is what a fill that is to end well has brought, held for the caller; nil where it is not
// one that others find.
func (f *Fill) Entry() *Entry {
	if f.doomed.Load() || f.soft.Load() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.entry == nil || f.overflow || f.entry.body == nil || !f.entry.acquire() {
		return nil
	}
	return f.entry
}
