package probe

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/measure"
)

const (
	// maxLocks bounds the size of the kernel's table of locks that is read, in bytes. On a machine
	// with a larger table, locks are not reported.
	maxLocks = 64 << 10
	// maxLocked bounds the files whose locks are reported.
	maxLocked = 8
	// maxLookedUp bounds the files whose names are looked up, found or not.
	maxLookedUp = 64
)

// SQLite locks bytes in these ranges of its files; no other program uses them. See the sections on
// locks of its file format (https://www.sqlite.org/lockingv3.html, walformat.html).
const (
	sqliteFirst, sqliteLast = 1 << 30, 1<<30 + 511 // of a database
	sharedFirst, sharedLast = 120, 127             // of the -shm file beside it
)

// locks reports the files on which a process of the target holds a write lock. A thread that polls
// for a lock that is taken, and sleeps between its attempts, is not in the lock's queue, so the
// thread states do not show it. It costs 9 µs while there are no locks (BenchmarkLocks).
type locks struct {
	of    *processes
	files map[lockedFile]string // their names; "" if not found
	told  map[string]bool       // names already in samples
	text  []byte
}

// lockedFile identifies a file as the kernel's table does: by its device's numbers and its inode.
type lockedFile string

// fileLock is a line of the table.
type fileLock struct {
	pid         int
	file        lockedFile
	first, last uint64 // the locked bytes; last is 0 if they go to the end of the file
}

// ofSQLite reports whether the lock on a file of this name is one of SQLite's.
func (l fileLock) ofSQLite(name string) bool {
	return l.first >= sqliteFirst && l.last >= l.first && l.last <= sqliteLast ||
		strings.HasSuffix(name, "-shm") && l.first >= sharedFirst && l.last <= sharedLast
}

func (*locks) Name() string { return "the target's file locks" }

func (l *locks) Read(into map[string]float64) error {
	if l.of.lost != nil {
		return nil // reported by processes
	}
	if l.text == nil {
		l.text = make([]byte, maxLocks)
		l.files, l.told = make(map[lockedFile]string), make(map[string]bool)
	}
	text, err := readWhole(filepath.Join(l.of.root, "locks"), l.text)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a kernel without file locks
	}
	if err != nil {
		return err // the table is longer than maxLocks: the run says what is missing
	}
	for name := range l.told {
		into[measure.TargetLocked+name] = 0
	}
	for line := range bytes.Lines(text) {
		lock, ok := parseLock(line)
		of := func(m member) bool { return m.pid == lock.pid }
		if !ok || !slices.ContainsFunc(l.of.members, of) {
			continue
		}
		if name := l.name(lock); name != "" {
			l.told[name] = true
			into[measure.TargetLocked+name] = 1
		}
	}
	return nil
}

// parseLock reads a line of /proc/locks (proc_locks(5)), such as "1: POSIX  ADVISORY  WRITE 3548
// 00:2d:123456 1073741825 1073741825". ok is false for a waiter, for a lock that lets others read,
// and for a lock whose owner is not a process.
func parseLock(line []byte) (lock fileLock, ok bool) {
	fields := strings.Fields(string(line))
	if len(fields) != 8 || fields[3] != "WRITE" {
		return lock, false
	}
	pid, err := strconv.Atoi(fields[4])
	if err != nil || pid <= 0 {
		return lock, false
	}
	first, _ := strconv.ParseUint(fields[6], 10, 64)
	last, _ := strconv.ParseUint(fields[7], 10, 64) // "EOF" is 0, outside SQLite's ranges
	return fileLock{pid, lockedFile(fields[5]), first, last}, true
}

// name returns a locked file's absolute path, prefixed with measure.LockOfSQLite if SQLite has
// locked it. It is "" if the file is not found, or if enough files are reported already.
func (l *locks) name(lock fileLock) string {
	name, known := l.files[lock.file]
	if !known && len(l.files) < maxLookedUp {
		name = strings.ToValidUTF8(l.find(lock), "?")
		l.files[lock.file] = name
	}
	if name == "" {
		return ""
	}
	if lock.ofSQLite(name) {
		name = measure.LockOfSQLite + strings.TrimSuffix(name, "-shm")
	}
	if !l.told[name] && len(l.told) == maxLocked {
		return ""
	}
	return name
}

// find searches the descriptors of a process for a file, by its inode: on btrfs and overlayfs, the
// table has another device number than stat.
func (l *locks) find(lock fileLock) string {
	inode := string(lock.file[strings.LastIndexByte(string(lock.file), ':')+1:])
	folder := filepath.Join(l.of.root, strconv.Itoa(lock.pid), "fd")
	names, err := list(folder, maxOpenLooked)
	if err != nil {
		return ""
	}
	for _, name := range names {
		descriptor := filepath.Join(folder, name)
		file, err := os.Readlink(descriptor)
		var of unix.Stat_t
		if err == nil && regular(file) && unix.Stat(descriptor, &of) == nil &&
			strconv.FormatUint(of.Ino, 10) == inode {
			return file
		}
	}
	return ""
}
