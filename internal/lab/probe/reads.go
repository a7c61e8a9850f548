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
	// maxOpenLooked bounds the descriptors to look at per sample. They are looked at if a process
	// has made at least manyReads since the last sample, of at most smallReads bytes on average, or has
	// read muchRead: whole files, perhaps.
	maxOpenLooked         = 256
	manyReads, smallReads = 50, 4096
	muchRead              = 1 << 20
	// maxFolders bounds the folders that are counted, and maxFiles the files.
	maxFolders, maxFiles = 8, 8
	// maxPath is the maximum length of a file name that is reported.
	maxPath = 256
)

var errReadsDenied = errors.New("what the target reads may not be seen: run as the same user, or " +
	"as root")

// reads reports the target's read and write calls, the folders and files that it was seen to open,
// the files that grow, and the processes whose standard output is not a file. It costs 10 µs per
// process. If processes make many small reads, or read a megabyte, it also costs 5 µs per descriptor
// looked at (BenchmarkReads), at most 256 of them. If they make ten writes, it costs 7 µs for each.
type reads struct {
	of       *processes
	before   map[int]ioCalls // per process, at the last look
	gone     ioCalls         // of processes that have ended
	open     map[string]bool // files at the last look; nil before the first
	appended appended
	// folders and files count how often each was seen to be opened.
	folders, files map[string]float64
	text           [512]byte
}

// ioCalls are a process's read and write calls, and their bytes.
type ioCalls struct{ reads, readBytes, writes, writtenBytes float64 }

// and adds up calls.
func (c ioCalls) and(d ioCalls) ioCalls {
	return ioCalls{c.reads + d.reads, c.readBytes + d.readBytes, c.writes + d.writes,
		c.writtenBytes + d.writtenBytes}
}

// since returns what came after an earlier look.
func (c ioCalls) since(d ioCalls) ioCalls {
	return ioCalls{c.reads - d.reads, c.readBytes - d.readBytes, c.writes - d.writes,
		c.writtenBytes - d.writtenBytes}
}

func (*reads) Name() string { return "the target's reads and writes" }

func (r *reads) Read(into map[string]float64) error {
	if r.of.lost != nil {
		return nil // reported by processes
	}
	now := make(map[int]ioCalls, len(r.of.members))
	all := r.gone
	for _, m := range r.of.members {
		text, err := readSmall(filepath.Join(r.of.root, strconv.Itoa(m.pid), "io"), r.text[:])
		if errors.Is(err, fs.ErrPermission) {
			return errReadsDenied
		}
		if err != nil {
			continue // it has ended
		}
		c := ioCalls{number(text, "\nsyscr:"), number(text, "rchar:"), number(text, "\nsyscw:"),
			number(text, "\nwchar:")}
		now[m.pid], all = c, all.and(c)
	}
	for pid, c := range r.before {
		if _, lives := now[pid]; !lives {
			r.gone, all = r.gone.and(c), all.and(c)
		}
	}
	r.look(now)
	r.appended.look(r.of.root, now, r.before)
	r.before = now
	into[measure.TargetReads], into[measure.TargetReadBytes] = all.reads, all.readBytes
	into[measure.TargetWrites], into[measure.TargetWrittenBytes] = all.writes, all.writtenBytes
	for path, n := range r.appended.files {
		into[measure.TargetAppended+path] = n
		if r.appended.outputs[path] {
			into[measure.TargetOutputFile+path] = 1
		}
	}
	into[measure.TargetOutputPiped] = float64(r.appended.piped)
	for _, opened := range []map[string]float64{r.folders, r.files} {
		for path, n := range opened {
			into[measure.TargetOpened+path] = n
		}
	}
	return nil
}

// look counts the files that are open now and were not at the last look, by folder and by file, in
// processes with many small reads, or that read much.
func (r *reads) look(now map[int]ioCalls) {
	open := map[string]bool{}
	left, looked := maxOpenLooked, false
	for pid, c := range now {
		more := c.since(r.before[pid])
		small := more.reads >= manyReads && more.readBytes <= smallReads*more.reads
		if !small && more.readBytes < muchRead || left <= 0 {
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
		if countNamed(r.folders, filepath.Dir(file), maxFolders) {
			countNamed(r.files, file, maxFiles)
		}
	}
	r.open = open
}

// countNamed counts something by its name if that is one of the first most, and reports whether it is.
func countNamed(counts map[string]float64, name string, most int) bool {
	if counts[name] == 0 && len(counts) == most {
		return false
	}
	counts[name]++
	return true
}

// regular reports whether a descriptor's target is a named file, on a disk or similar.
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
