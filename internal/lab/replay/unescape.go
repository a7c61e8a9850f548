package replay

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// unescape appends b to dst, unescaped. It knows the escapes of nginx and Apache (\x22, \", \\) and
// those of JSON (\n, \u0022), which do not conflict. ok is false for any other escape.
func unescape(dst, b []byte) (_ []byte, ok bool) {
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			return append(dst, b...), true
		}
		dst = append(dst, b[:i]...)
		if b = b[i+1:]; len(b) == 0 {
			return dst, false
		}
		n := 1
		switch c := b[0]; c {
		case '"', '\\', '/':
			dst = append(dst, c)
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'v':
			dst = append(dst, '\v')
		case 'x':
			v, ok := hexadecimal(b[1:], 2)
			if !ok {
				return dst, false
			}
			dst, n = append(dst, byte(v)), 3
		case 'u':
			var r rune
			if r, n = unicodeEscape(b); n == 0 {
				return dst, false
			}
			dst = utf8.AppendRune(dst, r)
		default:
			return dst, false
		}
		b = b[n:]
	}
}

// unicodeEscape reads u0041, or both halves of a surrogate pair; n is 0 if there is none. A lone
// half becomes U+FFFD, as in encoding/json.
func unicodeEscape(b []byte) (r rune, n int) {
	r, ok := hexadecimal(b[1:], 4)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 5
	}
	if len(b) >= 11 && b[5] == '\\' && b[6] == 'u' {
		if low, ok := hexadecimal(b[7:], 4); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, 11
			}
		}
	}
	return utf8.RuneError, 5
}

func hexadecimal(b []byte, n int) (v rune, ok bool) {
	if len(b) < n {
		return 0, false
	}
	for _, c := range b[:n] {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		v = v<<4 | rune(c)
	}
	return v, true
}
