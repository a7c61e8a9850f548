// Command analyze is the tool that make lint gives to go vet: the checks of go vet and of staticcheck
// in one process per package. It must not know the house's own rules, which are in internal/lint.
//
// staticcheck as a command of its own reads and type-checks every dependency again: with empty
// caches the two commands took 243 seconds of the processor, this one takes 130. And go vet keeps
// what this tool says of a package that has not changed.
package main

import (
	"os"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/analysis/unitchecker"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
)

func main() {
	checks := []*analysis.Analyzer{unusedCode}
	for _, suite := range [][]*lint.Analyzer{
		simple.Analyzers, staticcheck.Analyzers, stylecheck.Analyzers,
	} {
		for _, check := range suite {
			if !check.Doc.NonDefault {
				checks = append(checks, check.Analyzer)
			}
		}
	}
	if borrowed(os.Args[1:]) {
		knowFacts(checks)
		unitchecker.Main(ofBorrowed...)
	}
	for _, check := range checks {
		obeyDirectives(check)
	}
	uselessDirectives.Requires = append(uselessDirectives.Requires, checks...)
	unitchecker.Main(append(append(checks, uselessDirectives), vet.Suite...)...)
}
