package symbols

import (
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"io"
	"slices"
	"strings"
)

// code is a file's DWARF. A compile unit is read when an address in it is first looked up.
type code struct {
	data  *dwarf.Data
	units []unitRange // sorted
	dies  int         // entries that were read, over all units
}

// mostEntriesRead limits the DWARF entries that are read from one file, and their ranges: a second
// of work. At the limit, lookups use what is known by then. An entry may claim that the next one is
// before it, so without a limit reading might never end.
const mostEntriesRead = 2_000_000

type unitRange struct {
	low, high uint64
	unit      *unit
}

// unit is one compile unit.
type unit struct {
	entry *dwarf.Entry
	read  bool
	lines []dwarf.LineEntry // sorted
	files []*dwarf.LineFile
	calls []call
}

// call is a function, or a call that was inlined into one.
type call struct {
	ranges [][2]uint64
	parent int // index in unit.calls of the call that it was inlined into; -1 for functions
	// The name: its own, or that of the entry of which it is an instance.
	name   string
	origin dwarf.Offset
	// Where it was inlined.
	file, line int
}

// newCode returns nil if the file has no DWARF that can be read.
func newCode(e *elf.File) *code {
	size := uint64(0)
	for _, s := range e.Sections {
		if strings.HasPrefix(s.Name, ".debug_") || strings.HasPrefix(s.Name, ".zdebug_") {
			size += s.Size
		}
	}
	if size == 0 || size > mostSection {
		return nil
	}
	data, err := e.DWARF()
	if err != nil {
		return nil
	}
	c := &code{data: data}
	for r := data.Reader(); ; r.SkipChildren() {
		entry, err := r.Next()
		if c.dies++; entry == nil || err != nil || c.dies > mostEntriesRead {
			break
		}
		if entry.Tag != dwarf.TagCompileUnit {
			continue
		}
		ranges, err := data.Ranges(entry)
		if err != nil {
			continue
		}
		c.dies += len(ranges)
		u := &unit{entry: entry}
		for _, at := range ranges {
			c.units = append(c.units, unitRange{at[0], at[1], u})
		}
	}
	if len(c.units) == 0 {
		return nil
	}
	slices.SortFunc(c.units, func(a, b unitRange) int { return cmp.Compare(a.low, b.low) })
	return c
}

// frames returns the frames at an address, the innermost first; none if DWARF does not know the
// function. symbol is the function's name in the symbol table, which also has assembly functions.
func (c *code) frames(pc uint64, symbol string) []Frame {
	i, ok := slices.BinarySearchFunc(c.units, pc, func(u unitRange, pc uint64) int {
		return cmp.Compare(u.low, pc)
	})
	if !ok {
		i--
	}
	if i < 0 || pc >= c.units[i].high {
		return nil
	}
	u := c.units[i].unit
	if !u.read {
		u.read = true
		c.readLines(u)
		c.readCalls(u)
	}
	file, line := u.place(pc)
	at := u.innermost(pc)
	if at < 0 {
		if symbol == "" {
			return nil
		}
		return []Frame{{Function: symbol, File: file, Line: line}}
	}
	var frames []Frame
	for at >= 0 && len(frames) < 100 {
		one := &u.calls[at]
		name := c.name(one)
		if one.parent < 0 && symbol != "" && !strings.Contains(name, ".") {
			name = symbol // C++ symbols include classes; DWARF's names do not
		}
		frames = append(frames, Frame{Function: cmp.Or(name, symbol, "[unknown]"), File: file, Line: line})
		file, line = u.file(one.file), one.line
		at = one.parent
	}
	return frames
}

// readLines reads a unit's line table.
func (c *code) readLines(u *unit) {
	r, err := c.data.LineReader(u.entry)
	if err != nil || r == nil {
		return
	}
	u.files = r.Files()
	for len(u.lines) < mostSymbols {
		var e dwarf.LineEntry
		err := r.Next(&e)
		if errors.Is(err, io.EOF) || err != nil {
			break
		}
		u.lines = append(u.lines, e)
	}
	slices.SortStableFunc(u.lines, func(a, b dwarf.LineEntry) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), after(a)-after(b))
	})
}

