package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// path is the way from the top of the file to a value, made into text only for an error.
type path struct {
	parent *path
	name   string // of a key
	index  int    // of an item of a list; negative for a key
}

func (p *path) String() string {
	if p == nil {
		return ""
	}
	before := p.parent.String()
	switch {
	case p.index >= 0:
		return before + "[" + strconv.Itoa(p.index) + "]"
	case p.name == "" || strings.ContainsAny(p.name, ".[] \"\n"):
		return before + "[" + strconv.Quote(clip(p.name)) + "]"
	case before == "":
		return clip(p.name)
	}
	return before + "." + clip(p.name)
}

// via is an alias that was followed to come to a place, and those before it.
type via struct {
	parent *via
	anchor *ast.AnchorNode
}

// place is a node of the file, with the way that led to it.
type place struct {
	node ast.Node
	path *path
	via  *via
}

func (p place) item(i int, node ast.Node) place {
	return place{node: node, path: &path{parent: p.path, index: i}, via: p.via}
}

func (p place) entry(name string, node ast.Node) place {
	return place{node: node, path: &path{parent: p.path, name: name, index: -1}, via: p.via}
}

// PositionOf is the line and column where the text of a node begins, both from 1. The parser's own
// answer for a block mapping is the colon after its first key.
func PositionOf(node ast.Node) (line, column int) {
	var t *token.Token
	switch n := node.(type) {
	case *ast.MappingNode:
		t = n.Start
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return PositionOf(n.Values[0].Key)
		}
	case *ast.AnchorNode:
		t = n.Start
	case *ast.AliasNode:
		t = n.Start
	default:
		t = node.GetToken()
	}
	if t == nil || t.Position == nil {
		return 0, 0
	}
	return t.Position.Line, t.Position.Column
}

// fail notes that something is wrong at a place. The checks that come later leave its value alone.
func (d *decoder) fail(p place, format string, args ...any) {
	if d.broken == nil {
		d.broken = make(map[ast.Node]bool)
	}
	d.broken[p.node] = true
	if d.errs.full() {
		d.errs.beyond++
		return
	}
	line, column := PositionOf(p.node)
	d.errs.add(line, column, p.path.String(), fmt.Sprintf(format, args...))
}

// scope is one mapping of the file, for the checks that concern several of its keys.
type scope struct {
	*decoder
	mapping place
	present map[string]place // the keys that the file has
	failed  map[string]bool  // of those, the ones that did not decode
}

// has reports whether the file has the key.
func (s *scope) has(name string) bool {
	_, ok := s.present[name]
	return ok
}

// good reports whether the file has the key and its value is of the right shape, so that a check of
// its sense can say something new.
func (s *scope) good(name string) bool { return s.has(name) && !s.failed[name] }

// at is the place of a key's value, or of the whole mapping when the key is not there.
func (s *scope) at(name string) place {
	if p, ok := s.present[name]; ok {
		return p
	}
	return s.mapping.entry(name, s.mapping.node)
}

// reject notes that a key's value makes no sense.
func (s *scope) reject(name, format string, args ...any) { s.fail(s.at(name), format, args...) }

// items calls each with the place of every item of the list under a key that has not failed
// already.
func (s *scope) items(name string, each func(i int, at place)) {
	p, ok := s.resolve(s.present[name])
	list, isList := p.node.(*ast.SequenceNode)
	if !ok || !isList {
		return
	}
	for i, node := range list.Values {
		if at, ok := s.resolve(p.item(i, node)); ok && !s.broken[at.node] {
			each(i, at)
		}
	}
}

// entries calls each with every name of the mapping under a key, and the places of the name and of
// its value; those that have failed already are left out.
func (s *scope) entries(name string, each func(name string, key, value place)) {
	p, ok := s.resolve(s.present[name])
	if !ok {
		return
	}
	for _, e := range s.entriesOf(p) {
		if at, ok := s.resolve(e.value); ok && !s.broken[at.node] {
			each(e.name, e.key, at)
		}
	}
}

// within is the place of a key of the mapping under another key, or of that mapping when it lacks
// the key.
func (s *scope) within(name, inner string) place {
	p, _ := s.resolve(s.at(name))
	for _, e := range s.entriesOf(p) {
		if e.name == inner {
			return e.value
		}
	}
	return p.entry(inner, p.node)
}
