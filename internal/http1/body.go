package http1

import (
	"math"

	"plimsoll/internal/head"
)

// Body finds the end of a body, of a request or a response, and takes its framing off. The zero
// value is a body of None that is done; Start makes it another. It is 56 bytes; memory for trailers
// is taken when the first one comes, from the pool of UsePool, and given back by DropTrailers:
// hardly any message has some, and no idle connection should hold it.
//
// Chunked bodies (RFC 9112, section 7.1) go through these states:
//
//	size → (extension →) sizeEnd → data → dataCR → dataLF → size
//	                       └ after size 0 → trailers → (trailer → trailers)* → lastLF → done
//
// Every byte is used as it comes, so that no split of the input matters and nothing but a trailer
// line is held.
type Body struct {
	// Bytes of the body of Length, or of the chunk; in state size what was read of its size.
	left      int64
	lim       *Limits
	trailer   *trailers
	pool      *TrailerPool // nil for none
	extension int          // bytes of extensions so far
	framing   Framing
	state     bodyState
	digits    uint8 // of the chunk size
	failed    Error
}

type bodyState uint8

const (
	inDone bodyState = iota
	inData           // also of Length and ToEOF
	inDataCR
	inDataLF
	inSize
	inExtension
	inSizeEnd  // the CR was there
	inTrailers // where a trailer line or the last line begins
	inTrailer
	inLastLF
)

// Start begins a body that is framed so. length counts for Length only, and is not negative. lim
// must outlive the body.
func (d *Body) Start(f Framing, length int64, lim *Limits) {
	*d = Body{framing: f, lim: lim}
	switch f {
	case Length:
		d.left = length
		if length > 0 {
			d.state = inData
		}
	case Chunked:
		d.state = inSize
	case ToEOF:
		d.state = inData
	}
}

// UsePool has memory for the trailers of a body that has just started come from p.
func (d *Body) UsePool(p *TrailerPool) { d.pool = p }

// DropTrailers gives the memory of trailers back. What Trailers gave must not be used any more.
func (d *Body) DropTrailers() {
	if d.trailer != nil {
		d.pool.put(d.trailer)
		d.trailer = nil
	}
}

// Done says that the body is complete: the next byte is the next message's.
func (d *Body) Done() bool { return d.state == inDone && d.failed == OK }

// EOF tells that the connection ended. It is OK where that ends the body, or where the body was
// done.
func (d *Body) EOF() Error {
	switch {
	case d.failed != OK:
		return d.failed
	case d.framing == ToEOF:
		d.state = inDone
	case d.state != inDone:
		d.failed = Truncated
	}
	return d.failed
}

// Next takes the next bytes of the body from in. The first n are used; of those, data, which
// aliases in, is content, and may be empty. Call it again with the rest, until n is 0 or Done. With
// Length and ToEOF, data is all that is used, so it may be forwarded as it is. Content before an
// error is given before the error, which comes with n 0 and is given again from then on.
func (d *Body) Next(in []byte) (data []byte, n int, err Error) {
	if d.failed != OK {
		return nil, 0, d.failed
	}
	if d.framing == ToEOF && d.state == inData {
		return in, len(in), OK
	}
	for n < len(in) && d.state != inDone {
		switch d.state {
		case inData:
			take := int(min(d.left, int64(len(in)-n)))
			data = in[n : n+take]
			if d.left -= int64(take); d.left == 0 {
				d.endData()
			}
			return data, n + take, OK
		case inTrailer:
			used, whole, err := d.trailer.take(in[n:], d.lim)
			if err != OK {
				d.failed = err
				return nil, 0, err
			}
			if whole {
				d.state = inTrailers
			}
			n += used
		default:
			if err := d.step(in[n]); err != OK {
				d.failed = err
				return nil, 0, err
			}
			if d.state != inTrailer { // whose first byte is its own
				n++
			}
		}
	}
	return nil, n, OK
}

func (d *Body) endData() {
	d.state = inDone
	if d.framing == Chunked {
		d.state = inDataCR
	}
}

// step takes one byte of chunk framing. A LF that no CR precedes ends nothing: CVE-2025-22871.
func (d *Body) step(c byte) Error {
	switch d.state {
	case inSize:
		return d.size(c)
	case inExtension:
		return d.extend(c)
	case inSizeEnd:
		if c != '\n' {
			return BareCR
		}
		d.state = inData
		if d.left == 0 {
			d.state = inTrailers
		}
	case inDataCR:
		switch c {
		case '\r':
			d.state = inDataLF
		case '\n':
			return BareLF
		default:
			return BadChunk
		}
	case inDataLF:
		if c != '\n' {
			return BareCR
		}
		d.state, d.left, d.digits = inSize, 0, 0
	case inTrailers:
		switch c {
		case '\r':
			d.state = inLastLF
		case '\n':
			return BareLF
		default:
			return d.beginTrailer()
		}
	case inLastLF:
		if c != '\n' {
			return BareCR
		}
		d.state = inDone
	}
	return OK
}

// size takes a byte of a chunk size: 1 to 16 hexadecimal digits, at most 2^63-1.
func (d *Body) size(c byte) Error {
	if head.Is(c, head.HexByte) {
		if d.digits == 16 || d.left >= 1<<59 {
			return BadChunk
		}
		d.digits++
		d.left = d.left<<4 | int64(hexValue(c))
		return OK
	}
	if d.digits == 0 && c != '\n' {
		return BadChunk
	}
	switch c {
	case '\r':
		d.state = inSizeEnd
		return OK
	case '\n':
		return BareLF
	case ';':
		d.state = inExtension
		return d.extend(c)
	}
	return BadChunk
}

// extend takes a byte of chunk extensions, which mean nothing to a gateway and are dropped (RFC
// 9112, section 7.1.1). The white space that the RFC lets stand before the first ';' is refused:
// nobody sends it, and some readers refuse it too.
func (d *Body) extend(c byte) Error {
	switch {
	case c == '\n':
		return BareLF
	case c == '\r':
		d.state = inSizeEnd
		return OK
	case !head.Is(c, head.TextByte):
		return BadChunk
	}
	d.extension++
	if d.lim.Extension > 0 && d.extension > d.lim.Extension {
		return ExtensionTooLarge
	}
	return OK
}

func hexValue(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

// Trailers is the trailer fields that may be forwarded, or nil while there are none. It is complete
// when the body is done. The list and what it holds are copies: they stay valid, whatever becomes
// of the input, until DropTrailers.
func (d *Body) Trailers() *head.List {
	if d.trailer == nil || d.trailer.list.Len() == 0 {
		return nil
	}
	return &d.trailer.list
}

func (d *Body) beginTrailer() Error {
	if d.trailer == nil {
		d.trailer = d.pool.take()
	}
	d.state = inTrailer
	return d.trailer.begin(d.lim)
}

// Most is how many bytes may be read for the body without reading any that stand behind it, as far
// as that is known: the rest of a body of Length.
func (d *Body) Most() int {
	if d.framing == Length {
		return int(min(d.left, math.MaxInt))
	}
	return math.MaxInt
}
