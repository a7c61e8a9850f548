package head

import "bytes"

// NextParam cuts the first parameter off a query, both parts of it still encoded. Empty parameters
// are passed over; ok is false when there is none left.
func NextParam(query []byte) (name, value, rest []byte, ok bool) {
	for len(query) > 0 {
		pair := query
		if i := bytes.IndexByte(query, '&'); i >= 0 {
			pair, query = query[:i], query[i+1:]
		} else {
			query = nil
		}
		if len(pair) > 0 {
			name, value, _ = bytes.Cut(pair, equals)
			return name, value, query, true
		}
	}
	return nil, nil, nil, false
}

var equals = []byte("=")

// DecodesTo compares an encoded name or value of a query with a plain one. What is not a valid
// encoding stands for itself.
func DecodesTo(encoded []byte, want string) bool {
	for len(encoded) > 0 {
		var c byte
		if c, encoded = decode(encoded); want == "" || want[0] != c {
			return false
		}
		want = want[1:]
	}
	return want == ""
}

// AppendDecoded appends what an encoded name or value of a query stands for, which is not longer.
func AppendDecoded(out, encoded []byte) []byte {
	for len(encoded) > 0 {
		var c byte
		c, encoded = decode(encoded)
		out = append(out, c)
	}
	return out
}

// decode is the first byte that encoded, which is not empty, stands for.
func decode(encoded []byte) (c byte, rest []byte) {
	switch c = encoded[0]; {
	case c == '+':
		c = ' '
	case c == '%' && len(encoded) > 2 && Hex(encoded[1]) != NotHex && Hex(encoded[2]) != NotHex:
		return Hex(encoded[1])<<4 | Hex(encoded[2]), encoded[3:]
	}
	return c, encoded[1:]
}

// NotHex is what Hex gives for a byte that is not a hexadecimal digit.
const NotHex = 0xff

// Hex is the value of a hexadecimal digit, in either case.
func Hex(c byte) uint8 { return hex[c] }

var hex = func() (t [256]uint8) {
	for i := range t {
		t[i] = NotHex
	}
	for i := range 10 {
		t['0'+i] = uint8(i)
	}
	for i := range 6 {
		t['a'+i], t['A'+i] = uint8(10+i), uint8(10+i)
	}
	return
}()
