package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// source reads the files of a run directory within bounds: it stays inside the directory, waits for
// no pipe, and knows how much it has read.
type source struct {
	dir   string
	root  *os.Root
	bytes int64 // that may still be read
	cells int   // buckets that may still be held
}

// open opens a regular file.
func (s *source) open(name string) (*os.File, error) {
	// Without O_NONBLOCK opening a named pipe would wait for its writer.
	f, err := s.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// damaged is the refusal of a file, with the line where it has one.
func (s *source) damaged(name string, line int, err error) error {
	at := ""
	if line > 0 {
		at = fmt.Sprintf("line %d: ", line)
	}
	return fmt.Errorf("%s is damaged: %s%w; take the directory from a copy, or measure again",
		filepath.Join(s.dir, name), at, cause(err))
}

// document reads a file of one JSON value. A file that is not there gives fs.ErrNotExist as it is.
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
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return s.unreadable(name, err)
	}
	if int64(len(text)) > limit {
		return s.damaged(name, 0, fmt.Errorf("it is larger than %d bytes", limit))
	}
	s.bytes -= int64(len(text))
	if err := json.Unmarshal(text, into); err != nil {
		return s.damaged(name, lineOf(text, err), err)
	}
	return nil
}

func (s *source) unreadable(name string, err error) error {
	return fmt.Errorf("%s cannot be read: %w", filepath.Join(s.dir, name), cause(err))
}

// lineOf is the line of a JSON text that an error is about; 0 when it does not say.
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

// lines gives each line of a file to take, with its number from 1; what it is given is valid during
// the call. cut says that the last line has no newline: it was not whole, and was not given.
func (s *source) lines(
	name string, longest int, take func(number int, line []byte) error,
) (cut bool, err error) {
	f, err := s.open(name)
	if err != nil {
		return false, s.missing(name, err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, longest+1)
	in.Split(withNewline)
	number := 1
	for ; in.Scan(); number++ {
		line := in.Bytes()
		if s.bytes -= int64(len(line)); s.bytes < 0 {
			return false, fmt.Errorf("%s holds more than the %d MB that are read of a run",
				s.dir, maxRun>>20)
		}
		if line[len(line)-1] != '\n' {
			return true, nil
		}
		if err := take(number, line[:len(line)-1]); err != nil {
			return false, s.damaged(name, number, err)
		}
	}
	switch err := in.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return false, s.damaged(name, number, fmt.Errorf("it is longer than %d bytes", longest))
	case err != nil:
		return false, s.unreadable(name, err)
	}
	return false, nil
}

// withNewline splits lines and leaves them their newline, which tells a whole line from one that
// was cut off.
func withNewline(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// missing tells a file that is not there from one that cannot be read.
func (s *source) missing(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return s.damaged(name, 0, errors.New("it is not there"))
	}
	return s.unreadable(name, err)
}
