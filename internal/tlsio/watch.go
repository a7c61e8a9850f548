package tlsio

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"plimsoll/internal/crash"
)

// settle is how long Watch waits after the first sign of a change: renewing a certificate writes
// two files, which do not match until both are written.
const settle = 100 * time.Millisecond

// signature is the state of the watched files at one time. Symbolic links are followed, so that
// swapping a link, which is how Kubernetes and certbot install new files, changes it.
type signature []fileState

type fileState struct {
	there    bool
	size     int64
	modified int64
	file     os.FileInfo // for os.SameFile
}

func look(pairs []Pair) signature {
	var s signature
	for _, p := range pairs {
		for _, name := range []string{p.Cert, p.Key} {
			var f fileState
			if info, err := os.Stat(name); err == nil {
				f = fileState{there: true, size: info.Size(), modified: info.ModTime().UnixNano(), file: info}
			}
			s = append(s, f)
		}
	}
	return s
}

func (s signature) equal(o signature) bool {
	return slices.EqualFunc(s, o, func(a, b fileState) bool {
		return a.there == b.there && a.size == b.size && a.modified == b.modified &&
			(!a.there || os.SameFile(a.file, b.file))
	})
}

// Watch reloads the certificates when their files change, until ctx ends. It runs on the caller's
// goroutine. It notices changes at once by watching the files' directories, and at the latest after
// the interval every, which must be positive: network file systems send no events, and there can be
// too few inotify watches. Watch calls done after each attempt, with nil or with the reason why the
// old certificates stay; it reports each broken state of the files once. It also calls done once if
// the directories cannot be watched, so that only the interval remains.
func (s *Store) Watch(ctx context.Context, every time.Duration, done func(error)) {
	defer crash.Guard("in the watch of the certificates' files")
	var events chan fsnotify.Event
	var troubles chan error
	watcher, err := s.watchDirectories()
	if err != nil {
		done(fmt.Errorf("certificate directories cannot be watched, files are checked every %v "+
			"instead: %w", every, err))
	} else {
		defer watcher.Close()
		events, troubles = watcher.Events, watcher.Errors
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var settled <-chan time.Time
	tried := s.snap.Load().seen
	for {
		var sign bool
		select {
		case <-ctx.Done():
			return
		case <-events:
			sign = true
		case <-troubles:
			// An overflow of the kernel's queue: there were changes, but it is not known which.
			sign = true
		case <-settled:
			settled = nil
		case <-tick.C:
		}
		if sign {
			// Events for other files in the directory, and further events of the same change, cost
			// at most one look.
			if settled == nil {
				settled = time.After(settle)
			}
			continue
		}
		if now := look(s.pairs); !now.equal(tried) {
			tried = now
			done(s.Reload())
		}
	}
}

func (s *Store) watchDirectories() (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	for _, p := range s.pairs {
		for _, name := range []string{p.Cert, p.Key} {
			if err := w.Add(filepath.Dir(name)); err != nil {
				w.Close()
				return nil, err
			}
		}
	}
	return w, nil
}
