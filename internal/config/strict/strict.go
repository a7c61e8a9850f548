// Package strict reads YAML files from outside as strictly as a configuration is read: an unknown
// key, a key given twice or a value of the wrong form is an error with its line, its column and the
// nearest key, and all of them are told at once. It must not know what the files are for: what the
// keys mean, and which there are, is the caller's.
package strict

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"plimsoll/internal/config"
	"plimsoll/internal/plainfile"
)

const (
	// maxNesting is the deepest that lists and mappings may lie in each other: the YAML parser
	// recurses.
	maxNesting = 20
	// maxErrors bounds the list of what is wrong.
	maxErrors = 200
)

// Reader reads one file, noting every error and going on. It is for one goroutine.
type Reader struct {
	// File is what errors call the file, and Dir the folder that the paths in it start from.
	File, Dir string
	// Lookup is the environment, for who expands it.
	Lookup func(name string) (value string, ok bool)
	// Open reads the files that this one names, and the file itself; nil is Read.
	Open func(path string, limit int64) ([]byte, error)
	// Left is how many bytes the files that this one names may still have, for who reads them.
	Left int64
	// Docs is the page that shows the file's form, and Least what a file has to hold at least, with
	// an example: both for errors.
	Docs, Least string

	errs   config.Errors
	beyond int
}

// Read reads a regular file of at most limit bytes. Its errors do not name the file.
func Read(path string, limit int64) ([]byte, error) {
	content, err := plainfile.Read(path, limit)
	if errors.Is(err, plainfile.ErrSize) {
		return nil, fmt.Errorf("it is larger than the %s that are left for it", config.Size(limit))
	}
	if bare, ok := errors.AsType[*fs.PathError](err); ok {
		err = bare.Err
	}
	return content, err
}

// Read reads a file by Open.
func (r *Reader) Read(path string, limit int64) ([]byte, error) {
	if r.Open != nil {
		return r.Open(path, limit)
	}
	return Read(path, limit)
}

// Clip shortens what is quoted in an error.
func Clip(text string) string {
	if len(text) <= 60 {
		return text
	}
	return strings.ToValidUTF8(text[:60], "") + "…"
}

func (r *Reader) add(line, column int, path, problem string) {
	if len(r.errs) == maxErrors {
		r.beyond++
		return
	}
	r.errs = append(r.errs, config.Error{File: r.File, Line: line, Column: column, Path: path,
		Problem: problem})
}

// Failed says whether anything was found wrong so far.
func (r *Reader) Failed() bool { return len(r.errs) > 0 }

