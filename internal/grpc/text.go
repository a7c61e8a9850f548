package grpc

import (
	"encoding/base64"
	"errors"
)

// The text mode of gRPC-Web is base64 as a stream: each side encodes as much as it has at a time,
// and may end each part with padding, so that the other can decode it at once. A body is a row of
// such parts, cut anywhere on its way.

// ErrText is that a body in text mode is not base64, or ends within four characters. Reading is
// strict: there is no white space, and padding drops no bits that say anything.
var ErrText = errors.New("grpc: the body is not the base64 that application/grpc-web-text means")

// TextDecoder decodes a body in text mode, in portions of any size. It keeps at most three
// characters. The zero value is at the body's beginning.
type TextDecoder struct {
	quad   [4]byte
	got    uint8
	failed bool
}

// Append decodes the next portion and appends the bytes that it stands for: at most three for each
// four characters, of which three may be earlier portions'. p may not overlap what is appended. An
// error is ErrText, and stays; what was appended before it is in the body.
func (d *TextDecoder) Append(out, p []byte) ([]byte, error) {
	for len(p) > 0 && !d.failed {
		if d.got == 0 {
			for ; len(p) >= 4; p = p[4:] {
				var ok bool
				if out, ok = appendQuad(out, [4]byte(p)); !ok {
					d.failed = true
					return out, ErrText
				}
			}
		}
		n := copy(d.quad[d.got:], p)
		d.got += uint8(n)
		p = p[n:]
		if d.got == 4 {
			var ok bool
			out, ok = appendQuad(out, d.quad)
			d.got, d.failed = 0, !ok
		}
	}
	if d.failed {
		return out, ErrText
	}
	return out, nil
}

// End is called when the body is over. An error is ErrText: it ends within four characters.
func (d *TextDecoder) End() error {
	if d.failed || d.got != 0 {
		return ErrText
	}
	return nil
}

// appendQuad decodes four characters, the last two of which may be padding.
func appendQuad(out []byte, q [4]byte) ([]byte, bool) {
	a, b, c, d := sextets[q[0]], sextets[q[1]], sextets[q[2]], sextets[q[3]]
	switch {
	case a|b|c|d < 64:
		return append(out, a<<2|b>>4, b<<4|c>>2, c<<6|d), true
	case q[3] != '=' || a|b >= 64:
		return out, false
	case q[2] == '=':
		return append(out, a<<2|b>>4), b&15 == 0
	default:
		return append(out, a<<2|b>>4, b<<4|c>>2), c < 64 && c&3 == 0
	}
}

// sextets are the values of the characters of base64 (RFC 4648, section 4), 0xff for all others.
var sextets = func() (values [256]byte) {
	for i := range values {
		values[i] = 0xff
	}
	for i := range 64 {
		values["ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[i]] = byte(i)
	}
	return values
}()

// TextEncoder encodes a body in text mode, in portions of any size. It keeps at most two bytes,
// which would need padding. The zero value is at the body's beginning.
type TextEncoder struct {
	kept [3]byte
	n    uint8
}

// Append encodes the next portion and appends what is whole groups of three bytes with those that
// were kept: at most four characters for three bytes. p may not overlap what is appended.
func (e *TextEncoder) Append(out, p []byte) []byte {
	if e.n > 0 {
		n := copy(e.kept[e.n:], p)
		e.n += uint8(n)
		p = p[n:]
		if e.n < 3 {
			return out
		}
		out, e.n = base64.StdEncoding.AppendEncode(out, e.kept[:]), 0
	}
	whole := len(p) / 3 * 3
	out = base64.StdEncoding.AppendEncode(out, p[:whole])
	e.n = uint8(copy(e.kept[:], p[whole:]))
	return out
}

// Flush appends what is kept, with padding: four characters or none. The other side has all bytes
// then. Another portion may follow.
func (e *TextEncoder) Flush(out []byte) []byte {
	out = base64.StdEncoding.AppendEncode(out, e.kept[:e.n])
	e.n = 0
	return out
}
