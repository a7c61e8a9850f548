// Package disk stores directories of results reliably. A document is replaced completely or not at
// all, a truncated line can be recognized, data is on the disk when a call returns, and nothing
// outside a directory is written through it. It must not know what the files contain.
package disk

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
	"slices"
)

// Disk is what a writer needs of a file system, for one directory. Names are relative to it. Tests
// replace it with a disk that is full.
type Disk interface {
	// Name returns the directory.
	Name() string
	// Create makes a file to append to. The file must not exist.
	Create(name string) (File, error)
	Mkdir(name string) error
	Rename(from, to string) error
	RemoveAll(name string) error
	// Sync makes the names in a directory durable; File.Sync does so for a file's bytes.
	Sync(dir string) error
	Close() error
}

// File is a file being written.
type File interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
}

// folder is a directory on the real disk. Nothing outside it can be reached through it.
type folder struct{ *os.Root }

func (f folder) Create(name string) (File, error) {
	return f.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
}

func (f folder) Mkdir(name string) error { return f.Root.Mkdir(name, 0o755) }

func (f folder) Sync(dir string) error {
	d, err := f.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Claim makes a directory and its parents, and rejects one that is not empty. what is the
// directory's name in errors, and todo says what to do if it is not empty.
func Claim(dir, what, todo string) (Disk, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("the %s %s cannot be made: %w", what, dir, Cause(err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("the %s %s cannot be used: %w", what, dir, Cause(err))
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	switch {
	case err != nil:
		err = fmt.Errorf("the %s %s cannot be used: %w", what, dir, Cause(err))
	case len(entries) > 0:
		err = fmt.Errorf("%s is not empty (it holds %s): %s", dir, entries[0].Name(), todo)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return folder{root}, nil
}

// Failed returns the error for a file that could not be written.
func Failed(d Disk, name string, err error) error {
	return fmt.Errorf("%s cannot be written: %w", filepath.Join(d.Name(), name), Cause(err))
}

// Write writes a whole file.
func Write(d Disk, name string, write func(out io.Writer) error) error {
	f, err := d.Create(name)
	if err != nil {
		return Failed(d, name, err)
	}
	out := bufio.NewWriterSize(f, 64<<10)
	err = write(out)
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return Failed(d, name, err)
	}
	return nil
}

// Replace writes a JSON document of at most limit bytes to a temporary file and then renames it to
// name.
func Replace(d Disk, name string, document any, limit int) error {
	text, err := Encode(document)
	if err != nil {
		return Failed(d, name, err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		return Failed(d, name, err)
	}
	indented.WriteByte('\n')
	if indented.Len() > limit {
		return fmt.Errorf("%s would have %d bytes, and a reader takes %d",
			filepath.Join(d.Name(), name), indented.Len(), limit)
	}
	beside := name + ".tmp"
	d.RemoveAll(beside)
	if err := Write(d, beside, func(out io.Writer) error {
		_, err := indented.WriteTo(out)
		return err
	}); err != nil {
		d.RemoveAll(beside)
		return err
	}
	if err := d.Rename(beside, name); err != nil {
		return Failed(d, name, err)
	}
	if err := d.Sync("."); err != nil {
		return Failed(d, name, err)
	}
	return nil
}

// Encode is json.Marshal without the escapes for HTML, which make six bytes of each <, > and &. For
// a number that is not finite, its error names the field.
func Encode(v any) ([]byte, error) {
	if where := notFinite(v); where != "" {
		return nil, fmt.Errorf("%s is not a finite number", where)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return slices.Clip(bytes.TrimSuffix(out.Bytes(), []byte("\n"))), nil
}

// Cause returns an error without the operation and path that the os package adds: the surrounding
// message names the file.
func Cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return link.Err
	}
	return err
}