// Err is what is wrong, in the order of the file: a config.Errors, or nil when nothing is. It is
// asked once, at the end.
func (r *Reader) Err() error {
	if len(r.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(r.errs, func(a, b config.Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if r.beyond > 0 {
		r.errs = append(r.errs, config.Error{File: r.File,
			Problem: fmt.Sprintf("%d more errors are not listed; fix these first", r.beyond)})
	}
	return r.errs
}

// Parse turns the text into its only document; ok is false after it noted why it cannot.
func (r *Reader) Parse(src []byte) (root Value, ok bool) {
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if !utf8.Valid(src) || bytes.IndexByte(src, 0) >= 0 {
		r.add(0, 0, "", "this is not text in UTF-8; save the file in UTF-8")
		return Value{}, false
	}
	file := r.parseYAML(string(src))
	if file == nil {
		return Value{}, false
	}
	for _, d := range file.Docs {
		switch {
		case d.Body == nil:
		case root.Node != nil:
			line, column := config.PositionOf(d.Body)
			r.add(line, column, "", "a second document begins here; keep one, without a \"---\" line between")
			return Value{}, false
		default:
			root = Value{In: r, Node: d.Body}
		}
	}
	if root.Node == nil {
		r.add(0, 0, "", "the file is empty; "+r.Least)
	}
	return root, root.Node != nil
}

// parseYAML calls the YAML parser, and turns a panic of it into an error.
func (r *Reader) parseYAML(src string) (file *ast.File) {
	defer func() {
		if p := recover(); p != nil {
			r.add(0, 0, "", fmt.Sprintf("this is not YAML: the parser gave up (%v); fix it, and "+
				"the rest will be checked", p))
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
	if lines := strings.Split(src, "\n"); line > 0 && line <= len(lines) &&
		strings.Contains(lines[line-1], "${") {
		message += " (within {...} and [...], put a text with ${...} in quotes)"
	}
	r.add(line, column, "", "this is not YAML: "+message+"; fix it, and the rest will be checked")
	return nil
}

// guard refuses, before the parser sees them, what it handles by recursion without a bound, and
// what has no place in such a file.
func (r *Reader) guard(tokens token.Tokens) bool {
	var nesting config.Nesting
	for _, t := range tokens {
		problem := ""
		switch t.Type {
		case token.InvalidType:
			problem = "this is not YAML: " + t.Error + "; fix it (and indent with blanks, not with tabs)"
		case token.TagType, token.DirectiveType:
			problem = "YAML tags and directives are not supported; remove it"
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			problem = "YAML anchors and aliases are not supported here; write the value out"
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

// Value is a node of the file with the way that led to it.
type Value struct {
	In   *Reader
	Node ast.Node
	// Path is the keys that lead to it, as "mix[0].request.path".
	Path string
}

// Fail notes that something is wrong at the value.
func (v Value) Fail(format string, args ...any) {
	line, column := config.PositionOf(v.Node)
	v.In.add(line, column, v.Path, fmt.Sprintf(format, args...))
}

// under is the path of a key within the value.
func (v Value) under(name string) string {
	if v.Path == "" {
		return Clip(name)
	}
	return v.Path + "." + Clip(name)
}

// Pair is one key of a mapping with its value.
type Pair struct {
	Name       string
	Key, Value Value
}

// Pairs are the keys of a mapping in their order; ok is false when it is none, which has been
// noted.
func (v Value) Pairs() (all []Pair, ok bool) {
	m, ok := v.Node.(*ast.MappingNode)
	if !ok {
		v.Wrong("a mapping")
		return nil, false
	}
	lines := map[string]int{}
	for _, n := range m.Values {
		name, isText := scalarText(n.Key)
		e := Pair{name, Value{v.In, n.Key, v.under(name)}, Value{v.In, n.Value, v.under(name)}}
		if !isText {
			e.Key.Fail("a key must be text; write it in quotes")
			continue
		}
		line, _ := config.PositionOf(n.Key)
		if first, again := lines[name]; again {
			e.Key.Fail("this key is given twice, first on line %d; keep one", first)
			continue
		}
		lines[name] = line
		all = append(all, e)
	}
	return all, true
}

// Fields are the keys of a mapping whose keys are known.
type Fields struct {
	Of    Value
	given map[string]Value
}

// Fields reads a mapping, noting each key that is not among the known; ok is false when it is none.
func (v Value) Fields(known ...string) (Fields, bool) {
	f := Fields{v, map[string]Value{}}
	all, ok := v.Pairs()
	for _, e := range all {
		if !slices.Contains(known, e.Name) {
			e.Key.Fail("unknown key; %s", config.Suggest(e.Name, known))
			continue
		}
		f.given[e.Name] = e.Value
	}
	return f, ok
}

// Has says whether a key is given.
func (f Fields) Has(name string) bool {
	_, ok := f.given[name]
	return ok
}

// Get is the value of a key; ok is false when it is not given.
func (f Fields) Get(name string) (Value, bool) {
	v, ok := f.given[name]
	return v, ok
}

// Need is Get for a key that must be there.
func (f Fields) Need(name string) (Value, bool) {
	v, ok := f.given[name]
	if !ok {
		Value{f.Of.In, f.Of.Node, f.Of.under(name)}.Fail("missing; add it")
	}
	return v, ok
}

// One is the only one of the names that the mapping has; it notes when there is none or several.
func (f Fields) One(names ...string) (string, bool) {
	var given []string
	for _, n := range names {
		if f.Has(n) {
			given = append(given, n)
		}
	}
	if len(given) != 1 {
		what := "none of them is here"
		if len(given) > 1 {
			what = "here are " + strings.Join(given, " and ")
		}
		f.Of.Fail("one of %s is needed, and %s; keep exactly one", strings.Join(names, ", "), what)
		return "", false
	}
	return given[0], true
}

// List is the values of a list; ok is false when it is none, which has been noted. So do all the
// methods that read a value.
func (v Value) List() ([]Value, bool) {
	s, ok := v.Node.(*ast.SequenceNode)
	if !ok {
		v.Wrong("a list")
		return nil, false
	}
	all := make([]Value, len(s.Values))
	for i, n := range s.Values {
		all[i] = Value{v.In, n, v.Path + "[" + strconv.Itoa(i) + "]"}
	}
	return all, true
}

// OneOrMore is a list, or a single value as a list of one.
func (v Value) OneOrMore() []Value {
	if v.IsScalar() {
		return []Value{v}
	}
	all, _ := v.List()
	return all
}

// Wrong notes that the value is of another form than it must be.
func (v Value) Wrong(want string) {
	found := "a " + strings.ToLower(v.Node.Type().String())
	if text, ok := scalarText(v.Node); ok {
		found = strconv.Quote(Clip(text))
	}
	if _, null := v.Node.(*ast.NullNode); null {
		found = "nothing"
	}
	v.Fail("expected %s, found %s; %s shows its form", want, found, v.In.Docs)
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

// IsScalar says whether it is a text, a number or a truth value.
func (v Value) IsScalar() bool {
	_, ok := scalarText(v.Node)
	return ok
}

// Scalar is a text, number or truth value as text.
func (v Value) Scalar() (string, bool) {
	text, ok := scalarText(v.Node)
	if !ok {
		v.Wrong("text or a number")
	}
	return text, ok
}

// Text is a text; a number that was meant as one needs quotes.
func (v Value) Text() (string, bool) {
	switch v.Node.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return v.Scalar()
	}
	if text, ok := scalarText(v.Node); ok {
		v.Fail("expected text, found %s; write it in quotes: %q", Clip(text), Clip(text))
		return "", false
	}
	v.Wrong("text")
	return "", false
}

// Number is a number, with or without a fraction.
func (v Value) Number() (float64, bool) {
	switch v.Node.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		text, _ := scalarText(v.Node)
		if n, err := strconv.ParseFloat(text, 64); err == nil && strings.Trim(text, "+-0123456789.eE") == "" {
			return n, true
		}
	}
	v.Wrong("a number")
	return 0, false
}

// MostWhole bounds whole numbers, so that differences of two do not overflow.
const MostWhole = 1_000_000_000_000_000_000

// Whole is a whole number.
func (v Value) Whole() (int64, bool) {
	if n, ok := v.Node.(*ast.IntegerNode); ok {
		if i, err := strconv.ParseInt(n.Token.Value, 10, 64); err == nil && -MostWhole <= i &&
			i <= MostWhole {
			return i, true
		}
	}
	v.Wrong("a whole number of at most 18 digits")
	return 0, false
}

// Duration is a length of time with its unit.
func (v Value) Duration() (config.Duration, bool) {
	text, ok := v.Scalar()
	if !ok {
		return 0, false
	}
	d, err := config.ParseDuration(text)
	if err != nil {
		v.Fail("%v", err)
	}
	return d, err == nil
}
