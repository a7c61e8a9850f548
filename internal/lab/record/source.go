package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"plimsoll/internal/lab/disk"
	"plimsoll/internal/plainfile"
)

// source reads the files of a run directory within bounds. It stays inside the directory, never
// waits for a pipe, and counts what it has read.
type source struct {
	dir   string
	root  *os.Root
	bytes int64 // remaining bytes to read
	cells int   // remaining buckets to hold
}

var errTooMuch = fmt.Errorf("holds more than the %d MiB that are read of a run", maxRun>>20)

// open opens a regular file.
func (s *source) open(name string) (*os.File, error) {
	return plainfile.Check(s.root.OpenFile(filepath.FromSlash(name), plainfile.Flags, 0))
}

// damaged is the error for a damaged file, with the line if line is not 0.
func (s *source) damaged(name string, line int, err error) error {
	at := ""
	if line > 0 {
		at = fmt.Sprintf("line %d: ", line)
	}
	return fmt.Errorf("%s is damaged: %s%w; take the directory from a copy, or measure again",
		filepath.Join(s.dir, name), at, disk.Cause(err))
}

// document reads a file with one JSON value. If the file does not exist, the error is a plain
// fs.ErrNotExist.
func (s *source) document(name string, into any) error {
	f, err := s.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		return s.unreadable(name, err)
	}
	defer f.Close()
	limit := min(maxDocument, s.bytes)
	text, err := plainfile.ReadAll(f, limit)
	if errors.Is(err, plainfile.ErrSize) {
		return s.damaged(name, 0, fmt.Errorf("it is larger than %d bytes", limit))
	}
	if err != nil {
		return s.unreadable(name, err)
	}
	s.bytes -= int64(len(text))
	if err := json.Unmarshal(text, into); err != nil {
		return s.damaged(name, lineOf(text, err), err)
	}
	return nil
}

func (s *source) unreadable(name string, err error) error {
	return fmt.Errorf("%s cannot be read: %w", filepath.Join(s.dir, name), disk.Cause(err))
}

// lineOf is the line of a JSON text that an error refers to; 0 if unknown.
func lineOf(text []byte, err error) int {
	var offset int64
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	default:
		return 0
	}
	return 1 + bytes.Count(text[:min(max(offset-1, 0), int64(len(text)))], []byte("\n"))
}

// lines calls disk.Lines for a file.
func (s *source) lines(
	name string, longest int, take func(number int, line []byte) error,
) (cut int, err error) {
	f, err := s.open(name)
	if err != nil {
		return 0, s.missing(name, err)
	}
	defer f.Close()
	cut, err = disk.Lines(f, longest, func(number int, line []byte) error {
		if s.bytes -= int64(len(line)) + 1; s.bytes < 0 {
			return errTooMuch
		}
		return take(number, line)
	})
	wrong, ok := errors.AsType[*disk.LineError](err)
	switch {
	case errors.Is(err, errTooMuch):
		return 0, fmt.Errorf("%s %w", s.dir, errTooMuch)
	case ok:
		return 0, s.damaged(name, wrong.Number, wrong.Err)
	case err != nil:
		return 0, s.unreadable(name, err)
	}
	return cut, nil
}

// missing distinguishes a file that does not exist from one that cannot be read.
func (s *source) missing(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return s.damaged(name, 0, errors.New("it is not there"))
	}
	return s.unreadable(name, err)
}
