package files

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"

	"plimsoll/internal/crash"
)

// maxWatched is the largest number of watched directories of a root. Changes in other directories
// are noticed when their entries are checked again.
const maxWatched = 1024

// watch makes the kernel report changes below a root, so that they are noticed before the entries
// are checked again. It only helps: a lost event delays noticing the change.
type watch struct {
	store  *store
	notify *fsnotify.Watcher

	mu    sync.Mutex
	dirs  map[string]bool // below the root; "" is the root itself
	turns int             // the root's turns when they were added
}

func startWatch(s *store) (*watch, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &watch{store: s, notify: notify, dirs: map[string]bool{}}
	go w.run()
	return w, nil
}

// close ends the watch.
func (w *watch) close() { w.notify.Close() }

// watched is how many directories are watched.
func (w *watch) watched() int {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.dirs)
}

// follow watches the directory of a path.
func (w *watch) follow(key string) {
	if w == nil {
		return
	}
	dir := strings.TrimSuffix(key[:strings.LastIndexByte(key, '/')+1], "/")
	w.mu.Lock()
	defer w.mu.Unlock()
	if turns := w.store.root.turns(); turns != w.turns {
		w.turns = turns
		for _, old := range w.notify.WatchList() {
			w.notify.Remove(old)
		}
		clear(w.dirs)
	}
	if !w.dirs[dir] && len(w.dirs) < maxWatched && w.notify.Add(filepath.Join(w.store.root.path,
		dir)) == nil {
		w.dirs[dir] = true
	}
}

// run is the watch's goroutine.
func (w *watch) run() {
	defer crash.Guard("in the watch of files")
	for {
		select {
		case event, ok := <-w.notify.Events:
			if !ok {
				return
			}
			w.changed(event)
		case _, ok := <-w.notify.Errors: // some events were lost
			if !ok {
				return
			}
			w.store.changes.Add(1)
			w.store.sweep()
		}
	}
}

// changed drops the entries that an event concerns. If the event is about a directory or a symlink,
// too many entries may depend on it, so all of them expire.
func (w *watch) changed(event fsnotify.Event) {
	s := w.store
	s.changes.Add(1)
	name, err := filepath.Rel(s.root.path, event.Name)
	if err != nil || name == "." || w.forget(name) {
		s.sweep()
		return
	}
	if event.Has(fsnotify.Create) {
		if info, err := os.Lstat(event.Name); err == nil && !info.Mode().IsRegular() {
			s.sweep()
			return
		}
	}
	dir, base := path.Split(name)
	s.dropName(dir, base)
	for _, suffix := range suffixes {
		if of, ok := strings.CutSuffix(base, suffix); ok {
			s.dropName(dir, of)
		}
	}
	if s.o.Listing {
		s.drop(dir)
	}
}

// dropName drops the entries of a name in a directory, and the directory's own if the name is its
// index.
func (s *store) dropName(dir, base string) {
	s.drop(dir + base)
	s.drop(dir + base + "/")
	if base == s.o.Index {
		s.drop(dir)
	}
}

// forget stops watching a directory that was removed or renamed, and the directories in it. It
// reports whether it watched the directory.
func (w *watch) forget(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.dirs[name] {
		return false
	}
	for dir := range w.dirs {
		if dir == name || strings.HasPrefix(dir, name+"/") {
			delete(w.dirs, dir)
			w.notify.Remove(filepath.Join(w.store.root.path, dir))
		}
	}
	return true
}
