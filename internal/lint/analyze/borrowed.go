package main

import (
	"encoding/gob"
	"encoding/json"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/analysis/passes/printf"
	"golang.org/x/tools/go/analysis/unitchecker"
	"honnef.co/go/tools/analysis/facts/deprecated"
)

// ofBorrowed are what is asked of a package of another module or of the standard library, for the
// sake of those that import it: what is deprecated there, what formats as Printf does, what does not
// return. The other checks whose findings cross packages (which functions are pure, which results
// are never nil) build SSA for every function: a quarter of the time of a package that imports much,
// for nothing that they have ever said of code here.
var ofBorrowed = []*analysis.Analyzer{deprecated.Analyzer, printf.Analyzer, ctrlflow.Analyzer}

// computing are the packages of the standard library of which all checks are asked, as their
// functions compute a result and do nothing else: to call one and ignore its result is a mistake.
var computing = []string{
	"errors", "fmt", "html", "math", "math/bits", "net/url", "path", "path/filepath", "sort",
	"strconv", "strings", "time", "unicode", "unicode/utf8",
}

// borrowed says whether go vet gives this process a package of which nothing is to be reported, and
// of which no more is asked than ofBorrowed. A configuration that cannot be read is unitchecker's to
// complain about.
func borrowed(args []string) bool {
	if len(args) == 0 || !strings.HasSuffix(args[len(args)-1], ".cfg") {
		return false
	}
	var unit unitchecker.Config
	text, err := os.ReadFile(args[len(args)-1])
	if err != nil || json.Unmarshal(text, &unit) != nil || !unit.VetxOnly {
		return false
	}
	standard := unit.ModulePath == ""
	return unit.ModuleVersion != "" || standard && !slices.Contains(computing, unit.ImportPath)
}

// knowFacts has facts of other packages be read that only other checks than these look at.
func knowFacts(checks []*analysis.Analyzer) {
	for _, check := range checks {
		for _, fact := range check.FactTypes {
			gob.Register(fact)
		}
		knowFacts(check.Requires)
	}
}
