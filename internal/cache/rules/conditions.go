package rules

import (
	"bytes"

	"plimsoll/internal/head"
)

// isTag says whether b is an entity-tag (RFC 9110, section 8.8.3).
func isTag(b []byte) bool {
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

func isWeak(tag []byte) bool { return tag[0] == 'W' }

// weakEqual is RFC 9110's weak comparison of two entity tags, strongEqual the strong one (section
// 8.8.3.2).
func weakEqual(a, b []byte) bool {
	return bytes.Equal(bytes.TrimPrefix(a, weak), bytes.TrimPrefix(b, weak))
}

func strongEqual(a, b []byte) bool { return !isWeak(a) && bytes.Equal(a, b) }

var weak = []byte("W/")

// nextTag cuts the first entity tag off a list of them. Commas in a tag are part of it. ok is false
// at the list's end, or where something is no tag.
func nextTag(list []byte) (tag, rest []byte, ok bool) {
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
	tag, rest = list[:end], trim(list[end:])
	if !isTag(tag) || len(rest) > 0 && rest[0] != ',' {
		return nil, nil, false
	}
	return tag, rest, true
}

// names says whether the lines of the field called name list the tag, by the comparison equal, or
// are "*", which any tag fits, and none.
func (r *Request) names(name string, tag []byte, equal func(a, b []byte) bool) bool {
	for i := range r.Head.Fields.Len() {
		f := r.Head.Fields.At(i)
		if f.ID != head.Other || !is(f.Name, name) {
			continue
		}
		list := trim(f.Value)
		if string(list) == "*" {
			return true
		}
		for len(tag) > 0 {
			one, rest, ok := nextTag(list)
			if !ok {
				break
			}
			if equal(one, tag) {
				return true
			}
			list = rest
		}
	}
	return false
}

// notModified evaluates If-None-Match, or else If-Modified-Since, against a stored response: true
// when the client has what is stored (RFC 9110, section 13.2.2; RFC 9111, section 4.3.2).
func (r *Request) notModified(s *Stored, block []byte, wall int64) bool {
	if r.noneMatch {
		return r.names("if-none-match", s.ETag(block), weakEqual)
	}
	if r.dates != 1 {
		return false
	}
	since, ok := parseDate(r.since, wall)
	if !ok {
		return false
	}
	modified := s.LastModified
	if modified == none {
		modified = s.Date
	}
	return modified <= since
}

// matchHolds evaluates If-Match and If-Unmodified-Since against a stored response. A cache need not
// (RFC 9110, sections 13.1.1 and 13.1.4); where they hold it may answer, and otherwise the origin
// judges.
func (r *Request) matchHolds(s *Stored, block []byte, wall int64) bool {
	if r.unmodified != nil {
		at, ok := parseDate(r.unmodified, wall)
		if !ok || s.LastModified == none || s.LastModified > at {
			return false
		}
		if !r.hasField("if-match") {
			return true
		}
	}
	tag := s.ETag(block)
	return len(tag) > 0 && r.names("if-match", tag, strongEqual)
}

func (r *Request) hasField(name string) bool {
	for i := range r.Head.Fields.Len() {
		if is(r.Head.Fields.At(i).Name, name) {
			return true
		}
	}
	return false
}

// Reply is what a client is given of a stored response.
type Reply struct {
	// Status is the stored one, 304, 206 or 416.
	Status int
	// From and To are the bytes of the body that are sent, From included and To not. Both are 0 where
	// none are: for 304 and 416, and for HEAD.
	From, To int64
	// Length is what Content-Length says: of what GET would send. It is head.Unknown while nobody
	// knows.
	Length int64
}

// Reply evaluates a request's preconditions and its range against a stored response that answers
// it, in RFC 9110's order (section 13.2.2). wall is the wall clock, nanoseconds: it tells the
// century of dates with two digits for a year. length is the body's, head.Unknown while it still
// comes: then a range is not served, but the whole.
func (r *Request) Reply(s *Stored, block []byte, length, wall int64) Reply {
	ok := s.Status >= 200 && s.Status < 300
	if ok && (r.noneMatch || r.dates > 0) && r.notModified(s, block, wall) {
		return Reply{Status: 304}
	}
	whole := Reply{Status: s.Status, To: length, Length: length}
	if length == head.Unknown {
		whole.To = -1
	}
	if r.isHead {
		whole.To = 0
		return whole
	}
	if s.Status != 200 || r.rangeLines != 1 || length == head.Unknown || !r.ifRangeHolds(s, block, wall) {
		return whole
	}
	from, to, kind := parseRange(r.ranges, length)
	switch kind {
	case rangeUnsatisfiable:
		return Reply{Status: 416}
	case rangeIgnored:
		return whole
	}
	return Reply{Status: 206, From: from, To: to, Length: to - from}
}

// ifRangeHolds evaluates If-Range (RFC 9110, section 13.1.5): a strong tag that is the stored one,
// or exactly the date of Last-Modified, where that is strong (section 8.8.2.2).
func (r *Request) ifRangeHolds(s *Stored, block []byte, wall int64) bool {
	if r.ifRange == nil {
		return true
	}
	if isTag(r.ifRange) {
		tag := s.ETag(block)
		return len(tag) > 0 && strongEqual(r.ifRange, tag)
	}
	at, ok := parseDate(r.ifRange, wall)
	return ok && s.LastModified != none && at == s.LastModified && s.Date-s.LastModified >= 1
}

type rangeKind uint8

const (
	rangeIgnored       rangeKind = iota // not in bytes, not well formed, or several
	rangeSatisfiable                    // one, and some of it is there
	rangeUnsatisfiable                  // one, behind the end
)

// parseRange reads a Range (RFC 9110, section 14.1.2) for a body of length bytes.
func parseRange(b []byte, length int64) (from, to int64, kind rangeKind) {
	const unit = "bytes="
	if len(b) < len(unit) || !is(b[:len(unit)], unit) {
		return 0, 0, rangeIgnored
	}
	first, last, dash := bytes.Cut(trim(b[len(unit):]), []byte("-"))
	if !dash {
		return 0, 0, rangeIgnored
	}
	a, okA := parsePosition(first)
	z, okZ := parsePosition(last)
	switch {
	case len(first) == 0 && okZ: // the last z bytes
		if z == 0 || length == 0 {
			return 0, 0, rangeUnsatisfiable
		}
		return max(length-z, 0), length, rangeSatisfiable
	case !okA || len(last) > 0 && (!okZ || z < a):
		return 0, 0, rangeIgnored
	case a >= length:
		return 0, 0, rangeUnsatisfiable
	case len(last) == 0:
		return a, length, rangeSatisfiable
	}
	return a, min(z, length-1) + 1, rangeSatisfiable
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
