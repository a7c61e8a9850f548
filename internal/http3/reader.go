package http3

import (
	"github.com/quic-go/quic-go/quicvarint"
)

// Kind is what a Part is of.
type Kind uint8

// The kinds of parts.
const (
	None    Kind = iota // nothing yet: more bytes are needed
	Head                // the field section of the message's head
	Content             // bytes of the body
	Trailer             // the field section behind the body
)

// Part is something that came on a message's stream.
type Part struct {
	Kind Kind
	// Data is valid until the next call, and as long as the bytes that were given.
	Data []byte
}

// Reader cuts the bytes of one message's stream into its parts (RFC 9114, section 4.1): a head, or
// on a client's side interim heads and then a head, a body, perhaps a trailer section. Reset makes
// it ready.
type Reader struct {
	header   partial
	left     uint64 // bytes of the frame under way that have not come
	kind     Kind   // what the frame under way is; None for one that is passed over
	within   bool   // a frame is under way
	block    []byte // of a field section that is not there whole
	maxBlock int
	unknown  int // bytes that were passed over
	stage    stage
	heads    bool // several heads may come
}

type stage uint8

const (
	beforeHead stage = iota
	inBody
	afterTrailer
)

// maxUnknown bounds the bytes of frames of unknown types on one stream. They are there so that
// nobody forgets to pass them over: some bytes, once a message.
const maxUnknown = 64 << 10

// Reset makes r ready for a request's stream. maxBlock bounds the bytes of an encoded field
// section.
func (r *Reader) Reset(maxBlock int) { *r = Reader{maxBlock: maxBlock, block: r.block[:0]} }

// ResetResponse makes r ready for a response's stream.
func (r *Reader) ResetResponse(maxBlock int) {
	r.Reset(maxBlock)
	r.heads = true
}

// Interim says that the Head that came last was an interim one: another follows.
func (r *Reader) Interim() { r.stage = beforeHead }

// Next takes bytes of the stream. It says how many of in it has used, and what they brought; it is
// called until it uses none and brings nothing.
func (r *Reader) Next(in []byte) (p Part, used int, why Reason) {
	for {
		if !r.within {
			n, done := r.header.take(in[used:], 2)
			used += n
			if !done {
				return Part{}, used, OK
			}
			if why := r.begin(FrameType(r.header.values[0]), r.header.values[1]); why != OK {
				return Part{}, used, why
			}
		}
		n := int(min(r.left, uint64(len(in)-used)))
		data := in[used : used+n : used+n]
		used += n
		r.left -= uint64(n)
		r.within = r.left > 0
		switch {
		case r.kind == Content && n > 0:
			return Part{Content, data}, used, OK
		case r.kind == Head || r.kind == Trailer:
			if p, done := r.section(data); done {
				return p, used, OK
			}
		case r.kind == None:
			if r.unknown += n; r.unknown > maxUnknown {
				return Part{}, used, TooMuchUnknown
			}
		}
		if r.within {
			return Part{}, used, OK
		}
	}
}

// begin judges a frame's type where it stands.
func (r *Reader) begin(t FrameType, length uint64) Reason {
	r.within, r.left, r.kind = true, length, None
	switch {
	case t == Data && r.stage == inBody:
		r.kind = Content
	case t == Headers && r.stage == beforeHead:
		r.kind, r.stage = Head, inBody
	case t == Headers && r.stage == inBody:
		r.kind, r.stage = Trailer, afterTrailer
	case t == Data, t == Headers, t == CancelPush, t == Settings, t == PushPromise, t == GoAway,
		t == MaxPushID, t.reserved():
		return UnexpectedFrame
	}
	if r.kind == Head || r.kind == Trailer {
		if length > uint64(r.maxBlock) {
			return BlockTooLarge
		}
		r.block = r.block[:0]
		return OK
	}
	if r.kind == None { // an empty one is not for nothing either
		if r.unknown += MaxHeader / 4; r.unknown > maxUnknown {
			return TooMuchUnknown
		}
	}
	return OK
}

// section gathers a field section, and gives it when it is whole.
func (r *Reader) section(data []byte) (Part, bool) {
	if r.left == 0 && len(r.block) == 0 {
		return Part{r.kind, data}, true
	}
	r.block = append(r.block, data...)
	return Part{r.kind, r.block}, r.left == 0
}

// End says whether the stream may end here.
func (r *Reader) End() Reason {
	switch {
	case r.within || r.header.begun():
		return TruncatedFrame
	case r.stage == beforeHead:
		return NoHead
	}
	return OK
}

// partial gathers the variable-length integers that a frame or a stream begins with.
type partial struct {
	values [2]uint64
	have   int // values that are whole
	bytes  [8]byte
	n      int // bytes of the next one
}

// take takes bytes until want integers are whole. It says how many bytes it took, and whether they
// are; then it is ready for the next ones.
func (p *partial) take(in []byte, want int) (used int, done bool) {
	for p.have < want {
		if used == len(in) {
			return used, false
		}
		p.bytes[p.n] = in[used]
		p.n++
		used++
		if p.n < 1<<(p.bytes[0]>>6) {
			continue
		}
		p.values[p.have], _, _ = quicvarint.Parse(p.bytes[:p.n])
		p.have++
		p.n = 0
	}
	p.have = 0
	return used, true
}

func (p *partial) begun() bool { return p.have > 0 || p.n > 0 }
