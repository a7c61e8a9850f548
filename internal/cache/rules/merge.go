package rules

import (
	"bytes"
	"slices"
	"strings"

	"plimsoll/internal/head"
)

// Freshen takes in a 304 that the origin sent to r for a stored response (RFC 9111, sections 4.3.4 and
// 3.2): the stored fields, updated, are appended to dst, which is empty, and the response counts
// as received now. Of an answer that is for r's client alone only what it says of freshness is taken:
// its other fields may tell others what that client sent.
//
// The reason says what to do. MayStore: the new response takes the stored one's place, with the
// same body. Mismatch: the 304 is about something else; what is stored is not to be used, and the
// request is to be repeated without validators. Every other reason: the response answers this
// request, and then is stored no longer.
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
	// Date and age are those of the answer that has just come, not what the stored one once had.
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
	// The body was once stored for all, so who asked this time does not matter.
	anyone := Request{get: true}
	anyone.reset()
	if why := o.refuses(&anyone, &merged, &v); why != NoReason {
		return v.stored, block, why
	}
	return v.stored, block, MayStore
}

// agrees says whether a 304 is about the stored response: its validators
// are. One without validators is taken for it too, although RFC 9111 would have that only where what
// is stored has none either: many origins leave them out, and it answers what they were asked.
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

// merge makes the fields of an updated response: those stored, with what the answer has in the place
// of fields of the same name, as far as these update anything.
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

// isPersonal says whether an answer, with the stored fields that it updates, is for the client
// alone that asked.
func (o *Options) isPersonal(r *Request, merged *head.Response, at Times) bool {
	v := o.read(merged, at)
	return o.refuses(r, merged, &v).Personal()
}

// updates says whether a field of a 304 changes what is stored. What belongs to the answer's own
// framing does not, nor what the stored body depends on.
func (*Options) updates(f *head.Field) bool { return !fixed(f) }

// updatesFreshness says whether a field of a 304 says how fresh that is.
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

// fixed says whether a field of a 304 changes nothing stored.
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

// HeadOutdates says whether the answer to a HEAD that went to the origin shows that a stored response
// is no longer what GET would get (RFC 9111, section 4.3.5). Only answers count that GET would have got
// alike: not failures, not those to conditions, not those to who may not ask.
//
// An answer that agrees does not freshen what is stored, although it might: policies in front of the
// cache have changed its fields already, and many servers answer HEAD without looking.
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
		return false // the same in another form, whose tag and length are its own
	case head.IsTag(was.tag) && head.IsTag(now.tag) && !head.WeakEqual(was.tag, now.tag):
		return true
	}
	length, ok := parseLength(now.length)
	return ok && old.Length >= 0 && length != old.Length
}

// description is the fields that tell one content from another.
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
