package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// form is what a scalar looks like in YAML.
type form int

const (
	noScalar form = iota
	word
	integer
	fraction
	boolean
)

// scalarText is the text of a scalar as the file has it, and its form.
func scalarText(node ast.Node) (string, form) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, word
	case *ast.LiteralNode:
		return n.Value.Value, word
	case *ast.IntegerNode:
		return n.Token.Value, integer
	case *ast.FloatNode:
		return n.Token.Value, fraction
	case *ast.BoolNode:
		return n.Token.Value, boolean
	}
	return "", noScalar
}

// accepts reports whether a scalar of a form may fill a type. What the environment gave may be
// anything that its text can be.
func accepts(t reflect.Type, f form, fromEnvironment bool) bool {
	switch {
	case t == durationType, t == percentType:
		// Numbers are let through to the parsers of these, which know to ask for the unit.
		return f == word || f == integer || f == fraction
	case t == sizeType:
		return f == word || f == integer
	case t.Kind() == reflect.String:
		return f == word
	case fromEnvironment:
		return true
	case t.Kind() == reflect.Bool:
		return f == boolean
	case t.Kind() == reflect.Float64:
		return f == fraction || f == integer
	}
	return f == integer
}

// wrong notes that a node is of the wrong kind for the type.
func (d *decoder) wrong(p place, t reflect.Type) {
	d.fail(p, "expected %s, found %s%s", expected(t), found(p.node), remedy(p.node, t))
}

// expected names what a type takes.
func expected(t reflect.Type) string {
	switch t {
	case durationType:
		return "a duration such as \"5s\""
	case sizeType:
		return "a size such as \"64KB\""
	case percentType:
		return "a share such as \"20%\""
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	}
	if slices.ContainsFunc(keysOfMapping(t), func(k key) bool { return k.scalar }) {
		return "a string or a mapping"
	}
	return "a mapping"
}

// keysOfMapping is keysOf for structs, and nothing for free mappings.
func keysOfMapping(t reflect.Type) []key {
	if t.Kind() != reflect.Struct {
		return nil
	}
	return keysOf(t)
}

// found describes a node to the person who wrote it.
func found(node ast.Node) string {
	text, f := scalarText(node)
	switch f {
	case word:
		return "the string \"" + clip(strings.ReplaceAll(text, "\n", " ")) + "\""
	case integer, fraction:
		return "the number " + clip(text)
	case boolean:
		return text
	}
	switch node.(type) {
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode:
		return "a mapping"
	case *ast.NullNode:
		return "nothing"
	}
	return "a " + strings.ToLower(node.Type().String())
}

// remedy is what to do about a node of the wrong kind, where something can be said.
func remedy(node ast.Node, t reflect.Type) string {
	text, f := scalarText(node)
	_, empty := node.(*ast.NullNode)
	switch {
	case f == word && t.Kind() == reflect.Bool:
		return "; write true or false, without quotes"
	case f == word && (t.Kind() == reflect.Int || t.Kind() == reflect.Float64):
		return "; write it in digits, without quotes"
	case t.Kind() == reflect.String && f != noScalar:
		return "; write it in quotes: \"" + clip(text) + "\""
	case t.Kind() == reflect.Slice && f != noScalar:
		return "; write [" + clip(text) + "] for a list of one"
	case empty && t.Kind() == reflect.Struct:
		return "; write {} for the defaults, or remove the key"
	case empty:
		return "; give it a value, or remove the key"
	}
	return "; see the reference for its form"
}

// entry is one key of a mapping with its value.
type entry struct {
	name       string
	key, value place
}

// entriesOf lists the keys of the mapping at p, which is already resolved: its own first, each
// once, then those that "<<" merges into it and that it does not have itself. It may be asked
// again: an error is only noted once.
func (d *decoder) entriesOf(p place) []entry {
	mapping, ok := p.node.(*ast.MappingNode)
	if !ok {
		return nil
	}
	var own, merges []entry
	lines := make(map[string]int)
	for _, pair := range mapping.Values {
		if pair.Key.Type() == ast.MergeKeyType {
			merges = append(merges, entry{key: p.entry("<<", pair.Key), value: p.entry("<<", pair.Value)})
			continue
		}
		name, ok := keyName(pair.Key)
		key := p.entry(name, pair.Key)
		if !ok {
			d.fail(key, "expected a string as the key, found %s; write it in quotes", found(pair.Key))
			continue
		}
		line, _ := PositionOf(pair.Key)
		if first, again := lines[name]; again {
			d.fail(key, "this key is given twice, first on line %d; keep one", first)
			continue
		}
		lines[name] = line
		own = append(own, entry{name: name, key: key, value: p.entry(name, pair.Value)})
	}
	for _, m := range merges {
		for _, e := range d.merged(m.value) {
			if _, taken := lines[e.name]; !taken {
				lines[e.name] = 0
				own = append(own, entry{name: e.name, key: p.entryVia(e.key), value: p.entryVia(e.value)})
			}
		}
	}
	return own
}

