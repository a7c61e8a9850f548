package diagnose

import (
	"strings"

	"plimsoll/internal/lab/measure"
)

// leastLocked is the minimum share of the looks, from near the line on, in which a file must be
// locked for the crowd to wait for that lock.
const leastLocked = .3

// fileLock is a file that the service locks for writing again and again.
type fileLock struct {
	path   string
	sqlite bool
	share  float64 // share of the looks in which it was locked, 0 to 1
}

// waitedLock returns the file lock that a crowd waits for. The crowd either waits for a lock on a
// file, or sleeps between tries for it. waitedLock returns nil if no file is locked much.
func (e *Evidence) waitedLock(c *crowd) *fileLock {
	if kind := c.means().kind; kind != kindOf(measure.TargetWaitingSleep) &&
		kind != kindOf(measure.TargetWaitingFileLock) {
		return nil
	}
	var most *fileLock
	for _, name := range e.sampledOf(measure.TargetLocked) {
		seen := e.fromTheLineOn(measure.TargetLocked + name)
		if share := seen.mean(); share >= leastLocked && (most == nil || share > most.share) {
			path, sqlite := strings.CutPrefix(name, measure.LockOfSQLite)
			most = &fileLock{path, sqlite, share}
		}
	}
	return most
}

// words says which lock it is, after what the crowd does.
func (l *fileLock) words() string {
	of := ""
	if l.sqlite {
		of = "SQLite's "
	}
	return "; " + of + "lock on " + l.path + " was taken in " + percent(l.share) + " of the looks"
}

func (l *fileLock) facts() []Fact {
	return []Fact{{
		What:  "share of the looks, from near the line on, in which the service had locked " + l.path,
		Value: percent(l.share),
	}}
}

// advice is what to do about a lock of SQLite. There is none for other locks.
func (l *fileLock) advice() []Action {
	if !l.sqlite {
		return nil
	}
	return []Action{{
		Text: "SQLite has one writer at a time, and who finds the lock taken sleeps and tries again: " +
			"begin transactions that only read with BEGIN, keep those that write short and few, and " +
			"let readers go on meanwhile with a write-ahead log",
		Command: "PRAGMA journal_mode=WAL;   # BEGIN IMMEDIATE only for what writes",
	}}
}
