package rules

import "plimsoll/internal/head"

// names reports whether the lines of the field called name list the tag, according to equal, or are
// "*", which matches any tag and also no tag.
func (r *Request) names(name string, tag []byte, equal func(a, b []byte) bool) bool {
	for i := range r.Head.Fields.Len() {
		f := r.Head.Fields.At(i)
		if f.ID != head.Other || !is(f.Name, name) {
			continue
		}
		if head.ListsTag(f.Value, tag, equal) {
			return true
		}
	}
	return false
}

// notModified evaluates If-None-Match, or else If-Modified-Since, against a stored response: true
// if the client already has the stored response (RFC 9110, section 13.2.2; RFC 9111, section
// 4.3.2).
func (r *Request) notModified(s *Stored, block []byte, wall int64) bool {
	if r.noneMatch {
		return r.names("if-none-match", s.ETag(block), head.WeakEqual)
	}
	if r.dates != 1 {
		return false
	}
	since, ok := head.ParseDate(r.since, wall)
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
// evaluate them (RFC 9110, sections 13.1.1 and 13.1.4). If they hold, the cache may answer;
// otherwise the origin must decide.
func (r *Request) matchHolds(s *Stored, block []byte, wall int64) bool {
	if r.unmodified != nil {
		at, ok := head.ParseDate(r.unmodified, wall)
		if !ok || s.LastModified == none || s.LastModified > at {
			return false
		}
		if !r.hasField("if-match") {
			return true
		}
	}
	tag := s.ETag(block)
	return len(tag) > 0 && r.names("if-match", tag, head.StrongEqual)
}

func (r *Request) hasField(name string) bool {
	for i := range r.Head.Fields.Len() {
		if is(r.Head.Fields.At(i).Name, name) {
			return true
		}
	}
	return false
}

// Reply is which part of a stored response a client gets.
type Reply struct {
	// Status is the stored status, 304, 206 or 416.
	Status int
	// From and To delimit the bytes of the body that are sent, from From up to but not including
	// To. Both are 0 if none are sent: for 304, 416 and HEAD.
	From, To int64
	// Length is the value of Content-Length, that is, the length that GET would send; head.Unknown
	// while it is not known.
	Length int64
}

// Reply evaluates a request's preconditions and its range against a stored response that answers
// it, in RFC 9110's order (section 13.2.2). wall is the wall clock in nanoseconds; it determines
// the century of dates with two-digit years. length is the length of the body, head.Unknown while
// it is still arriving; then the whole body is served instead of a range.
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
	case head.RangeUnsatisfiable:
		return Reply{Status: 416}
	case head.RangeIgnored:
		return whole
	}
	return Reply{Status: 206, From: from, To: to, Length: to - from}
}

// ifRangeHolds evaluates If-Range (RFC 9110, section 13.1.5): it must be a strong tag equal to the
// stored one, or exactly the date of Last-Modified, if that is a strong validator (section
// 8.8.2.2).
func (r *Request) ifRangeHolds(s *Stored, block []byte, wall int64) bool {
	if r.ifRange == nil {
		return true
	}
	if head.IsTag(r.ifRange) {
		tag := s.ETag(block)
		return len(tag) > 0 && head.StrongEqual(r.ifRange, tag)
	}
	at, ok := head.ParseDate(r.ifRange, wall)
	return ok && s.LastModified != none && at == s.LastModified && s.Date-s.LastModified >= 1
}

// parseRange reads a Range with a single byte range; it ignores all others.
func parseRange(b []byte, length int64) (from, to int64, kind head.RangeKind) {
	set, ok := head.ByteRanges(b)
	if !ok {
		return 0, 0, head.RangeIgnored
	}
	return head.ParseRange(set, length)
}
