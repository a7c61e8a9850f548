package config

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"plimsoll/internal/crash"
)

const (
	// quiet is how long nothing more must happen before a change is believed to be whole: an editor
	// writes in several steps.
	quiet = 100 * time.Millisecond
	// longest is how long a change may be put off by those that follow it.
	longest = time.Second
)

// Watch calls onChange each time the content of the file at path has become another, until ctx is
// done. It returns when the watch stands, with an error when that cannot be; changes before are not
// seen. OnChange runs on a goroutine of its own, one call at a time; it may block, and changes
// meanwhile lead to one more call.
//
// The directory is watched, not the file: editors replace files, and Kubernetes swaps a symlink
// beside them. When the directory itself is removed the watch is over, silently.
func Watch(ctx context.Context, path string, onChange func()) error {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w; the limit is fs.inotify.max_user_instances", path, err)
	}
	w := &watcher{path: filepath.Clean(path), notify: notify}
	if err := w.follow(); err != nil {
		notify.Close()
		return fmt.Errorf("watch %s: %w; its directory must exist and be readable", path, err)
	}
	w.changed()
	go w.run(ctx, onChange)
	return nil
}

// watcher watches one file. Only the goroutine of run touches it once that has begun.
type watcher struct {
	path   string
	target string // what path leads to through symlinks
	notify *fsnotify.Watcher
	sum    [sha256.Size]byte
}

func (w *watcher) run(ctx context.Context, onChange func()) {
	defer crash.Guard("in the watch of the configuration's file")
	defer w.notify.Close()
	var pending debounce
	timer := time.NewTimer(0)
	timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-w.notify.Events:
			if !open {
				return
			}
			if !w.concerns(event) {
				continue
			}
		case _, open := <-w.notify.Errors:
			// The kernel's queue ran over: what was lost may have been ours.
			if !open {
				return
			}
		case <-timer.C:
			pending = debounce{}
			if w.changed() && ctx.Err() == nil {
				onChange()
			}
			continue
		}
		now := time.Now()
		pending.note(now)
		timer.Reset(pending.due().Sub(now))
	}
}

// concerns reports whether an event may change what path leads to. Writes to other files are left
// out, so that an access log in the same directory costs nothing; what comes and goes may be a
// symlink on the way.
func (w *watcher) concerns(event fsnotify.Event) bool {
	if event.Has(fsnotify.Create) || event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename) {
		return true
	}
	name := filepath.Clean(event.Name)
	return event.Has(fsnotify.Write) && (name == w.path || name == w.target)
}

// changed reports whether the content is another than when it was last asked. A file that cannot be
// read, as between the two steps of a replacement, has not changed.
func (w *watcher) changed() bool {
	if err := w.follow(); err != nil {
		return false
	}
	content, err := readBounded(w.path, maxFile)
	if err != nil {
		return false
	}
	sum := sha256.Sum256(content)
	same := sum == w.sum
	w.sum = sum
	return !same
}

// follow watches the directory of path, and that of the file it leads to.
func (w *watcher) follow() error {
	if err := w.notify.Add(filepath.Dir(w.path)); err != nil {
		return err
	}
	target, err := filepath.EvalSymlinks(w.path)
	if err != nil || target == w.target {
		return nil // a file that is not there yet may come
	}
	directory := filepath.Dir(target)
	if w.target != "" && filepath.Dir(w.target) != filepath.Dir(w.path) &&
		filepath.Dir(w.target) != directory {
		// It fails when the old directory is gone, and its watch with it.
		_ = w.notify.Remove(filepath.Dir(w.target))
	}
	w.target = target
	return w.notify.Add(directory)
}

// debounce makes one of the events that follow each other closely.
type debounce struct{ first, last time.Time }

func (d *debounce) note(now time.Time) {
	if d.first.IsZero() {
		d.first = now
	}
	d.last = now
}

// due is when the events noted so far are to be acted on.
func (d *debounce) due() time.Time {
	soon, late := d.last.Add(quiet), d.first.Add(longest)
	if late.Before(soon) {
		return late
	}
	return soon
}
