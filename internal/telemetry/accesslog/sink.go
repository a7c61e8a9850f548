package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"syscall"
	"time"
)

// sink is the file, and what becomes of it when it grows, moves or fails. Only the writer uses it.
//
// Rotation is our own and not timberjack's: that has no way to reopen a file which was moved away
// without renaming the new one too, refuses a write larger than the limit, and counts sizes in
// megabytes; what is needed is the few lines below.
type sink struct {
	path     string
	maxSize  int64
	keep     int
	counters *Counters
	logger   *slog.Logger

	out      io.Writer
	file     *os.File  // out, when it is ours to close and reopen; nil for standard output
	regular  bool      // it can be rotated
	size     int64     // bytes in the file
	torn     bool      // the last write broke off within a line
	failed   uint64    // lines lost since the last message
	failing  bool      // the last message was that lines are lost
	said     time.Time // when that was logged last
	rotateAt time.Time // not to be rotated before, after a failure
}

// sayEvery is how often a failure that goes on is logged, and how long a failed rotation is not
// tried again.
const sayEvery = 10 * time.Second

func openSink(o Options, counters *Counters) (*sink, error) {
	s := &sink{path: o.Path, maxSize: o.MaxSize, keep: o.Keep, counters: counters, logger: o.Logger}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if o.Path == Stdout {
		s.out = o.stdout()
		return s, nil
	}
	return s, s.open()
}

// open opens the file at path and closes the one before. On failure everything stays as it was.
func (s *sink) open() error {
	// O_NONBLOCK makes a named pipe without a reader an error at once; it means nothing to files.
	file, err := os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o640)
	if errors.Is(err, syscall.ENXIO) {
		return fmt.Errorf("access log: nobody reads the pipe %s: start its reader first", s.path)
	}
	if err != nil {
		return fmt.Errorf("access log: %w: check that the directory exists and is writable", err)
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("access log: %w", err), file.Close())
	}
	if s.file != nil {
		if err := s.file.Close(); err != nil {
			s.logger.Warn("access log: the old file did not close cleanly", "error", err)
		}
	}
	s.file, s.out = file, file
	s.regular, s.size, s.torn = info.Mode().IsRegular(), info.Size(), false
	return nil
}

func (s *sink) reopen() {
	if s.file == nil {
		return
	}
	if err := s.open(); err != nil {
		s.logger.Error("access log: it could not be reopened and goes on in the old file", "path",
			s.path, "error", err)
	}
}

func (s *sink) close() error {
	if s.file == nil {
		return nil
	}
	if err := s.file.Close(); err != nil {
		return fmt.Errorf("access log: closing it: %w", err)
	}
	return nil
}

// write writes whole lines and counts what became of them, rotating the file where they do not all
// fit.
func (s *sink) write(lines []byte) {
	for len(lines) > 0 {
		n := s.fitting(lines)
		if n == 0 {
			s.rotate()
			n = s.fitting(lines)
		}
		if n == 0 {
			n = len(lines) // the rotation failed: a file that is too long is better than no lines
		}
		s.put(lines[:n])
		lines = lines[n:]
	}
}

// fitting is how many of the bytes, in whole lines, the file still has room for. An empty file
// takes one line whatever its length.
func (s *sink) fitting(lines []byte) int {
	room := s.maxSize - s.size
	if s.maxSize == 0 || !s.regular || room >= int64(len(lines)) {
		return len(lines)
	}
	n := bytes.LastIndexByte(lines[:max(room, 0)], '\n') + 1
	if n == 0 && s.size == 0 {
		n = bytes.IndexByte(lines, '\n') + 1
	}
	return n
}

// put writes lines at once and counts them. A line that broke off is ended before the next one, so
// that only it is garbled.
func (s *sink) put(lines []byte) {
	if s.torn {
		n, err := s.out.Write([]byte{'\n'})
		s.size += int64(n)
		s.torn = err != nil
	}
	n, err := s.out.Write(lines)
	s.size += int64(n)
	written := uint64(bytes.Count(lines[:n], []byte{'\n'}))
	s.counters.Written.Add(written)
	if err == nil {
		s.recovered()
		return
	}
	s.torn = s.torn || n > 0 && lines[n-1] != '\n'
	lost := uint64(bytes.Count(lines, []byte{'\n'})) - written
	s.counters.Lost.Add(lost)
	s.failed += lost
	if now := time.Now(); now.Sub(s.said) >= sayEvery {
		s.said, s.failing = now, true
		s.logger.Error("access log: lines are lost, the file does not take them", "path", s.path,
			"lost", s.failed, "error", err)
	}
}

// recovered says that lines go through again, when it was said that they do not.
func (s *sink) recovered() {
	if s.failing {
		s.logger.Info("access log: lines are written again", "path", s.path, "lost", s.failed)
		s.failing, s.failed = false, 0
	}
}

// rotate moves path to path.1, path.1 to path.2 and so on, removes what is older than keep, and
// opens path again. When another process has moved the file already (an upgrade has two of them for
// a while) it only opens it.
func (s *sink) rotate() {
	now := time.Now()
	if now.Before(s.rotateAt) {
		return
	}
	err := s.shift()
	if err == nil {
		err = s.open()
	}
	if err != nil {
		s.rotateAt = now.Add(sayEvery)
		s.logger.Error("access log: it could not be rotated and grows on", "path", s.path, "error",
			err)
	}
}

func (s *sink) shift() error {
	ours, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("access log: %w", err)
	}
	there, err := os.Stat(s.path)
	if err != nil || !os.SameFile(ours, there) {
		return nil
	}
	if s.keep == 0 {
		return os.Remove(s.path)
	}
	for i := s.keep; os.Remove(s.old(i)) == nil; i++ {
	}
	for i := s.keep - 1; i >= 0; i-- {
		if err := os.Rename(s.old(i), s.old(i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("access log: rotating it: %w", err)
		}
	}
	return nil
}

// old is the name of the i-th rotated file; 0 is path itself.
func (s *sink) old(i int) string {
	if i == 0 {
		return s.path
	}
	return s.path + "." + strconv.Itoa(i)
}
