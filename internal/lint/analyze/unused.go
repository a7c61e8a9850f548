package main

import (
	"go/token"

	"golang.org/x/tools/go/analysis"
	"honnef.co/go/tools/unused"
)

// unusedCode reports what staticcheck's analysis of unused code has found and leaves to its caller.
// go vet looks at a package together with its tests, so what only they use is not reported.
var unusedCode = &analysis.Analyzer{
	Name:     "U1000",
	Doc:      "report code that nothing uses",
	Requires: []*analysis.Analyzer{unused.Analyzer.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		found := pass.ResultOf[unused.Analyzer.Analyzer].(unused.Result)
		for _, object := range found.Unused {
			pass.Reportf(position(pass.Fset, object.Position), "%s %s is unused", object.Kind, object.Name)
		}
		return nil, nil
	},
}

// position is where a file of the set has what token.Position says.
func position(set *token.FileSet, at token.Position) (pos token.Pos) {
	set.Iterate(func(f *token.File) bool {
		if f.Name() == at.Filename && at.Line <= f.LineCount() {
			pos = f.LineStart(at.Line) + token.Pos(at.Column-1)
		}
		return pos == token.NoPos
	})
	return pos
}
