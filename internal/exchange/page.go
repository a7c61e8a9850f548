package exchange

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The bounds of a template for a body. With the longest escape, of six bytes for one, they bound what
// it yields: 64 KB and 192 KB of values.
const (
	maxPage      = 64 << 10
	maxPageUses  = 32      // variables
	maxPageValue = 1 << 10 // bytes of a value; longer ones are cut
)

// CompileBody reads a text for a body of this content type. Values are the client's to choose, so
// that none may end the text that it stands in:
//
//   - in text/plain, control characters become spaces;
//   - in JSON, a variable may stand in a string alone, and is escaped for that;
//   - in HTML and XML, it may stand in text alone, not in a tag, a comment, a script or a style, and is
//     escaped for that: what is safe elsewhere differs from place to place;
//   - other types have no variables.
//
// A text of another type may hold "$${" for a plain "${" all the same.
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

// escapeFor is how values are escaped in a content type, and the type without parameters.
func escapeFor(contentType string) (escape, string) {
	media, rest, _ := strings.Cut(strings.ToLower(contentType), ";")
	media = strings.TrimSpace(media)
	for parameter := range strings.SplitSeq(rest, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if name == "charset" && strings.Trim(value, `"`) != "utf-8" {
			return asIs, strings.TrimSpace(contentType) // bytes may mean other characters in it
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

// checkPlaces checks that variables stand where their escape is right.
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

// inString says whether a JSON text that begins so goes on within a string.
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

// rawElements are those of HTML whose content is not text in which an escape counts.
var rawElements = []string{"script", "style", "iframe", "noembed", "noframes", "noscript", "xmp", "plaintext"}

// inMarkupText says whether HTML or XML that begins so goes on in text. It errs on the side of no.
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

// cutFrom cuts a value to the length that a body may have of it, not within a character.
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

// escapeFrom escapes, from an index on, for JSON or markup: what is special to either becomes a
// reference, control characters spaces, and what is not UTF-8 question marks, as a lone byte could take
// the next one with it. It makes room at the end and moves bytes from the back, so that none is
// overwritten before it was read.
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

// reference is what stands for a byte; empty for one that stands for itself. JSON has the characters
// of HTML escaped too, because it ends up in scripts of pages.
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

// inTag says whether a text that begins so goes on within a tag. A ">" in a quoted value of an attribute
// does not end one, and what is in a comment counts for nothing. It errs on the side of yes: each "<"
// begins a tag.
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
