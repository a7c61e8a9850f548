package store

// The second tier of the cache provides and accepts complete responses.

// Make makes an entry from a complete response, for the fill, and holds it for the caller. Look-ups
// do not find it before Take or Offer. It may be called concurrently with all other methods of the
// fill. soft says that the response was softly purged.
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

// Take ends the fill with an entry from Make, which belongs to the store from now on.
func (f *Fill) Take(e *Entry) {
	if f.entry != nil || f.over() {
		e.Release()
		return
	}
	f.settle(e)
}

// Offer makes a stale entry from Make available to look-ups while the fetch goes on; the fetched
// response will replace it. The caller still holds the entry.
func (f *Fill) Offer(e *Entry) { f.publish(e) }

// Entry returns the entry of a fill that ends successfully, held for the caller; nil if look-ups
// will not find it.
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
