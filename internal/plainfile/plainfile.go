// Package plainfile reads files that a configuration, a directory of results or another program
// names. Such a path may lead to anything, and to something else than a moment ago: a pipe would
// keep its reader waiting for as long as nobody writes, and a device or a file that grows would
// fill the memory. So only regular files are read, and no more of them than the caller takes.
//
// It is not for files that a person names on the command line: these may well be pipes.
package plainfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Flags open a file for Check: without O_NONBLOCK a named pipe would be waited for.
const Flags = os.O_RDONLY | syscall.O_NONBLOCK

// The errors of files that are there and are not read. They come in a fs.PathError, as those of the
// os package do.
var (
	ErrKind = errors.New("it is not a regular file")
	ErrSize = errors.New("it is larger than may be")
)

// Open opens a regular file.
func Open(name string) (*os.File, error) { return Check(os.OpenFile(name, Flags, 0)) }

// Check passes on what opening with Flags has given, when that is a regular file. It is for files
// that are opened by another way than their path.
func Check(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: ErrKind}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Read is the content of a regular file of at most so many bytes.
func Read(name string, most int64) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, most)
}

// ReadAll is what is left of a file that was opened, at most so many bytes. One that grows while it is
// read stays within that.
func ReadAll(f *os.File, most int64) ([]byte, error) {
	var content bytes.Buffer
	if info, err := f.Stat(); err == nil {
		content.Grow(int(min(info.Size(), most)) + bytes.MinRead) // the last read finds the end
	}
	_, err := content.ReadFrom(io.LimitReader(f, most+1))
	if err == nil && int64(content.Len()) > most {
		err = &fs.PathError{Op: "read", Path: f.Name(), Err: ErrSize}
	}
	if err != nil {
		return nil, err
	}
	return content.Bytes(), nil
}
