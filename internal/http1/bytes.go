package http1

import (
	"encoding/binary"
	"math/bits"
)

// Eight bytes are looked at in one go: a word holds them, and arithmetic that carries from no byte
// into the next tells of each whether it is of a class, in the byte's top bit. That is some five
// times as fast as a table look-up per byte.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// controls has the top bit set of each byte of w that is below 0x20, or 0x7f. Bytes from 0x80 on
// are none.
func controls(w uint64) uint64 {
	low := w &^ highs // so that the sums below stay in their bytes
	return (^(low + 0x60*ones) | (low + ones)) &^ w & highs
}

// offTarget has the top bit set of each byte of w that no request target has: up to 0x20, '#', and
// from 0x7f on.
func offTarget(w uint64) uint64 {
	low := w &^ highs
	hash := (low ^ '#'*ones) + 0x7f*ones // the top bit stays clear where the byte was '#'
	return (^(low + 0x5f*ones) | (low + ones) | ^hash | w) & highs
}

// equals has the top bit set of the first byte of w that is the same as those of pattern; of later
// ones it is not exact.
func equals(w, pattern uint64) uint64 {
	x := w ^ pattern
	return (x - ones) &^ x & highs
}

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// Classes of bytes.
const (
	tokenByte  = 1 << iota // of a token (RFC 9110, section 5.6.2)
	textByte               // of a field value or a chunk extension: all but controls, with HTAB
	targetByte             // of a request target
	hexByte                // a hexadecimal digit
)

var class = func() (t [256]byte) {
	for i := range t {
		c := byte(i)
		digit := '0' <= c && c <= '9'
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if digit || letter {
			t[i] |= tokenByte
		}
		if digit || 'a' <= c|0x20 && c|0x20 <= 'f' {
			t[i] |= hexByte
		}
		if c >= 0x20 && c != 0x7f || c == '\t' {
			t[i] |= textByte
		}
		if c > 0x20 && c < 0x7f && c != '#' {
			t[i] |= targetByte
		}
	}
	for _, c := range []byte("!#$%&'*+-.^_`|~") {
		t[c] |= tokenByte
	}
	return
}()

// isText says whether b can be a field value or a reason: no control characters but HTAB.
func isText(b []byte) bool {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		if controls(word(b[i:])) != 0 {
			break // it may be a HTAB: what follows is looked at byte by byte
		}
	}
	return all(b[i:], textByte)
}

// isTarget says whether b has only bytes that a request target may have.
func isTarget(b []byte) bool {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		if offTarget(word(b[i:])) != 0 {
			return false
		}
	}
	return all(b[i:], targetByte)
}

func isToken(b []byte) bool { return len(b) > 0 && all(b, tokenByte) }

func all(b []byte, of byte) bool {
	for _, c := range b {
		if class[c]&of == 0 {
			return false
		}
	}
	return true
}

// colon is the index of the first ':' in b, or -1.
func colon(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		if m := equals(word(b[i:]), ':'*ones); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(b); i++ {
		if b[i] == ':' {
			return i
		}
	}
	return -1
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// trim takes the optional white space off both ends.
func trim(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// foldsTo says whether b is lower, which is in lower case, in any case.
func foldsTo(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// nextToken splits the first element off a comma-separated list. Empty elements come out as empty
// tokens.
func nextToken(list []byte) (token, rest []byte) {
	for i, c := range list {
		if c == ',' {
			return trim(list[:i]), list[i+1:]
		}
	}
	return trim(list), nil
}
