package probe

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Descriptors are looked at if a process has made at least manyWrites since the last sample, of at
// most smallWrites bytes on average.
const manyWrites, smallWrites = 50, 1024

// appended counts by how much files have grown which processes have open that write often, and little
// at a time: a log to which lines go one by one. Who else writes to them counts too.
type appended struct {
	sizes map[string]int64   // of the files at the last look, by path
	files map[string]float64 // bytes by which each of at most maxFiles has grown
}

// look compares the sizes of open files with those at the last look. A file that was not open then, or
// has become shorter, counts from now on.
func (a *appended) look(root string, now, before map[int]ioCalls) {
	sizes := map[string]int64{}
	left := maxOpenLooked
	for pid, c := range now {
		more := c.since(before[pid])
		if more.writes < manyWrites || more.writtenBytes > smallWrites*more.writes || left <= 0 {
			continue
		}
		folder := filepath.Join(root, strconv.Itoa(pid), "fd")
		names, err := list(folder, left)
		if err != nil {
			continue
		}
		left -= len(names)
		for _, name := range names {
			at := filepath.Join(folder, name)
			file, err := os.Readlink(at)
			if err != nil || !regular(file) {
				continue
			}
			if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() {
				sizes[strings.ToValidUTF8(file, "?")] = info.Size()
			}
		}
	}
	for file, size := range sizes {
		last, known := a.sizes[file]
		if more := size - last; known && more > 0 {
			a.add(file, more)
		}
	}
	a.sizes = sizes
}

// add counts a file's growth if it is one of the first maxFiles that have grown.
func (a *appended) add(file string, more int64) {
	if a.files == nil {
		a.files = make(map[string]float64)
	}
	if _, known := a.files[file]; known || len(a.files) < maxFiles {
		a.files[file] += float64(more)
	}
}
