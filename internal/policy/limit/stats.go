package limit

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// loopStats are a loop's counts for a limit. Only that loop writes them.
type loopStats struct {
	allowed, refused, wouldRefuse, queued, overflowed, unavailable count

	top top
	_   [64]byte // the next loop's is on another cache line
}

// count is a counter with one writer.
type count struct{ n atomic.Int64 }

// add avoids a read-modify-write, which costs more: nobody else writes.
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

// shown is how many of the most refused values the status lists.
const shown = 10

// top keeps the values that were refused most often, by Space-Saving. If there are more values than
// entries, a new value replaces the rarest and takes over its count. So a count may be too high by
// up to the smallest count, and a value with more than 1/kept of all refusals is always included.
type top struct {
	mu      sync.Mutex // the loop only tries it: while the status reads, refusals are not noted
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

// topRefused is the values with the most refusals over all loops, the most refused first.
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
