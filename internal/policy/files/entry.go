package files

import (
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"plimsoll/internal/crash"
)

// kind is what a path stands for.
type kind uint8

const (
	isMissing   kind = iota // not served
	isForbidden             // not readable by this process
	isFile                  // a file, or a directory's index
	isDirectory             // a directory whose path has no final slash
	isListing               // a directory to be listed
)

// entry is what is known about a path. Except for the atomics, it does not change once it is
// shared.
type entry struct {
	key  string
	kind kind
	// files are the files that can answer: a file followed by its precompressed siblings in the
	// order of Options.Codings, nil for missing ones; or a listing, in HTML and in JSON.
	files     []*file
	vary      bool // there is a sibling
	whole     bool // all content is in memory: no file is open
	unsettled bool // it may have changed undetectably while it was read

	checked  atomic.Int64 // when it was last found unchanged on disk, on the loops' clock
	checking atomic.Bool  // a goroutine is checking it again
	refs     atomic.Int32 // references: from its table, finders and sources
	store    *store
}

// acquire holds the entry. It returns false if the entry has already been given up.
func (e *entry) acquire() bool {
	for {
		n := e.refs.Load()
		if n == 0 {
			return false
		}
		if e.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release releases the entry. The last release closes its files, on a goroutine, because closing
// may wait for a file server.
func (e *entry) release() {
	if e.refs.Add(-1) > 0 || e.whole {
		return
	}
	go func() {
		defer crash.Guard("where files are closed")
		e.close()
	}()
}

func (e *entry) close() {
	for _, f := range e.files {
		if f != nil && f.fd >= 0 {
			unix.Close(f.fd)
			e.store.files.Add(-1)
		}
	}
}

// bytes is how much memory the entry takes.
func (e *entry) bytes() int64 {
	n := int64(entryBytes + len(e.key))
	for _, f := range e.files {
		if f != nil {
			n += int64(len(f.content)) + entryBytes
		}
	}
	return n
}

// descriptors is how many files the entry keeps open.
func (e *entry) descriptors() (n int64) {
	for _, f := range e.files {
		if f != nil && f.fd >= 0 {
			n++
		}
	}
	return n
}

// suffixes are the name suffixes of precompressed siblings, by coding.
var suffixes = map[string]string{"br": ".br", "zstd": ".zst", "gzip": ".gz"}

// isDirectoryKey reports whether a path refers to a directory.
func isDirectoryKey(key string) bool { return key == "" || strings.HasSuffix(key, "/") }

// makeEntry finds what a path refers to. The entry is held for the caller. An error means a lack of
// resources or a disk failure, and says nothing about the path.
func (s *store) makeEntry(key string) (*entry, error) {
	e := &entry{key: key, store: s}
	e.refs.Store(1)
	name := s.nameOf(key)
	var err error
	if name == "" {
		err = unix.ENOENT
	} else {
		err = s.openAll(e, name)
	}
	if isAbsent(err) && isDirectoryKey(key) && s.o.Listing {
		err = s.list(e)
	}
	switch {
	case err == nil:
	case isAbsent(err):
		e.kind = isMissing
	case isDenied(err):
		e.kind = isForbidden
	default:
		e.close()
		return nil, err
	}
	e.whole = e.descriptors() == 0
	return e, nil
}

// nameOf is the name of the file that answers for a path; "" for none.
func (s *store) nameOf(key string) string {
	switch {
	case !isDirectoryKey(key):
		return key
	case s.o.Index == "":
		return ""
	}
	return key + s.o.Index
}

// openAll opens a file and its siblings.
func (s *store) openAll(e *entry, name string) error {
	st, err := s.root.look(name)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && !isDirectoryKey(e.key) {
		e.kind = isDirectory
		return nil
	}
	f, err := s.openFile(name, &st, name)
	if err != nil {
		return err
	}
	e.kind, e.files = isFile, make([]*file, 1+len(s.o.Codings))
	e.add(0, f)
	for i, coding := range s.o.Codings {
		sibling := name + suffixes[coding]
		if st, err = s.root.look(sibling); err != nil {
			continue
		}
		if f, err = s.openFile(sibling, &st, name); err == nil {
			f.encoding = encodingFields[coding]
			e.add(1+i, f)
			e.vary = true
		}
	}
	return nil
}

func (e *entry) add(i int, f *file) {
	e.files[i] = f
	e.unsettled = e.unsettled || f.unsettled
}

// holds reports whether an entry still agrees with the disk.
func (s *store) holds(e *entry) bool {
	if e.kind != isFile || e.unsettled {
		return false // making the listing again is as much work
	}
	name := s.nameOf(e.key)
	for i, f := range e.files {
		at := name
		if i > 0 {
			at += suffixes[s.o.Codings[i-1]]
		}
		st, err := s.root.look(at)
		if f == nil {
			if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
				return false
			}
			continue
		}
		if err != nil || stampOf(&st) != f.stamp {
			return false
		}
	}
	return true
}
