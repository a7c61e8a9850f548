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

// appended counts by how much files have grown to which processes write often, and little at a time: a
// log to which lines go one by one. How far each descriptor has come tells it. To ask for the size of
// a file could take forever, where another machine has it.
type appended struct {
	last  map[string]writing // by path, at the last look
	files map[string]float64 // bytes by which each of at most maxFiles has grown
	text  [512]byte
}

// writing is how far a file has been written, in bytes. inode is 0 where the kernel does not tell it
// (before Linux 5.14).
type writing struct{ inode, at float64 }

// look compares how far files were written with the last look. A file that was not open then, or is
// another one, or was begun anew, counts from now on. Of several descriptors of a file the furthest
// counts, and of different files of the same path those of the first process.
func (a *appended) look(root string, now, before map[int]ioCalls) {
	open := map[string]writing{}
	left := maxOpenLooked
	for _, pid := range slices.Sorted(maps.Keys(now)) {
		more := now[pid].since(before[pid])
		if more.writes < manyWrites || more.writtenBytes > smallWrites*more.writes || left <= 0 {
			continue
		}
		process := filepath.Join(root, strconv.Itoa(pid))
		names, err := list(filepath.Join(process, "fd"), left)
		if err != nil {
			continue
		}
		left -= len(names)
		for _, name := range names {
			file, err := os.Readlink(filepath.Join(process, "fd", name))
			if err != nil || !regular(file) {
				continue
			}
			info, err := readSmall(filepath.Join(process, "fdinfo", name), a.text[:])
			w, writes := parseWriting(info)
			file = strings.ToValidUTF8(file, "?")
			if other, known := open[file]; err == nil && writes &&
				(!known || other.inode == w.inode && other.at < w.at) {
				open[file] = w
			}
		}
	}
	grown := map[string]float64{}
	for file, w := range open {
		if last, known := a.last[file]; known && last.inode == w.inode && w.at > last.at {
			grown[file] = w.at - last.at
		}
	}
	a.last = open
	a.add(grown)
}

// parseWriting parses the kernel's fdinfo of a descriptor; writes is false if it is only read from, or
// if that is not told.
func parseWriting(info []byte) (w writing, writes bool) {
	// Flags are octal. Their last digit, which has the mode, is the same in a decimal number.
	mode := int(number(info, "\nflags:")) % 10 & 3
	return writing{number(info, "\nino:"), number(info, "pos:")}, mode != 0
}

// add counts how much files have grown. The first maxFiles count, and of those that begin to grow at
// the same time those that grow most.
func (a *appended) add(grown map[string]float64) {
	if a.files == nil {
		a.files = make(map[string]float64)
	}
	for _, file := range slices.SortedFunc(maps.Keys(grown), func(x, y string) int {
		return cmp.Or(cmp.Compare(grown[y], grown[x]), strings.Compare(x, y))
	}) {
		if _, known := a.files[file]; known || len(a.files) < maxFiles {
			a.files[file] += grown[file]
		}
	}
}
