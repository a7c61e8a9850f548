// Package lint reads the project's own source and reports violations of the project's rules: which
// package may use which, how long files, functions and lines may be, which words are not plain
// English, and what tests may not contain. Only its test uses it. It must know nothing of what the
// code does, only what it looks like.
package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	maxFileLines     = 600
	maxFunctionLines = 80
)

// file is one parsed source file.
type file struct {
	path   string
	source []byte
	tree   *ast.File
	set    *token.FileSet
}

func (f *file) test() bool { return strings.HasSuffix(f.path, "_test.go") }

// dir is the file's folder, as "internal/http1".
func (f *file) dir() string { return path.Dir(f.path) }

func (f *file) line(p token.Pos) int { return f.set.Position(p).Line }

// Check reads every file under root that is code or a document, root holding the module of that
// name, and returns a line for each rule that is broken, sorted. testdata, hidden folders,
// node_modules, vendor and measurements' output are left out.
func Check(root fs.FS, module string) ([]string, error) {
	var broken []string
	var files []*file
	var other [][]byte
	err := walk(root, func(name string, source []byte) error {
		broken = append(broken, words(name, source)...)
		broken = append(broken, plainEnglish(name, source)...)
		if slices.Contains(scripts, path.Ext(name)) {
			other = append(other, source)
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, name, source, parser.ParseComments)
		if err != nil {
			return err
		}
		files = append(files, &file{name, source, tree, set})
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		broken = append(broken, imports(f, module)...)
		broken = append(broken, sizes(f)...)
		broken = append(broken, sampleNames(f)...)
		if f.test() {
			broken = append(broken, testCalls(f)...)
		}
		var formatted bytes.Buffer
		err := format.Node(&formatted, f.set, f.tree)
		if err != nil || !bytes.Equal(formatted.Bytes(), f.source) {
			broken = append(broken, f.path+": not as gofmt would write it: run gofmt -w on it")
		}
	}
	broken = append(broken, widths(files)...)
	broken = append(broken, scriptWidths(other)...)
	broken = append(broken, undocumented(files)...)
	slices.Sort(broken)
	return broken, nil
}

// skipped are folders that hold nothing a person wrote as code.
var skipped = []string{"testdata", "node_modules", "vendor", "out", "dist"}

// written are the kinds of files that people write and read.
var written = []string{".go", ".sh", ".py", ".c", ".ts", ".js", ".css", ".java", ".rb", ".yaml", ".md"}

func walk(root fs.FS, visit func(name string, source []byte) error) error {
	return fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if entry.IsDir() {
			if name != "." && (strings.HasPrefix(base, ".") || slices.Contains(skipped, base)) {
				return fs.SkipDir
			}
			return nil
		}
		if base != "Makefile" && !slices.Contains(written, path.Ext(name)) {
			return nil
		}
		source, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		return visit(name, source)
	})
}

// sizes checks how long a file and its functions are. Tests may have longer tables, so only their
// files are bounded.
func sizes(f *file) []string {
	var broken []string
	if n := f.set.File(f.tree.Pos()).LineCount(); n > maxFileLines {
		broken = append(broken, fmt.Sprintf("%s: %d lines, more than %d: one state machine a file",
			f.path, n, maxFileLines))
	}
	for _, d := range f.tree.Decls {
		function, ok := d.(*ast.FuncDecl)
		if !ok || f.test() {
			continue
		}
		if n := f.line(function.End()) - f.line(function.Pos()) + 1; n > maxFunctionLines {
			broken = append(broken, fmt.Sprintf("%s:%d: %s has %d lines, more than %d", f.path,
				f.line(function.Pos()), function.Name.Name, n, maxFunctionLines))
		}
	}
	return broken
}

// promises are words that put work off. They are written in halves so that this file may hold them.
var promises = []string{"TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK", "unimple" + "mented"}

// words finds promises in code, scripts and the Makefile, whatever the language. It searches the
// whole text for each word first: a look at every line takes seconds under the race detector.
func words(name string, source []byte) []string {
	var broken []string
	for _, word := range promises {
		if !bytes.Contains(source, []byte(word)) {
			continue
		}
		whole := regexp.MustCompile(`\b` + word + `\b`)
		for i, line := range bytes.Split(source, []byte("\n")) {
			if whole.Match(line) {
				broken = append(broken, fmt.Sprintf("%s:%d: puts work off (%s)", name, i+1, word))
			}
		}
	}
	return broken
}

// testCalls finds what makes a test flaky or silent: sleeping, and skipping.
func testCalls(f *file) []string {
	var broken []string
	ast.Inspect(f.tree, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		receiver, ok := selector.X.(*ast.Ident)
		if !ok {
			return true
		}
		call := receiver.Name + "." + selector.Sel.Name
		switch call {
		case "time.Sleep":
			broken = append(broken, fmt.Sprintf("%s:%d: a test that sleeps is a flake to come: "+
				"use testing/synctest or a channel", f.path, f.line(n.Pos())))
		case "t.Skip", "t.Skipf", "t.SkipNow", "b.Skip", "b.Skipf", "b.SkipNow":
			broken = append(broken, fmt.Sprintf("%s:%d: a test that skips itself says nothing",
				f.path, f.line(n.Pos())))
		}
		return true
	})
	return broken
}

// undocumented finds packages without a doc comment in any file that is not a test.
func undocumented(files []*file) []string {
	documented := map[string]bool{}
	for _, f := range files {
		if !f.test() {
			documented[f.dir()] = documented[f.dir()] || f.tree.Doc != nil
		}
	}
	var broken []string
	for dir, ok := range documented {
		if !ok {
			broken = append(broken, dir+": the package has no doc comment that says what the room is for")
		}
	}
	return broken
}
