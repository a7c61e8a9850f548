package http2

import (
	"net/http"

	"plimsoll/internal/head"
)

// Limits bound the fields of one message, and separately those of its trailers. Zero means no
// limit, which no listener uses.
type Limits struct {
	Path   int // bytes of :path
	Head   int // bytes of names and values, plus 32 for each field, as in MAX_HEADER_LIST_SIZE
	Fields int // number of fields, with each piece of a Cookie counted as one
}

// fieldOverhead is what a field counts for beyond its name and value (RFC 9113, section 6.5.2).
const fieldOverhead = 32

// connectionFields are the fields that concern one connection. They make an HTTP/2 message
// malformed (RFC 9113, section 8.2.2).
const connectionFields uint64 = 1<<head.Connection | 1<<head.ProxyConnection | 1<<head.KeepAlive |
	1<<head.TransferEncoding | 1<<head.Upgrade

// fields is the state common to the heads of all messages. Once failed is set, it stays.
type fields struct {
	length  int64 // of Content-Length, or head.Unknown
	bytes   int
	count   int
	cookies int
	seen    uint8 // pseudo-fields, a bit each
	regular bool  // a regular field has arrived
	failed  Reason
}

// enter counts a field and checks the limits.
func (m *fields) enter(lim *Limits, name, value []byte) Reason {
	m.count++
	m.bytes += len(name) + len(value) + fieldOverhead
	switch {
	case lim.Fields > 0 && m.count > lim.Fields:
		return TooManyFields
	case lim.Head > 0 && m.bytes > lim.Head:
		return HeadTooLarge
	}
	return OK
}

// pseudo records the pseudo-field with this bit.
func (m *fields) pseudo(bit uint8) Reason {
	switch {
	case m.regular:
		return LatePseudo
	case m.seen&bit != 0:
		return RepeatedPseudo
	}
	m.seen |= bit
	return OK
}

// add checks a regular field and appends it to l. It leaves out HTTP2-Settings, which concerns only
// HTTP/1 and is harmless.
func (m *fields) add(l *head.List, name, value []byte) (id head.ID, reason Reason) {
	m.regular = true
	if id, reason = check(name, value); reason != OK {
		return id, reason
	}
	if hears>>(id&63)&1 != 0 {
		if reason = m.hear(id, value); reason != OK || id == head.HTTP2Settings {
			return id, reason
		}
	}
	f := l.Extend(id)
	f.Name, f.Value = name[:len(name):len(name)], value[:len(value):len(value)]
	return id, OK
}

// check checks the bytes of a regular field (RFC 9113, section 8.2.1), as strictly as package http1
// does. It refuses white space around a value, because an HTTP/1 reader would strip it and read a
// different value.
func check(name, value []byte) (head.ID, Reason) {
	if !head.IsLowerToken(name) {
		return 0, BadFieldName
	}
	if n := len(value); n > 0 && (isSpace(value[0]) || isSpace(value[n-1])) || !head.IsText(value) {
		return 0, BadFieldValue
	}
	return head.Lookup(name), OK
}

// hears is the fields that hear judges.
const hears = connectionFields | 1<<head.TE | 1<<head.ContentLength | 1<<head.Cookie |
	1<<head.HTTP2Settings

func (m *fields) hear(id head.ID, value []byte) Reason {
	switch {
	case connectionFields>>id&1 != 0:
		return ConnectionField
	case id == head.TE:
		if !head.FoldsTo(value, "trailers") {
			return ConnectionField
		}
	case id == head.ContentLength:
		// As in package http1, a repeated length is refused even if it is equal: a sender that
		// repeats it has merged two messages or is probing.
		n, ok := head.ParseLength(value)
		if !ok || m.length != head.Unknown {
			return BadContentLength
		}
		m.length = n
	case id == head.Cookie:
		m.cookies++
	}
	return OK
}

