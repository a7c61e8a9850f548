package scenario

import (
	"fmt"
	"strings"

	"plimsoll/internal/config/strict"
)

// form is the place in a request for which a value is made safe.
type form uint8

const (
	asIs form = iota
	// inPath percent-encodes everything except letters, digits and "-._~", so that a value never
	// adds a segment or a parameter.
	inPath
	// inURL inserts a value into the path unchanged: it must not contain a byte that ends a request
	// line.
	inURL
	// inHeader inserts a value unchanged: it must not contain a byte that ends a header line.
	inHeader
	// inForm percent-encodes like inPath, in a form body.
	inForm
	// inJSON escapes characters that are not allowed in a JSON string.
	inJSON
)

// fits reports whether a value fits the form. Only inHeader and inURL can fail, because they do not
// encode.
func (f form) fits(v []byte) bool {
	for _, c := range v {
		switch {
		case f == inHeader && (c < ' ' && c != '\t' || c == 0x7f):
			return false
		case f == inURL && (c <= ' ' || c >= 0x7f || c == '#'):
			return false
		}
	}
	return true
}

// append appends a value in its form.
func (f form) append(dst, v []byte) []byte {
	switch f {
	case inPath, inForm:
		return appendPercent(dst, v)
	case inJSON:
		return appendJSON(dst, v)
	}
	return append(dst, v...)
}

const hexDigits = "0123456789ABCDEF"

func appendPercent(dst, v []byte) []byte {
	for _, c := range v {
		if letter := c | 0x20; 'a' <= letter && letter <= 'z' || '0' <= c && c <= '9' || c == '-' ||
			c == '.' || c == '_' || c == '~' {
			dst = append(dst, c)
			continue
		}
		dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
	}
	return dst
}

func appendJSON(dst, v []byte) []byte {
	for _, c := range v {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// piece is a part of a request: prepared bytes, or a value of the session.
type piece struct {
	text []byte
	slot int // -1 for prepared bytes
	form form
}

// pieces are a text that contains values.
type pieces []piece

// add appends prepared bytes, to the last piece if that has prepared bytes too.
func (p pieces) add(text string) pieces {
	if text == "" {
		return p
	}
	if n := len(p); n > 0 && p[n-1].slot < 0 {
		p[n-1].text = append(p[n-1].text, text...)
		return p
	}
	return append(p, piece{text: []byte(text), slot: -1})
}

// join appends the pieces of another text.
func (p pieces) join(o pieces) pieces {
	for _, x := range o {
		if x.slot < 0 {
			p = p.add(string(x.text))
		} else {
			p = append(p, x)
		}
	}
	return p
}

// fixed returns the text if it has no values.
func (p pieces) fixed() (text []byte, ok bool) {
	switch {
	case len(p) == 0:
		return []byte{}, true
	case len(p) == 1 && p[0].slot < 0:
		return p[0].text, true
	}
	return nil, false
}

// names returns the slot of the session for a value's name. Its error says why a name has none.
type names func(name string, f form) (slot int, err error)

// template compiles a text. "${name}" and "${source.column}" are values in the given form, and
// "${raw:name}" is a value without encoding. "${NAME}" and "${NAME:-text}" are environment
// variables, and "$${" is a literal "${".
func template(
	text string, f form, find names, lookup func(string) (string, bool),
) (p pieces, err error) {
	for {
		at := strings.Index(text, "${")
		if at < 0 {
			return p.add(text), nil
		}
		if at > 0 && text[at-1] == '$' {
			p = p.add(text[:at-1]).add("${")
			text = text[at+2:]
			continue
		}
		name, rest, closed := strings.Cut(text[at+2:], "}")
		if !closed {
			return nil, fmt.Errorf("%q is not closed; add the \"}\", or write \"$${\" for "+
				"a literal \"${\"", strict.Clip(text[at:]))
		}
		p = p.add(text[:at])
		text = rest
		variable, fallback, hasFallback := strings.Cut(name, ":-")
		if isEnvironmentName(variable) {
			v, set := lookup(variable)
			if v == "" && hasFallback {
				v = fallback
			} else if !set {
				return nil, fmt.Errorf("the environment variable %s is not set; set it, "+
					"or give a default as in ${%s:-text}",
					strict.Clip(variable), strict.Clip(variable))
			}
			p = p.add(v)
			continue
		}
		use := f
		if bare, raw := strings.CutPrefix(name, "raw:"); raw {
			name = bare
			switch f {
			case inPath:
				use = inURL
			case inForm, inJSON:
				use = asIs
			}
		}
		slot, err := find(name, use)
		if err != nil {
			return nil, err
		}
		p = append(p, piece{slot: slot, form: use})
	}
}

// isEnvironmentName distinguishes names of environment variables, which are upper case, from names
// of values, which begin with a lower-case letter.
func isEnvironmentName(name string) bool {
	return name != "" && (name[0] < '0' || name[0] > '9') &&
		strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// isValueName reports whether a value may have the name.
func isValueName(name string) bool {
	return name != "" && len(name) <= 100 && 'a' <= name[0] && name[0] <= 'z' &&
		strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}
