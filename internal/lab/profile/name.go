package profile

import "strings"

// clean returns a function's name without type arguments: "main.Map[go.shape.int]" and
// "main.Map[...]" become "main.Map". All instances of a generic function are one place in the code.
func clean(name string) string {
	at := strings.IndexByte(name, '[')
	if at <= 0 || !strings.Contains(name[at:], "]") {
		return clip(name)
	}
	var out strings.Builder
	depth := 0
	for i := range len(name) {
		switch c := name[i]; {
		case c == '[':
			depth++
		case c == ']' && depth > 0:
			depth--
		case depth == 0:
			out.WriteByte(c)
		}
	}
	return clip(out.String())
}

// unwrapped returns the function in which the compiler wrapped the call of a go or defer statement:
// "main.sell" for "main.sell.deferwrap1". Other functions are returned unchanged.
func unwrapped(name string) string {
	for _, wrapper := range []string{".deferwrap", ".gowrap"} {
		if i := strings.LastIndex(name, wrapper); i > 0 &&
			strings.Trim(name[i+len(wrapper):], "0123456789") == "" {
			return name[:i]
		}
	}
	return name
}

// shortFile returns the last two parts of a file's path.
func shortFile(name string) string {
	if i := strings.LastIndexByte(name, '/'); i > 0 {
		if j := strings.LastIndexByte(name[:i], '/'); j >= 0 {
			name = name[j+1:]
		}
	}
	return clip(name)
}

// packageOf returns the package of Node.js or Python that a file was installed with, after the folder
// where packages are; empty for other files. Of packages within packages it is the innermost one.
func packageOf(name string) string {
	for _, folder := range []string{"node_modules/", "site-packages/", "dist-packages/"} {
		i := strings.LastIndex(name, folder)
		if i < 0 || i > 0 && name[i-1] != '/' {
			continue
		}
		parts := strings.SplitN(name[i+len(folder):], "/", 3)
		n := 1
		if strings.HasPrefix(parts[0], "@") {
			n = 2
		}
		if len(parts) <= n {
			return "" // a file of its own
		}
		return clip(strings.Replace(folder, "dist-", "site-", 1) + strings.Join(parts[:n], "/"))
	}
	return ""
}

// Origin is whose code a function is.
type Origin int

// The origins.
const (
	// Own is the service's code, and the libraries that it chose.
	Own Origin = iota
	// Standard is Go's standard library, and golang.org/x.
	Standard
	// Runtime is Go's runtime, and code that is not Go's: assembly, C, the kernel.
	Runtime
)

// OriginOf returns whose code a function is, from its name alone. The standard library is
// recognized by the first part of its package paths, so that modules whose names have no dot are
// still recognized as such.
func OriginOf(function string) Origin {
	first := function
	if i := strings.IndexByte(first, '/'); i >= 0 {
		first = first[:i]
	}
	if first == function {
		var method bool
		if first, _, method = strings.Cut(first, "."); !method {
			return Runtime // memeqbody, [libc.so.6], Cut
		}
	}
	switch {
	case first == "runtime" || strings.HasPrefix(function, "internal/runtime/") ||
		strings.HasPrefix(function, "runtime/internal/"):
		return Runtime
	case first == "" || strings.ContainsAny(first, ":[ "):
		return Runtime // type:.eq, go:…, [vdso]
	case standard[first], strings.HasPrefix(function, "golang.org/x/"):
		return Standard
	}
	return Own
}

// User reports whether a frame is in the service's code or in a library that it chose, and not in
// Go's own.
func User(f Frame) bool { return f.Origin() == Own }

// Origin returns whose code a frame is. In a profile that is not of a Go program, this depends on
// the frame's file and binary, and not only on its name.
func (f Frame) Origin() Origin {
	if f.whose > 0 {
		return Origin(f.whose - 1)
	}
	return OriginOf(f.Function)
}

// standard are the first parts of the paths of the standard library's packages, as of Go 1.26.
var standard = map[string]bool{
	"archive":   true,
	"arena":     true,
	"bufio":     true,
	"bytes":     true,
	"cmp":       true,
	"compress":  true,
	"container": true,
	"context":   true,
	"crypto":    true,
	"database":  true,
	"debug":     true,
	"embed":     true,
	"encoding":  true,
	"errors":    true,
	"expvar":    true,
	"flag":      true,
	"fmt":       true,
	"go":        true,
	"hash":      true,
	"html":      true,
	"image":     true,
	"index":     true,
	"internal":  true,
	"io":        true,
	"iter":      true,
	"log":       true,
	"maps":      true,
	"math":      true,
	"mime":      true,
	"net":       true,
	"os":        true,
	"path":      true,
	"plugin":    true,
	"reflect":   true,
	"regexp":    true,
	"simd":      true,
	"slices":    true,
	"sort":      true,
	"strconv":   true,
	"strings":   true,
	"structs":   true,
	"sync":      true,
	"syscall":   true,
	"testing":   true,
	"text":      true,
	"time":      true,
	"unicode":   true,
	"unique":    true,
	"unsafe":    true,
	"vendor":    true,
	"weak":      true,
}
