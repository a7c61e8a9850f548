package config

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// watch starts a Watch and returns what is received from each time it calls.
func watch(t *testing.T, path string) <-chan struct{} {
	t.Helper()
	calls := make(chan struct{}, 100)
	if err := Watch(t.Context(), path, func() { calls <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	return calls
}

func TestAWriteIsSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.yaml")
	write(t, path, "a")
	calls := watch(t, path)
	for _, text := range []string{"b", "c"} {
		write(t, path, text)
		<-calls
	}
}

func TestAReplacementIsSeen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "plimsoll.yaml")
	write(t, path, "a")
	calls := watch(t, path)
	write(t, filepath.Join(dir, "new"), "b")
	if err := os.Rename(filepath.Join(dir, "new"), path); err != nil {
		t.Fatal(err)
	}
	<-calls
}

func TestAFileThatComesLaterIsSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.yaml")
	calls := watch(t, path)
	write(t, path, "a")
	<-calls
}

func TestASwappedConfigMapIsSeen(t *testing.T) {
	dir := t.TempDir()
	version := func(name, text string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "plimsoll.yaml"), text)
		if err := os.Symlink(name, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", "a")
	path := filepath.Join(dir, "plimsoll.yaml")
	if err := os.Symlink("..data/plimsoll.yaml", path); err != nil {
		t.Fatal(err)
	}
	calls := watch(t, path)
	for name, text := range map[string]string{"..2": "b", "..3": "c"} {
		version(name, text)
		<-calls
	}
}

func TestAWriteThroughASymlinkIsSeen(t *testing.T) {
	real := filepath.Join(t.TempDir(), "real.yaml")
	write(t, real, "a")
	path := filepath.Join(t.TempDir(), "plimsoll.yaml")
	if err := os.Symlink(real, path); err != nil {
		t.Fatal(err)
	}
	calls := watch(t, path)
	write(t, real, "b")
	<-calls
}

func TestAMissingDirectoryIsAnError(t *testing.T) {
	if err := Watch(t.Context(), filepath.Join(t.TempDir(), "no", "plimsoll.yaml"), func() {}); err == nil {
		t.Error("no error")
	}
}

func newWatcher(t *testing.T, path string) *watcher {
	t.Helper()
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { notify.Close() })
	return &watcher{path: path, notify: notify}
}

func TestTheWatchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWatcher(t, filepath.Join(t.TempDir(), "plimsoll.yaml"))
	ended := make(chan struct{})
	go func() {
		w.run(ctx, func() {})
		close(ended)
	}()
	cancel()
	<-ended
	if w.notify.Add(filepath.Dir(w.path)) == nil {
		t.Error("the watch is still open")
	}
}

func TestTheSameContentAgainIsNotAChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.yaml")
	write(t, path, "a")
	w := newWatcher(t, path)
	steps := []struct {
		text string
		want bool
	}{{"a", true}, {"a", false}, {"b", true}, {"b", false}, {"a", true}}
	for i, step := range steps {
		write(t, path, step.text)
		if got := w.changed(); got != step.want {
			t.Errorf("step %d: changed is %v", i, got)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if w.changed() {
		t.Error("a file that is gone has changed")
	}
}

func TestWritesToOtherFilesDoNotConcern(t *testing.T) {
	w := newWatcher(t, "/d/plimsoll.yaml")
	w.target = "/e/real.yaml"
	for _, c := range []struct {
		event fsnotify.Event
		want  bool
	}{
		{fsnotify.Event{Name: "/d/access.log", Op: fsnotify.Write}, false},
		{fsnotify.Event{Name: "/d/plimsoll.yaml", Op: fsnotify.Chmod}, false},
		{fsnotify.Event{Name: "/d/plimsoll.yaml", Op: fsnotify.Write}, true},
		{fsnotify.Event{Name: "/e/real.yaml", Op: fsnotify.Write}, true},
		{fsnotify.Event{Name: "/d/..data", Op: fsnotify.Create}, true},
	} {
		if got := w.concerns(c.event); got != c.want {
			t.Errorf("%v: %v", c.event, got)
		}
	}
}

func TestEventsThatFollowCloselyAreOneChange(t *testing.T) {
	start := time.Unix(1000, 0)
	var d debounce
	d.note(start)
	if got := d.due().Sub(start); got != quiet {
		t.Errorf("one event is due after %v", got)
	}
	d.note(start.Add(50 * time.Millisecond))
	if got := d.due().Sub(start); got != 150*time.Millisecond {
		t.Errorf("two events are due after %v", got)
	}
	d.note(start.Add(990 * time.Millisecond))
	if got := d.due().Sub(start); got != longest {
		t.Errorf("events without end are due after %v", got)
	}
}
