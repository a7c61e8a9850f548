package hpack

import "encoding/binary"

// codeLengths is the number of bits of each byte's code (RFC 7541, appendix B). The code is
// canonical: codes of one length follow each other in the order of the bytes, and longer codes
// follow shorter ones. So the lengths are all there is to know.
var codeLengths = [256]uint8{
	13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
	28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
	6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
	5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
	13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
	15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
	6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
	20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
	24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
	22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
	21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
	26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
	19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
	20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
	26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
}

const (
	peekBits   = 12 // what one look-up sees: 16 KB of table, and mostly two symbols
	maxBits    = 30 // the longest code
	steps      = 4  // look-ups that a full window, 56 bits at least, suffices for
	maxSymbols = 2 * steps
)

// pair is what peekBits bits begin with: one or two symbols, or none where the code is longer. It
// holds, from the lowest bits up, the two symbols, the number of bits of all, that of the first,
// and the number of symbols.
type pair uint32

func pairOf(first, second byte, bits, firstBits, symbols uint8) pair {
	return pair(first) | pair(second)<<8 | pair(bits)<<16 | pair(firstBits)<<22 | pair(symbols)<<28
}

func (p pair) first() byte     { return byte(p) }
func (p pair) symbols() uint16 { return uint16(p) }
func (p pair) bits() uint      { return uint(p>>16) & 63 }
func (p pair) firstBits() uint { return uint(p>>22) & 63 }
func (p pair) count() int      { return int(p >> 28) }

var (
	codes   [256]uint32
	pairs   [1 << peekBits]pair
	ordered [256]byte // the symbols by their codes
	// Codes of one length, as the first 32 bits of a text, are below the bound of that length, and
	// offset is what to add to such a code for its place in ordered.
	bounds  [maxBits + 1]uint64
	offsets [maxBits + 1]int
)

// init computes the tables, which takes about 40 µs.
func init() {
	code, n := uint32(0), 0
	for length := uint8(1); length <= maxBits; length++ {
		code <<= 1
		offsets[length] = n - int(code)
		for symbol, l := range codeLengths {
			if l == length {
				codes[symbol], ordered[n] = code, byte(symbol)
				code++
				n++
			}
		}
		bounds[length] = uint64(code) << (32 - length)
	}
	for _, first := range ordered {
		length := codeLengths[first]
		if length > peekBits {
			break
		}
		rest := peekBits - length
		from := codes[first] << rest
		for i := range uint32(1) << rest {
			pairs[from+i] = pairOf(first, 0, length, length, 1)
		}
		for _, second := range ordered {
			length2 := codeLengths[second]
			if length2 > rest {
				break
			}
			last := rest - length2
			for i := range uint32(1) << last {
				pairs[from+codes[second]<<last+i] = pairOf(first, second, length+length2, length, 2)
			}
		}
	}
}

// text is a Huffman-encoded string on the way to be decoded.
type text struct {
	src    []byte
	window uint64 // the next bits, from the top
	bits   uint   // how many of them have been taken from src; what follows them is src's or zeros
}

// decode decodes into dst until the text is over or dst is full, and says how much it wrote. more
// is set where dst is full and the text is not over; ok is false where the text is not a valid
// code.
//
// It is quick while there is room for all that a window may hold; it then writes two symbols at a
// time, the second of which may be none, so the memory behind what it counts is overwritten. A
// symbol of a long code, and the last ones, are decoded one by one.
//
// What ends a text is fewer than eight bits, all of them ones (RFC 7541, section 5.2).
func (t *text) decode(dst []byte) (n int, more, ok bool) {
	src, window, bits := t.src, t.window, t.bits
	for {
	quick:
		for n+maxSymbols <= len(dst) {
			if len(src) >= 8 {
				window |= binary.BigEndian.Uint64(src) >> (bits & 63)
				src = src[(63-bits)>>3&7:]
				bits |= 56
			} else {
				for ; bits < 56 && len(src) > 0; bits, src = bits+8, src[1:] {
					window |= uint64(src[0]) << (56 - bits)
				}
			}
			for range steps {
				p := pairs[window>>(64-peekBits)]
				if p == 0 || p.bits() > bits {
					break quick
				}
				binary.LittleEndian.PutUint16(dst[n:], p.symbols())
				n += p.count()
				window, bits = window<<p.bits(), bits-p.bits()
			}
		}
		for ; bits < 56 && len(src) > 0; bits, src = bits+8, src[1:] {
			window |= uint64(src[0]) << (56 - bits)
		}
		p := pairs[window>>(64-peekBits)]
		symbol, length := p.first(), p.firstBits()
		if p == 0 {
			symbol, length = long(window)
		}
		if length == 0 || length > bits {
			break
		}
		if n == len(dst) {
			t.src, t.window, t.bits = src, window, bits
			return n, true, true
		}
		dst[n] = symbol
		n++
		window, bits = window<<length, bits-length
	}
	return n, false, bits < 8 && window == ^uint64(0)<<(64-bits)
}

// long finds the symbol at the top of a window whose code is longer than peekBits. length is 0
// where the code is EOS.
func long(window uint64) (symbol byte, length uint) {
	top := window >> 32
	for length = peekBits + 1; length <= maxBits; length++ {
		if top < bounds[length] {
			return ordered[offsets[length]+int(top>>(32-length))], length
		}
	}
	return 0, 0
}

// huffmanLen is the length of a string's Huffman code, in bytes.
func huffmanLen(s []byte) int {
	n := 0
	for _, c := range s {
		n += int(codeLengths[c])
	}
	return (n + 7) / 8
}

// appendHuffman appends a string's Huffman code.
func appendHuffman(dst, s []byte) []byte {
	var window uint64
	var bits uint
	for _, c := range s {
		window = window<<(codeLengths[c]&63) | uint64(codes[c])
		if bits += uint(codeLengths[c]); bits >= 32 {
			bits -= 32
			dst = binary.BigEndian.AppendUint32(dst, uint32(window>>(bits&63)))
		}
	}
	for bits >= 8 {
		bits -= 8
		dst = append(dst, byte(window>>bits))
	}
	if bits > 0 {
		dst = append(dst, byte(window<<(8-bits))|0xff>>bits)
	}
	return dst
}
