package profile

import (
	"path"
	"strings"

	"github.com/google/pprof/profile"
)

// ofGo reports whether a profile is of a Go program. If it is, names alone determine whose code a
// function is. If it is not, names say little, and files and binaries say more.
func ofGo(p *profile.Profile) bool {
	for _, f := range p.Function {
		if strings.HasSuffix(f.Filename, ".go") || strings.HasPrefix(f.Name, "runtime.") {
			return true
		}
	}
	// Goroutine and heap profiles may be empty, and old ones have no files.
	return len(p.Function) == 0
}

// foreign returns whose code a function is that is not of a Go program.
func foreign(name, file, binary string) Origin {
	switch {
	case strings.HasPrefix(name, "[") || strings.HasPrefix(binary, "["):
		return Runtime // [unknown], [kernel], [vdso]
	case internals[name], binary == "" && file == "" && compiledParts(name):
		return Runtime
	case binary != "":
		return ofBinary(name, path.Base(binary), file)
	}
	for language, standard := range libraries {
		if strings.HasSuffix(file, language) {
			if standard(file) {
				return Standard
			}
			return Own
		}
	}
	if strings.HasPrefix(file, "node:") || strings.HasPrefix(file, "<frozen ") ||
		strings.HasPrefix(file, "<internal:") {
		return Standard
	}
	return Own
}

// internals are V8's names for what is not JavaScript.
var internals = map[string]bool{
	"(program)": true, "(garbage collector)": true, "(root)": true, "(idle)": true,
}

// compiledParts reports whether V8's map of compiled code names a part of V8 itself.
func compiledParts(name string) bool {
	for _, prefix := range []string{"Builtin:", "BytecodeHandler:", "Stub:", "RegExp:", "Handler:"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// ofBinary classifies code that was compiled ahead of time. Shared libraries are mostly the
// distribution's, so their work counts for their caller.
func ofBinary(name, binary, file string) Origin {
	for _, prefix := range runtimes {
		if strings.HasPrefix(binary, prefix) {
			return Runtime
		}
	}
	if strings.Contains(binary, ".so") {
		return Standard
	}
	if strings.HasPrefix(file, "/rustc/") || strings.HasPrefix(file, "/usr/include/") {
		return Standard
	}
	if compiledIn(name) {
		return Standard
	}
	return Own
}

// compiledIn reports whether a function of a binary is from the standard library of C++ or Rust,
// whose templates and generic functions are compiled into the program.
func compiledIn(name string) bool {
	for _, result := range []string{"void ", "bool "} {
		name = strings.TrimPrefix(name, result)
	}
	for _, library := range []string{
		"std::", "__gnu_cxx::", "core::", "alloc::", "hashbrown::", "<core::", "<alloc::", "<std::",
		"__rust_", "__rdl_", "operator new", "operator delete",
	} {
		if strings.HasPrefix(name, library) {
			return true
		}
	}
	return false
}

// runtimes are prefixes of the names of interpreters, and of libraries that any program has.
var runtimes = []string{
	"python", "libpython", "node", "libnode", "ruby", "libruby", "php", "libphp", "java", "libjvm",
	"libjava", "libcoreclr", "dotnet", "perl", "libperl", "beam", "libc.so", "libc-", "libc++",
	"libm.so", "libpthread", "libstdc++", "libgcc_s", "ld-linux", "ld-musl", "libuv.so",
}

// libraries are functions that report, for a language's source files, whether they are its standard
// library.
var libraries = map[string]func(file string) bool{
	".py": func(file string) bool {
		if strings.Contains(file, "/site-packages/") || strings.Contains(file, "/dist-packages/") {
			return false
		}
		if strings.Contains(file, "/lib/python") || strings.HasPrefix(file, "<frozen ") {
			return true
		}
		// py-spy omits the library's folder.
		first, _, _ := strings.Cut(strings.TrimSuffix(file, ".py"), "/")
		return pythonModules[first]
	},
	".js": func(file string) bool { return strings.HasPrefix(file, "node:") },
	".rb": func(file string) bool {
		return strings.Contains(file, "/lib/ruby/") && !strings.Contains(file, "/gems/")
	},
	".java": func(file string) bool {
		first, _, _ := strings.Cut(file, "/")
		return first == "java" || first == "javax" || first == "jdk" || first == "sun" ||
			strings.HasPrefix(file, "com/sun/")
	},
}

// pythonModules are the modules of Python's standard library that are written in Python, as of
// Python 3.13.
var pythonModules = set(`abc argparse ast asyncio base64 bdb bisect bz2 calendar cgi cmd code codecs
	collections colorsys compileall concurrent configparser contextlib contextvars copy copyreg
	cProfile csv ctypes curses dataclasses datetime dbm decimal difflib dis doctest email encodings
	enum filecmp fileinput fnmatch fractions ftplib functools genericpath getopt getpass gettext glob
	graphlib gzip hashlib heapq hmac html http imaplib importlib inspect io ipaddress json keyword
	linecache locale logging lzma mailbox mimetypes modulefinder multiprocessing netrc ntpath
	numbers opcode operator optparse os pathlib pdb pickle pickletools pkgutil platform plistlib
	poplib posixpath pprint profile pstats queue quopri random re reprlib runpy sched secrets
	selectors shelve shlex shutil signal site smtplib socket socketserver sqlite3 sre_compile
	sre_constants sre_parse ssl stat statistics string stringprep struct subprocess symtable
	sysconfig tarfile tempfile textwrap threading timeit token tokenize tomllib trace traceback
	tracemalloc types typing unittest urllib uuid venv warnings wave weakref webbrowser wsgiref xml
	xmlrpc zipapp zipfile zipimport zoneinfo _pydecimal _pyio _strptime _weakrefset`)

func set(words string) map[string]bool {
	all := map[string]bool{}
	for _, word := range strings.Fields(words) {
		all[word] = true
	}
	return all
}
