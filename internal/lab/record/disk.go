package record

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// disk is what the writer asks of a file system. Names are relative to the run directory. Tests put
// one in its place that is full.
type disk interface {
	// create makes a file that must not be there yet.
	create(name string) (file, error)
	mkdir(name string) error
	rename(from, to string) error
	removeAll(name string) error
	// sync makes the names in a directory last; the file's own bytes are the file's Sync.
	sync(dir string) error
	Close() error
}

// file is a file that is being written.
type file interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
}

// folder is the run directory on the real disk; nothing outside of it can be reached through it.
type folder struct{ *os.Root }

func (f folder) create(name string) (file, error) {
	return f.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
}

func (f folder) mkdir(name string) error      { return f.Mkdir(name, 0o755) }
func (f folder) rename(from, to string) error { return f.Rename(from, to) }
func (f folder) removeAll(name string) error  { return f.RemoveAll(name) }

func (f folder) sync(dir string) error {
	d, err := f.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// claim makes the directory, with its parents, and refuses one that holds something.
func claim(dir string) (disk, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("the run directory %s cannot be made: %w", dir, cause(err))
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("the run directory %s cannot be used: %w", dir, cause(err))
	}
	names, err := d.Readdirnames(1)
	d.Close()
	if len(names) > 0 {
		return nil, fmt.Errorf("%s is not empty (it holds %s): "+
			"a run needs a new or an empty directory", dir, names[0])
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the run directory %s cannot be used: %w", dir, cause(err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("the run directory %s cannot be used: %w", dir, cause(err))
	}
	return folder{root}, nil
}

// cause is an error without the operation and the path that the os package puts before it: the
// sentence around it names the file.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		return link.Err
	}
	return err
}

// stepDir is the folder of a step.
func stepDir(number int) string { return filepath.Join("steps", fmt.Sprintf("%04d", number)) }
