package tlsio

import (
	"bytes"
	"crypto/tls"
	"reflect"
	"unsafe"
)

// A tls.Conn owns three buffers which it never shrinks: what it received, sized for the largest
// record ever seen (up to 36 KB), handshake messages, sized for the ClientHello, and a reader over
// decrypted bytes. Two thousand idle connections that once took an upload would hold 70 MB in them.
// It also allocates a small reader each time it has to ask its net.Conn for bytes, twice per
// request.
//
// Both costs go away when the receive buffer is lent to it only while there is something in it,
// already filled with whole records. That needs the addresses of the three fields. They are found
// by reflection, by name and type, when the program starts; if a later Go changes them, inside is
// zero and Conn does without: correct, but with crypto/tls's own memory and allocations. Nothing
// but the methods of bytes.Buffer and bytes.Reader is used on them.
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

// raw is what c received and has not decrypted.
func (l layout) raw(c *tls.Conn) *bytes.Buffer {
	return (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(c), l.rawInput))
}

// plain is what c decrypted and nobody has read. Its memory is that of raw.
func (l layout) plain(c *tls.Conn) *bytes.Reader {
	return (*bytes.Reader)(unsafe.Add(unsafe.Pointer(c), l.input))
}

// messages is handshake data that c has not interpreted yet.
func (l layout) messages(c *tls.Conn) *bytes.Buffer {
	return (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(c), l.hand))
}
