package config

import "fmt"

// Position is where something begins in a configuration file, for errors that later stages find.
// Line and Column begin at 1. It is not part of what the configuration means.
type Position struct {
	File         string
	Line, Column int
}

// String is "file:line:column".
func (p Position) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

// Wrong is an error at the position. path is the key, as in "routes[3].match".
func (p Position) Wrong(path, problem string) Error {
	return Error{File: p.File, Line: p.Line, Column: p.Column, Path: path, Problem: problem}
}

// begins is where the mapping of the scope begins.
func (s *scope) begins() Position {
	line, column := PositionOf(s.mapping.node)
	return Position{File: s.errs.file, Line: line, Column: column}
}
