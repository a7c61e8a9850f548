package probe

import (
	"cmp"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Descriptors are looked at if a process has made at least fewWrites since the last sample, of at
// most largeWrites bytes on average: lines that are gathered take one to three calls for each
// request, and an answer beside them may be large. Who has made at least manyWrites writes often.
const fewWrites, largeWrites, manyWrites = 10, 64 << 10, 50

// appended counts by how much files have grown to which processes write, a log for example, and
// which processes write where no file grows. How far each descriptor has come tells the size of a
// file. To ask for it could take forever, where another machine has the file.
type appended struct {
	last  map[string]writing // by path, at the last look
	files map[string]float64 // bytes by which each of at most maxFiles has grown
	// outputs are those of files that were the standard output, or that for errors, of a process.
	outputs map[string]bool
	piped   int // processes that write often and have another one than a file, at the last look
	local   localSockets
	text    [512]byte
}

// writing is how far a file has been written, in bytes. inode is 0 where the kernel does not tell
// it (before Linux 5.14). output says that it is the standard output of a process, or that for
// errors.
type writing struct {
	inode, at float64
	output    bool
}

// look compares how far files were written with the last look. A file that was not open then, or is
// another one, or was begun anew, counts from now on. Of several descriptors of a file the furthest
// counts, and of different files of the same path those of the first process.
func (a *appended) look(root string, now, before map[int]ioCalls) {
	open := map[string]writing{}
	left := maxOpenLooked
	a.piped, a.local.tables = 0, nil
	for _, pid := range slices.Sorted(maps.Keys(now)) {
		more := now[pid].since(before[pid])
		if more.writes < fewWrites || more.writtenBytes > largeWrites*more.writes {
			continue
		}
		process := filepath.Join(root, strconv.Itoa(pid))
		names := []string{"1", "2"} // of those that are beyond the bound, the standard outputs
		if left > 0 {
			var err error
			if names, err = list(filepath.Join(process, "fd"), left); err != nil {
				continue
			}
			left -= len(names)
		}
		if a.lookAt(root, process, names, open) && more.writes >= manyWrites {
			a.piped++
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
	for file := range a.files {
		if open[file].output {
			a.outputs[file] = true
		}
	}
}

// lookAt adds the files that a process writes to. piped reports whether its standard output, or
// that for errors, is a pipe, a Unix socket or a terminal.
func (a *appended) lookAt(root, process string, names []string,
	open map[string]writing,
) (piped bool) {
	for _, name := range names {
		file, err := os.Readlink(filepath.Join(process, "fd", name))
		if err != nil {
			continue
		}
		output := name == "1" || name == "2"
		if output && !piped {
			piped = terminal(file) || strings.HasPrefix(file, "pipe:[") ||
				a.local.is(root, process, file)
		}
		if !regular(file) {
			continue
		}
		info, err := readSmall(filepath.Join(process, "fdinfo", name), a.text[:])
		w, writes := parseWriting(info)
		file = strings.ToValidUTF8(file, "?")
		other, known := open[file]
		if err != nil || !writes || known && other.inode != w.inode {
			continue
		}
		w.at, w.output = max(w.at, other.at), output || other.output
		open[file] = w
	}
	return piped
}

// terminal reports whether a descriptor's target is a terminal, or may be one: /dev/console.
func terminal(name string) bool {
	return begins(name, []string{"/dev/pts/", "/dev/tty", "/dev/console"})
}

// parseWriting parses the kernel's fdinfo of a descriptor; writes is false if it is only read from, or
// if that is not told.
func parseWriting(info []byte) (w writing, writes bool) {
	// Flags are octal. Their last digit, which has the mode, is the same in a decimal number.
	mode := int(number(info, "\nflags:")) % 10 & 3
	return writing{inode: number(info, "\nino:"), at: number(info, "pos:")}, mode != 0
}

// add counts how much files have grown. The first maxFiles count, and of those that begin to grow at
// the same time those that grow most.
func (a *appended) add(grown map[string]float64) {
	if a.files == nil {
		a.files, a.outputs = make(map[string]float64), make(map[string]bool)
	}
	for _, file := range slices.SortedFunc(maps.Keys(grown), func(x, y string) int {
		return cmp.Or(cmp.Compare(grown[y], grown[x]), strings.Compare(x, y))
	}) {
		if _, known := a.files[file]; known || len(a.files) < maxFiles {
			a.files[file] += grown[file]
		}
	}
}

const (
	// maxLocalAsked bounds the sockets that are looked up in the kernel's tables of Unix sockets, of
	// which there is one for each network namespace. maxTables bounds the tables that are read for one
	// look, and maxLocalTable the bytes of each.
	maxLocalAsked, maxTables, maxLocalTable = 64, 4, 1 << 20
)

// localSockets tells which sockets are Unix sockets, by what the link of a descriptor says. Each is
// looked up once.
type localSockets struct {
	known  map[string]bool
	tables map[string]map[string]bool // inodes by network namespace, as read for this look
}

// is reports whether a descriptor's target is a Unix socket: one of the process's network
// namespace, or of this program's, as for a service that systemd gave a namespace of its own and
// its journal.
func (l *localSockets) is(root, process, link string) bool {
	inode, socket := strings.CutPrefix(link, "socket:[")
	inode, socket2 := strings.CutSuffix(inode, "]")
	if local, known := l.known[link]; known || !socket || !socket2 || len(l.known) >= maxLocalAsked {
		return local
	}
	if l.known == nil {
		l.known = map[string]bool{}
	}
	l.known[link] = l.table(process)[inode] || l.table(filepath.Join(root, "self"))[inode]
	return l.known[link]
}

// table returns the inodes of the Unix sockets in a process's network namespace.
func (l *localSockets) table(process string) map[string]bool {
	namespace, err := os.Readlink(filepath.Join(process, "ns/net"))
	if err != nil {
		namespace = process
	}
	if t, read := l.tables[namespace]; read || len(l.tables) >= maxTables {
		return t
	}
	if l.tables == nil {
		l.tables = map[string]map[string]bool{}
	}
	l.tables[namespace] = localInodes(filepath.Join(process, "net/unix"))
	return l.tables[namespace]
}

// localInodes returns the inodes of a table of Unix sockets, the seventh of its columns. What is beyond
// the bound, or cannot be read, is left out.
func localInodes(table string) map[string]bool {
	f, err := os.Open(table)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxLocalTable))
	if err != nil {
		return nil
	}
	inodes := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if columns := strings.Fields(line); len(columns) > 6 {
			inodes[columns[6]] = true
		}
	}
	return inodes
}
