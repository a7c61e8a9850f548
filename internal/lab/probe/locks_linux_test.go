package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/measure"
)

// hold takes a lock on bytes of a file for this process, and gives what releases it.
func hold(t *testing.T, f *os.File, kind int16, first, length int64) (release func()) {
	t.Helper()
	lock := unix.Flock_t{Type: kind, Start: first, Len: length}
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock); err != nil {
		t.Fatal(err)
	}
	return func() {
		lock.Type = unix.F_UNLCK
		if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFilesThatTheTargetHasLockedAreTold(t *testing.T) {
	for _, c := range []struct {
		file          string
		kind          int16
		first, length int64
		prefix, told  string
	}{
		{file: "a", kind: unix.F_WRLCK, told: "a"},
		{file: "a", kind: unix.F_RDLCK},
		{file: "a.db", kind: unix.F_WRLCK, first: 1 << 30, length: 1, prefix: measure.LockOfSQLite, told: "a.db"},
		{file: "a.db", kind: unix.F_WRLCK, first: 1<<30 + 2, length: 510, prefix: measure.LockOfSQLite, told: "a.db"},
		{file: "a.db-shm", kind: unix.F_WRLCK, first: 120, length: 1, prefix: measure.LockOfSQLite, told: "a.db"},
		{file: "b", kind: unix.F_WRLCK, first: 120, length: 1, told: "b"},
	} {
		dir := t.TempDir()
		f, err := os.OpenFile(filepath.Join(dir, c.file), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		s := New(Options{PID: os.Getpid()})
		name := measure.TargetLocked + c.prefix + filepath.Join(dir, c.told)
		if _, told := s.Sample(0).Values[name]; told {
			t.Errorf("%+v: told before it is locked", c)
		}
		release := hold(t, f, c.kind, c.first, c.length)
		locked, told := s.Sample(1).Values[name]
		if told != (c.told != "") || told && locked != 1 {
			t.Errorf("%+v: %v %v while it is locked", c, locked, told)
		}
		release()
		if locked := s.Sample(2).Values[name]; locked != 0 {
			t.Errorf("%+v: %v when it is not locked any more", c, locked)
		}
		f.Close()
	}
}

func TestNoMoreLockedFilesAreToldThanTheBound(t *testing.T) {
	dir := t.TempDir()
	l := &locks{of: &processes{root: "/proc", members: []member{{pid: os.Getpid()}}}}
	for i := range maxLookedUp + 4 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		hold(t, f, unix.F_WRLCK, 0, 0)
	}
	into := map[string]float64{}
	if err := l.Read(into); err != nil {
		t.Fatal(err)
	}
	if len(into) != maxLocked || len(l.files) > maxLookedUp {
		t.Errorf("%d files are told and %d known, want %d and at most %d",
			len(into), len(l.files), maxLocked, maxLookedUp)
	}
}

func TestALineOfTheTableOfLocksMayBeAnything(t *testing.T) {
	for _, line := range []string{
		"", "1:", "1: -> POSIX  ADVISORY  WRITE 3548 00:2d:123456 0 EOF",
		"1: OFDLCK ADVISORY  WRITE -1 00:2d:123456 0 EOF", "1: POSIX  ADVISORY  WRITE x 00:2d:1 0 EOF",
		"1: LEASE  ACTIVE    READ 3548 00:2d:123456 0 EOF",
		"1: POSIX  ADVISORY  WRITE 99999999999999999999 00:2d:1 0 EOF",
	} {
		if lock, ok := parseLock([]byte(line)); ok {
			t.Errorf("%q is taken for a lock of %d", line, lock.pid)
		}
	}
}

func BenchmarkLocks(b *testing.B) {
	l := &locks{of: &processes{root: "/proc", members: []member{{pid: os.Getpid()}}}}
	into := map[string]float64{}
	processorTime(b, func() {
		if err := l.Read(into); err != nil {
			b.Fatal(err)
		}
	})
}