// after orders the end of a sequence before entries that begin at its address.
func after(e dwarf.LineEntry) int {
	if e.EndSequence {
		return 0
	}
	return 1
}

func (u *unit) place(pc uint64) (file string, line int) {
	i, _ := slices.BinarySearchFunc(u.lines, pc, func(e dwarf.LineEntry, pc uint64) int {
		if e.Address <= pc {
			return -1
		}
		return 1
	})
	if i == 0 || u.lines[i-1].EndSequence || u.lines[i-1].File == nil {
		return "", 0
	}
	return u.lines[i-1].File.Name, u.lines[i-1].Line
}

// file returns a file of the unit by its number; "" if there is none.
func (u *unit) file(n int) string {
	if n < 0 || n >= len(u.files) || u.files[n] == nil {
		return ""
	}
	return u.files[n].Name
}

// innermost returns the index of the innermost call at an address; -1 if there is none. A call
// comes after the calls that contain it.
func (u *unit) innermost(pc uint64) int {
	for i := len(u.calls) - 1; i >= 0; i-- {
		for _, r := range u.calls[i].ranges {
			if pc >= r[0] && pc < r[1] {
				return i
			}
		}
	}
	return -1
}

// readCalls reads a unit's functions, and what was inlined into them.
func (c *code) readCalls(u *unit) {
	r := c.data.Reader()
	r.Seek(u.entry.Offset)
	if _, err := r.Next(); err != nil || !u.entry.Children {
		return
	}
	// For each open entry, the index of the call that it is, or that contains it.
	open := []int{-1}
	for len(open) > 0 {
		e, err := r.Next()
		if c.dies++; err != nil || e == nil || c.dies > mostEntriesRead {
			return
		}
		if e.Tag == 0 {
			open = open[:len(open)-1]
			continue
		}
		in := open[len(open)-1]
		if e.Tag == dwarf.TagSubprogram || e.Tag == dwarf.TagInlinedSubroutine {
			if one, ok := c.call(e, in); ok {
				in = len(u.calls)
				u.calls = append(u.calls, one)
			} else if e.Tag == dwarf.TagSubprogram {
				r.SkipChildren() // a declaration, or a function that is inlined elsewhere
				continue
			}
		}
		if e.Children {
			open = append(open, in)
		}
	}
}

// call reads an entry; ok is false if it has no code.
func (c *code) call(e *dwarf.Entry, in int) (one call, ok bool) {
	ranges, err := c.data.Ranges(e)
	if err != nil || len(ranges) == 0 {
		return one, false
	}
	c.dies += len(ranges)
	one = call{ranges: ranges, parent: -1}
	if e.Tag == dwarf.TagInlinedSubroutine {
		one.parent = in
		file, _ := e.Val(dwarf.AttrCallFile).(int64)
		line, _ := e.Val(dwarf.AttrCallLine).(int64)
		one.file, one.line = int(file), int(line)
	}
	one.name, one.origin = nameOf(e)
	return one, true
}

// nameOf returns an entry's own name, or where to look for it.
func nameOf(e *dwarf.Entry) (name string, origin dwarf.Offset) {
	if linked, ok := e.Val(dwarf.AttrLinkageName).(string); ok {
		return readable(linked), 0
	}
	if name, ok := e.Val(dwarf.AttrName).(string); ok {
		return name[:min(len(name), mostName)], 0
	}
	for _, attr := range []dwarf.Attr{dwarf.AttrAbstractOrigin, dwarf.AttrSpecification} {
		if at, ok := e.Val(attr).(dwarf.Offset); ok {
			return "", at
		}
	}
	return "", 0
}

// name returns a call's name. It looks for it only once.
func (c *code) name(one *call) string {
	for hops := 0; one.name == "" && one.origin != 0 && hops < 8; hops++ {
		r := c.data.Reader()
		r.Seek(one.origin)
		e, err := r.Next()
		if err != nil || e == nil {
			break
		}
		one.name, one.origin = nameOf(e)
	}
	return one.name
}
