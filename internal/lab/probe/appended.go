package probe

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Descriptors are looked at if a process has made at least manyWrites since the last sample, of at
// most smallWrites bytes on average.
const manyWrites, smallWrites = 50, 1024

// appended counts by how much files have grown which processes have open that write often, and little
// at a time: a log to which lines go one by one. Who else writes to them counts too.
type appended struct {
	last  map[string]os.FileInfo // of the files at the last look, by path
	files map[string]float64     // bytes by which each of at most maxFiles has grown
}

// look compares the sizes of open files with those at the last look. A file that was not open then, or
// is another one, or has become shorter, counts from now on. Of processes that have different files of
// the same path, those of the first one count.
func (a *appended) look(root string, now, before map[int]ioCalls) {
	open := map[string]os.FileInfo{}
	left := maxOpenLooked
	for _, pid := range slices.Sorted(maps.Keys(now)) {
		more := now[pid].since(before[pid])
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
			file = strings.ToValidUTF8(file, "?")
			if err != nil || !regular(file) || open[file] != nil {
				continue
			}
			if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() {
				open[file] = info
			}
		}
	}
	grown := map[string]int64{}
	for file, info := range open {
		if last := a.last[file]; last != nil && os.SameFile(last, info) && info.Size() > last.Size() {
			grown[file] = info.Size() - last.Size()
		}
	}
	a.last = open
	a.add(grown)
}

// add counts how much files have grown. The first maxFiles count, and of those that begin to grow at
// the same time those that grow most.
func (a *appended) add(grown map[string]int64) {
	if a.files == nil {
		a.files = make(map[string]float64)
	}
	for _, file := range slices.SortedFunc(maps.Keys(grown), func(x, y string) int {
		return cmp.Or(cmp.Compare(grown[y], grown[x]), strings.Compare(x, y))
	}) {
		if _, known := a.files[file]; known || len(a.files) < maxFiles {
			a.files[file] += float64(grown[file])
		}
	}
}
