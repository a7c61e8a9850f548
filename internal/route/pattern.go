package route

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"plimsoll/internal/head"
)

// Bounds of a pattern.
const (
	MaxNames   = 16   // names in one pattern
	maxPattern = 2048 // bytes of one pattern
)

// A kind is what a segment of a pattern matches.
type kind uint8

const (
	literal kind = iota // one segment, its text
	wild                // one segment, any: {name}
	multi               // all that follows a slash, nothing too: {rest...}, or a slash at the end
	end                 // nothing after a slash: {$}
)

// segment is one piece of a pattern's path. Each stands for a slash and what follows it.
type segment struct {
	kind kind
	text string // of a literal: folded, as it is compared
	show string // of a literal: canonical, for messages
}

// pattern is one rule's pattern, taken apart.
type pattern struct {
	source   string
	method   string // "" for any
	host     string // "" for any; lower-case; ".example.com" for "*.example.com"
	segments []segment
	names    []string // of the wild segments, and of multi where it has one, in order
}

// parse takes a pattern apart.
func parse(source string) (*pattern, error) {
	if source == "" {
		return nil, fmt.Errorf("the pattern is empty; \"/\" matches every path")
	}
	if len(source) > maxPattern {
		return nil, fmt.Errorf("the pattern has %d bytes; %d is the most", len(source), maxPattern)
	}
	p := &pattern{source: source}
	rest := source
	if i := strings.IndexAny(source, " \t"); i >= 0 {
		p.method, rest = source[:i], strings.TrimLeft(source[i:], " \t")
		if err := checkMethod(p.method); err != nil {
			return nil, err
		}
	}
	i := strings.IndexByte(rest, '/')
	if i < 0 {
		return nil, fmt.Errorf("no path in %q: a pattern is \"[METHOD ][HOST]/[PATH]\"", source)
	}
	var err error
	if p.host, err = parseHost(rest[:i]); err != nil {
		return nil, err
	}
	return p, p.parsePath(rest[i:])
}

var usualMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"}

func checkMethod(method string) error {
	if !head.IsToken([]byte(method)) {
		return fmt.Errorf("%q is not a method; a pattern is \"[METHOD ][HOST]/[PATH]\"", method)
	}
	if upper := strings.ToUpper(method); upper != method && slices.Contains(usualMethods, upper) {
		return fmt.Errorf("methods are case-sensitive: write %s for %q", upper, method)
	}
	return nil
}

// parseHost gives the form that a host is compared in.
func parseHost(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	if strings.IndexByte(s, '{') >= 0 {
		return "", fmt.Errorf("host %q holds a \"{\": a host has no named parts; is a \"/\" "+
			"missing before it?", s)
	}
	host := strings.ToLower(s)
	if host[0] == '[' {
		if host[len(host)-1] != ']' {
			return "", fmt.Errorf("host %q: hosts are matched without their port; leave it out", s)
		}
		return host, nil
	}
	if strings.IndexByte(host, ':') >= 0 {
		return "", fmt.Errorf("host %q: hosts are matched without their port; leave it out", s)
	}
	name, wildcard := strings.CutPrefix(host, "*.")
	name = strings.TrimSuffix(name, ".")
	if host == "*" {
		return "", fmt.Errorf("host \"*\": leave the host out to match any")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", fmt.Errorf("%q is not a host: it is a name of letters, digits and \"-\" "+
				"(punycode for others), which may begin with \"*.\"", s)
		}
	}
	if wildcard {
		return "." + name, nil
	}
	return name, nil
}

// parsePath reads path, which begins with a slash, into segments and names.
func (p *pattern) parsePath(path string) error {
	for path != "" {
		text := path[1:]
		path = ""
		if i := strings.IndexByte(text, '/'); i >= 0 {
			text, path = text[:i], text[i:]
		}
		last := path == ""
		s, name, err := parseSegment(text, last)
		if err != nil {
			return err
		}
		if name != "" {
			if slices.Contains(p.names, name) {
				return fmt.Errorf("the name %q is there twice", name)
			}
			if len(p.names) == MaxNames {
				return fmt.Errorf("more than %d names", MaxNames)
			}
			p.names = append(p.names, name)
		}
		p.segments = append(p.segments, s)
	}
	return nil
}

