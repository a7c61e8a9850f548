package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// MaxErrors bounds the list: a file that is wrong in more places than this is not repaired from the
// list's end.
const MaxErrors = 1000

// Error is one thing that is wrong with a configuration.
type Error struct {
	File string
	// Line and Column begin at 1; both are 0 when the whole file is meant. Columns count
	// characters.
	Line, Column int
	// Path is the key, as in "routes[3].respond.status"; empty for what concerns no key.
	Path string
	// Problem is what is wrong, and what to do about it.
	Problem string
}

// Error is "file:line:column: key.path: what is wrong; what to do".
func (e Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": ")
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Problem)
	return b.String()
}

// Errors is everything that is wrong with a configuration, in the order of the file. It is what
// Load and Parse return when they return an error, and never empty then.
type Errors []Error

// Error is one line for each error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Bounded is a sorted list cut to MaxErrors, with one more that says how many are left out.
func (e Errors) Bounded() Errors {
	if len(e) <= MaxErrors {
		return e
	}
	return append(e[:MaxErrors:MaxErrors], beyond(e[0].File, len(e)-MaxErrors))
}

func beyond(file string, n int) Error {
	return Error{File: file, Problem: fmt.Sprintf("%d more errors are not listed; fix these first", n)}
}

// errorList gathers errors up to MaxErrors and counts the rest.
type errorList struct {
	file   string
	list   Errors
	seen   map[Error]bool
	beyond int
}

func (l *errorList) add(line, column int, path, problem string) {
	e := Error{File: l.file, Line: line, Column: column, Path: path, Problem: problem}
	if len(l.list) == MaxErrors {
		l.beyond++
		return
	}
	if !l.seen[e] {
		if l.seen == nil {
			l.seen = make(map[Error]bool)
		}
		l.seen[e] = true
		l.list = append(l.list, e)
	}
}

// count is how many errors there are, for a caller that has to know whether something added one.
func (l *errorList) count() int { return len(l.list) + l.beyond }

// full reports that no further error will be kept, so that its text need not be made.
func (l *errorList) full() bool { return len(l.list) == MaxErrors }

// err is the sorted list, or nil when there is nothing in it.
func (l *errorList) err() error {
	if len(l.list) == 0 {
		return nil
	}
	slices.SortStableFunc(l.list, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Path, b.Path))
	})
	if l.beyond > 0 {
		l.list = append(l.list, beyond(l.file, l.beyond))
	}
	return l.list
}
