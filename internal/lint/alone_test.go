package lint

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// starts says where a file starts something that runs beside it, or nothing.
func starts(set *token.FileSet, tree *ast.File) string {
	where := ""
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			where = set.Position(n.Pos()).String()
		case *ast.SelectorExpr:
			if n.Sel.Name == "Go" || n.Sel.Name == "AfterFunc" {
				where = set.Position(n.Pos()).String()
			}
		}
		return true
	})
	return where
}

// startedFrom gives each place where a room, or a room it uses, starts a goroutine.
func startedFrom(t *testing.T, room string, seen map[string]bool) []string {
	t.Helper()
	if seen[room] {
		return nil
	}
	seen[room] = true
	files, err := filepath.Glob(filepath.Join("../..", room, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no source: %v", room, err)
	}
	var places []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if where := starts(set, tree); where != "" {
			places = append(places, where)
		}
		for _, i := range tree.Imports {
			used, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if own, ok := strings.CutPrefix(used, "plimsoll/"); ok {
				places = append(places, startedFrom(t, own, seen)...)
			}
		}
	}
	return places
}

func TestRoomsThatTheMakefileTestsWithoutTheRaceDetectorStartNoGoroutine(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^ALONE := (?:.*\\\n)*.*$`).Find(makefile)
	rooms := regexp.MustCompile(`\./(\S+)`).FindAllSubmatch(list, -1)
	if len(rooms) == 0 {
		t.Fatal("the Makefile has no list ALONE, or writes it in another way")
	}
	for _, found := range rooms {
		room := string(found[1])
		for _, where := range startedFrom(t, room, map[string]bool{}) {
			t.Errorf("%s: %s uses it, so the Makefile's ALONE must not name that room", where, room)
		}
	}
	if len(startedFrom(t, "internal/gateway", map[string]bool{})) == 0 {
		t.Error("no goroutine is found in the gateway, which starts some")
	}
}

// tagged gives the files of tests that are left out under the race detector, by their names.
func tagged(t *testing.T, set *token.FileSet) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	look := func(name string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil || !strings.HasPrefix(string(text), "//go:build !race\n") {
			return err
		}
		files[name], err = parser.ParseFile(set, name, text, 0)
		return err
	}
	for _, dir := range []string{"internal", "cmd", "examples", "bench"} {
		if err := filepath.WalkDir(filepath.Join("../..", dir), look); err != nil {
			t.Fatal(err)
		}
	}
	if len(files) == 0 {
		t.Fatal("no file is tagged !race")
	}
	return files
}

// Where a file of tests is left out under the race detector, that could find nothing in it, or
// disturbs what is measured: allocations.
func TestFilesThatTheRaceDetectorDoesNotSeeStartNoGoroutine(t *testing.T) {
	set := token.NewFileSet()
	for _, tree := range tagged(t, set) {
		if where := starts(set, tree); where != "" && !onlyAllocations(tree) {
			t.Errorf("%s starts a goroutine: the race detector must see it, so the file must not be tagged !race", where)
		}
	}
}

// makePlain is what make plain would run.
func makePlain(t *testing.T) []byte {
	t.Helper()
	plain := exec.CommandContext(t.Context(), "make", "--no-print-directory", "--dry-run", "plain")
	plain.Dir = "../.."
	plain.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // of the make that runs this
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=")
	})
	runs, err := plain.Output()
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// A TestMain looks for leaks, or is another program: hidden, its room's tests pass without it.
func TestNoTestMainIsHidden(t *testing.T) {
	_, list, _ := bytes.Cut(makePlain(t), []byte(`printf '"%s":"",' `))
	list, _, _ = bytes.Cut(list, []byte(" | "))
	files := strings.Fields(string(list))
	if len(files) < 100 {
		t.Fatalf("make plain hides %d files: %q", len(files), list)
	}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), "../../"+file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && (f.Name.Name == "TestMain" || f.Name.Name == "init") {
				t.Errorf("%s: make plain hides %s with the tests beside it: put it in a file without tests",
					file, f.Name.Name)
			}
		}
	}
}

// make plain names the tests that it runs, and a fuzz test was once left out by both halves.
func TestWhatTheRaceDetectorDoesNotSeeIsTestedWithoutIt(t *testing.T) {
	runs := makePlain(t)
	isTest := regexp.MustCompile(`^(Test|Fuzz|Example)`)
	for file, tree := range tagged(t, token.NewFileSet()) {
		for _, d := range tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !isTest.MatchString(f.Name.Name) || f.Name.Name == "TestMain" {
				continue
			}
			name := f.Name.Name
			if !strings.Contains(name, "Alloc") && !bytes.Contains(runs, []byte("^"+name+"$")) {
				t.Errorf("%s: %s is tagged !race, and make plain does not run it", file, name)
			}
		}
	}
}

// onlyAllocations says whether the names of all tests of a file say that they count allocations.
func onlyAllocations(tree *ast.File) bool {
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") && !strings.Contains(f.Name.Name, "Alloc") {
			return false
		}
	}
	return true
}
