package exchange

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Template is a text with ${variables}, compiled when the config is loaded and filled in for an
// exchange. It is immutable: all loops use it at once.
//
// The variables are client_address, client_port, request_id, method, host, path, query, scheme,
// route, upstream, target, listener, tls_version, tls_client_subject, and path.NAME for each name
// of the route's pattern. One that has no value for an exchange, such as target before a target was
// chosen, is empty. "$${" stands for a plain "${".
type Template struct {
	parts  []part
	escape escape
}

// escape is what happens to values.
type escape uint8

const (
	forField  escape = iota // control characters become spaces
	forURI                  // what a URI could not hold is encoded
	forText                 // of a body: this and the next see CompileBody
	forJSON                 // likewise
	forMarkup               // likewise
	asIs                    // of a body without variables
)

// part is a literal text, or a variable where what is not literal.
type part struct {
	what variable
	text []byte // of a literal
	name string // of a path value
}

// maxTemplate bounds the text of a template for a field or a URI in bytes, and so its parts.
const maxTemplate = 8 << 10

// CompileTemplate reads a text for a header's value. pathNames are the names in the route's
// pattern, with or without the dots of {rest...}. In what it yields control characters are replaced
// by spaces, whatever the variables hold. An unknown name is an error that lists the known ones.
func CompileTemplate(text string, pathNames []string) (*Template, error) {
	if len(text) > maxTemplate {
		return nil, tooLong(text)
	}
	return compile(text, pathNames, forField)
}

func tooLong(text string) error {
	return fmt.Errorf("a text of %d bytes; %d is the most", len(text), maxTemplate)
}

// CompilePath reads a text for a path or a location: it also understands the pattern's {name} and
// {rest...}, and bytes of values that no URI may hold are percent-encoded. Text that is not part of
// a URI is an error. A "?" or "/" in a value stays: a caller that needs one path must look at the
// result.
func CompilePath(text string, pathNames []string) (*Template, error) {
	if len(text) > maxTemplate {
		return nil, tooLong(text)
	}
	return compile(text, pathNames, forURI)
}

// compile cuts the text at its variables.
func compile(text string, pathNames []string, escape escape) (*Template, error) {
	names := make([]string, len(pathNames))
	for i, n := range pathNames {
		names[i] = strings.TrimSuffix(n, "...")
	}
	t, uri := &Template{escape: escape}, escape == forURI
	var literal []byte
	for i := 0; i < len(text); {
		rest := text[i:]
		open, short := 0, false
		switch {
		case strings.HasPrefix(rest, "$${"):
			literal = append(literal, "${"...)
			i += 3
			continue
		case strings.HasPrefix(rest, "${"):
			open = 2
		case uri && rest[0] == '{':
			open, short = 1, true
		default:
			literal = append(literal, rest[0])
			i++
			continue
		}
		end := strings.IndexByte(rest, '}')
		if end < 0 {
			return nil, fmt.Errorf("%q is not closed by a }; for a plain ${ write $${", rest)
		}
		p, err := lookUp(rest[open:end], short, names)
		if err != nil {
			return nil, err
		}
		if literal, err = t.addLiteral(literal); err != nil {
			return nil, err
		}
		t.parts = append(t.parts, p)
		i += end + 1
	}
	if _, err := t.addLiteral(literal); err != nil {
		return nil, err
	}
	return t, nil
}

// lookUp finds a variable by what stands between its braces; short ones, without a dollar, are
// names of the pattern only.
func lookUp(name string, short bool, names []string) (part, error) {
	key, isPath := strings.CutPrefix(name, "path.")
	if short {
		key, isPath = strings.TrimSuffix(name, "..."), true
	}
	if isPath {
		if key != "" && slices.Contains(names, key) {
			return part{what: pathValue, name: key}, nil
		}
		if len(names) == 0 {
			return part{}, fmt.Errorf("{%s} is unknown: the route's pattern has no names", name)
		}
		return part{}, fmt.Errorf("{%s} is unknown: the names of the route's pattern are %s", name,
			strings.Join(names, ", "))
	}
	if what, ok := variables[name]; ok {
		return part{what: what}, nil
	}
	known := make([]string, 0, len(variables)+len(names))
	for v := range variables {
		known = append(known, v)
	}
	for _, n := range names {
		known = append(known, "path."+n)
	}
	slices.Sort(known)
	return part{}, fmt.Errorf("${%s} is unknown: the variables are %s; for a plain ${ write $${",
		name, strings.Join(known, ", "))
}

// addLiteral adds the text before a variable, if there is any, and returns an empty one.
func (t *Template) addLiteral(text []byte) ([]byte, error) {
	if len(text) == 0 {
		return text, nil
	}
	for i, c := range text {
		switch {
		case t.escape == forField && (c < ' ' && c != '\t' || c == 0x7f):
			return nil, fmt.Errorf("%q holds a control character, which no header field can", text)
		case t.escape == forURI && !inURI[c] && c != '#' && c != '%':
			return nil, fmt.Errorf("%q cannot stand in a URI; write it as %%%02X", c, c)
		case t.escape == forURI && c == '%' && (len(text)-i < 3 || !isHex(text[i+1]) || !isHex(text[i+2])):
			return nil, fmt.Errorf("%q holds a %% that is not followed by two hexadecimal "+
				"digits; for a plain %% write %%25", text)
		}
	}
	t.parts = append(t.parts, part{text: bytes.Clone(text)})
	return text[:0], nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// Constant is the text of a template without variables, which is the caller's to use for ever and
// not to change.
func (t *Template) Constant() ([]byte, bool) {
	switch {
	case len(t.parts) == 0:
		return []byte{}, true
	case len(t.parts) == 1 && t.parts[0].what == literal:
		return t.parts[0].text, true
	}
	return nil, false
}
