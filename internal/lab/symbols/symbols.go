// Package symbols names the code at addresses of running processes and of the kernel: functions,
// files and lines. It takes them from ELF files (symbol tables, Go's pclntab, DWARF), from the maps
// that runtimes write of what they compile (/tmp/perf-PID.map), and from /proc/kallsyms. It must
// know nothing of how addresses were found and what they are counted for. The files are the
// target's and not trusted: files that exceed a limit are not read, and then less is known.
package symbols

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"plimsoll/internal/plainfile"
)

// Frame is the code at an address. An address in inlined calls has several frames.
type Frame struct {
	Function string // never empty: "[name of the binary]" if there is no symbol
	File     string // "" if it is not known
	Line     int    // 0 if it is not known
	// Binary is the program or library that the code is from, KernelBinary, or "" for code that was
	// compiled while the process ran.
	Binary string
}

// Unnamed is the function of code that was compiled at run time and of which nothing is known.
const Unnamed = "[compiled at run time]"

// KernelBinary is the binary of the kernel's code, including its modules.
const KernelBinary = "[kernel]"

const (
	mostMappings = 1 << 16 // of a process: Linux's default limit
	mostMap      = 64 << 20
	mostEntries  = 1_000_000 // of a perf map, and of kallsyms
	mostName     = 1 << mostNameBits
	mostNameBits = 10
	mostFiles    = 1000 // ELF files open at once
)

// Table caches what has been read of symbols. Its methods must not be called concurrently.
type Table struct {
	files  map[fileKey]*object
	kernel *ranges
}

// fileKey identifies a file: another file may get the same path.
type fileKey struct{ dev, inode uint64 }

// New returns an empty table.
func New() *Table { return &Table{files: map[fileKey]*object{}} }

// Close closes the files.
func (t *Table) Close() {
	for _, o := range t.files {
		o.close()
	}
	clear(t.files)
}

// Process is a process and its mappings, as they were when they were read.
type Process struct {
	table    *Table
	root     string // /proc/PID/root
	exe      string // /proc/PID/exe
	mappings []mapping
	compiled *ranges
	// Bare are the binaries that lookups found addresses in, but no symbols for them.
	Bare map[string]bool
	// arenas are the mappings that hold the trampolines of CPython's perf support.
	arenas []mapping
}

// mapping is a range of a process's memory that holds code.
type mapping struct {
	start, end, offset uint64
	inode              uint64
	path               string
	object             *object
	tried              bool
}

// Process reads a process's mappings, and the perf map that its runtime wrote.
func (t *Table) Process(pid int) (*Process, error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	p := &Process{
		table: t,
		root:  dir + "/root",
		exe:   dir + "/exe",
		Bare:  map[string]bool{},
	}
	f, err := os.Open(dir + "/maps")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewScanner(io.LimitReader(f, mostMap))
	for in.Scan() && len(p.mappings) < mostMappings {
		if m, ok := parseMapping(in.Text()); ok {
			p.mappings = append(p.mappings, m)
		}
	}
	p.compiled = readPerfMap(dir)
	if p.compiled != nil {
		p.arenas = p.trampolines()
	}
	return p, in.Err()
}

// parseMapping parses a line of /proc/PID/maps; ok is false if the mapping holds no code.
func parseMapping(line string) (m mapping, ok bool) {
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 5 || !strings.Contains(fields[1], "x") {
		return m, false
	}
	start, end, _ := strings.Cut(fields[0], "-")
	var errs [4]error
	m.start, errs[0] = strconv.ParseUint(start, 16, 64)
	m.end, errs[1] = strconv.ParseUint(end, 16, 64)
	m.offset, errs[2] = strconv.ParseUint(fields[2], 16, 64)
	m.inode, errs[3] = strconv.ParseUint(fields[4], 10, 64)
	if errors.Join(errs[:]...) != nil || m.start >= m.end {
		return m, false
	}
	if len(fields) == 6 {
		m.path = strings.TrimLeft(fields[5], " ")
	}
	return m, true
}

