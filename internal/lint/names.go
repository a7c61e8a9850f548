package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strconv"
)

// namesFile is the one file that has the names of samples as literals.
const namesFile = "internal/lab/measure/names.go"

// sampleName is what names of samples look like, of whatever they are: a group, a dot and words, as
// in "host.cpu.busy_seconds". Two that a rule may have instead of each other stand side by side.
var sampleName = regexp.MustCompile(
	`(^|\|)(host|target|listener|go|db|perf|bpf|behind)\.([a-z0-9_]+(\.[a-z0-9_]+)*\.?)?($|\|)`)

// sampleNames finds names of samples that are written as literals in the lab's own code: one that
// is mistyped is a figure that is missing without a word, where a constant does not compile. Tests
// may have literals, which say what a file or a page contains.
func sampleNames(f *file) []string {
	if !lab(f.dir()) || f.test() || f.path == namesFile {
		return nil
	}
	var broken []string
	ast.Inspect(f.tree, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(literal.Value); err == nil && sampleName.MatchString(text) {
			broken = append(broken, fmt.Sprintf("%s:%d: %s is a sample's name as a literal: use the "+
				"constant of %s", f.path, f.line(n.Pos()), literal.Value, path.Base(namesFile)))
		}
		return true
	})
	return broken
}
