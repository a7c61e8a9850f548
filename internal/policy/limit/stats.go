package limit

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// loopStats is what a loop counts of a limit. Only that loop writes it.
type loopStats struct {
	allowed, refused, wouldRefuse, queued, overflowed, unavailable count

	top top
	_   [64]byte // the next loop's is on another cache line
}

// count is a counter of one writer.
type count struct{ n atomic.Int64 }

// add is not a read-modify-write, which costs more: nobody else writes.
func (c *count) add() { c.n.Store(c.n.Load() + 1) }

func (l *loopStats) note(s *spot) {
	if s.spilled {
		l.overflowed.add()
	}
}

func (l *limiter) sum(of func(*loopStats) *count) (n int64) {
	for i := range l.stats {
		n += of(&l.stats[i]).n.Load()
	}
	return n
}

// shown is how many of the values that were refused most the status names.
const shown = 10

// top keeps the values that were refused most often, by Space-Saving: with more values than entries
// the rarest makes room for a new one, which takes over its count. So a count may be too high by
// as much as the smallest, and a value with more than a share of 1/kept of all refusals is in it.
type top struct {
	mu      sync.Mutex // only ever tried by the loop: while the status reads, refusals are not noted
	entries [kept]topEntry
	used    int
}

const (
	kept      = 4 * shown
	keptBytes = 64
)

type topEntry struct {
	count int64
	size  int
	cut   bool
	value [keptBytes]byte // its beginning
}

func (e *topEntry) is(value []byte) bool {
	short := value[:min(len(value), keptBytes)]
	return e.size == len(short) && e.cut == (len(value) > keptBytes) &&
		string(e.value[:e.size]) == string(short)
}

// note counts a refusal of a value.
func (t *top) note(value []byte) {
	if !t.mu.TryLock() {
		return
	}
	defer t.mu.Unlock()
	least := 0
	for i := range t.used {
		e := &t.entries[i]
		if e.is(value) {
			e.count++
			return
		}
		if e.count < t.entries[least].count {
			least = i
		}
	}
	if t.used < kept {
		least = t.used
		t.used++
	}
	e := &t.entries[least]
	e.count++
	e.size = copy(e.value[:], value)
	e.cut = len(value) > keptBytes
}

// topRefused is the values that were refused most over all loops, the most refused first.
func (l *limiter) topRefused() []topEntry {
	var all []topEntry
	for i := range l.stats {
		t := &l.stats[i].top
		t.mu.Lock()
		for _, e := range t.entries[:t.used] {
			same := func(o topEntry) bool { return o.size == e.size && o.cut == e.cut && o.value == e.value }
			if at := slices.IndexFunc(all, same); at >= 0 {
				all[at].count += e.count
			} else {
				all = append(all, e)
			}
		}
		t.mu.Unlock()
	}
	slices.SortStableFunc(all, func(a, b topEntry) int { return cmp.Compare(b.count, a.count) })
	return all[:min(len(all), shown)]
}
