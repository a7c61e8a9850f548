package scenario

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"plimsoll/internal/config"
)

const (
	// maxNesting is the deepest that lists and mappings may lie in each other: the YAML parser recurses.
	maxNesting = 20
	// maxErrors bounds the list of what is wrong.
	maxErrors = 200
)

// reader reads one scenario, noting every error and going on. One goroutine.
type reader struct {
	file   string
	dir    string // that the paths in it start from
	lookup func(string) (string, bool)
	left   int64 // bytes that data files may still have
	errs   config.Errors
	beyond int
}

func (r *reader) add(line, column int, path, problem string) {
	if len(r.errs) == maxErrors {
		r.beyond++
		return
	}
	r.errs = append(r.errs, config.Error{File: r.file, Line: line, Column: column, Path: path, Problem: problem})
}

// err is what is wrong, in the order of the file; nil when nothing is.
func (r *reader) err() error {
	if len(r.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(r.errs, func(a, b config.Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if r.beyond > 0 {
		r.errs = append(r.errs, config.Error{File: r.file, Problem: fmt.Sprintf("%d more errors are not listed; mend these first", r.beyond)})
	}
	return r.errs
}

// parse turns the text into its only document; ok is false after it noted why it cannot.
func (r *reader) parse(src []byte) (root value, ok bool) {
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if !utf8.Valid(src) || bytes.IndexByte(src, 0) >= 0 {
		r.add(0, 0, "", "this is not text in UTF-8; save the file in UTF-8")
		return value{}, false
	}
	file := r.parseYAML(string(src))
	if file == nil {
		return value{}, false
	}
	for _, d := range file.Docs {
		switch {
		case d.Body == nil:
		case root.node != nil:
			line, column := config.PositionOf(d.Body)
			r.add(line, column, "", "a second document begins here; keep one, without a \"---\" line between")
			return value{}, false
		default:
			root = value{r: r, node: d.Body}
		}
	}
	if root.node == nil {
		r.add(0, 0, "", "the file is empty; at least a mix is needed, as in: mix: [{name: home, request: {path: /}}]")
	}
	return root, root.node != nil
}

// parseYAML calls the YAML parser, and turns a panic of it into an error.
func (r *reader) parseYAML(src string) (file *ast.File) {
	defer func() {
		if p := recover(); p != nil {
			r.add(0, 0, "", fmt.Sprintf("this is not YAML: the parser gave up (%v); mend it, and the rest will be checked", p))
			file = nil
		}
	}()
	tokens := lexer.Tokenize(src)
	if !r.guard(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err == nil {
		return file
	}
	line, column, message := 0, 0, err.Error()
	var at interface {
		GetMessage() string
		GetToken() *token.Token
	}
	if errors.As(err, &at) && at.GetToken() != nil {
		line, column, message = at.GetToken().Position.Line, at.GetToken().Position.Column, at.GetMessage()
	}
	message, _, _ = strings.Cut(message, "\n")
	if lines := strings.Split(src, "\n"); line > 0 && line <= len(lines) && strings.Contains(lines[line-1], "${") {
		message += " (within {...} and [...], put a text with ${...} in quotes)"
	}
	r.add(line, column, "", "this is not YAML: "+message+"; mend it, and the rest will be checked")
	return nil
}

// guard refuses, before the parser sees them, what it handles by recursion without a bound, and what has no place in a scenario.
func (r *reader) guard(tokens token.Tokens) bool {
	var nesting config.Nesting
	for _, t := range tokens {
		problem := ""
		switch t.Type {
		case token.InvalidType:
			problem = "this is not YAML: " + t.Error + "; mend it (and indent with blanks, not with tabs)"
		case token.TagType, token.DirectiveType:
			problem = "YAML tags and directives are not supported; remove it"
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			problem = "YAML anchors and aliases are not supported in a scenario; write the value out (headers at the top level are for all requests)"
		case token.MappingKeyType:
			problem = "explicit keys (\"? key\") are not supported; write key: value"
		}
		if nesting.Depth(t) > maxNesting {
			problem = fmt.Sprintf("lists and mappings lie more than %d deep here; close some", maxNesting)
		}
		if problem != "" {
			r.add(t.Position.Line, t.Position.Column, "", problem)
			return false
		}
	}
	return true
}

// value is a node of the file with the way that led to it.
type value struct {
	r    *reader
	node ast.Node
	path string
}

// fail notes that something is wrong at the value.
func (v value) fail(format string, args ...any) {
	line, column := config.PositionOf(v.node)
	v.r.add(line, column, v.path, fmt.Sprintf(format, args...))
}

// under is the path of a key within the value.
func (v value) under(name string) string {
	if v.path == "" {
		return clip(name)
	}
	return v.path + "." + clip(name)
}

// pair is one key of a mapping with its value.
type pair struct {
	name       string
	key, value value
}

// pairs are the keys of a mapping in their order; ok is false when it is none, which has been noted.
func (v value) pairs() (all []pair, ok bool) {
	m, ok := v.node.(*ast.MappingNode)
	if !ok {
		v.wrong("a mapping")
		return nil, false
	}
	lines := map[string]int{}
	for _, n := range m.Values {
		name, isText := scalarText(n.Key)
		e := pair{name, value{v.r, n.Key, v.under(name)}, value{v.r, n.Value, v.under(name)}}
		if !isText {
			e.key.fail("a key must be text; write it in quotes")
			continue
		}
		line, _ := config.PositionOf(n.Key)
		if first, again := lines[name]; again {
			e.key.fail("this key is given twice, first on line %d; keep one", first)
			continue
		}
		lines[name] = line
		all = append(all, e)
	}
	return all, true
}

// fields are the keys of a mapping whose keys are known.
type fields struct {
	of    value
	given map[string]value
}

// fields reads a mapping, noting each key that is not among the known; ok is false when it is none.
func (v value) fields(known ...string) (fields, bool) {
	f := fields{v, map[string]value{}}
	all, ok := v.pairs()
	for _, e := range all {
		if !slices.Contains(known, e.name) {
			e.key.fail("unknown key; %s", config.Suggest(e.name, known))
			continue
		}
		f.given[e.name] = e.value
	}
	return f, ok
}

func (f fields) has(name string) bool {
	_, ok := f.given[name]
	return ok
}

func (f fields) get(name string) (value, bool) {
	v, ok := f.given[name]
	return v, ok
}

// need is get for a key that must be there.
func (f fields) need(name string) (value, bool) {
	v, ok := f.given[name]
	if !ok {
		value{f.of.r, f.of.node, f.of.under(name)}.fail("missing; add it")
	}
	return v, ok
}

// one is the only one of the names that the mapping has; it notes when there is none or several.
func (f fields) one(names ...string) (string, bool) {
	var given []string
	for _, n := range names {
		if f.has(n) {
			given = append(given, n)
		}
	}
	if len(given) != 1 {
		what := "none of them is here"
		if len(given) > 1 {
			what = "here are " + strings.Join(given, " and ")
		}
		f.of.fail("one of %s is needed, and %s; keep exactly one", strings.Join(names, ", "), what)
		return "", false
	}
	return given[0], true
}

func (v value) list() ([]value, bool) {
	s, ok := v.node.(*ast.SequenceNode)
	if !ok {
		v.wrong("a list")
		return nil, false
	}
	all := make([]value, len(s.Values))
	for i, n := range s.Values {
		all[i] = value{v.r, n, v.path + "[" + strconv.Itoa(i) + "]"}
	}
	return all, true
}

// oneOrMore is a list, or a single value as a list of one.
func (v value) oneOrMore() []value {
	if v.isScalar() {
		return []value{v}
	}
	all, _ := v.list()
	return all
}

// wrong notes that the value is of another form than it must be.
func (v value) wrong(want string) {
	found := "a " + strings.ToLower(v.node.Type().String())
	if text, ok := scalarText(v.node); ok {
		found = strconv.Quote(clip(text))
	}
	if _, null := v.node.(*ast.NullNode); null {
		found = "nothing"
	}
	v.fail("expected %s, found %s; docs/scenario.md shows its form", want, found)
}

// scalarText is the text of a scalar as the file has it, whatever its form; null is none.
func scalarText(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func (v value) isScalar() bool {
	_, ok := scalarText(v.node)
	return ok
}

// scalar is a text, number or truth value as text.
func (v value) scalar() (string, bool) {
	text, ok := scalarText(v.node)
	if !ok {
		v.wrong("text or a number")
	}
	return text, ok
}

// text is a text; a number that was meant as one needs quotes.
func (v value) text() (string, bool) {
	switch v.node.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return v.scalar()
	}
	if text, ok := scalarText(v.node); ok {
		v.fail("expected text, found %s; write it in quotes: %q", clip(text), clip(text))
		return "", false
	}
	v.wrong("text")
	return "", false
}

func (v value) number() (float64, bool) {
	switch v.node.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		text, _ := scalarText(v.node)
		if n, err := strconv.ParseFloat(text, 64); err == nil && strings.Trim(text, "+-0123456789.eE") == "" {
			return n, true
		}
	}
	v.wrong("a number")
	return 0, false
}

// maxWhole bounds whole numbers, so that differences of two do not overflow.
const maxWhole = 1_000_000_000_000_000_000

func (v value) whole() (int64, bool) {
	if n, ok := v.node.(*ast.IntegerNode); ok {
		if i, err := strconv.ParseInt(n.Token.Value, 10, 64); err == nil && -maxWhole <= i && i <= maxWhole {
			return i, true
		}
	}
	v.wrong("a whole number of at most 18 digits")
	return 0, false
}

func (v value) duration() (config.Duration, bool) {
	text, ok := v.scalar()
	if !ok {
		return 0, false
	}
	d, err := config.ParseDuration(text)
	if err != nil {
		v.fail("%v", err)
	}
	return d, err == nil
}
