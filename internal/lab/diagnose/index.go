package diagnose

import (
	"path"
	"strings"

	"plimsoll/internal/lab/profile"
)

// index knows frames by a table's names. Each entry of the table has a bit, so that what a frame is
// known by is found at once and not entry by entry: profiles have some hundred thousand frames.
type index struct {
	functions, files map[string]uint64
	begins           map[byte][]beginning
}

// beginning is how names of functions begin, and the entry's bit.
type beginning struct {
	name string
	bit  uint64
}

// add adds what the next entry is known by: functions as fits has them, how names of functions
// begin, and files: the last two parts of a path, a folder with a slash behind it, or the name
// alone of one of the language's library.
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

// of are the bits of the entries that a frame is known by.
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
	// C++'s templates have the type of their result before their name.
	name := strings.TrimPrefix(strings.TrimPrefix(f.Function, "void "), "bool ")
	if name != "" {
		for _, b := range x.begins[name[0]] {
			if strings.HasPrefix(name, b.name) {
				bits |= b.bit
			}
		}
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

// among are the bits of all frames of a stack.
func (x *index) among(stack []profile.Frame) (bits uint64) {
	for _, f := range stack {
		bits |= x.of(f)
	}
	return bits
}
