package head

import "bytes"

// Entity tags and ranges, as those that answer conditional requests read them (RFC 9110, sections
// 8.8.3 and 14.1).

// IsTag says whether b is an entity-tag (RFC 9110, section 8.8.3).
func IsTag(b []byte) bool {
	opaque := b
	if len(opaque) > 2 && opaque[0] == 'W' && opaque[1] == '/' {
		opaque = opaque[2:]
	}
	if len(opaque) < 2 || opaque[0] != '"' || opaque[len(opaque)-1] != '"' {
		return false
	}
	for _, c := range opaque[1 : len(opaque)-1] {
		if c <= 0x20 || c == '"' || c == 0x7f {
			return false
		}
	}
	return true
}

// IsWeak says whether an entity tag is a weak one.
func IsWeak(tag []byte) bool { return tag[0] == 'W' }

// WeakEqual is the weak comparison of two entity tags, StrongEqual the strong one (RFC 9110,
// section 8.8.3.2).
func WeakEqual(a, b []byte) bool {
	return bytes.Equal(bytes.TrimPrefix(a, weak), bytes.TrimPrefix(b, weak))
}

// StrongEqual is described at WeakEqual.
func StrongEqual(a, b []byte) bool { return !IsWeak(a) && bytes.Equal(a, b) }

var weak = []byte("W/")

// NextTag cuts the first entity tag off a list of them. Commas in a tag are part of it. ok is false
// at the list's end, or where something is not a tag.
func NextTag(list []byte) (tag, rest []byte, ok bool) {
	for len(list) > 0 && (isSpace(list[0]) || list[0] == ',') {
		list = list[1:]
	}
	n := 0
	if bytes.HasPrefix(list, weak) {
		n = 2
	}
	if n >= len(list) || list[n] != '"' {
		return nil, nil, false
	}
	end := bytes.IndexByte(list[n+1:], '"')
	if end < 0 {
		return nil, nil, false
	}
	end += n + 2
	tag, rest = list[:end], Trim(list[end:])
	if !IsTag(tag) || len(rest) > 0 && rest[0] != ',' {
		return nil, nil, false
	}
	return tag, rest, true
}

// ListsTag says whether the value of If-Match or If-None-Match lists the tag, by the comparison
// equal, or is "*", which any tag fits, and none.
func ListsTag(list, tag []byte, equal func(a, b []byte) bool) bool {
	list = Trim(list)
	if string(list) == "*" {
		return true
	}
	for len(tag) > 0 {
		one, rest, ok := NextTag(list)
		if !ok {
			return false
		}
		if equal(one, tag) {
			return true
		}
		list = rest
	}
	return false
}

// RangeKind says what a range of bytes is of a content.
type RangeKind uint8

const (
	RangeIgnored       RangeKind = iota // not well formed
	RangeSatisfiable                    // some of it is there
	RangeUnsatisfiable                  // it is behind the end
)

// ByteRanges is what follows "bytes=" in a Range, without the white space around it; ok is false
// for another unit.
func ByteRanges(value []byte) (set []byte, ok bool) {
	const unit = "bytes="
	if len(value) < len(unit) || !FoldsTo(value[:len(unit)], unit) {
		return nil, false
	}
	return Trim(value[len(unit):]), true
}

// ParseRange reads one range of a Range (RFC 9110, section 14.1.2) of a content of length bytes:
// those from from on and before to.
func ParseRange(spec []byte, length int64) (from, to int64, kind RangeKind) {
	first, last, dash := bytes.Cut(spec, []byte("-"))
	if !dash {
		return 0, 0, RangeIgnored
	}
	a, okA := parsePosition(first)
	z, okZ := parsePosition(last)
	switch {
	case len(first) == 0 && okZ: // the last z bytes
		if z == 0 || length == 0 {
			return 0, 0, RangeUnsatisfiable
		}
		return max(length-z, 0), length, RangeSatisfiable
	case !okA || len(last) > 0 && (!okZ || z < a):
		return 0, 0, RangeIgnored
	case a >= length:
		return 0, 0, RangeUnsatisfiable
	case len(last) == 0:
		return a, length, RangeSatisfiable
	}
	return a, min(z, length-1) + 1, RangeSatisfiable
}

// parsePosition reads digits, at most far behind every body.
func parsePosition(b []byte) (int64, bool) {
	n := int64(0)
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int64(c-'0'), 1<<59)
	}
	return n, len(b) > 0
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// Trim is b without the white space around it.
func Trim(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}
