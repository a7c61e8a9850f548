package exchange

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The bounds of a template for a body. With the longest escape, six bytes for one, they bound its
// output: 64 KB of text and 192 KB of values.
const (
	maxPage      = 64 << 10
	maxPageUses  = 32      // variables
	maxPageValue = 1 << 10 // bytes of a value; longer values are cut
)

// CompileBody compiles a template for a body of this content type. Clients choose the values, so a
// value must not be able to break out of the text around it:
//
//   - in text/plain, control characters become spaces;
//   - in JSON, a variable may stand only in a string, and is escaped for that;
//   - in HTML and XML, a variable may stand only in text, not in a tag, a comment, a script or a
//     style, and is escaped for text: elsewhere, what is safe differs from place to place;
//   - other types have no variables.
//
// A text of another type may still contain "$${" for a plain "${".
func CompileBody(text string, pathNames []string, contentType string) (*Template, error) {
	if len(text) > maxPage {
		return nil, fmt.Errorf("a body of %d bytes with variables; %d is the most", len(text), maxPage)
	}
	escape, media := escapeFor(contentType)
	t, err := compile(text, pathNames, escape)
	if err != nil {
		return nil, err
	}
	if _, constant := t.Constant(); constant {
		return t, nil
	}
	if escape == asIs {
		return nil, fmt.Errorf("a body of type %s can have no ${variables}, because nobody knows how to "+
			"escape what clients put there; text/plain, JSON, HTML and XML in UTF-8 can", media)
	}
	return t, t.checkPlaces()
}

// escapeFor returns how values are escaped in a content type, and that type without its parameters.
func escapeFor(contentType string) (escape, string) {
	media, rest, _ := strings.Cut(strings.ToLower(contentType), ";")
	media = strings.TrimSpace(media)
	for parameter := range strings.SplitSeq(rest, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if name == "charset" && strings.Trim(value, `"`) != "utf-8" {
			return asIs, strings.TrimSpace(contentType) // bytes may mean other characters there
		}
	}
	switch {
	case media == "text/plain":
		return forText, media
	case media == "application/json" || strings.HasSuffix(media, "+json"):
		return forJSON, media
	case media == "text/html" || media == "application/xml" || media == "text/xml" ||
		strings.HasSuffix(media, "+xml"):
		return forMarkup, media
	}
	return asIs, media
}

// checkPlaces checks that variables stand only where their escape is safe.
func (t *Template) checkPlaces() error {
	uses := 0
	var before []byte // the literal text so far
	for i := range t.parts {
		p := &t.parts[i]
		if p.what == literal {
			before = append(before, p.text...)
			continue
		}
		if uses++; uses > maxPageUses {
			return fmt.Errorf("a body with more than %d variables; leave some out", maxPageUses)
		}
		near := string(before[max(0, len(before)-20):])
		switch {
		case t.escape == forJSON && !inString(before):
			return fmt.Errorf("the variable after %q is not in a JSON string; put it in quotes", near)
		case t.escape == forMarkup && !inMarkupText(before):
			return fmt.Errorf("the variable after %q is in a tag, a comment, a script or a style, where no "+
				"escape is safe; move it into the text of an element", near)
		}
	}
	return nil
}

// inString reports whether a JSON text ends within a string.
func inString(text []byte) bool {
	in, escaped := false, false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
		case c == '"':
			in = !in
		case c == '\\' && in:
			escaped = true
		}
	}
	return in && !escaped
}

// rawElements are the HTML elements in whose content character references are not decoded.
var rawElements = []string{"script", "style", "iframe", "noembed", "noframes", "noscript", "xmp", "plaintext"}

// inMarkupText reports whether a piece of HTML or XML ends within text. When in doubt it returns
// false.
func inMarkupText(text []byte) bool {
	text = bytes.ToLower(text)
	if inTag(text) {
		return false
	}
	if bytes.LastIndex(text, []byte("<!--")) > bytes.LastIndex(text, []byte("-->")) ||
		bytes.LastIndex(text, []byte("<![cdata[")) > bytes.LastIndex(text, []byte("]]>")) {
		return false
	}
	return !slices.ContainsFunc(rawElements, func(name string) bool {
		return bytes.LastIndex(text, []byte("<"+name)) > bytes.LastIndex(text, []byte("</"+name))
	})
}

// cutFrom cuts the value from index from on to maxPageValue bytes, but not within a character.
func cutFrom(b []byte, from int) []byte {
	if len(b)-from <= maxPageValue {
		return b
	}
	end := from + maxPageValue
	for back := range utf8.UTFMax {
		if utf8.RuneStart(b[end-back]) {
			return b[:end-back]
		}
	}
	return b[:end]
}

// escapeFrom escapes b[from:] for JSON or markup. Special characters become references, control
// characters become spaces, and bytes that are not UTF-8 become question marks, because a decoder
// could swallow the byte after a lone one. escapeFrom extends b and moves bytes from the end
// backwards, so that none is overwritten before it is read.
func (e escape) escapeFrom(b []byte, from int) []byte {
	more := 0
	for i := from; i < len(b); {
		c, size := b[i], 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRune(b[i:]); r == utf8.RuneError && size == 1 {
				b[i] = '?'
			}
		} else if c < ' ' || c == 0x7f {
			b[i] = ' '
		} else {
			more += max(0, len(e.reference(c))-1)
		}
		i += size
	}
	if more == 0 {
		return b
	}
	read := len(b) - 1
	for range more {
		b = append(b, 0)
	}
	for write := len(b) - 1; write > read; read-- {
		text := e.reference(b[read])
		if text == "" {
			b[write] = b[read]
			write--
			continue
		}
		write -= len(text)
		copy(b[write+1:], text)
	}
	return b
}

// reference is the escape of a byte, empty for a byte that needs none. In JSON, the special
// characters of HTML are escaped too, because JSON ends up in scripts of pages.
func (e escape) reference(c byte) string {
	if e == forJSON {
		switch c {
		case '"':
			return `\"`
		case '\\':
			return `\\`
		case '<':
			return `\u003c`
		case '>':
			return `\u003e`
		case '&':
			return `\u0026`
		}
		return ""
	}
	switch c {
	case '"':
		return "&#34;"
	case '\'':
		return "&#39;"
	case '<':
		return "&lt;"
	case '>':
		return "&gt;"
	case '&':
		return "&amp;"
	}
	return ""
}

// inTag reports whether a text ends within a tag. A ">" in a quoted attribute value does not end a
// tag, and comments are skipped. When in doubt it returns true: each "<" begins a tag, and an
// unclosed comment counts as one.
func inTag(text []byte) bool {
	in, quote := false, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case !in && bytes.HasPrefix(text[i:], []byte("<!--")):
			end := bytes.Index(text[i:], []byte("-->"))
			if end < 0 {
				return true
			}
			i += end + len("-->") - 1
		case !in:
			in = c == '<'
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '>':
			in = false
		}
	}
	return in
}
