package files

import (
	"sync/atomic"
	"unsafe"

	"github.com/maypok86/otter/v2"

	"plimsoll/internal/crash"
)

// store is what is known of the files beneath a root, for all loops at once. Two tables hold it: of
// what is in memory whole, bounded in bytes, and of what has files open, bounded in their number.
// Which entries are kept is W-TinyLFU's choice (otter), so that a scan does not push out what is asked
// for all the time. A look-up takes no lock.
//
// Entries are made on goroutines, of which admit and readers bound the number. What an entry says is
// never changed: where the disk says something else, another takes its place. Who uses an entry's
// descriptors holds it meanwhile (entry.acquire).
type store struct {
	o      Options
	root   *root
	memory *otter.Cache[string, *entry]
	open   *otter.Cache[string, *entry]
	watch  *watch // nil where the kernel has none for us

	readers chan struct{} // has a place for each goroutine that works on the disk
	waiting atomic.Int64  // who waits for them, and who they work for
	owners  atomic.Int64  // policies
	bytes   atomic.Int64  // in memory
	files   atomic.Int64  // open
	changes atomic.Int64  // that the watch has told of
	swept   atomic.Int64  // what was looked at before this time is due

	loading loading
}

// entryBytes is about what an entry takes beside its content: its structures, and its place in a
// table.
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
			// On the goroutine that stores or looks up: a hit would otherwise start one now and then.
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

// same says whether another store can take this one's place.
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

// leave is called when a policy needs the store no more. With the last everything is given up, but
// for what exchanges still hold.
func (s *store) leave() {
	if s.owners.Add(-1) == 0 {
		if s.watch != nil {
			s.watch.close()
		}
		s.memory.InvalidateAll()
		s.open.InvalidateAll()
	}
}

// age says whether an entry may be used.
type age uint8

const (
	fresh   age = iota
	due         // it may be used, and somebody should look at the file again
	expired     // it may not
)

// lookup is what is known of a path. A loop may call it: it takes no lock, and allocates nothing.
func (s *store) lookup(key []byte, now int64) (*entry, age) {
	k := unsafe.String(unsafe.SliceData(key), len(key)) // neither look-up keeps it
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

// admit says whether one more may wait for the disk.
func (s *store) admit() bool {
	if s.waiting.Add(1) > int64(s.o.Waiting) {
		s.waiting.Add(-1)
		return false
	}
	return true
}

// errand finds what a path stands for, and calls then unless nobody waits any more. It is a goroutine
// that was admitted.
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

// refresh has somebody look at an entry's files again, unless somebody does, or all are busy.
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

// find is the entry of a path, held, looked at now at the latest. Who comes while another looks for
// the same takes what that finds.
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
		s.readers <- struct{}{} // all others have let go of it already
		defer func() { <-s.readers }()
		return s.look(key)
	}
	s.readers <- struct{}{}
	l.entry, l.err = s.look(key)
	<-s.readers
	s.loading.end(key, l)
	return l.entry, l.err
}

// look looks at the files of an entry again, or makes it.
func (s *store) look(key string) (*entry, error) {
	e, ok := s.memory.GetIfPresent(key)
	if !ok {
		e, ok = s.open.GetIfPresent(key)
	}
	if ok && e.acquire() {
		began, changes := s.o.Env.Now(), s.changes.Load()
		if e.checked.Load() >= s.swept.Load() && began-e.checked.Load() < int64(s.o.Fresh) {
			return e, nil // it came meanwhile
		}
		if s.holds(e) && changes == s.changes.Load() {
			e.checked.Store(began)
			return e, nil
		}
		e.release()
	}
	return s.load(key)
}

// load makes the entry of a path and keeps it.
func (s *store) load(key string) (*entry, error) {
	s.watch.follow(key)
	began, changes := s.o.Env.Now(), s.changes.Load()
	e, err := s.makeEntry(key)
	if err != nil {
		return nil, err
	}
	e.checked.Store(began)
	if changes != s.changes.Load() {
		e.unsettled = true // perhaps it was this file
		e.checked.Store(began - 2*int64(s.o.Fresh))
	}
	s.keep(e)
	return e, nil
}

// keep puts an entry into its table, in the place of what was known of its path.
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

// drop forgets what is known of a path.
func (s *store) drop(key string) {
	s.memory.Invalidate(key)
	s.open.Invalidate(key)
}

// sweep makes everything due that is known by now.
func (s *store) sweep() { s.swept.Store(s.o.Env.Now()) }
