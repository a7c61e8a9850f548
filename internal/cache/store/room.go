package store

// count adds a piece to the memory accounted for a content.
func (s *Store) count(c *content, p *piece) {
	if p.order == onHeap {
		s.heap.Add(int64(len(p.data)))
		return
	}
	c.bytes += int64(len(p.data))
	s.blocks.Add(int64(len(p.data)))
}

// uncount frees pieces of a content that are no longer needed, and their accounting.
func (s *Store) uncount(c *content, pieces []piece) {
	s.arena.put(pieces, s.pages())
	for i := range pieces {
		if pieces[i].order != onHeap {
			c.bytes -= int64(len(pieces[i].data))
			s.blocks.Add(-int64(len(pieces[i].data)))
		}
	}
	s.heap.Add(-heapBytes(pieces))
}

func heapBytes(pieces []piece) int64 {
	n := int64(0)
	for i := range pieces {
		if pieces[i].order == onHeap {
			n += int64(len(pieces[i].data))
		}
	}
	return n
}

// trim frees the unused bytes of the last piece of a content whose body has arrived.
func (s *Store) trim(c *content, unused int) {
	last := &c.pieces[len(c.pieces)-1]
	before := len(last.data)
	if last.order == onHeap || unused == 0 {
		return
	}
	if unused == before {
		s.uncount(c, c.pieces[len(c.pieces)-1:])
		c.pieces = c.pieces[:len(c.pieces)-1]
		return
	}
	s.arena.trim(last, before-unused, s.pages())
	c.bytes -= int64(before - len(last.data))
	s.blocks.Add(int64(len(last.data) - before))
}

// pages is how many pages of the arena may be resident within the store's bound.
func (s *Store) pages() int {
	return int(max(s.bytes-s.fixed-s.heap.Load(), 0) / PieceBytes)
}

// allocate returns a piece for some of the next n bytes.
func (s *Store) allocate(n int64) (piece, bool) { return s.allocateFor(1, n) }

// allocateFor returns a piece of at least least bytes for some of the next n bytes. It tries to
// leave few bytes unused and to use few pieces.
func (s *Store) allocateFor(least int, n int64) (piece, bool) {
	want := int(min(max(n, int64(least)), PieceBytes))
	order := orderFor(want)
	if size := blockBytes(order); (size-want)*8 > size && order > 0 && least <= size/2 {
		order-- // the rest goes into a smaller one
	}
	for range 4 {
		if p, ok := s.arena.alloc(order, s.pages()); ok {
			return p, true
		}
		if !s.evict(int64(blockBytes(order))) {
			break
		}
	}
	// Free memory may be in smaller blocks.
	for smallest := max(orderFor(least), orderFor(min(want, 4<<10))); order > smallest; {
		order--
		if p, ok := s.arena.alloc(order, s.pages()); ok {
			return p, true
		}
	}
	return piece{}, false
}

// evict makes room out of turn if the policy's bound has not, because many evicted entries are
// still being read or free blocks are too small. It returns false if there is nothing to evict.
func (s *Store) evict(need int64) bool {
	s.room.Lock()
	defer s.room.Unlock()
	s.quiet.Store(0)
	s.lower()
	var victims [64]hashKey
	n, found := 0, int64(0)
	for e := range s.cache.Coldest() {
		victims[n] = e.Key
		n++
		found += int64(e.Weight)
		if n == len(victims) || found >= 2*need {
			break
		}
	}
	for _, h := range victims[:n] {
		s.cache.Invalidate(h)
	}
	s.stats.squeezed.Add(int64(n))
	s.stats.evicted.Add(int64(n))
	return n > 0
}

const (
	step    = 256  // the policy's bound moves by 1/step of the store's bytes
	settled = 4096 // entries stored without eviction out of turn before the bound is raised again
)

// lower lowers the policy's bound, so that the policy makes the room, which chooses better.
func (s *Store) lower() {
	floor := s.bytes - s.fixed - 3*s.reserve()
	if now := s.target.Load(); now > floor {
		s.move(max(now-s.bytes/step, floor))
	}
}

// settle raises the policy's bound again after a time without evictions out of turn.
func (s *Store) settle() {
	if s.quiet.Add(1)%settled != 0 || !s.room.TryLock() {
		return
	}
	defer s.room.Unlock()
	most := s.bytes - s.fixed - s.reserve()
	if now := s.target.Load(); now < most && s.Stats().Bytes < s.bytes-s.reserve() {
		s.move(min(now+s.bytes/step, most))
	}
}

func (s *Store) move(to int64) {
	s.target.Store(to)
	s.cache.SetMaximum(uint64(to))
}
