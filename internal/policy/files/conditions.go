package files

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// conditions are what a request says about the client's copy. They alias the request's fields.
type conditions struct {
	fields *head.List
	// Whether the fields If-Match and If-None-Match are present.
	match, noneMatch bool
	// The values of If-Modified-Since, If-Unmodified-Since, If-Range and Range; nil if absent.
	// Several lines of the same field count as invalid.
	since, unmodified, ifRange, ranges []byte
}

var several = []byte{}

func one(value, line []byte) []byte {
	if value != nil {
		return several
	}
	return line
}

// read reads a request's fields. Most requests have none of these; checking the length of each name
// shows that.
func (c *conditions) read(fields *head.List) {
	*c = conditions{fields: fields}
	for i := range fields.Len() {
		f := fields.At(i)
		switch {
		case f.ID == head.Range:
			c.ranges = one(c.ranges, f.Value)
		case f.ID != head.Other || f.Name[0]|0x20 != 'i':
		case head.FoldsTo(f.Name, "if-match"):
			c.match = true
		case head.FoldsTo(f.Name, "if-none-match"):
			c.noneMatch = true
		case head.FoldsTo(f.Name, "if-modified-since"):
			c.since = one(c.since, f.Value)
		case head.FoldsTo(f.Name, "if-unmodified-since"):
			c.unmodified = one(c.unmodified, f.Value)
		case head.FoldsTo(f.Name, "if-range"):
			c.ifRange = one(c.ifRange, f.Value)
		}
	}
}

// lists reports whether the fields with a name list the tag.
func (c *conditions) lists(name string, tag []byte, equal func(a, b []byte) bool) bool {
	for i := range c.fields.Len() {
		f := c.fields.At(i)
		if f.ID == head.Other && head.FoldsTo(f.Name, name) && head.ListsTag(f.Value, tag, equal) {
			return true
		}
	}
	return false
}

// status is the status of an answer with the file according to the request's preconditions: 200,
// 304 or 412, evaluated in the order of RFC 9110, section 13.2.2. Invalid dates are ignored.
func (c *conditions) status(f *file) int {
	switch {
	case c.match:
		if !c.lists("if-match", f.etag.Value, head.StrongEqual) {
			return 412
		}
	case c.unmodified != nil:
		if at, ok := head.ParseDate(c.unmodified, f.wall); ok && f.modified > at {
			return 412
		}
	}
	switch {
	case c.noneMatch:
		if c.lists("if-none-match", f.etag.Value, head.WeakEqual) {
			return 304
		}
	case c.since != nil:
		if at, ok := head.ParseDate(c.since, f.wall); ok && f.modified <= at {
			return 304
		}
	}
	return 200
}

// rangeHolds evaluates If-Range (RFC 9110, section 13.1.5): it must be the file's tag or, if its
// date is a strong validator, exactly that date.
func (c *conditions) rangeHolds(f *file) bool {
	if c.ifRange == nil {
		return true
	}
	if head.IsTag(c.ifRange) {
		return head.StrongEqual(c.ifRange, f.etag.Value)
	}
	at, ok := head.ParseDate(c.ifRange, f.wall)
	return ok && f.settled && at == f.modified
}

// choose is the file of an entry that best suits the request's Accept-Encoding: the file itself or
// a precompressed sibling.
func (p *Policy) choose(x *exchange.Exchange, e *entry) *file {
	if !e.vary {
		return e.files[0]
	}
	best, weight := e.files[0], 0
	for i, f := range e.files[1:] {
		if f == nil {
			continue
		}
		if q := weightOf(&x.Request.Fields, p.o.Codings[i]); q > weight {
			best, weight = f, q
		}
	}
	if weight < identityWeight(&x.Request.Fields) {
		return e.files[0]
	}
	return best
}
