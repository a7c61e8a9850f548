package lint

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

func TestTheProjectKeepsTheRulesOfTheHouse(t *testing.T) {
	broken, err := Check(os.DirFS("../.."), "plimsoll")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range broken {
		t.Error(b)
	}
}

// check checks one file, in a package that is documented elsewhere.
func check(t *testing.T, name, source string) string {
	t.Helper()
	dir := name[:strings.LastIndex(name, "/")]
	pkg := dir[strings.LastIndex(dir, "/")+1:]
	broken, err := Check(fstest.MapFS{
		name:          {Data: []byte("package " + pkg + "\n" + source)},
		dir + "/d.go": {Data: []byte("// Package " + pkg + " is there.\npackage " + pkg + "\n")},
	}, "plimsoll")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(broken, "\n")
}

func TestImportsGoDownTheFloors(t *testing.T) {
	for _, c := range []struct{ from, to, complaint string }{
		{"internal/http1", "internal/reactor", ""},
		{"internal/proxy", "internal/policy/limit", ""},
		{"internal/gateway", "internal/config", ""},
		{"cmd/plimsoll", "internal/admin", ""},
		{"internal/upstream/dns", "internal/upstream", ""},
		{"internal/reactor", "internal/invariant", ""},
		{"internal/reactor", "internal/http1", "above floor 0"},
		{"internal/http1", "internal/tlsio", "both are on floor 1"},
		{"internal/policy/limit", "internal/config", "both are on floor 3"},
		{"internal/policy/limit", "internal/policy/cache", "both are on floor 3"},
		{"internal/proxy", "internal/gateway", "above floor 4"},
		{"internal/gateway", "internal/cellar", "no such room"},
		{"internal/cellar", "internal/head", "no room internal/cellar"},
		{"internal/lab/load", "internal/reactor", ""},
		{"internal/lab/runner", "internal/lab/probe", ""},
		{"internal/lab/load", "internal/lab/probe", "on step 1, and the other on step 2"},
		{"internal/lab/load", "internal/lab/shelf", "the lab has no such room"},
		{"bench/refserver", "internal/lab/refserver", ""},
		{"internal/lab/load", "internal/config", ""},
		{"internal/lab/load", "internal/proxy", "the lab stands on"},
		{"internal/gateway", "internal/lab/load", "knows nothing of the lab"},
		{"internal/gateway", "internal/lab/model", "knows nothing of the lab"},
		{"internal/loadline", "internal/lab/model", ""},
		{"internal/loadline", "internal/lab/load", "knows nothing of the lab"},
		{"cmd/plimsoll", "internal/lab/survey", ""},
	} {
		got := check(t, c.from+"/x.go", "\nimport _ \"plimsoll/"+c.to+"\"\n")
		if c.complaint == "" && got != "" || !strings.Contains(got, c.complaint) {
			t.Errorf("%s imports %s: complaint %q, want %q", c.from, c.to, got, c.complaint)
		}
	}
}

func TestEachRuleFindsWhatBreaksIt(t *testing.T) {
	for _, c := range []struct{ name, file, source, complaint string }{
		{"a good file", "internal/head/x.go", "\nfunc f() {}\n", ""},
		{"a long file", "internal/head/x.go", strings.Repeat("\n// a\n", 310), "lines, more than 600"},
		{"a long function", "internal/head/x.go", "\nfunc f() {\n" + strings.Repeat("\tf()\n", 79) + "}\n", "f has 81 lines"},
		{"a function that just fits", "internal/head/x.go", "\nfunc f() {\n" + strings.Repeat("\tf()\n", 78) + "}\n", ""},
		{"a long test", "internal/head/x_test.go", "\nfunc f() {\n" + strings.Repeat("\tf()\n", 100) + "}\n", ""},
		{"a promise", "internal/head/x.go", "\n// TO" + "DO: later\n", "puts work off"},
		{"a sleeping test", "internal/head/x_test.go", "\nimport \"time\"\n\nfunc f() { time.Sl" + "eep(1) }\n", "a flake to come"},
		{"sleep outside tests", "internal/head/x.go", "\nimport \"time\"\n\nfunc f() { time.Sl" + "eep(1) }\n", ""},
		{"a skipping test", "internal/head/x_test.go", "\nimport \"testing\"\n\nfunc TestX(t " +
			"*testing.T) { t.Sk" + "ip() }\n", "skips itself"},
		{"a line that just fits", "internal/head/x.go", "\n//" + strings.Repeat("a", 108) + "\n", ""},
		{"a long line", "internal/head/x.go", "\n//" + strings.Repeat("ä", 109) + "\n", "x.go:3: 111 columns"},
		{"a long line by its tab", "internal/head/x.go",
			"\nfunc f() {\n\t//" + strings.Repeat("a", 105) + "\n}\n", "x.go:4: 111 columns"},
		{"a long tag", "internal/head/x.go",
			"\ntype t struct {\n\tA int `" + strings.Repeat("a", 200) + "`\n}\n", ""},
		{"a long line of a test", "internal/head/x_test.go", "\n//" + strings.Repeat("a", 200) + "\n", ""},
		{"many longer lines", "internal/head/x.go",
			strings.Repeat("\n//"+strings.Repeat("a", 99), 11) + "\n", "11 lines of code are longer than 100"},
		{"as many as may be", "internal/head/x.go",
			strings.Repeat("\n//"+strings.Repeat("a", 99), 10) + "\n", ""},
		{"many longer lines of tests", "internal/head/x_test.go",
			strings.Repeat("\n//"+strings.Repeat("a", 99), 31) + "\n", "31 lines of tests are longer than 100"},
		{"a sample's name", "internal/lab/model/x.go", "\nconst a = \"host.cpu.busy_seconds\"\n",
			"x.go:3: \"host.cpu.busy_seconds\" is a sample's name as a literal"},
		{"a sample's name or another", "internal/lab/model/x.go",
			"\nconst a = \"profile:mutex|go.mutex.wait_seconds\"\n", "as a literal"},
		{"a sample's name in a test", "internal/lab/model/x_test.go",
			"\nconst a = \"host.cores\"\n", ""},
		{"a sample's name outside the lab", "internal/head/x.go", "\nconst a = \"host.cores\"\n", ""},
		{"the names of samples", "internal/lab/measure/names.go", "\nconst a = \"host.cores\"\n", ""},
		{"a package's path", "internal/lab/model/x.go", "\nconst a = \"go.uber.org/zap/\"\n", ""},
		{"an outdated word", "internal/head/x.go", "\n// De" + "ar as it is.\n", "write expensive"},
		{"a part of another word", "internal/head/x.go", "\n// Recom" + "men" + "ded: a clear end.\n", ""},
		{"an outdated phrase", "internal/head/x.go", "\n// It cannot be to" + "ld.\n",
			"x.go:3: \"cannot be to" + "ld\" is not plain English: write cannot be determined"},
		{"an outdated phrase with a bracket", "internal/head/x.go", "\n// so of" + "ten (5)\n",
			"the number of runs"},
		{"what is not a loop", "internal/head/x.go", "\n// This is n" + "o loop.\n", "is not a"},
		{"where there is none", "internal/head/x.go", "\n// There is no loop.\n", ""},
		{"a comparison", "internal/head/x.go", "\n// It is no longer here.\n", ""},
		{"untidy", "internal/head/x.go", "\nfunc  f() {}\n", "gofmt"},
	} {
		got := check(t, c.file, c.source)
		if c.complaint == "" && got != "" || !strings.Contains(got, c.complaint) {
			t.Errorf("%s: complaint %q, want %q", c.name, got, c.complaint)
		}
	}
}

