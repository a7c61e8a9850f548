package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"plimsoll/internal/plainfile"
)

const (
	// maxFile is the largest configuration file: room for 200,000 routes of 80 bytes.
	maxFile = 16 << 20
	// maxRoutes bounds what a reload may ask of the memory.
	maxRoutes = 200_000
	// maxNesting is the deepest that lists and mappings may lie in each other. The deepest key lies
	// at 10; the YAML parser recurses, and takes time and memory with the square of the depth.
	maxNesting = 40
)

// Load reads and checks the configuration file at path. Relative paths in it start from its
// directory. The error is an Errors with everything that is wrong. Load reads the environment and
// the files that the configuration names; it may block, and may be called from any goroutine.
func Load(path string) (*Config, error) {
	src, err := readBounded(path, maxFile)
	if err != nil {
		return nil, Errors{{File: path, Problem: fmt.Sprintf("the configuration cannot be read: "+
			"%v; give the path of a readable file", bare(err))}}
	}
	return Parse(path, src, filepath.Dir(path))
}

// Parse checks a configuration that is already in memory. Name stands for the file in errors;
// relative paths in the configuration start from base. The error is an Errors with everything that
// is wrong. With an error the Config, where it is not nil, is what could be read: good for finding
// more errors, and for nothing else. Src is not kept.
func Parse(name string, src []byte, base string) (*Config, error) {
	d := &decoder{base: base, lookup: os.LookupEnv, given: given{}}
	d.errs.file = name
	root := d.parse(src)
	if root == nil {
		return nil, d.errs.err()
	}
	cfg := new(Config)
	d.decode(place{node: root}, cfg)
	cfg.sources, cfg.given = &d.sources, d.given
	cfg.Redact(d.errs.list)
	return cfg, d.errs.err()
}

// parse turns the text into the tree of its only document, or returns nil after it noted why it
// cannot.
func (d *decoder) parse(src []byte) ast.Node {
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if len(src) > maxFile {
		d.errs.add(0, 0, "", fmt.Sprintf("the file has %d bytes; %d are the most", len(src), maxFile))
		return nil
	}
	if at := firstBadByte(src); at >= 0 {
		line, column := lineColumn(src, at)
		d.errs.add(line, column, "", "this byte is not text in UTF-8; save the file in UTF-8, "+
			"without control characters")
		return nil
	}
	file, err := d.parseYAML(string(src))
	if err != nil {
		d.syntaxError(err)
	}
	if file == nil {
		return nil
	}
	var root ast.Node
	for _, document := range file.Docs {
		switch {
		case document.Body == nil:
		case root != nil:
			line, column := PositionOf(document.Body)
			d.errs.add(line, column, "", "a second document begins here; keep one, without a "+
				"\"---\" line between")
			return nil
		default:
			root = document.Body
		}
	}
	if root == nil {
		d.errs.add(0, 0, "", "the file is empty; at least a listener is needed, as in: "+
			"listeners: [{address: \"127.0.0.1:8080\"}]")
		return nil
	}
	d.anchors = make(map[string]*ast.AnchorNode)
	d.findAnchors(root)
	return root
}

// guard refuses, before the parser sees them, the constructs that it handles by recursion without a
// bound, and those that have no place in a configuration.
func (d *decoder) guard(tokens token.Tokens) bool {
	var nesting Nesting
	before := token.UnknownType
	for _, t := range tokens {
		switch t.Type {
		case token.InvalidType:
			d.errs.add(t.Position.Line, t.Position.Column, "", "this is not YAML: "+t.Error+"; "+repair(t))
			return false
		case token.TagType, token.DirectiveType:
			d.errs.add(t.Position.Line, t.Position.Column, "", "YAML tags and directives are not "+
				"supported; remove it")
			return false
		case token.MappingKeyType:
			d.errs.add(t.Position.Line, t.Position.Column, "", "explicit keys (\"? key\") are "+
				"not supported; write key: value")
			return false
		case token.AnchorType:
			if before == token.AnchorType {
				d.errs.add(t.Position.Line, t.Position.Column, "", "a value has two anchors; keep one")
				return false
			}
		}
		// The name of an anchor is a token of its own.
		if t.Prev == nil || t.Prev.Type != token.AnchorType || t.Type == token.AnchorType {
			before = t.Type
		}
		if nesting.Depth(t) > maxNesting {
			d.errs.add(t.Position.Line, t.Position.Column, "",
				fmt.Sprintf("lists and mappings lie more than %d deep here; close some",
					maxNesting))
			return false
		}
	}
	return true
}

// repair is what to do about an invalid token. A tab is the mistake most often made, and cannot
// be seen in the file.
func repair(t *token.Token) string {
	if strings.Contains(t.Error, "'\t'") {
		return "indent with blanks, not with tabs"
	}
	return "fix it"
}

// parseYAML calls the YAML parser and turns a panic of it into an error: a file must never end a
// gateway that reloads. It returns neither when guard has said what is wrong.
func (d *decoder) parseYAML(src string) (file *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			file, err = nil, fmt.Errorf("the YAML parser gave up (%v)", r)
		}
	}()
	tokens := lexer.Tokenize(src)
	if !d.guard(tokens) {
		return nil, nil
	}
	// Duplicate keys are found by the decoder, which goes on to the errors after them.
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// syntaxError notes what the parser said. It stops at its first error, so that there is only ever
// one.
func (d *decoder) syntaxError(err error) {
	var at interface {
		GetMessage() string
		GetToken() *token.Token
	}
	if errors.As(err, &at) && at.GetToken() != nil {
		p := at.GetToken().Position
		d.errs.add(p.Line, p.Column, "", "this is not YAML: "+firstLine(at.GetMessage())+
			"; fix it, and the rest will be checked")
		return
	}
	d.errs.add(0, 0, "", "this is not YAML: "+firstLine(err.Error())+"; fix it, and the rest will be checked")
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// firstBadByte is the index of the first byte that is not UTF-8 or a control character, or -1.
func firstBadByte(src []byte) int {
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && size <= 1 || r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f {
			return i
		}
		i += size
	}
	return -1
}

// lineColumn is where the byte at index at stands, both counted from 1, the column in characters.
func lineColumn(src []byte, at int) (line, column int) {
	start := bytes.LastIndexByte(src[:at], '\n') + 1
	return bytes.Count(src[:at], []byte("\n")) + 1, utf8.RuneCount(src[start:at]) + 1
}

// readBounded reads a regular file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	content, err := plainfile.Read(path, limit)
	if errors.Is(err, plainfile.ErrSize) {
		err = fmt.Errorf("it is larger than %s", Size(limit))
	}
	return content, err
}
