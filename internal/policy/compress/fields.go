package compress

import (
	"bytes"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// Fields without an ID in package head.
var (
	contentEncodingName = []byte("Content-Encoding")
	contentRangeName    = []byte("Content-Range")
	etagName            = []byte("ETag")
	ifNoneMatchName     = []byte("If-None-Match")
	noTransformName     = []byte("no-transform")

	// staleNames are fields that describe the original content. Digests refer to the encoded
	// content (RFC 9530, sections 2 and 3), and so would ranges, which cannot be served here.
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

// Results of lookAt.
const (
	sawEncoding = 1 << iota // the content is encoded already
	sawRange                // the content is a part
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

// encodeHead changes the head to that of the encoded content, whose length is not known yet.
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
// section 8.8.3.3). The service still finds the tag equal when a client revalidates its copy,
// because If-None-Match compares weakly. An invalid tag must not pass for a strong one, so it is
// removed.
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

// matchNotModified makes a 304 refer to the client's copy (RFC 9110, section 15.4.5). If the client
// sent a weak tag, a strong tag from the service is the one before encoding, and a cache would find
// no stored response with it. The type of the content is not known, so a 304 always says that the
// resource varies by Accept-Encoding.
func matchNotModified(x *exchange.Exchange) {
	if f := x.Request.Fields.Find(ifNoneMatchName); f != nil && bytes.Contains(f.Value, []byte(`W/"`)) {
		weakenTags(x)
	}
	addVary(&x.Response.Fields)
}

// addVary adds that the response varies by Accept-Encoding, unless it already says so.
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

// forbidsTransform reports whether Cache-Control has no-transform (RFC 9111, sections 5.2.1.6 and
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

// hasMember reports whether a list has a member, ignoring case. A match inside a quoted string
// counts too; at worst, a response is then not encoded.
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
