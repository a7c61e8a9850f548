package exchange

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Template is a text with ${variables}. It is compiled when the config is loaded and filled in for
// each exchange. It is immutable, so all loops may use it at the same time.
//
// The variables are client_address, client_port, request_id, method, host, path, query, scheme,
// route, upstream, target, listener, tls_version, tls_client_subject, and path.NAME for each name
// of the route's pattern. A variable without a value, such as target before a target was chosen, is
// empty. "$${" stands for a plain "${".
type Template struct {
	parts  []part
	escape escape
}

// escape is how values are escaped.
type escape uint8

const (
	forField  escape = iota // control characters become spaces
	forURI                  // bytes that a URI must not contain are percent-encoded
	forText                 // in a body: for this and the next two see CompileBody
	forJSON                 // likewise
	forMarkup               // likewise
	asIs                    // in a body without variables
)

// part is a literal text or, if what is not literal, a variable.
type part struct {
	what variable
	text []byte // of a literal
	name string // of a pathValue
}

// maxTemplate bounds the text of a template for a field or a URI in bytes, and so its parts.
const maxTemplate = 8 << 10

// CompileTemplate compiles a template for a header's value. pathNames are the names in the route's
// pattern, with or without the dots of {rest...}. Control characters in values become spaces in the
// output. An unknown name is an error that lists the known names.
func CompileTemplate(text string, pathNames []string) (*Template, error) {
	if len(text) > maxTemplate {
		return nil, tooLong(text)
	}
	return compile(text, pathNames, forField)
}

func tooLong(text string) error {
	return fmt.Errorf("a text of %d bytes; %d is the most", len(text), maxTemplate)
}

// CompilePath compiles a template for a path or a location. It also accepts the pattern's {name}
// and {rest...}. Bytes of values that a URI must not contain are percent-encoded; in the template
// itself they are an error. A "?" or "/" in a value is left as it is, so a caller that needs a
// single path must check the result.
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

// lookUp finds a variable by the text between its braces. If short is set, the variable was written
// without a dollar, and only names of the pattern are allowed.
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

// addLiteral checks and adds the literal text before a variable, if there is any, and returns it
// emptied for reuse.
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

// Constant returns the text of a template without variables, and whether it is one. The caller may
// keep the text but must not change it.
func (t *Template) Constant() ([]byte, bool) {
	switch {
	case len(t.parts) == 0:
		return []byte{}, true
	case len(t.parts) == 1 && t.parts[0].what == literal:
		return t.parts[0].text, true
	}
	return nil, false
}