// Frames returns the frames at an address, the innermost inlined call first. called says that the
// address is a return address: the call is the instruction before it.
func (p *Process) Frames(pc uint64, called bool) []Frame {
	if called {
		pc--
	}
	if name, ok := p.compiled.find(pc); ok {
		return []Frame{{Function: name}}
	}
	i := p.mapped(pc)
	if i < 0 {
		return []Frame{{Function: "[unknown]"}}
	}
	m := &p.mappings[i]
	if m.path == "" || m.path[0] != '/' || strings.HasPrefix(m.path, "//anon") {
		return []Frame{{Function: cmp.Or(bracketed(m.path), Unnamed)}}
	}
	name := strings.TrimSuffix(m.path, " (deleted)")
	if !m.tried {
		m.tried, m.object = true, p.table.open(p, m)
	}
	if m.object != nil {
		if frames := m.object.frames(pc-m.start+m.offset, name); len(frames) > 0 {
			return frames
		}
	}
	p.Bare[name] = true
	return []Frame{{Function: "[" + filepath.Base(name) + "]", Binary: name}}
}

// trampolines returns the mappings that hold Python's trampolines.
func (p *Process) trampolines() (all []mapping) {
	for _, n := range p.compiled.all {
		if !strings.HasPrefix(n.name, "py::") || len(all) > 0 && n.start < all[len(all)-1].end {
			continue
		}
		if i := p.mapped(n.start); i >= 0 {
			all = append(all, p.mappings[i])
		}
	}
	return all
}

// Trampolines reports whether the process is a CPython with perf support: each Python function that
// was called has a small piece of code of its own, through which its calls go.
func (p *Process) Trampolines() bool { return len(p.arenas) > 0 }

// InTrampolines reports whether an address is in a mapping of trampolines. This includes
// trampolines of functions that were first called after the process was read. It is called for each
// word of a stack.
func (p *Process) InTrampolines(pc uint64) bool {
	for i := range p.arenas {
		if pc >= p.arenas[i].start && pc < p.arenas[i].end {
			return true
		}
	}
	return false
}

// Returns reports whether an address may be a return address in code that the process's runtime
// compiled. Nothing returns to the start of such code, but stacks do hold pointers to functions.
func (p *Process) Returns(pc uint64) bool {
	i := p.compiled.at(pc)
	return i >= 0 && p.compiled.all[i].start < pc
}

// mapped returns the index in p.mappings of the mapping that contains an address; -1 if there is
// none.
func (p *Process) mapped(pc uint64) int {
	i, ok := slices.BinarySearchFunc(p.mappings, pc, func(m mapping, pc uint64) int {
		switch {
		case m.end <= pc:
			return -1
		case m.start > pc:
			return 1
		}
		return 0
	})
	if !ok {
		return -1
	}
	return i
}

// bracketed returns a name such as [vdso]; "" for other names.
func bracketed(path string) string {
	if strings.HasPrefix(path, "[") {
		return path
	}
	return ""
}

// Kernel names a kernel address. If the kernel's symbols are not readable, the name is "[kernel]".
func (t *Table) Kernel(pc uint64) Frame {
	if t.kernel == nil {
		t.kernel = readKernel()
	}
	if name, ok := t.kernel.find(pc); ok {
		return Frame{Function: name, Binary: KernelBinary}
	}
	return Frame{Function: KernelBinary, Binary: KernelBinary}
}

// KernelNamed reports whether the kernel's symbols are readable. It is false until Kernel has been
// called.
func (t *Table) KernelNamed() bool { return t.kernel != nil && len(t.kernel.all) > 0 }

// ranges are named ranges of addresses.
type ranges struct{ all []named }

type named struct {
	start, end uint64
	name       string
}

// find returns the name at an address.
func (r *ranges) find(pc uint64) (string, bool) {
	if i := r.at(pc); i >= 0 {
		return r.all[i].name, true
	}
	return "", false
}

// at returns the index in r.all of the range that contains an address; -1 if there is none. r may
// be nil.
func (r *ranges) at(pc uint64) int {
	if r == nil {
		return -1
	}
	i, ok := slices.BinarySearchFunc(r.all, pc, func(n named, pc uint64) int {
		return cmp.Compare(n.start, pc)
	})
	if !ok {
		i--
	}
	if i < 0 || pc >= r.all[i].end {
		return -1
	}
	return i
}

