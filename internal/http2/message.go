package http2

import (
	"net/http"

	"plimsoll/internal/head"
)

// Limits bound the fields of one message, and of its trailers likewise. A zero field means no bound
// is checked, which no listener uses.
type Limits struct {
	Path   int // bytes of :path
	Head   int // bytes of names and values, and 32 for each field, as in MAX_HEADER_LIST_SIZE
	Fields int // number of fields, each piece of a Cookie one
}

// fieldOverhead is what a field counts for beyond its name and value (RFC 9113, section 6.5.2).
const fieldOverhead = 32

// connectionFields concern one connection, and make a message of HTTP/2 malformed (RFC 9113,
// section 8.2.2).
const connectionFields uint64 = 1<<head.Connection | 1<<head.ProxyConnection | 1<<head.KeepAlive |
	1<<head.TransferEncoding | 1<<head.Upgrade

// fields is what the fields of all messages have in common. A reason once given stays.
type fields struct {
	length  int64 // of Content-Length, or head.Unknown
	bytes   int
	count   int
	cookies int
	seen    uint8 // pseudo-fields, a bit each
	regular bool  // the first regular field was there
	failed  Reason
}

// enter notes a field and asks the limits.
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

// pseudo notes the pseudo-field of this bit.
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

// add judges a regular field and appends it to l. What concerns HTTP/1 alone and is harmless, the
// settings for an upgrade to HTTP/2, is left out.
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

// check judges the bytes of a regular field (RFC 9113, section 8.2.1), as strictly as package http1
// does. White space around a value is what a reader of HTTP/1 would take off: two readings.
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
		// As in package http1, equal ones are refused too: who repeats them has merged two messages
		// or is probing.
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

// joinCookies makes one Cookie of several (RFC 9113, section 8.2.3), appended to dst. Empty ones
// add nothing: a value must not end in white space.
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

// TrailerHead judges the fields of a trailer section. Reset makes it ready.
type TrailerHead struct {
	fields
	lim *Limits
}

// Reset makes t ready for a trailer section. lim must outlive its use.
func (t *TrailerHead) Reset(lim *Limits) {
	*t = TrailerHead{lim: lim, fields: fields{length: head.Unknown}}
}

// Field takes the next field, under the rules of RequestHead.Field. It appends to l what may be
// forwarded as a trailer: see head.MayTrail. A pseudo-field makes the message malformed (RFC 9113,
// section 8.1).
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

// End says whether the trailer section may stand: it must end the stream.
func (t *TrailerHead) End(endStream bool) Reason {
	if t.failed == OK && !endStream {
		t.failed = UnendedMessage
	}
	return t.failed
}

// BodyLength checks that a message has as much data as it announced (RFC 9113, section 8.1.1). The
// zero value expects none.
type BodyLength struct{ left int64 }

// ExpectLength expects n bytes, or any number when n is head.Unknown.
func ExpectLength(n int64) BodyLength { return BodyLength{n} }

// Add notes n bytes of data, without padding. The first byte too many is a LengthMismatch.
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

// End says whether the body may end here.
func (b *BodyLength) End() Reason {
	if b.left > 0 {
		return LengthMismatch
	}
	return OK
}

// unsent is the fields that a message of HTTP/2 never has, or that are for one hop.
const unsent = connectionFields | 1<<head.TE | 1<<head.HTTP2Settings | 1<<head.ProxyAuthenticate |
	1<<head.ProxyAuthorization | 1<<head.Host | 1<<head.Alias

// MaySend says whether a field of a message goes onto HTTP/2: not what concerns a connection or is
// for the next hop alone, not Host, which is :authority, and no alias. A 407 keeps the credentials
// that it asks for; status is 0 in requests. A caller that takes trailers adds its own TE. Names
// must be sent in lower case.
func MaySend(f *head.Field, status int) bool {
	if f.ID == head.ProxyAuthenticate && status == http.StatusProxyAuthRequired {
		return true
	}
	return unsent>>(f.ID&63)&1 == 0
}
