package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// A line fits beside another window. Some may be longer, up to a bound: what reads better in one
// piece. Tests have tables, so more of their lines may, and they have no bound.
const (
	tabColumns    = 4
	usualColumns  = 100
	maxColumns    = 110
	maxLongOf1000 = 10
	maxLongTests  = 30
	// Scripts have configurations of other programs in them.
	maxLongScripts = 20
	// Of a small tree, one line is a large share.
	minLines = 1000
)

// widths checks how long lines are: each, and how many are longer than usual.
func widths(files []*file) []string {
	var broken []string
	var code, tests struct{ lines, long int }
	for _, f := range files {
		raw := rawStrings(f)
		of := &code
		if f.test() {
			of = &tests
		}
		for i, line := range bytes.Split(f.source, []byte("\n")) {
			of.lines++
			n := columns(string(line))
			if n > usualColumns {
				of.long++
			}
			if n > maxColumns && !f.test() && !raw[i+1] {
				broken = append(broken, fmt.Sprintf("%s:%d: %d columns, more than %d: break the line",
					f.path, i+1, n, maxColumns))
			}
		}
	}
	share := func(what string, lines, long, allowed int) {
		if allowed = max(lines, minLines) * allowed / 1000; long > allowed {
			broken = append(broken, fmt.Sprintf("%d lines of %s are longer than %d columns; "+
				"%d may be: break some", long, what, usualColumns, allowed))
		}
	}
	share("code", code.lines, code.long, maxLongOf1000)
	share("tests", tests.lines, tests.long, maxLongTests)
	return broken
}

// scripts are kinds of files that are code in languages other than Go.
var scripts = []string{".py", ".ts", ".sh"}

// scriptWidths checks how many lines of scripts are longer than usual.
func scriptWidths(sources [][]byte) []string {
	lines, long := 0, 0
	for _, source := range sources {
		for line := range strings.Lines(string(source)) {
			lines++
			if columns(strings.TrimSuffix(line, "\n")) > usualColumns {
				long++
			}
		}
	}
	if allowed := max(lines, minLines) * maxLongScripts / 1000; long > allowed {
		return []string{fmt.Sprintf("%d lines of scripts are longer than %d columns; %d may be: "+
			"break some", long, usualColumns, allowed)}
	}
	return nil
}

func columns(line string) int {
	n := 0
	for range line {
		n++
	}
	return n + (tabColumns-1)*strings.Count(line, "\t")
}

// rawStrings are the lines that a raw string is on, a struct's tag for example: to break one is to
// change what it says.
func rawStrings(f *file) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING && s.Value[0] == '`' {
			for i := f.line(s.Pos()); i <= f.line(s.End()); i++ {
				lines[i] = true
			}
		}
		return true
	})
	return lines
}
