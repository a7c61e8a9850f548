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

// maxWatched is how many directories of a root are watched. What is in others is seen to change when
// it is looked at again.
const maxWatched = 1024

// watch has the kernel tell of changes beneath a root, so that they are seen before what is known is
// looked at again. It is a help and nothing else: an event that is lost delays what it would have
// told.
type watch struct {
	store  *store
	notify *fsnotify.Watcher

	mu    sync.Mutex
	dirs  map[string]bool // beneath the root, "" for itself
	turns int             // of the root when they were added
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

// follow watches the directory that a path is in.
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

// run is the goroutine.
func (w *watch) run() {
	defer crash.Guard("in the watch of files")
	for {
		select {
		case event, ok := <-w.notify.Events:
			if !ok {
				return
			}
			w.changed(event)
		case _, ok := <-w.notify.Errors: // some were lost
			if !ok {
				return
			}
			w.store.changes.Add(1)
			w.store.sweep()
		}
	}
}

// changed forgets what an event is about. What a directory or a symlink stands for is too much to
// name: everything is looked at again.
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

// dropName forgets what is known of a name in a directory, and of the directory where it answers for
// that.
func (s *store) dropName(dir, base string) {
	s.drop(dir + base)
	s.drop(dir + base + "/")
	if base == s.o.Index {
		s.drop(dir)
	}
}

// forget takes a directory off the watch that is gone, or was renamed, with those in it. It says
// whether it was one.
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
