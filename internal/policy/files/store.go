package files

import (
	"sync/atomic"
	"unsafe"

	"github.com/maypok86/otter/v2"

	"plimsoll/internal/crash"
)

// store holds what is known about the files below a root, for all loops. It has two tables: entries
// whose content is all in memory, bounded in bytes, and entries with open files, bounded in their
// number. W-TinyLFU (otter) chooses which entries stay, so that a scan does not push out the
// entries that are used all the time. A look-up takes no lock.
//
// Entries are made on goroutines, whose number is bounded by admit and readers. An entry's facts
// never change: if the disk says something else, another entry replaces it. A user of an entry's
// descriptors holds the entry meanwhile (entry.acquire).
type store struct {
	o      Options
	root   *root
	memory *otter.Cache[string, *entry]
	open   *otter.Cache[string, *entry]
	watch  *watch // nil if the kernel offers none

	readers chan struct{} // has a place for each goroutine that works on the disk
	waiting atomic.Int64  // requests waiting for these goroutines or being served by them
	owners  atomic.Int64  // policies
	bytes   atomic.Int64  // in memory
	files   atomic.Int64  // open
	changes atomic.Int64  // changes that the watch reported
	swept   atomic.Int64  // entries checked before this time are expired

	loading loading
}

// entryBytes is roughly the memory that an entry takes besides its content: its structures and its
// place in a table.
const entryBytes = 1 << 10

func newStore(o Options) (*store, error) {
	r, err := openRoot(o.Root, o.Symlinks)
	if err != nil {
		return nil, err
	}
	s := &store{o: o, root: r, readers: make(chan struct{}, o.Readers)}
	s.owners.Store(1)
	s.loading.m = map[string]*load{}
	table := func(most int64, weigh func(*entry) int64, used *atomic.Int64) (*otter.Cache[string,
		*entry], error) {
		return otter.New(&otter.Options[string, *entry]{
			MaximumWeight: uint64(most),
			Weigher:       func(_ string, e *entry) uint32 { return uint32(weigh(e)) },
			OnAtomicDeletion: func(d otter.DeletionEvent[string, *entry]) {
				used.Add(-weigh(d.Value))
				d.Value.release()
			},
			// Run on the goroutine that stores or looks up. By default a hit would sometimes start
			// a goroutine.
			Executor: func(f func()) { f() },
		})
	}
	if s.memory, err = table(o.Memory, (*entry).bytes, &s.bytes); err != nil {
		return nil, err
	}
	if s.open, err = table(int64(o.OpenFiles), (*entry).descriptors, new(atomic.Int64)); err != nil {
		return nil, err
	}
	if s.watch, err = startWatch(s); err != nil {
		o.Env.Log.Warn("changes of files are not watched; they are seen when their time is over",
			"root", o.Root, "fresh", o.Fresh, "error", err)
	}
	return s, nil
}

// same reports whether another store can replace this one.
func (s *store) same(as *store) bool {
	a, b := s.o, as.o
	return a.Root == b.Root && a.Index == b.Index && a.Listing == b.Listing && a.Symlinks == b.Symlinks &&
		a.Dotfiles == b.Dotfiles && a.Fresh == b.Fresh && a.OpenFiles == b.OpenFiles &&
		a.Memory == b.Memory &&
		a.MemoryFile == b.MemoryFile && a.Readers == b.Readers && a.Waiting == b.Waiting &&
		len(a.Codings) == len(b.Codings) && sameCodings(a.Codings, b.Codings)
}

func sameCodings(a, b []string) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// leave is called when a policy no longer needs the store. When the last policy leaves, everything
// is dropped except what exchanges still hold.
func (s *store) leave() {
	if s.owners.Add(-1) == 0 {
		if s.watch != nil {
			s.watch.close()
		}
		s.memory.InvalidateAll()
		s.open.InvalidateAll()
	}
}

// age says whether an entry may still be used.
type age uint8

const (
	fresh   age = iota
	due         // it may be used, but its file should be checked again
	expired     // it may not be used
)

