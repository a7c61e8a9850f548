package symbols

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

//go:noinline
func outer(depth int) uintptr { return inner(depth) }

// inner is inlined into outer, and returns the address of one of the current calls: its own for
// depth 0.
func inner(depth int) uintptr {
	pc, _, _, _ := runtime.Caller(depth)
	return pc
}

// A mangled name may refer to its own parts, and so expand to a name that is larger than any
// memory.
func TestANameThatGrowsWithoutEndIsCut(t *testing.T) {
	grown := "PFvvE" // void (*)()
	for level := range int64(40) {
		// A pointer to a function that takes the previous one twice.
		part := strings.ToUpper(strconv.FormatInt(2*level, 36))
		grown = "PFv" + grown + "S" + part + "_E"
	}
	if name := readable("_ZTI" + grown); len(name) > mostName || !strings.HasPrefix(name, "typeinfo for void (*)") {
		t.Errorf("%d bytes: %.100s", len(name), name)
	}
	if name := readable("_ZN4shop6handleEi"); name != "shop::handle" {
		t.Errorf("an ordinary name is %s", name)
	}
}

// A test that go test builds and runs at once has no DWARF: its names are from pclntab.
func TestAGoProgramsFunctions(t *testing.T) {
	p, err := New().Process(os.Getpid())
	if err != nil {
		t.Logf("not tested: this system has no /proc: %v", err)
		return
	}
	pc := uint64(reflect.ValueOf(outer).Pointer())
	frames := p.Frames(pc, false)
	if len(frames) == 0 {
		t.Fatal("nothing is known of a function of this program")
	}
	last := frames[len(frames)-1]
	if !strings.HasSuffix(last.Function, "symbols.outer") || !strings.HasSuffix(last.File,
		"symbols_test.go") ||
		last.Line != 15 || last.Binary == "" {
		t.Errorf("%+v", frames)
	}
	called := p.Frames(uint64(outer(0)), true)
	if last := called[len(called)-1]; !strings.HasSuffix(last.Function, "symbols.outer") {
		t.Errorf("where the call returns to is %+v", called)
	}
	if len(p.Bare) != 0 {
		t.Errorf("without symbols are %v", p.Bare)
	}
}