// settle sorts ranges, and ends each one where the next one begins, if it is longer. If several
// ranges begin at one address, the last one added counts: compilers reuse memory.
func (r *ranges) settle() {
	slices.Reverse(r.all)
	slices.SortStableFunc(r.all, func(a, b named) int { return cmp.Compare(a.start, b.start) })
	r.all = slices.CompactFunc(r.all, func(a, b named) bool { return a.start == b.start })
	for i := range r.all[:max(len(r.all)-1, 0)] {
		r.all[i].end = min(r.all[i].end, r.all[i+1].start)
	}
}

// readPerfMap reads the map that a process's runtime writes; nil if there is none. Any user can
// create a file of that name, so it must belong to the process's user, or to root.
func readPerfMap(dir string) *ranges {
	pid := filepath.Base(dir)
	owner, err := os.Stat(dir)
	if err != nil {
		return nil
	}
	// The runtime names the file by its PID in its own namespace.
	if status, err := os.ReadFile(dir + "/status"); err == nil {
		for line := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
				if numbers := strings.Fields(rest); len(numbers) > 0 {
					pid = numbers[len(numbers)-1]
				}
			}
		}
	}
	f, err := plainfile.Check(os.OpenFile(dir+"/root/tmp/perf-"+pid+".map",
		plainfile.Flags|syscall.O_NOFOLLOW, 0))
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !ownedBy(info, owner) {
		return nil
	}
	return parsePerfMap(f)
}

func ownedBy(file, process os.FileInfo) bool {
	a, ok := file.Sys().(*syscall.Stat_t)
	b, also := process.Sys().(*syscall.Stat_t)
	return ok && also && (a.Uid == b.Uid || a.Uid == 0)
}

// parsePerfMap parses lines of a start, a size and a name. The numbers are hexadecimal.
func parsePerfMap(from io.Reader) *ranges {
	r := &ranges{}
	for line := range lines(from) {
		if len(r.all) >= mostEntries {
			break
		}
		first, rest, _ := strings.Cut(line, " ")
		second, name, _ := strings.Cut(rest, " ")
		start, err := strconv.ParseUint(strings.TrimPrefix(first, "0x"), 16, 64)
		size, bad := strconv.ParseUint(strings.TrimPrefix(second, "0x"), 16, 64)
		if err != nil || bad != nil || name == "" || start+size <= start {
			continue // the last line may be incomplete
		}
		r.all = append(r.all, named{start, start + size, strings.Clone(name[:min(len(name), mostName)])})
	}
	r.settle()
	return r
}

// lines yields the lines of a table. Of a line that is too long, it yields the beginning.
func lines(from io.Reader) iter.Seq[string] {
	return func(yield func(string) bool) {
		in := bufio.NewReaderSize(io.LimitReader(from, mostMap), 64<<10)
		for {
			begins, more, err := in.ReadLine()
			line := string(begins)
			for more && err == nil {
				_, more, err = in.ReadLine()
			}
			if line != "" && !yield(line) || err != nil {
				return
			}
		}
	}
}

// readKernel reads the kernel's own table. If it is not readable, all addresses are 0.
func readKernel() *ranges {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return &ranges{}
	}
	defer f.Close()
	return parseKallsyms(f)
}

func parseKallsyms(from io.Reader) *ranges {
	r := &ranges{}
	for line := range lines(from) {
		if len(r.all) >= mostEntries {
			break
		}
		fields := strings.Fields(line)
		if len(fields) < 3 || !strings.Contains("tTwW", fields[1]) {
			continue
		}
		if start, err := strconv.ParseUint(fields[0], 16, 64); err == nil && start > 0 {
			// Kernel functions are not larger than this. What is behind the last one does not
			// belong to it.
			r.all = append(r.all, named{start, start + 64<<10, strings.Clone(fields[2])})
		}
	}
	r.settle()
	return r
}
