package config

import "github.com/goccy/go-yaml/token"

// Nesting follows how deep lists and mappings lie in each other, from the tokens of a YAML file,
// before its parser sees them: that one works by recursion without a bound. The zero value is
// ready. Everything that reads YAML from outside asks it.
type Nesting struct {
	brackets int
	columns  []int // of the block collections that are open, each further right than the one before
}

// Depth is how many lists and mappings are open at a token. The tokens of a file are given one
// after the other, each once.
func (n *Nesting) Depth(t *token.Token) int {
	switch t.Type {
	case token.SequenceStartType, token.MappingStartType:
		n.brackets++
	case token.SequenceEndType, token.MappingEndType:
		n.brackets = max(0, n.brackets-1)
	case token.SequenceEntryType, token.MappingValueType:
		if n.brackets > 0 {
			break
		}
		column := t.Position.Column
		if t.Type == token.MappingValueType && t.Prev != nil {
			column = t.Prev.Position.Column
		}
		for len(n.columns) > 0 && n.columns[len(n.columns)-1] >= column {
			n.columns = n.columns[:len(n.columns)-1]
		}
		n.columns = append(n.columns, column)
	}
	return n.brackets + len(n.columns)
}
