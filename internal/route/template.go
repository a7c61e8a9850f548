package route

import (
	"fmt"
	"slices"
	"strings"
)

// Template writes a path or a location from what a pattern matched.
type Template struct {
	parts []part
}

// part is literal text and the value that follows it.
type part struct {
	text  string
	value int // position of the name in the pattern, or none
}

// CompileTemplate reads text such as "/v2/users/{id}" or "https://new.example/{rest...}", where names are those of the
// pattern (Table.Names). "{rest...}" and "{rest}" are the same. "${variable}" is not the template's and is copied as
// it is. Other braces are an error; no URI holds them.
//
// Values come from clients. They are parts of a canonical path, encoded, so that they bring no "/" to begin with, no
// white space, no braces, no "?" and no "#". A template must not begin with one all the same: what a client sent would
// choose scheme and host of a redirect.
func CompileTemplate(text string, names []string) (*Template, error) {
	t := &Template{}
	literal := strings.Builder{}
	for rest := text; rest != ""; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			literal.WriteString(rest)
			break
		}
		shut := strings.IndexByte(rest, '}')
		if rest[i] == '}' || shut < 0 {
			return nil, fmt.Errorf("template %q: a brace without its other half; write %%7B and %%7D for braces that are meant as such", text)
		}
		literal.WriteString(rest[:i])
		inner := rest[i+1 : shut]
		if i > 0 && rest[i-1] == '$' {
			literal.WriteString(rest[i : shut+1])
			rest = rest[shut+1:]
			continue
		}
		name := strings.TrimSuffix(inner, "...")
		value := slices.Index(names, name)
		if value < 0 {
			return nil, fmt.Errorf("template %q: the pattern has no name %q; it has %s", text, name, listed(names))
		}
		if len(t.parts) == 0 && literal.Len() == 0 {
			return nil, fmt.Errorf("template %q begins with a value, so that the client would choose where it leads; begin it with \"/\" or a scheme and host", text)
		}
		t.parts = append(t.parts, part{literal.String(), value})
		literal.Reset()
		rest = rest[shut+1:]
	}
	if literal.Len() > 0 {
		t.parts = append(t.parts, part{literal.String(), none})
	}
	if len(t.parts) == 0 {
		return nil, fmt.Errorf("the template is empty; \"/\" is the shortest path")
	}
	return t, nil
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Append appends the template with the values of m, a match of the rule whose names it was compiled with, to dst. It
// allocates only what dst lacks room for. A value may be empty, where it is that of {rest...}: a path with two slashes
// in a row can come of it when text follows.
func (t *Template) Append(dst []byte, m *Match) []byte {
	for _, p := range t.parts {
		dst = append(dst, p.text...)
		if p.value != none {
			dst = append(dst, m.at(p.value)...)
		}
	}
	return dst
}