// entryVia is a merged key or value as one of the mapping at p.
func (p place) entryVia(merged place) place {
	return place{node: merged.node, path: &path{parent: p.path, name: merged.path.name, index: -1},
		via: merged.via}
}

// merged lists what the value of a "<<" key brings: the keys of a mapping, or of each mapping of a
// list.
func (d *decoder) merged(p place) []entry {
	p, ok := d.resolve(p)
	if !ok {
		return nil
	}
	switch n := p.node.(type) {
	case *ast.MappingNode:
		if !d.charge(p, len(n.Values)) {
			return nil
		}
		return d.entriesOf(p)
	case *ast.SequenceNode:
		var all []entry
		for i, item := range n.Values {
			if item.Type() == ast.SequenceType {
				d.fail(p.item(i, item), "expected a mapping to merge, found a list; name mappings")
				continue
			}
			all = append(all, d.merged(p.item(i, item))...)
		}
		return all
	}
	d.fail(p, "expected a mapping to merge, found %s; name an anchor as in <<: *name", found(p.node))
	return nil
}

// keyName is the text of a key. Numbers and the like are not keys, so that a mapping of names has
// no two spellings of one.
func keyName(node ast.Node) (string, bool) {
	text, f := scalarText(node)
	return text, f == word || f == integer
}

// resolve follows anchors and aliases to the value they stand for.
func (d *decoder) resolve(p place) (place, bool) {
	for {
		switch n := p.node.(type) {
		case *ast.AnchorNode:
			p.node = n.Value
		case *ast.AliasNode:
			name := n.Value.GetToken().Value
			anchor := d.anchors[name]
			if anchor == nil || anchor.Start.Position.Offset > n.Start.Position.Offset {
				d.fail(p, "the alias *%s names no anchor before it; add &%s to the value that is "+
					"meant", clip(name), clip(name))
				return p, false
			}
			depth := 1
			for v := p.via; v != nil; v = v.parent {
				depth++
				if v.anchor == anchor {
					d.fail(p, "the alias *%s stands within the value that it names; write the "+
						"value out", clip(name))
					return p, false
				}
			}
			if depth > maxAliasDepth {
				d.fail(p, "aliases lead to aliases more than %d times here; write a value out "+
					"between", maxAliasDepth)
				return p, false
			}
			p.via = &via{parent: p.via, anchor: anchor}
			p.node = anchor.Value
		case nil:
			return p, false
		default:
			return p, true
		}
	}
}

// charge counts values that were reached through an alias, and reports whether there is room for
// them.
func (d *decoder) charge(p place, values int) bool {
	if p.via == nil {
		return true
	}
	before := d.aliased
	d.aliased += values
	if before <= maxAliased && d.aliased > maxAliased {
		d.fail(p, "the aliases of this file stand for more than %d values; write fewer", maxAliased)
	}
	return !d.overspent()
}

// overspent reports that charge has refused values.
func (d *decoder) overspent() bool { return d.aliased > maxAliased }

// findAnchors notes every anchor of the tree. Guard has bounded the depth.
func (d *decoder) findAnchors(node ast.Node) {
	switch n := node.(type) {
	case *ast.AnchorNode:
		name := n.Name.GetToken().Value
		if first, again := d.anchors[name]; again {
			line, _ := PositionOf(first)
			d.fail(place{node: n}, "the anchor &%s is given twice, first on line %d; rename one",
				clip(name), line)
		} else {
			d.anchors[name] = n
		}
		d.findAnchors(n.Value)
	case *ast.SequenceNode:
		for _, item := range n.Values {
			d.findAnchors(item)
		}
	case *ast.MappingNode:
		for _, pair := range n.Values {
			d.findAnchors(pair.Value)
		}
	}
}
