package http1

import (
	"bytes"

	"plimsoll/internal/head"
)

// How many Connection fields, and options in them, are looked at one by one.
const (
	maxConnections = 8
	maxOptions     = 64
)

// StripConnection takes out the fields that Connection names (RFC 9110, section 7.6.1). It is
// called before the gateway adds fields of its own, and costs nothing to speak of without
// Connection or with the usual ones.
//
// Only fields of unknown names go. A known one is either in HopByHop, and never serialised, or
// meant for every recipient (Host, Content-Length, X-Forwarded-For, Cookie, …): to let a client
// take those away is what CVE-2021-32813 was. Work is bounded: a message with more options than
// anybody needs loses all fields of unknown names. Its trailers lose the same names: see
// StripNamed.
func StripConnection(l *head.List) {
	if !l.Has(head.Connection) || !l.Has(head.Other) {
		return
	}
	var values [maxConnections][]byte // to remove a field moves those behind it
	n := 0
	for i := range l.Len() {
		if f := l.At(i); f.ID == head.Connection {
			if n == len(values) {
				l.RemoveID(head.Other)
				return
			}
			values[n] = f.Value
			n++
		}
	}
	left := maxOptions
	for _, value := range values[:n] {
		left = stripOptions(l, value, left)
	}
}

// NamesFields says whether Connection names, in a message's head, a field that goes, or has more
// options than anybody needs. If not, StripNamed needs no options.
func NamesFields(l *head.List) bool {
	if !l.Has(head.Connection) {
		return false
	}
	fields, left := 0, maxOptions
	for i := range l.Len() {
		f := l.At(i)
		if f.ID != head.Connection {
			continue
		}
		if fields++; fields > maxConnections {
			return true
		}
		for value := f.Value; len(value) > 0; left-- {
			var option []byte
			option, value = nextToken(value)
			if left == 0 || namesField(option) {
				return true
			}
		}
	}
	return false
}

// AppendOptions appends the values of all Connection fields as one list, for StripNamed. Where
// there are more than StripConnection looks at, the list is longer than StripNamed reads, so that
// both take all fields of unknown names.
func AppendOptions(dst []byte, l *head.List) []byte {
	if !l.Has(head.Connection) {
		return dst
	}
	fields := 0
	for i := range l.Len() {
		f := l.At(i)
		if f.ID != head.Connection {
			continue
		}
		if fields++; fields > maxConnections {
			return append(dst, tooManyOptions...)
		}
		dst = append(append(dst, f.Value...), ',')
	}
	return dst
}

var tooManyOptions = bytes.Repeat([]byte(","), maxOptions+1)

// StripNamed takes out of l, a message's trailers, the fields that options names, which
// AppendOptions made of the message's head (RFC 9110, section 7.6.1).
func StripNamed(l *head.List, options []byte) {
	if l.Has(head.Other) {
		stripOptions(l, options, maxOptions)
	}
}

// stripOptions takes out the fields that one value of Connection names. At most left options are
// looked at; it returns how many may still be. Once there are more, all fields of unknown names are
// gone.
func stripOptions(l *head.List, value []byte, left int) int {
	for len(value) > 0 {
		var option []byte
		option, value = nextToken(value)
		if left--; left < 0 {
			l.RemoveID(head.Other)
			return left
		}
		if namesField(option) {
			l.Remove(option)
		}
	}
	return left
}

// namesField says whether an option of Connection names a field that goes.
func namesField(option []byte) bool {
	return len(option) > 0 && !head.FoldsTo(option, "close") && head.Lookup(option) == head.Other
}

// maxNamed is the most bytes of options that Named reads.
const maxNamed = 1 << 10

// Named says whether options, which AppendOptions made, takes the field called name out of a
// message. Of options longer than anybody needs it says so for every name: it is asked for each
// name in Trailer, and a Trailer that names too little does no harm.
func Named(options, name []byte) bool {
	if len(options) > maxNamed {
		return true
	}
	for left := maxOptions; len(options) > 0; left-- {
		var option []byte
		option, options = nextToken(options)
		if left == 0 || head.EqualFold(option, name) && namesField(option) {
			return true
		}
	}
	return false
}