// parseSegment reads what stands between two slashes, or after the last one.
func parseSegment(text string, last bool) (s segment, name string, err error) {
	if text == "" {
		if !last {
			return s, "", fmt.Errorf("\"//\" can never match: a canonical path has no empty segments")
		}
		return segment{kind: multi}, "", nil
	}
	open := strings.IndexByte(text, '{')
	if open < 0 {
		s, err = parseLiteral(text)
		return s, "", err
	}
	if open > 0 || text[len(text)-1] != '}' {
		return s, "", fmt.Errorf("segment %q: a name in braces fills its whole segment; write "+
			"%%7B for a brace that is meant as such", text)
	}
	name = text[1 : len(text)-1]
	if name == "$" {
		if !last {
			return s, "", fmt.Errorf("{$} is not at the end")
		}
		return segment{kind: end}, "", nil
	}
	s.kind = wild
	if rest, ok := strings.CutSuffix(name, "..."); ok {
		if !last {
			return s, "", fmt.Errorf("%s is not at the end", text)
		}
		s.kind, name = multi, rest
	}
	if !isName(name) {
		return s, "", fmt.Errorf("%q is not a name: it is letters, digits and \"_\", and begins "+
			"with no digit", name)
	}
	return s, name, nil
}

// isName says whether s is a Go identifier.
func isName(s string) bool {
	for i, c := range s {
		if !unicode.IsLetter(c) && c != '_' && (i == 0 || !unicode.IsDigit(c)) {
			return false
		}
	}
	return s != ""
}

// parseLiteral brings a literal into the form that it is compared in, by the same code that makes a
// path canonical.
func parseLiteral(text string) (segment, error) {
	target := []byte{'/'}
	for i := range len(text) {
		if c := text[i]; c < 0x80 {
			target = append(target, c)
		} else {
			target = append(target, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	path, query, bad := Canonical(nil, target)
	switch {
	case query != nil:
		return segment{}, fmt.Errorf("segment %q: a pattern has no query; use a condition on the "+
			"query value", text)
	case bad != OK:
		return segment{}, fmt.Errorf("segment %q can never match: such a path is refused (%w)", text, bad)
	case len(path) == 1:
		return segment{}, fmt.Errorf("segment %q can never match: a canonical path has no dot segments", text)
	}
	return segment{kind: literal, text: fold(path[1:]), show: string(path[1:])}, nil
}

// fold is the form of a canonical path in which literals are compared: decoded, but for %2F and
// %25, so that nothing that is decoded can be taken for a separator or for an encoding.
func fold(path []byte) string {
	var b bytes.Buffer
	for i := 0; i < len(path); {
		c, n := foldedByte(path, i)
		b.WriteByte(c)
		i += n
	}
	return b.String()
}

// foldedByte is the byte of the folded form at position i of a canonical path, and how many bytes
// of the path it takes.
func foldedByte(path []byte, i int) (c byte, n int) {
	if path[i] != '%' || len(path)-i < 3 {
		return path[i], 1
	}
	if c = head.Hex(path[i+1])<<4 | head.Hex(path[i+2]); c == '/' || c == '%' {
		return '%', 1
	}
	return c, 3
}

// Bytes that stand for wildcards in a pattern's key. No canonical path holds a control character,
// so none holds them.
const (
	wildMark  = 0
	multiMark = 1
)

// key is the pattern's path as one string, in which wildcards are marks: equal for patterns that
// match the same paths.
func (p *pattern) key() string {
	var b strings.Builder
	for _, s := range p.segments {
		b.WriteByte('/')
		switch s.kind {
		case literal:
			b.WriteString(s.text)
		case wild:
			b.WriteByte(wildMark)
		case multi:
			b.WriteByte(multiMark)
		case end:
		}
	}
	return b.String()
}