func TestAPromiseIsFoundInScriptsToo(t *testing.T) {
	for _, name := range []string{"Makefile", "scripts/a.sh", "bench/a.py", "bench/a.c"} {
		broken, err := Check(fstest.MapFS{name: {Data: []byte("\n# FIX" + "ME\n")}}, "plimsoll")
		if err != nil {
			t.Fatal(err)
		}
		if len(broken) != 1 || !strings.HasPrefix(broken[0], name+":2: puts work off") {
			t.Errorf("%s: got %q, want one complaint about its second line", name, broken)
		}
	}
}

func TestDocumentsAreInPlainEnglish(t *testing.T) {
	for _, name := range []string{"README.md", "docs/a.md", "bench/a.py", "web/src/a.ts", "Makefile"} {
		broken, err := Check(fstest.MapFS{name: {Data: []byte("\nIt is sel" + "dom.\n")}}, "plimsoll")
		if err != nil {
			t.Fatal(err)
		}
		if len(broken) != 1 || !strings.HasPrefix(broken[0], name+":2: \"sel"+"dom\" is not") {
			t.Errorf("%s: got %q, want one complaint about its second line", name, broken)
		}
	}
}

func TestOutdatedWordsAreFoundWhereverTheyStand(t *testing.T) {
	// A pattern of which no opening is known would never be tried.
	for _, o := range outdated {
		for alternative := range strings.SplitSeq(o.pattern, "|") {
			opening := strings.TrimPrefix(alternative, "(")
			if len(opening) >= 2 && !openings[[2]byte{opening[0], opening[1]}] {
				t.Errorf("%q begins with nothing that is looked for", alternative)
			}
		}
	}
	for _, words := range []string{
		"Dea" + "rest", "fore" + "told", "RECK" + "ONING", "the" + "nce", "there" + "upon", "le" + "st",
		"whil" + "st", "cannot be to" + "ld", "tells ap" + "art", "held aga" + "inst", "so of" + "ten (",
		"as no" + "ne or another is", "in va" + "in",
	} {
		for _, text := range []string{words, words + ".", "a_" + words + " (" + words + "\n"} {
			found := plainEnglish("a", []byte(text))
			if len(found) != 1 || !strings.Contains(found[0], fmt.Sprintf("%q", words)) ||
				strings.HasSuffix(found[0], "write ") {
				t.Errorf("%q: got %q, want one complaint about %q", text, found, words)
			}
		}
	}
}

func TestScriptsMayHaveFewLongLines(t *testing.T) {
	for long, want := range map[int]int{20: 0, 21: 1} {
		text := strings.Repeat("# "+strings.Repeat("a", 99)+"\n", long)
		broken, err := Check(fstest.MapFS{"bench/a.py": {Data: []byte(text)}}, "plimsoll")
		if err != nil {
			t.Fatal(err)
		}
		if len(broken) != want {
			t.Errorf("%d long lines: got %q, want %d complaints", long, broken, want)
		}
	}
}

func TestAPackageNeedsADocComment(t *testing.T) {
	broken, err := Check(fstest.MapFS{"internal/head/x.go": {Data: []byte("package head\n")}}, "plimsoll")
	if err != nil {
		t.Fatal(err)
	}
	if len(broken) != 1 || !strings.Contains(broken[0], "no doc comment") {
		t.Errorf("got %q, want one complaint about the doc comment", broken)
	}
}
