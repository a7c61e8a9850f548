package rules

import (
	"slices"
	"strings"
	"unsafe"

	"plimsoll/internal/head"
)

// maxVarying is by how many fields the answers for one key may vary.
const maxVarying = 8

// varying is the fields by which a response varies, besides those of the key: lower-case names,
// sorted.
type varying []string

func (v varying) has(name string) bool { return slices.Contains(v, name) }

// varies reads Vary (RFC 9110, section 12.5.5). It leaves out fields that every key has, and those
// that the origin never sees. If the content is encoded and Vary gives no reason for that, it
// varies by Accept-Encoding.
func (o *Options) varies(fields *head.List) (varying, Reason) {
	var names varying
	why := NoReason
	add := func(name string) {
		if slices.Contains(o.Key.added, name) {
			why = max(why, VaryAdded)
		}
		if t := o.Key.treatment(name); t != Keyed && t != Drop && name != "host" && !names.has(name) {
			names = append(names, name)
		}
	}
	eachNamed(fields, "vary", func(line []byte) {
		for len(line) > 0 {
			var name []byte
			name, line = nextMember(line)
			switch {
			case len(name) == 0:
			case string(name) == "*":
				why = VaryAll
			case !head.IsToken(name):
				why = max(why, Unreadable)
			default:
				add(strings.ToLower(string(name)))
			}
		}
	})
	eachNamed(fields, "content-encoding", func(value []byte) {
		if !is(value, "identity") {
			add("accept-encoding")
		}
	})
	if why == NoReason && len(names) > maxVarying {
		why = VaryTooMuch
	}
	slices.Sort(names)
	return names, why
}

// Vary appends the names of the fields by which a response varies, besides those of its key, in the
// form that AppendVariant takes; nothing if there are none. The response must be one that may be
// stored.
func (o *Options) Vary(dst []byte, fields *head.List) []byte {
	names, _ := o.varies(fields)
	return append(dst, strings.Join(names, ",")...)
}

// MergeVary appends the union of two such lists. Answers for one URI that vary by different fields
// are all stored under the union, so that each is found for the requests that it fits. ok is false
// if the union has more than maxVarying names.
func MergeVary(dst, a, b []byte) (union []byte, ok bool) {
	var names varying
	for _, list := range [][]byte{a, b} {
		for len(list) > 0 {
			var name []byte
			if name, list = nextMember(list); len(name) > 0 && !names.has(string(name)) {
				names = append(names, string(name))
			}
		}
	}
	slices.Sort(names)
	return append(dst, strings.Join(names, ",")...), len(names) <= maxVarying
}

// appendValue appends the normalised value of a request's field (RFC 9111, section 4.1); there is
// false if the request does not have the field. name is in lower case. The origin gets the same
// value.
func (k *Key) appendValue(dst []byte, name string, fields *head.List) (with []byte, there bool) {
	start := len(dst)
	for i := range fields.Len() {
		f := fields.At(i)
		if len(f.Name) != len(name) || !is(f.Name, name) {
			continue
		}
		if there {
			dst = append(dst, ", "...)
		}
		there = true
		dst = append(dst, trim(f.Value)...)
	}
	if !there {
		return dst, false
	}
	switch name {
	case "accept-encoding":
		if forbidsTransform(fields) {
			return dst[:start], true
		}
		return k.normalEncodings(dst, start), true
	case "accept-language":
		return normalList(dst, start, true), true
	case "accept":
		return normalList(dst, start, false), true
	}
	return dst, true
}

// normalList normalises the value in b[start:]: it removes white space around commas and semicolons
// and empty members, and lower-cases letters if lower is set. It stops at a quoted string: what
// follows stays as it is.
func normalList(b []byte, start int, lower bool) []byte {
	out, in := start, start
	for in < len(b) {
		c := b[in]
		in++
		switch {
		case c == '"':
			b[out] = c
			out++
			return b[:out+copy(b[out:], b[in:])]
		case isSpace(c) && (out == start || isSeparator(b[out-1]) || in == len(b) || isSeparator(b[in]) ||
			isSpace(b[in])):
			continue
		case c == ',' && (out == start || b[out-1] == ','):
			continue
		case lower && 'A' <= c && c <= 'Z':
			c |= 0x20
		}
		b[out] = c
		out++
	}
	for out > start && b[out-1] == ',' {
		out--
	}
	return b[:out]
}

func isSeparator(c byte) bool { return c == ',' || c == ';' || c == '=' }

// unsafeString views bytes as a string, for calls that do not retain it.
func unsafeString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