func TestInlinedCallsOfC(t *testing.T) {
	dir := t.TempDir()
	source := "static inline __attribute__((always_inline)) unsigned mix(unsigned t) {\n" +
		"\treturn (t * 31 + 7) % 1000003;\n}\n" +
		"__attribute__((noinline)) unsigned score(unsigned t) {\n\treturn mix(t);\n}\n" +
		"int main(int c, char **v) { return score(c); }\n"
	if err := os.WriteFile(filepath.Join(dir, "a.c"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "a")
	out, err := exec.Command("gcc", "-O2", "-g", "-o", binary, filepath.Join(dir, "a.c")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f, err := os.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	o := newObject(f)
	defer o.close()
	o.load()
	at := uint64(0)
	for _, one := range o.symbols.all {
		if one.name == "score" {
			at = one.start
		}
	}
	if at == 0 {
		t.Fatal("score is not among the symbols")
	}
	text := o.elf.Section(".text")
	for offset := uint64(0); offset < 64; offset++ {
		frames := o.frames(at-text.Addr+text.Offset+offset, binary)
		if len(frames) == 2 {
			if frames[0].Function != "mix" || frames[0].Line != 2 || frames[1].Function != "score" ||
				frames[1].Line != 5 || filepath.Base(frames[1].File) != "a.c" {
				t.Errorf("%+v", frames)
			}
			return
		}
	}
	t.Error("nothing of score is known to be inlined")
}

func TestNamesOfWhatAProcessCompiled(t *testing.T) {
	r := parsePerfMap(strings.NewReader("1000 10 JS:*a /s.js:1:2\nhuh\n1010 20 py::b:/s.py\n" +
		"1000 8 JS:+a /s.js:1:2\nffffffffffffffff 10 overflow\n2000 10 "))
	for pc, want := range map[uint64]string{
		0x0fff: "", 0x1000: "JS:+a /s.js:1:2", 0x1008: "", 0x1010: "py::b:/s.py",
		0x102f: "py::b:/s.py", 0x1030: "",
	} {
		if got, _ := r.find(pc); got != want {
			t.Errorf("at %x is %q, want %q", pc, got, want)
		}
	}
	p := &Process{compiled: r}
	if p.Returns(0x1010) || !p.Returns(0x1016) || p.Returns(0x1030) {
		t.Error("a call may not return to where a function begins, but into it")
	}
}

func TestAPythonsTrampolines(t *testing.T) {
	p := &Process{
		compiled: parsePerfMap(strings.NewReader("1000 b py::a:/s.py\n100b b py::b:/s.py\n5000 b JS:c")),
		mappings: []mapping{{start: 0x1000, end: 0x2000}, {start: 0x5000, end: 0x6000}},
	}
	p.arenas = p.trampolines()
	if len(p.arenas) != 1 || !p.InTrampolines(0x1fff) || p.InTrampolines(0x5001) || p.InTrampolines(0x2000) {
		t.Errorf("%+v", p.arenas)
	}
}

func TestALongLineHidesNothingAfterIt(t *testing.T) {
	r := parsePerfMap(strings.NewReader("1000 10 " + strings.Repeat("long", 1<<20) + "\n2000 10 next\n"))
	if name, _ := r.find(0x1008); len(name) != mostName || !strings.HasPrefix(name, "longlong") {
		t.Errorf("the long line's name has %d bytes", len(name))
	}
	if name, _ := r.find(0x2008); name != "next" {
		t.Errorf("the line after it gives %q", name)
	}
}

// Any user may write a file of that name.
func TestAMapOfAnotherUserIsNotRead(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("not tested: only root can give a file to somebody else")
		return
	}
	name := "/tmp/perf-" + strconv.Itoa(os.Getpid()) + ".map"
	if err := os.WriteFile(name, []byte("1000 10 f\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(name)
	dir := "/proc/" + strconv.Itoa(os.Getpid())
	if r := readPerfMap(dir); r == nil || len(r.all) != 1 {
		t.Errorf("its own map: %+v", r)
	}
	if err := os.Chown(name, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if r := readPerfMap(dir); r != nil {
		t.Errorf("somebody else's map is read: %+v", r)
	}
}

func TestTheKernelsNames(t *testing.T) {
	r := parseKallsyms(strings.NewReader("ffffffff81000000 T _text\nffffffff81000100 t tcp_sendmsg\n" +
		"ffffffff81000180 D data\nffffffffc0000000 t run\t[nf_tables]\nhuh\n"))
	for pc, want := range map[uint64]string{
		0xffffffff81000000: "_text", 0xffffffff810001ff: "tcp_sendmsg", 0xffffffffc0000001: "run",
		0xffffffff80000000: "", 0xffffffffd0000000: "",
	} {
		if got, _ := r.find(pc); got != want {
			t.Errorf("at %x is %q, want %q", pc, got, want)
		}
	}
	if hidden := parseKallsyms(strings.NewReader("0000000000000000 T tcp_sendmsg\n")); len(hidden.all) != 0 {
		t.Error("addresses that may not be seen are taken for 0")
	}
}

func TestLinesOfMaps(t *testing.T) {
	m, ok := parseMapping("55d0a000-55d0b000 r-xp 00001000 fd:01 1234                       /srv/a " +
		"b (deleted)")
	if want := (mapping{start: 0x55d0a000, end: 0x55d0b000, offset: 0x1000, inode: 1234,
		path: "/srv/a b (deleted)"}); !ok || m != want {
		t.Errorf("%+v", m)
	}
	for _, line := range []string{"", "x", "55d0a000-55d0b000 r--p 0 fd:01 12",
		"55d0b000-55d0a000 r-xp 0 fd:01 12", "z-1 r-xp 0 fd:01 12"} {
		if _, ok := parseMapping(line); ok {
			t.Errorf("%q holds code", line)
		}
	}
}

func FuzzObject(f *testing.F) {
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.c"), []byte("int main(void){return 0;}"),
		0o600); err == nil {
		binary := filepath.Join(dir, "a")
		if exec.Command("gcc", "-g", "-s", "-nostdlib", "-static", "-Wl,-e,main", "-o", binary,
			filepath.Join(dir, "a.c")).Run() == nil {
			if data, err := os.ReadFile(binary); err == nil {
				f.Add(data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		name := filepath.Join(t.TempDir(), "a")
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if o := newObject(file); o != nil {
			defer o.close()
			for offset := uint64(0); offset < 8<<10; offset += 64 {
				o.frames(offset, name)
			}
		}
	})
}
