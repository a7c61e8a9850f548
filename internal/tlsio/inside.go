package tlsio

import (
	"bytes"
	"crypto/tls"
	"reflect"
	"unsafe"
)

// A tls.Conn owns three buffers that it never shrinks: received bytes, sized for the largest record
// ever seen (up to 36 KB); handshake messages, sized for the ClientHello; and a reader over
// decrypted bytes. Two thousand idle connections that have once received an upload would hold 70 MB
// in them. A tls.Conn also allocates a small reader each time it has to ask its net.Conn for bytes,
// twice per request.
//
// Both costs go away if the receive buffer is lent to it only while the buffer holds data, and
// already filled with whole records. That needs the addresses of the three fields. They are found
// by reflection, by name and type, when the program starts. If a later version of Go changes them,
// inside is zero and Conn works without: correctly, but with crypto/tls's own memory and
// allocations. Only the methods of bytes.Buffer and bytes.Reader are used on the fields.
//
// Rejected: a copy of crypto/tls (its fixes would reach us late), and a record layer of our own
// over exported keys (there is no way to export them).
var inside = locate()

type layout struct {
	rawInput, input, hand uintptr
	known                 bool
}

func locate() layout {
	conn := reflect.TypeFor[tls.Conn]()
	var l layout
	l.known = true
	field := func(name string, want reflect.Type) uintptr {
		f, ok := conn.FieldByName(name)
		l.known = l.known && ok && f.Type == want && len(f.Index) == 1
		return f.Offset
	}
	l.rawInput = field("rawInput", reflect.TypeFor[bytes.Buffer]())
	l.input = field("input", reflect.TypeFor[bytes.Reader]())
	l.hand = field("hand", reflect.TypeFor[bytes.Buffer]())
	if !l.known {
		return layout{}
	}
	return l
}

// raw is what c has received and not decrypted.
func (l layout) raw(c *tls.Conn) *bytes.Buffer {
	return (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(c), l.rawInput))
}

// plain is what c has decrypted and has not been read. It shares raw's memory.
func (l layout) plain(c *tls.Conn) *bytes.Reader {
	return (*bytes.Reader)(unsafe.Add(unsafe.Pointer(c), l.input))
}

// messages is handshake data that c has not processed yet.
func (l layout) messages(c *tls.Conn) *bytes.Buffer {
	return (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(c), l.hand))
}
