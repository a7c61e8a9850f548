package symbols

import (
	"cmp"
	"debug/elf"
	"debug/gosym"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/ianlancetaylor/demangle"
)

const (
	mostSymbols = 2_000_000
	// mostSection limits what is read from a file at once: symbol tables, pclntab, and all of DWARF
	// together. Chromium's symbol table has 20 MB.
	mostSection = 256 << 20
)

// object is an ELF file. Its parts are read when they are first needed.
type object struct {
	file     *os.File
	elf      *elf.File
	segments []elf.ProgHeader
	symbols  *ranges      // sorted functions
	goes     *gosym.Table // nil if it is not a Go program
	code     *code        // DWARF; nil if there is none
	read     bool
}

func (o *object) close() {
	if o != nil && o.file != nil {
		o.file.Close()
	}
}

// open returns the mapped file. It returns nil if the file cannot be read, or if it is no longer
// the one that the process runs.
func (t *Table) open(p *Process, m *mapping) *object {
	var f *os.File
	for _, path := range []string{p.root + strings.TrimSuffix(m.path, " (deleted)"), p.exe} {
		one, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if inodeOf(one) == m.inode {
			f = one
			break
		}
		one.Close()
	}
	if f == nil {
		return nil
	}
	info, _ := f.Stat()
	stat, _ := info.Sys().(*syscall.Stat_t)
	key := fileKey{uint64(stat.Dev), stat.Ino}
	if o, ok := t.files[key]; ok || len(t.files) == mostFiles {
		f.Close()
		return o
	}
	o := newObject(f)
	t.files[key] = o
	return o
}

// inodeOf returns a regular file's inode; 0 for other files.
func inodeOf(f *os.File) uint64 {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}

// newObject takes ownership of the file. It returns nil if the file is not ELF.
func newObject(f *os.File) *object {
	e, err := elf.NewFile(f)
	if err != nil {
		f.Close()
		return nil
	}
	o := &object{file: f, elf: e}
	for _, prog := range e.Progs {
		if prog.Type == elf.PT_LOAD && prog.Flags&elf.PF_X != 0 {
			o.segments = append(o.segments, prog.ProgHeader)
		}
	}
	return o
}

// address converts an offset in the file to one of the file's own addresses.
func (o *object) address(offset uint64) (uint64, bool) {
	for _, s := range o.segments {
		if offset >= s.Off && offset-s.Off < s.Filesz {
			return offset - s.Off + s.Vaddr, true
		}
	}
	return 0, false
}

// frames returns the frames at an offset of the file; none if nothing is known about it. Lines are
// from DWARF or, if a Go program has none, from its pclntab, which does not know inlined calls.
func (o *object) frames(offset uint64, binary string) []Frame {
	pc, ok := o.address(offset)
	if !ok {
		return nil
	}
	if !o.read {
		o.read = true
		o.load()
	}
	name, known := o.symbols.find(pc)
	if o.code != nil {
		if frames := o.code.frames(pc, name); len(frames) > 0 {
			for i := range frames {
				frames[i].Binary = binary
			}
			return frames
		}
	}
	if o.goes != nil {
		if file, line, fn := o.goes.PCToLine(pc); fn != nil {
			return []Frame{{fn.Name, file, line, binary}}
		}
	}
	if !known {
		return nil
	}
	return []Frame{{Function: name, Binary: binary}}
}

// load reads the symbols. If the file has neither DWARF nor a pclntab, load also reads its debug
// file, found by build ID, if Debian's debug package is installed. Of a stripped file without one,
// only the symbols for the dynamic linker are known.
func (o *object) load() {
	o.symbols = o.functions()
	o.goes = o.pclntab()
	o.code = newCode(o.elf)
	if o.code != nil || o.goes != nil {
		return
	}
	if debug := openDebug(o.elf); debug != nil {
		o.code = newCode(debug.elf)
		if better := debug.functions(); len(better.all) > len(o.symbols.all) {
			o.symbols = better
		}
		debug.close()
	}
}

// openDebug opens the file with what was stripped from another one.
func openDebug(e *elf.File) *object {
	s := e.Section(".note.gnu.build-id")
	if s == nil || s.Size > 1<<10 {
		return nil
	}
	note, err := s.Data()
	if err != nil || len(note) < 18 {
		return nil
	}
	const hex = "0123456789abcdef"
	var id strings.Builder
	for _, b := range note[16:] { // after the sizes, the type and "GNU\0"
		id.WriteByte(hex[b>>4])
		id.WriteByte(hex[b&15])
	}
	f, err := os.Open("/usr/lib/debug/.build-id/" + id.String()[:2] + "/" + id.String()[2:] + ".debug")
	if err != nil {
		return nil
	}
	return newObject(f)
}

// functions returns the functions in the symbol tables.
func (o *object) functions() *ranges {
	r := &ranges{}
	for _, kind := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
		s := o.elf.SectionByType(kind)
		if s == nil || s.Size > mostSection || s.Link >= uint32(len(o.elf.Sections)) ||
			o.elf.Sections[s.Link].Size > mostSection {
			continue
		}
		list, err := o.elf.Symbols()
		if kind == elf.SHT_DYNSYM {
			list, err = o.elf.DynamicSymbols()
		}
		if err != nil {
			continue
		}
		for _, one := range list[:min(len(list), mostSymbols)] {
			if elf.ST_TYPE(one.Info) != elf.STT_FUNC || one.Value == 0 || one.Name == "" ||
				one.Section == elf.SHN_UNDEF {
				continue
			}
			r.all = append(r.all, named{one.Value, one.Value + cmp.Or(one.Size, 4096), one.Name})
		}
		if len(r.all) > 0 {
			break // the whole table includes the dynamic linker's symbols
		}
	}
	slices.Reverse(r.all) // if a function has several names, the first one counts
	r.settle()
	for i := range r.all {
		r.all[i].name = readable(r.all[i].name)
	}
	return r
}

// readable returns a symbol as its language writes it, without the dynamic linker's symbol version.
func readable(symbol string) string {
	symbol, _, _ = strings.Cut(symbol, "@")
	if len(symbol) > mostName {
		return symbol[:mostName]
	}
	if strings.HasPrefix(symbol, "_Z") || strings.HasPrefix(symbol, "_R") {
		// A name can refer to its own parts repeatedly: 300 bytes may expand to 2⁴⁰.
		return demangle.Filter(symbol, demangle.NoParams, demangle.NoTemplateParams,
			demangle.MaxLength(mostNameBits))
	}
	return symbol
}

// pclntab returns Go's own table; nil if the file is not Go's, or is of a Go version that is not
// understood.
func (o *object) pclntab() *gosym.Table {
	table, text := o.elf.Section(".gopclntab"), o.elf.Section(".text")
	if table == nil {
		table = o.elf.Section(".data.rel.ro.gopclntab")
	}
	if table == nil || text == nil || table.Size > mostSection {
		return nil
	}
	data, err := table.Data()
	if err != nil {
		return nil
	}
	goes, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
	if err != nil {
		return nil
	}
	return goes
}
