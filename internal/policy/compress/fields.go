package compress

import (
	"bytes"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// The fields that the head package does not know.
var (
	contentEncodingName = []byte("Content-Encoding")
	contentRangeName    = []byte("Content-Range")
	etagName            = []byte("ETag")
	ifNoneMatchName     = []byte("If-None-Match")
	noTransformName     = []byte("no-transform")

	// staleNames say something of the content as it was. Digests are of the encoded content (RFC 9530,
	// sections 2 and 3), and ranges would be too, which nobody here can serve.
	staleNames = exchange.Names{[]byte("Accept-Ranges"), []byte("Content-MD5"), []byte("Digest"),
		[]byte("Content-Digest"),
		[]byte("Repr-Digest")}
)

var (
	varyField      = exchange.StaticField("Vary", "Accept-Encoding")
	encodingFields = func() (all [codings]head.Field) {
		for c, name := range codingNames {
			all[c] = exchange.StaticField("Content-Encoding", name)
		}
		return
	}()
)

// What lookAt may see.
const (
	sawEncoding = 1 << iota // the content is encoded already
	sawRange                // it is a part
)

// lookAt looks for fields without a known ID.
func lookAt(l *head.List) (saw int) {
	if !l.Has(head.Other) {
		return 0
	}
	for i := range l.Len() {
		switch f := l.At(i); {
		case f.ID != head.Other:
		case head.EqualFold(f.Name, contentEncodingName):
			saw |= sawEncoding
		case head.EqualFold(f.Name, contentRangeName):
			saw |= sawRange
		}
	}
	return saw
}

// encodeHead makes the head that of the encoded content, whose length nobody knows yet.
func encodeHead(x *exchange.Exchange, c coding) {
	l := &x.Response.Fields
	weakenTags(x)
	l.RemoveFunc(func(f *head.Field) bool {
		return f.ID == head.ContentLength || f.ID == head.Other && staleNames.Has(f.Name)
	})
	x.Response.Length = head.Unknown
	l.Append(encodingFields[c])
}

// weakenTags makes a strong ETag weak: the encoded content is not the same byte for byte (RFC 9110,
// section 8.8.3.3). The service finds the tag equal all the same when a client asks whether its copy
// is the current one: If-None-Match compares weakly. What is not a tag must not pass for a strong one,
// and goes.
func weakenTags(x *exchange.Exchange) {
	l := &x.Response.Fields
	bad := false
	for i := range l.Len() {
		f := l.At(i)
		switch {
		case f.ID != head.Other || !head.EqualFold(f.Name, etagName) || isWeak(f.Value):
		case len(f.Value) >= 2 && f.Value[0] == '"':
			f.Value, f.Line = append(append(x.Alloc(len(f.Value) + 2)[:0], "W/"...), f.Value...), nil
		default:
			bad = true
		}
	}
	if bad {
		l.RemoveFunc(func(f *head.Field) bool {
			return f.ID == head.Other && head.EqualFold(f.Name, etagName) && !isWeak(f.Value)
		})
	}
}

func isWeak(tag []byte) bool { return len(tag) >= 4 && tag[0] == 'W' && tag[1] == '/' && tag[2] == '"' }

// matchNotModified makes a 304 speak of what the client has (RFC 9110, section 15.4.5): where the
// client asked with a weak tag, a strong one of the service's is the tag from before the encoding, and
// a cache would look for a stored response that has it and find none. Its type is not known, so it always
// says that what is asked for depends on Accept-Encoding.
func matchNotModified(x *exchange.Exchange) {
	if f := x.Request.Fields.Find(ifNoneMatchName); f != nil && bytes.Contains(f.Value, []byte(`W/"`)) {
		weakenTags(x)
	}
	addVary(&x.Response.Fields)
}

// addVary says that the response depends on Accept-Encoding, where it does not say so yet.
func addVary(l *head.List) {
	if l.Has(head.Vary) {
		for i := range l.Len() {
			if f := l.At(i); f.ID == head.Vary && (hasMember(f.Value, varyField.Value) ||
				hasMember(f.Value, star)) {
				return
			}
		}
	}
	l.Append(varyField)
}

var star = []byte("*")

// forbidsTransform says whether Cache-Control has no-transform (RFC 9111, sections 5.2.1.6 and
// 5.2.2.6).
func forbidsTransform(l *head.List) bool {
	if !l.Has(head.CacheControl) {
		return false
	}
	for i := range l.Len() {
		if f := l.At(i); f.ID == head.CacheControl && hasMember(f.Value, noTransformName) {
			return true
		}
	}
	return false
}

// hasMember says whether a list has a member, in any case. One inside a quoted string counts too: it
// costs an encoding at the most.
func hasMember(list, member []byte) bool {
	for len(list) > 0 {
		var one []byte
		one, list, _ = bytes.Cut(list, comma)
		if head.EqualFold(bytes.Trim(one, " \t\""), member) {
			return true
		}
	}
	return false
}