// joinCookies joins several Cookie fields into one (RFC 9113, section 8.2.3), whose value it
// appends to dst. It skips empty ones, because a value must not end in white space.
func (m *fields) joinCookies(l *head.List, dst []byte) []byte {
	if m.cookies < 2 {
		return dst
	}
	from := len(dst)
	for i := range l.Len() {
		if f := l.At(i); f.ID == head.Cookie && len(f.Value) > 0 {
			if len(dst) > from {
				dst = append(dst, "; "...)
			}
			dst = append(dst, f.Value...)
		}
	}
	l.Set(cookie, dst[from:len(dst):len(dst)])
	return dst
}

var cookie = []byte("cookie")

// TrailerHead validates the fields of a trailer section. Call Reset before use.
type TrailerHead struct {
	fields
	lim *Limits
}

// Reset prepares t for a trailer section. t keeps lim.
func (t *TrailerHead) Reset(lim *Limits) {
	*t = TrailerHead{lim: lim, fields: fields{length: head.Unknown}}
}

// Field takes the next field, under the rules of RequestHead.Field. It appends to l the fields that
// may be forwarded as trailers: see head.MayTrail. A pseudo-field makes the message malformed (RFC
// 9113, section 8.1).
func (t *TrailerHead) Field(l *head.List, name, value []byte) Reason {
	if t.failed == OK {
		t.failed = t.field(l, name, value)
	}
	return t.failed
}

func (t *TrailerHead) field(l *head.List, name, value []byte) Reason {
	switch reason := t.enter(t.lim, name, value); reason {
	case OK:
	case HeadTooLarge:
		return TrailersTooLarge
	default:
		return reason
	}
	if len(name) > 0 && name[0] == ':' {
		return LatePseudo
	}
	id, reason := check(name, value)
	switch {
	case reason != OK:
		return reason
	case connectionFields>>id&1 != 0:
		return ConnectionField
	}
	if head.MayTrail(name, id) {
		f := l.Extend(id)
		f.Name, f.Value = name[:len(name):len(name)], value[:len(value):len(value)]
	}
	return OK
}

// End returns OK if the trailer section is valid: it must end the stream.
func (t *TrailerHead) End(endStream bool) Reason {
	if t.failed == OK && !endStream {
		t.failed = UnendedMessage
	}
	return t.failed
}

// BodyLength checks that a message has as much data as it announced (RFC 9113, section 8.1.1). The
// zero value expects no data.
type BodyLength struct{ left int64 }

// ExpectLength expects n bytes, or any number when n is head.Unknown.
func ExpectLength(n int64) BodyLength { return BodyLength{n} }

// Add records n bytes of data, without padding. It returns LengthMismatch at the first byte too
// many.
func (b *BodyLength) Add(n int) Reason {
	switch {
	case b.left == head.Unknown:
	case int64(n) > b.left:
		return LengthMismatch
	default:
		b.left -= int64(n)
	}
	return OK
}

// End returns OK if the body may end here.
func (b *BodyLength) End() Reason {
	if b.left > 0 {
		return LengthMismatch
	}
	return OK
}

// unsent is the fields that an HTTP/2 message must not have, or that are for one hop only.
const unsent = connectionFields | 1<<head.TE | 1<<head.HTTP2Settings | 1<<head.ProxyAuthenticate |
	1<<head.ProxyAuthorization | 1<<head.Host | 1<<head.Alias

// MaySend reports whether a field of a message may be sent on HTTP/2. Fields that concern a
// connection or only the next hop may not, nor may Host, which becomes :authority, nor aliases. A
// 407 keeps its Proxy-Authenticate; status is 0 for requests. A caller that accepts trailers adds
// its own TE. Names must be sent in lower case.
func MaySend(f *head.Field, status int) bool {
	if f.ID == head.ProxyAuthenticate && status == http.StatusProxyAuthRequired {
		return true
	}
	return unsent>>(f.ID&63)&1 == 0
}
