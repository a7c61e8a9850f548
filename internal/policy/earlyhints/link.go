package earlyhints

import (
	"bytes"

	"plimsoll/internal/head"
)

var (
	comma     = []byte(",")
	semicolon = []byte(";")
)

// appendLinks appends, as one value, the links of a response that browsers act upon in a 103 (RFC
// 8288; HTML, section 4.6.7), in their order.
func appendLinks(dst []byte, fields *head.List) []byte {
	links, begin := 0, len(dst)
	for i := range fields.Len() {
		f := fields.At(i)
		if !head.EqualFold(f.Name, linkName) {
			continue
		}
		for rest := f.Value; len(rest) > 0; {
			var link []byte
			link, rest = nextLink(rest)
			if !isHint(link) {
				continue
			}
			if links == maxLinks || len(dst)-begin+len(link)+len(", ") > maxValue {
				return dst
			}
			if links > 0 {
				dst = append(dst, ", "...)
			}
			dst = append(dst, link...)
			links++
		}
	}
	return dst
}

// nextLink cuts the first link off a value: up to a comma that is neither in the target nor in a
// quoted string.
func nextLink(value []byte) (link, rest []byte) {
	n := until(value, ',')
	return head.Trim(value[:n]), value[min(n+1, len(value)):]
}

// until is the index of the first c in b outside of a target and of quoted strings, or len(b).
func until(b []byte, c byte) int {
	var closing byte
	for i := 0; i < len(b); i++ {
		switch {
		case closing == '"' && b[i] == '\\':
			i++
		case closing != 0:
			if b[i] == closing {
				closing = 0
			}
		case b[i] == c:
			return i
		case b[i] == '"':
			closing = '"'
		case b[i] == '<':
			closing = '>'
		}
	}
	return len(b)
}

// isHint reports whether a link tells a browser to fetch something or to connect. Only the first
// rel counts (RFC 8288, section 3.3).
func isHint(link []byte) bool {
	if len(link) == 0 || link[0] != '<' {
		return false
	}
	n := bytes.IndexByte(link, '>')
	if n < 0 {
		return false
	}
	for rest := link[n+1:]; len(rest) > 0; {
		at := until(rest, ';')
		name, value, _ := bytes.Cut(rest[:at], equals)
		rest = rest[min(at+1, len(rest)):]
		if head.FoldsTo(head.Trim(name), "rel") {
			return namesHint(bytes.Trim(value, " \t\""))
		}
	}
	return false
}

var equals = []byte("=")

// namesHint reports whether one of the relations in rel, separated by spaces, is a hint.
func namesHint(rel []byte) bool {
	for len(rel) > 0 {
		var this []byte
		this, rel, _ = bytes.Cut(rel, space)
		if head.FoldsTo(this, "preload") || head.FoldsTo(this, "preconnect") ||
			head.FoldsTo(this, "modulepreload") {
			return true
		}
	}
	return false
}

var space = []byte(" ")
