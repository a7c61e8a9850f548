package probe

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"plimsoll/internal/lab/measure"
)

const (
	// maxOpenLooked bounds the descriptors that are looked at in a sample. They are where a process
	// has made manyReads since the last sample, or more, of under smallReads bytes on average.
	maxOpenLooked         = 256
	manyReads, smallReads = 50, 4096
	// maxFolders bounds the folders that are counted, and maxFiles the files.
	maxFolders, maxFiles = 8, 8
	// maxPath is the longest name of a file that is told.
	maxPath = 256
)

var errReadsDenied = errors.New("what the target reads may not be seen: run as the same user, or " +
	"as root")

// reads are the target's read calls, and the folders and files that it was seen to open. It costs
// 10 µs for each process, and where they make many small reads 5 µs for each descriptor that is
// looked at (BenchmarkReads), of 256 at most.
type reads struct {
	of     *processes
	before map[int]readCalls // of each process at the last look
	gone   readCalls         // of processes that have ended since
	open   map[string]bool   // files at the last look; nil before the first
	// folders and files are how often each was seen to be opened.
	folders, files map[string]float64
	text           [512]byte
}

// readCalls are the calls of a process, and the bytes that they read.
type readCalls struct{ calls, bytes float64 }

func (*reads) Name() string { return "the target's reads" }

func (r *reads) Read(into map[string]float64) error {
	if r.of.lost != nil {
		return nil // the processes say so
	}
	now := make(map[int]readCalls, len(r.of.members))
	all := readCalls{}
	for _, m := range r.of.members {
		text, err := readSmall(filepath.Join(r.of.root, strconv.Itoa(m.pid), "io"), r.text[:])
		if errors.Is(err, fs.ErrPermission) {
			return errReadsDenied
		}
		if err != nil {
			continue // it has ended
		}
		c := readCalls{number(text, "\nsyscr:"), number(text, "rchar:")}
		now[m.pid], all.calls, all.bytes = c, all.calls+c.calls, all.bytes+c.bytes
	}
	for pid, c := range r.before {
		if _, lives := now[pid]; !lives {
			r.gone.calls, r.gone.bytes = r.gone.calls+c.calls, r.gone.bytes+c.bytes
		}
	}
	r.look(now)
	r.before = now
	into[measure.TargetReads] = r.gone.calls + all.calls
	into[measure.TargetReadBytes] = r.gone.bytes + all.bytes
	for _, opened := range []map[string]float64{r.folders, r.files} {
		for path, n := range opened {
			into[measure.TargetOpened+path] = n
		}
	}
	return nil
}

// look counts the files that are open and were not at the last look, by folder and by file, in
// processes that read much in small pieces.
func (r *reads) look(now map[int]readCalls) {
	open := map[string]bool{}
	left, looked := maxOpenLooked, false
	for pid, c := range now {
		calls, bytes := c.calls-r.before[pid].calls, c.bytes-r.before[pid].bytes
		if calls < manyReads || bytes > smallReads*calls || left <= 0 {
			continue
		}
		folder := filepath.Join(r.of.root, strconv.Itoa(pid), "fd")
		names, err := list(folder, left)
		if err != nil {
			continue
		}
		looked = true
		left -= len(names)
		for _, name := range names {
			if file, err := os.Readlink(filepath.Join(folder, name)); err == nil && regular(file) {
				open[file] = true
			}
		}
	}
	if !looked {
		return
	}
	if r.folders == nil {
		r.folders, r.files = make(map[string]float64), make(map[string]float64)
	}
	for file := range open {
		if r.open == nil || r.open[file] {
			continue
		}
		file = strings.ToValidUTF8(file, "?")
		if countOpened(r.folders, filepath.Dir(file), maxFolders) {
			countOpened(r.files, file, maxFiles)
		}
	}
	r.open = open
}

// countOpened counts that a path was opened, if it is one of the first most, and says whether it is.
func countOpened(opened map[string]float64, path string, most int) bool {
	if opened[path] == 0 && len(opened) == most {
		return false
	}
	opened[path]++
	return true
}

// regular says whether what a descriptor is open for is a file by its name, on a disk or like one.
func regular(name string) bool {
	if !strings.HasPrefix(name, "/") || len(name) > maxPath || strings.HasSuffix(name, " (deleted)") {
		return false
	}
	for _, of := range []string{"/dev/", "/proc/", "/sys/", "/memfd:"} {
		if strings.HasPrefix(name, of) {
			return false
		}
	}
	return true
}
