package rules

import (
	"bytes"
	"slices"
	"strings"

	"plimsoll/internal/head"
)

// Freshen applies a 304 that the origin sent to r for a stored response (RFC 9111, sections 4.3.4
// and 3.2). It appends the updated stored fields to dst, which must be empty, and the response
// counts as received now. If the answer is only for r's client, only its fields about freshness are
// used: its other fields could reveal to other clients what that client sent.
//
// The reason says what to do. MayStore: the new response replaces the stored one, with the same
// body. Mismatch: the 304 does not refer to the stored response, which must not be used; the caller
// must repeat the request without validators. Any other reason: the response answers this request,
// and then must no longer be stored.
func (o *Options) Freshen(
	dst []byte, r *Request, old *Stored, block []byte, answer *head.Response, at Times,
) (Stored, []byte, Reason) {
	if !agrees(old, block, &answer.Fields, at.Received.Wall) {
		return Stored{}, dst, Mismatch
	}
	merged := head.Response{Status: old.Status, Length: old.Length}
	merge(&merged.Fields, block, &answer.Fields, o.updates)
	if o.Personal(r) && o.isPersonal(r, &merged, at) {
		merged.Fields.Reset()
		merge(&merged.Fields, block, &answer.Fields, o.updatesFreshness)
	}
	// Date and Age are those of the answer that has just arrived, not those of the stored one.
	fresh := readFresh(&answer.Fields, at.Received.Wall)
	if fresh.date == none {
		merged.Fields.RemoveID(head.Date)
	}
	v := o.read(&merged, at)
	v.stored.InitialAge = initialAge(&fresh, at)
	v.stored.Length = old.Length
	block, ok := o.AppendBlock(dst, &v.stored, &merged.Fields)
	if !ok {
		return v.stored, block, TooManyFields
	}
	// The body was stored for all clients, so it does not matter which client sent this request.
	anyone := Request{get: true}
	anyone.reset()
	if why := o.refuses(&anyone, &merged, &v); why != NoReason {
		return v.stored, block, why
	}
	return v.stored, block, MayStore
}

// agrees reports whether a 304 refers to the stored response, judging by its validators. A 304
// without validators counts as referring to it, although RFC 9111 allows that only if the stored
// response has none either: many origins leave them out, and the 304 answers our validators.
func agrees(old *Stored, block []byte, fields *head.List, wall int64) bool {
	var tag, modified []byte
	eachNamed(fields, "etag", func(value []byte) { tag = value })
	eachNamed(fields, "last-modified", func(value []byte) { modified = value })
	switch stored := old.ETag(block); {
	case head.IsTag(tag) && head.IsWeak(tag):
		return len(stored) > 0 && head.WeakEqual(tag, stored)
	case head.IsTag(tag):
		return len(stored) > 0 && head.StrongEqual(tag, stored)
	}
	if at, ok := head.ParseDate(modified, wall); ok {
		return old.LastModified == at
	}
	return true
}

// merge makes the fields of an updated response: the stored fields, in which those for which update
// is true are replaced by the answer's fields of the same name.
func merge(dst *head.List, block []byte, answer *head.List, update func(*head.Field) bool) {
	Fields(dst, block)
	connection := connectionNames(answer)
	updates := func(f *head.Field) bool { return update(f) && !listed(connection, f.Name) }
	dst.RemoveFunc(func(f *head.Field) bool {
		for i := range answer.Len() {
			if a := answer.At(i); head.EqualFold(a.Name, f.Name) && updates(a) {
				return true
			}
		}
		return false
	})
	for i := range answer.Len() {
		if f := answer.At(i); updates(f) {
			dst.Append(*f)
		}
	}
}

// isPersonal reports whether an answer, merged with the stored fields that it updates, is only for
// the client that sent the request.
func (o *Options) isPersonal(r *Request, merged *head.Response, at Times) bool {
	v := o.read(merged, at)
	return o.refuses(r, merged, &v).Personal()
}

// updates reports whether a field of a 304 changes what is stored. Fields of the answer's own
// framing do not, nor do fields on which the stored body depends.
func (*Options) updates(f *head.Field) bool { return !fixed(f) }

// updatesFreshness reports whether a field of a 304 concerns freshness.
func (o *Options) updatesFreshness(f *head.Field) bool {
	switch {
	case f.ID == head.Date, f.ID == head.CacheControl, is(f.Name, "expires"), is(f.Name, "age"):
		return true
	}
	return slices.ContainsFunc(o.Targeted, func(name string) bool {
		return strings.EqualFold(name,
			unsafeString(f.Name))
	})
}

// fixed reports whether a field of a 304 must not change what is stored.
func fixed(f *head.Field) bool {
	switch f.ID {
	case head.Connection, head.KeepAlive, head.ProxyConnection, head.TE, head.Trailer,
		head.TransferEncoding, head.Upgrade,
		head.ProxyAuthenticate, head.ProxyAuthorization, head.ContentLength:
		return true
	case head.Other:
		return is(f.Name, "content-md5") || is(f.Name, "content-encoding") ||
			is(f.Name, "content-range") || is(f.Name, "proxy-authentication-info")
	}
	return false
}

// HeadOutdates reports whether the origin's answer to a HEAD shows that a stored response is no
// longer what GET would return (RFC 9111, section 4.3.5). Only answers count that GET would have
// got too: not failures, answers to preconditions, or refusals of unauthorised clients.
//
// An answer that agrees does not freshen what is stored, although that would be allowed: policies
// before the cache may already have changed its fields, and many servers answer HEAD without
// checking.
func HeadOutdates(old *Stored, block []byte, answer *head.Response, wall int64) bool {
	switch answer.Status {
	case 404, 410:
		return old.Status != answer.Status
	case 200:
	default:
		return false
	}
	if old.Status != 200 {
		return true
	}
	var stored head.List
	Fields(&stored, block)
	was, now := described(&stored), described(&answer.Fields)
	modified, dated := head.ParseDate(now.modified, wall)
	switch {
	case dated && old.LastModified != none && modified != old.LastModified:
		return true
	case !bytes.Equal(was.coding, now.coding):
		return false // another representation, with its own tag and length
	case head.IsTag(was.tag) && head.IsTag(now.tag) && !head.WeakEqual(was.tag, now.tag):
		return true
	}
	length, ok := parseLength(now.length)
	return ok && old.Length >= 0 && length != old.Length
}

// description is the fields that distinguish one content from another.
type description struct{ tag, modified, length, coding []byte }

func described(fields *head.List) (d description) {
	eachNamed(fields, "etag", func(value []byte) { d.tag = value })
	eachNamed(fields, "last-modified", func(value []byte) { d.modified = value })
	eachNamed(fields, "content-length", func(value []byte) { d.length = value })
	eachNamed(fields, "content-encoding", func(value []byte) { d.coding = value })
	return d
}

// parseLength reads Content-Length.
func parseLength(value []byte) (n int64, ok bool) {
	if len(value) == 0 || len(value) > 18 {
		return 0, false
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}
