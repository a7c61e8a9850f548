package probe

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"plimsoll/internal/lab/measure"
)

// Runtime is what a program was written in, as far as its process shows it. The zero value means
// unknown.
type Runtime struct {
	Name    string // a constant of package measure, such as measure.RuntimeGo
	Version string // "go1.25.1", "3.12"; empty if unknown
	// Server is the language's server program, if known: "gunicorn".
	Server string
}

// RuntimeOf examines a process's executable, command line and memory maps. It costs a few
// milliseconds. For a process that may not be inspected it returns the zero value.
func RuntimeOf(pid int) Runtime { return runtimeOf(procfs.DefaultMountPoint, pid) }

const (
	maxCommand = 64 << 10
	maxMaps    = 1 << 20
)

// executables maps the names of executables to runtimes.
var executables = []struct {
	begins  *regexp.Regexp
	runtime string
}{
	{regexp.MustCompile(`^node(js)?(\d[\d.]*)?$`), measure.RuntimeNode},
	{regexp.MustCompile(`^python(\d[\d.]*)?$`), measure.RuntimeCPython},
	{regexp.MustCompile(`^java$`), measure.RuntimeJVM},
	{regexp.MustCompile(`^ruby(\d[\d.]*)?$`), measure.RuntimeRuby},
	{regexp.MustCompile(`^php-fpm(\d[\d.]*)?$`), measure.RuntimePHPFPM},
	{regexp.MustCompile(`^dotnet$`), measure.RuntimeDotNet},
}

// libraries maps libraries in a process's memory to runtimes, for programs that embed a runtime
// under another name.
var libraries = []struct {
	name    *regexp.Regexp
	runtime string
}{
	{regexp.MustCompile(`/libjvm\.so`), measure.RuntimeJVM},
	{regexp.MustCompile(`/libcoreclr\.so`), measure.RuntimeDotNet},
	{regexp.MustCompile(`/libnode\.so`), measure.RuntimeNode},
	{regexp.MustCompile(`/libruby[-.\d]*\.so`), measure.RuntimeRuby},
	{regexp.MustCompile(`/libpython(\d[\d.]*)\.so`), measure.RuntimeCPython},
}

// servers are recognized by a word of the command line: the last part of a path, a module or a
// class.
var servers = []struct{ word, server string }{
	{"gunicorn", "gunicorn"},
	{"uvicorn", "uvicorn"},
	{"hypercorn", "hypercorn"},
	{"granian", "granian"},
	{"daphne", "daphne"},
	{"uwsgi", "uwsgi"},
	{"waitress-serve", "waitress"},
	{"puma", "puma"},
	{"unicorn", "unicorn"},
	{"org.apache.catalina.startup.Bootstrap", "tomcat"},
	{"org.eclipse.jetty.start.Main", "jetty"},
	{"pm2", "pm2"},
}

// programs are the stand-alone servers, by file name.
var programs = map[string]string{
	"uwsgi":     "uwsgi",
	"nginx":     "nginx",
	"openresty": "nginx",
	"haproxy":   "haproxy",
	"envoy":     "envoy",
	"traefik":   "traefik",
	"varnishd":  "varnish",
	"apache2":   "apache",
	"httpd":     "apache",
	"lighttpd":  "lighttpd",
	"h2o":       "h2o",
}

func runtimeOf(root string, pid int) (r Runtime) {
	dir := filepath.Join(root, strconv.Itoa(pid))
	program, _ := os.Readlink(filepath.Join(dir, "exe"))
	base := strings.TrimSuffix(filepath.Base(program), " (deleted)")
	command, _ := readWhole(filepath.Join(dir, "cmdline"), make([]byte, maxCommand))
	r.Server = serverOf(command)
	if r.Server == "" {
		r.Server = programs[base]
	}
	for _, e := range executables {
		if found := e.begins.FindStringSubmatch(base); found != nil {
			r.Name = e.runtime
			r.Version = strings.Trim(found[len(found)-1], ".")
		}
	}
	if r.Name == measure.RuntimeJVM || r.Name == measure.RuntimeDotNet {
		r.Version = ""
	}
	if r.Name != "" {
		return r
	}
	if info, err := buildinfo.ReadFile(filepath.Join(dir, "exe")); err == nil {
		r.Name, r.Version = measure.RuntimeGo, info.GoVersion
		return r
	}
	maps, _ := readWhole(filepath.Join(dir, "maps"), make([]byte, maxMaps))
	for _, l := range libraries {
		if found := l.name.FindSubmatch(maps); found != nil {
			r.Name = l.runtime
			if len(found) > 1 {
				r.Version = strings.Trim(string(found[1]), ".")
			}
			return r
		}
	}
	r.Name = native(filepath.Join(dir, "exe"), maps)
	return r
}

// serverOf returns the server in a command line. It looks at the first words only; the rest are the
// server's arguments.
func serverOf(command []byte) string {
	const words = 64
	for i, word := range bytes.Split(command, []byte{0}) {
		if i == words {
			break
		}
		// A process that has set its title has it in one piece: "gunicorn: master [app]".
		first, _, _ := strings.Cut(string(word), ": ")
		for _, s := range servers {
			if filepath.Base(first) == s.word {
				return s.server
			}
		}
	}
	return ""
}

// native returns the language of a program that was compiled to machine code; empty if it cannot be
// read.
func native(program string, maps []byte) string {
	f, err := elf.Open(program)
	if err != nil {
		return ""
	}
	defer f.Close()
	const maxComment = 64 << 10
	if s := f.Section(".comment"); s != nil && s.Size < maxComment {
		if text, err := s.Data(); err == nil && bytes.Contains(text, []byte("rustc version")) {
			return measure.RuntimeRust
		}
	}
	if bytes.Contains(maps, []byte("/libstdc++.so")) || bytes.Contains(maps, []byte("/libc++.so")) {
		return measure.RuntimeCpp
	}
	symbols, _ := f.Symbols()
	dynamic, _ := f.DynamicSymbols()
	language := measure.RuntimeC
	for _, s := range append(symbols, dynamic...) {
		switch {
		case s.Name == "rust_eh_personality" || s.Name == "__rust_alloc":
			return measure.RuntimeRust
		case s.Name == "__gxx_personality_v0":
			language = measure.RuntimeCpp
		}
	}
	return language
}
