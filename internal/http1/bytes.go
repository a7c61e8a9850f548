package http1

import (
	"encoding/binary"
	"math/bits"
)

// ones has the lowest bit of each byte of a word set, highs the top bit.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// equals has the top bit set of the first byte of w that is the same as those of pattern; of later
// ones it is not exact.
func equals(w, pattern uint64) uint64 {
	x := w ^ pattern
	return (x - ones) &^ x & highs
}

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

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
