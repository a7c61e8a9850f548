package files

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// root is the directory below which files are opened. The kernel resolves and opens a name in one
// step: openat2 with RESOLVE_BENEATH (openat2(2)). So no "..", symlink or rename leads out,
// whatever its timing. Without openat2 (not Linux, before 5.6, or forbidden) there are two ways. If
// symlinks are not followed, the directories of a name are opened one after another. If they are,
// os.Root opens the name: it does the same with more system calls.
//
// The root's own path is checked now and then, because deployments swap a symlink there.
//
// Its methods may wait for the disk.
type root struct {
	path  string
	links bool // symlinks that stay below the root are followed
	walk  bool // there is no openat2

	mu     sync.Mutex
	dir    *os.File // closed by the garbage collector once nobody opens files below it
	looked time.Time
	beyond *os.Root // of dir, if needed

	swapped int // how often the path has begun to lead to another directory
}

// openRoot opens a directory.
func openRoot(path string, links bool) (*root, error) {
	r := &root{path: path, links: links, walk: !hasOpenat2()}
	if err := r.reopen(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *root) reopen() error {
	dir, err := os.Open(r.path)
	if err == nil {
		var info os.FileInfo
		if info, err = dir.Stat(); err == nil && !info.IsDir() {
			err = syscall.ENOTDIR
		}
	}
	if err != nil {
		return fmt.Errorf("the root cannot be opened: %w", err)
	}
	if r.walk && r.links {
		if r.beyond, err = os.OpenRoot(r.path); err != nil {
			return fmt.Errorf("the root cannot be opened: %w", err)
		}
	}
	r.dir, r.looked = dir, time.Now()
	return nil
}

// rootTime is how long the open root is used before its path is checked again.
const rootTime = time.Second

// current is the directory at the root's path. If the path leads nowhere, the old one stays.
func (r *root) current() (dir *os.File, beyond *os.Root) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.looked) > rootTime {
		r.looked = time.Now()
		is, err := os.Stat(r.path)
		was, err2 := r.dir.Stat()
		if err == nil && err2 == nil && !os.SameFile(is, was) && r.reopen() == nil {
			r.swapped++
		}
	}
	return r.dir, r.beyond
}

// turns counts how often the root's path has begun to lead to another directory.
func (r *root) turns() int {
	r.current()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.swapped
}

// look returns what a name refers to. It does not open it if the kernel can avoid that: opening a
// pipe or a device has effects.
func (r *root) look(name string) (unix.Stat_t, error) {
	fd, err := r.open(name, pathOnly)
	if err != nil {
		return unix.Stat_t{}, err
	}
	defer unix.Close(fd)
	return statOf(fd)
}

// statOf is fstat.
func statOf(fd int) (st unix.Stat_t, err error) {
	err = unix.Fstat(fd, &st)
	return st, err
}

// open opens a name for reading. It waits for no peer: a pipe is opened at once.
func (r *root) open(name string, flags int) (int, error) {
	dir, beyond := r.current()
	defer runtime.KeepAlive(dir)
	return r.openIn(dir, beyond, name, flags|unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC)
}

func (r *root) openIn(dir *os.File, beyond *os.Root, name string, flags int) (int, error) {
	name = strings.TrimSuffix(name, "/")
	if name == "" {
		name = "."
	}
	switch {
	case !r.walk:
		return openBeneath(int(dir.Fd()), name, flags, r.links)
	case r.links:
		return openFollowing(beyond, name, flags&^pathOnly)
	}
	return openStepwise(int(dir.Fd()), name, flags)
}

// openFollowing opens a name with os.Root.
func openFollowing(in *os.Root, name string, flags int) (int, error) {
	f, err := in.OpenFile(name, flags, 0)
	if err != nil {
		var number syscall.Errno
		if !errors.As(err, &number) { // os.Root has its own error for a path that leads out
			number = syscall.EXDEV
		}
		return -1, number
	}
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	if failed := raw.Control(func(own uintptr) {
		fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC,
			0)
	}); failed != nil {
		return -1, failed
	}
	return fd, err
}

// openStepwise opens one directory after another, and follows no symlink.
func openStepwise(dir int, name string, flags int) (fd int, err error) {
	at := dir
	for {
		segment, rest, more := strings.Cut(name, "/")
		if segment == ".." {
			if at != dir {
				unix.Close(at)
			}
			return -1, syscall.EXDEV
		}
		how := flags
		if more {
			how = unix.O_DIRECTORY | unix.O_RDONLY | unix.O_CLOEXEC
		}
		fd, err = unix.Openat(at, segment, how|unix.O_NOFOLLOW, 0)
		if at != dir {
			unix.Close(at)
		}
		if err != nil || !more {
			return fd, err
		}
		at, name = fd, rest
	}
}

// The meanings of an open error.

// isAbsent reports whether a name refers to nothing that is served: nothing exists, or the name
// leads out of the root or through a symlink that is not followed.
func isAbsent(err error) bool {
	for _, number := range []syscall.Errno{syscall.ENOENT, syscall.ENOTDIR, syscall.ENAMETOOLONG,
		syscall.ELOOP, syscall.EXDEV,
		syscall.EINVAL, syscall.EISDIR, syscall.ENXIO, syscall.EMLINK} {
		if errors.Is(err, number) {
			return true
		}
	}
	return false
}

func isDenied(err error) bool { return errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) }

func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}
