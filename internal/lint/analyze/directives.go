package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/analysis"
	"honnef.co/go/tools/analysis/facts/directives"
	"honnef.co/go/tools/analysis/lint"
)

// obeyed are the directives that have kept something from being reported. go vet starts a process for
// each package.
var obeyed sync.Map // of *ast.Comment

// obeyDirectives has a check of staticcheck report nothing where the source says
//
//	//lint:ignore CHECKS REASON       on the line, or the one before
//	//lint:file-ignore CHECKS REASON  anywhere in the file
//
// and name itself in what it reports.
func obeyDirectives(check *analysis.Analyzer) {
	run := check.Run
	check.Requires = append(check.Requires, directives.Analyzer)
	check.Run = func(pass *analysis.Pass) (any, error) {
		obedient, all := *pass, pass.ResultOf[directives.Analyzer].([]lint.Directive)
		obedient.Report = func(d analysis.Diagnostic) {
			for _, directive := range all {
				if ignores(pass, &directive, check.Name, d) {
					obeyed.Store(directive.Directive, true)
					return
				}
			}
			d.Message = fmt.Sprintf("%s (%s: go tool staticcheck -explain %[2]s)", d.Message, check.Name)
			pass.Report(d)
		}
		return run(&obedient)
	}
}

// ignores says whether a directive is about what a check has found.
func ignores(pass *analysis.Pass, directive *lint.Directive, check string, d analysis.Diagnostic) bool {
	found := pass.Fset.PositionFor(d.Pos, false)
	node := pass.Fset.PositionFor(directive.Node.Pos(), false)
	if found.Filename != node.Filename || len(directive.Arguments) < 2 {
		return false
	}
	if directive.Command != "file-ignore" && (directive.Command != "ignore" || found.Line != node.Line) {
		return false
	}
	for _, pattern := range strings.Split(directive.Arguments[0], ",") {
		if matches, _ := path.Match(pattern, check); matches {
			return true
		}
	}
	return false
}

// uselessDirectives runs after all checks that a directive can be for. One that names U1000, alone or
// with others, is never reported: the analysis of unused code takes what it is for as used, so it finds
// nothing there that could be ignored. It knows no patterns, so U* is as any other check's.
var uselessDirectives = &analysis.Analyzer{
	Name:     "uselessdirectives",
	Doc:      "report directives that ignore nothing, or give no reason",
	Requires: []*analysis.Analyzer{directives.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		for _, directive := range pass.ResultOf[directives.Analyzer].([]lint.Directive) {
			at, about := directive.Directive.Pos(), directive.Arguments
			if _, did := obeyed.Load(directive.Directive); len(about) < 2 {
				pass.Reportf(at, "name the checks that are ignored here, and the reason")
			} else if !did && !slices.Contains(strings.Split(about[0], ","), unusedCode.Name) {
				pass.Reportf(at, "nothing is ignored here: remove this directive")
			}
		}
		return nil, nil
	},
}
