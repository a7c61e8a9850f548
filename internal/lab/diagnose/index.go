package diagnose

import (
	"path"
	"strings"

	"plimsoll/internal/lab/profile"
)

// index finds the entries of a table that a frame belongs to. Each entry has a bit, so that one
// lookup replaces a search through all entries: profiles have some hundred thousand frames.
type index struct {
	functions, files map[string]uint64
	begins           map[byte][]beginning
	parts            map[part]uint64
}

// beginning is a prefix of function names, and the entry's bit.
type beginning struct {
	name string
	bit  uint64
}

// part is a function of a file, or of a package, whose other functions do other work. It is called
// by its own name, without that of its class.
type part struct{ file, function string }

// addParts adds functions of files to an entry. A file is as understood by add, without folders.
func (x *index) addParts(entry int, parts map[string][]string) {
	if x.parts == nil {
		x.parts = map[part]uint64{}
	}
	for file, functions := range parts {
		for _, function := range functions {
			x.parts[part{file, function}] |= 1 << entry
		}
	}
}

// ofParts returns the bits of the entries that a frame belongs to as a function of a file.
func (x *index) ofParts(f profile.Frame) (bits uint64) {
	if x.parts == nil || f.File == "" && f.Package == "" {
		return 0
	}
	// CPython tells perf the class too, and so does V8: "Template.compile_nodelist".
	name := f.Function[strings.LastIndexAny(f.Function, ".#")+1:]
	bits = x.parts[part{f.File, name}] | x.parts[part{f.Package, name}]
	if f.Origin() != profile.Own {
		bits |= x.parts[part{path.Base(f.File), name}]
	}
	return bits
}

// add adds the names of an entry: functions as understood by fits, prefixes of function names, and
// files. A file is the last two parts of a path, a folder with a slash at its end, the name alone
// for a file of the language's library, or a package ("node_modules/pino").
func (x *index) add(entry int, functions, begins, files []string) {
	if x.functions == nil {
		x.functions, x.files = map[string]uint64{}, map[string]uint64{}
		x.begins = map[byte][]beginning{}
	}
	bit := uint64(1) << entry
	for _, name := range functions {
		x.functions[name] |= bit
	}
	for _, name := range files {
		x.files[name] |= bit
	}
	for _, name := range begins {
		x.begins[name[0]] = append(x.begins[name[0]], beginning{name, bit})
	}
}

// of returns the bits of the entries that a frame belongs to.
func (x *index) of(f profile.Frame) (bits uint64) {
	for i := range len(f.Function) {
		switch f.Function[i] {
		case '.':
			bits |= x.functions[f.Function[:i]] | x.functions[f.Function[:i+1]]
		case '/':
			bits |= x.functions[f.Function[:i+1]]
		}
	}
	bits |= x.functions[f.Function]
	// C++ templates have their result type before their name.
	name := strings.TrimPrefix(strings.TrimPrefix(f.Function, "void "), "bool ")
	if name != "" {
		for _, b := range x.begins[name[0]] {
			if strings.HasPrefix(name, b.name) {
				bits |= b.bit
			}
		}
	}
	bits |= x.ofParts(f)
	if f.Package != "" {
		bits |= x.files[f.Package]
	}
	if f.File == "" {
		return bits
	}
	folder, file := path.Split(f.File)
	bits |= x.files[f.File]
	if folder != "" {
		bits |= x.files[folder]
	}
	if f.Origin() != profile.Own {
		bits |= x.files[file]
	}
	return bits
}

// among returns the bits of all frames of a stack.
func (x *index) among(stack []profile.Frame) (bits uint64) {
	for _, f := range stack {
		bits |= x.of(f)
	}
	return bits
}