// lookup returns the entry of a path, if there is one. A loop may call it: it takes no lock and
// allocates nothing.
func (s *store) lookup(key []byte, now int64) (*entry, age) {
	k := unsafe.String(unsafe.SliceData(key), len(key)) // neither look-up keeps the string
	e, ok := s.memory.GetIfPresent(k)
	if !ok {
		if e, ok = s.open.GetIfPresent(k); !ok {
			return nil, expired
		}
	}
	checked := e.checked.Load()
	switch since := now - checked; {
	case checked < s.swept.Load() || since >= 2*int64(s.o.Fresh):
		return e, expired
	case since >= int64(s.o.Fresh):
		return e, due
	}
	return e, fresh
}

// admit reports whether one more request may wait for the disk.
func (s *store) admit() bool {
	if s.waiting.Add(1) > int64(s.o.Waiting) {
		s.waiting.Add(-1)
		return false
	}
	return true
}

// errand finds what a path refers to and calls then, unless nobody waits for it any more. It runs
// on a goroutine of its own, after admit.
func (s *store) errand(key string, e *errand, then func()) {
	defer crash.Guard("where a file is opened")
	e.entry, e.err = s.find(key)
	s.waiting.Add(-1)
	if e.state.finish() {
		then()
	} else if e.entry != nil {
		e.entry.release()
	}
}

// refresh starts another check of an entry's files, unless one is running or all goroutines are
// busy.
func (s *store) refresh(e *entry) {
	if e.checking.CompareAndSwap(false, true) {
		if !s.admit() {
			e.checking.Store(false)
			return
		}
		go func() {
			defer crash.Guard("where a file is looked at again")
			now, _ := s.find(e.key)
			s.waiting.Add(-1)
			e.checking.Store(false)
			if now != nil {
				now.release()
			}
		}()
	}
}

// find returns the entry of a path, held. Its files were checked during the call, or recently
// enough. Callers that look for the same path at the same time share one search.
func (s *store) find(key string) (*entry, error) {
	l, first := s.loading.begin(key)
	if !first {
		<-l.done
		if l.err == nil && l.entry.acquire() {
			return l.entry, nil
		}
		if l.err != nil {
			return nil, l.err
		}
		s.readers <- struct{}{} // all others have released it already
		defer func() { <-s.readers }()
		return s.look(key)
	}
	s.readers <- struct{}{}
	l.entry, l.err = s.look(key)
	<-s.readers
	s.loading.end(key, l)
	return l.entry, l.err
}

// look checks the files of an entry again, or makes the entry.
func (s *store) look(key string) (*entry, error) {
	e, ok := s.memory.GetIfPresent(key)
	if !ok {
		e, ok = s.open.GetIfPresent(key)
	}
	if ok && e.acquire() {
		began, changes := s.o.Env.Now(), s.changes.Load()
		if e.checked.Load() >= s.swept.Load() && began-e.checked.Load() < int64(s.o.Fresh) {
			return e, nil // another goroutine made or checked it meanwhile
		}
		if s.holds(e) && changes == s.changes.Load() {
			e.checked.Store(began)
			return e, nil
		}
		e.release()
	}
	return s.load(key)
}

// load makes the entry of a path and stores it.
func (s *store) load(key string) (*entry, error) {
	s.watch.follow(key)
	began, changes := s.o.Env.Now(), s.changes.Load()
	e, err := s.makeEntry(key)
	if err != nil {
		return nil, err
	}
	e.checked.Store(began)
	if changes != s.changes.Load() {
		e.unsettled = true // the change may have been to this file
		e.checked.Store(began - 2*int64(s.o.Fresh))
	}
	s.keep(e)
	return e, nil
}

// keep puts an entry into its table, replacing what was known about its path.
func (s *store) keep(e *entry) {
	to, other := s.memory, s.open
	if !e.whole {
		to, other = s.open, s.memory
	} else {
		s.bytes.Add(e.bytes())
	}
	e.refs.Add(1) // the table's
	to.Set(e.key, e)
	other.Invalidate(e.key)
}

// drop removes the entries of a path.
func (s *store) drop(key string) {
	s.memory.Invalidate(key)
	s.open.Invalidate(key)
}

// sweep expires all present entries.
func (s *store) sweep() { s.swept.Store(s.o.Env.Now()) }
