// Package websocket watches the frames of a WebSocket (RFC 6455) in the bytes that pass in one
// direction, and makes the few frames that a gateway sends itself. It keeps no payload and
// allocates nothing: it knows where frames begin and end, so that a frame can be inserted between
// two of them. It knows nothing of sockets, of HTTP, or of what extensions do to payloads.
package websocket

import "encoding/binary"

// Opcode says what a frame is (RFC 6455, section 5.2).
type Opcode uint8

// The opcodes. Those from Close on are of control frames.
const (
	Continuation Opcode = 0
	Text         Opcode = 1
	Binary       Opcode = 2
	Close        Opcode = 8
	Ping         Opcode = 9
	Pong         Opcode = 10
)

// Codes of close frames (RFC 6455, section 7.4.1). NoCode and Abnormal are never sent: they stand
// for a close frame without a code, and for an end without a close frame.
const (
	GoingAway     = 1001
	ProtocolError = 1002
	NoCode        = 1005
	Abnormal      = 1006
	TooBig        = 1009
)

const (
	finBit    = 0x80
	reserved  = 0x70 // bits that only extensions set
	opcodes   = 0x0f
	maskBit   = 0x80
	lengths   = 0x7f
	length16  = 126 // the length is in the two bytes that follow
	length64  = 127 // or in eight
	headBytes = 2   // of a frame's header without a longer length and a key
	keyBytes  = 4

	// MaxControl is the longest payload of a control frame in bytes.
	MaxControl = 125
	// MaxHeader is the longest header of a frame in bytes.
	MaxHeader = headBytes + 8 + keyBytes
	// Beginning is how many bytes of a control frame's payload a Watcher keeps.
	Beginning = 8
)

// Watcher follows the frames of one direction. The zero value, after Start, stands before the first
// frame. It is less than 64 bytes, and belongs to one goroutine.
type Watcher struct {
	// Messages and Controls (frames) are how many have gone by whole, and Payload is how many bytes
	// of payload. They only grow.
	Messages, Payload uint64

	message uint64 // bytes of the message under way, as its headers announce them
	left    uint64 // bytes of the frame's payload still to come

	Controls uint32 // see Messages

	begins [Beginning]byte // of a control frame's payload, unmasked
	key    [keyBytes]byte  // of the frame
	code   uint16          // of the close frame
	got    uint8           // bytes of the header, then, of a control frame, of begins
	first  byte            // of the header
	length uint8           // the header's seven bits of length
	flags  flags
}

type flags uint8

const (
	masked     flags = 1 << iota // frames of this direction must be
	extended                     // an extension may set the reserved bits
	inPayload                    // the header is complete
	fragmented                   // a message has begun, and its last frame has not
	closed                       // a close frame has gone by
	broken
)

// Start makes the watcher stand before a connection's first frame. fromClient says whose frames
// they are: those of clients are masked, and those of servers are not. extensions says that an
// extension was agreed on, which may use the reserved bits.
func (w *Watcher) Start(fromClient, extensions bool) {
	*w = Watcher{}
	if fromClient {
		w.flags |= masked
	}
	if extensions {
		w.flags |= extended
	}
}

// Next takes the next bytes of data up to the end of a frame, or all of them where no frame ends in
// them, and returns how many. After a close frame, and in bytes that are not frames, it takes all.
func (w *Watcher) Next(data []byte) int {
	if w.flags&(closed|broken) != 0 {
		return len(data)
	}
	n := 0
	if w.flags&inPayload == 0 {
		if w.got == 0 && len(data) >= MaxHeader {
			n = w.wholeHeader(data)
		} else {
			n = w.header(data)
		}
		if w.flags&inPayload == 0 {
			return n
		}
	}
	if take := min(uint64(len(data)-n), w.left); take > 0 {
		if Opcode(w.first&opcodes) >= Close {
			w.begin(data[n : n+int(take)])
		}
		n += int(take)
		w.left -= take
		w.Payload += take
	}
	if w.left == 0 {
		w.end()
	}
	return n
}

// wholeHeader is header where all of one is there, in a tenth of the time.
func (w *Watcher) wholeHeader(data []byte) int {
	n := headBytes
	w.first, w.length = data[0], data[1]&lengths
	if w.wrong(data[1]) {
		w.flags |= broken
		return len(data)
	}
	switch w.length {
	case length16:
		w.left = uint64(binary.BigEndian.Uint16(data[n:]))
		n += 2
	case length64:
		w.left = binary.BigEndian.Uint64(data[n:])
		n += 8
	default:
		w.left = uint64(w.length)
	}
	if w.flags&masked != 0 {
		n += copy(w.key[:], data[n:])
	}
	if w.begun(); w.flags&broken != 0 {
		return len(data)
	}
	return n
}

// header takes bytes of a header, and returns how many.
func (w *Watcher) header(data []byte) int {
	for n, b := range data {
		w.got++
		switch at := int(w.got); {
		case at == 1:
			w.first, w.left = b, 0
			continue
		case at == headBytes:
			if w.length = b & lengths; w.wrong(b) {
				w.flags |= broken
				return len(data)
			}
			if w.length < length16 {
				w.left = uint64(w.length)
			}
		case at <= headBytes+w.more():
			w.left = w.left<<8 | uint64(b)
		default:
			w.key[at-headBytes-w.more()-1] = b
		}
		if int(w.got) == w.size() {
			if w.begun(); w.flags&broken != 0 {
				return len(data)
			}
			return n + 1
		}
	}
	return len(data)
}

// more is how many bytes the header has for a longer length.
func (w *Watcher) more() int {
	switch w.length {
	case length16:
		return 2
	case length64:
		return 8
	}
	return 0
}

// size is how many bytes the header has.
func (w *Watcher) size() int {
	n := headBytes + w.more()
	if w.flags&masked != 0 {
		n += keyBytes
	}
	return n
}

// wrong judges a header's first two bytes.
func (w *Watcher) wrong(second byte) bool {
	op, fin := Opcode(w.first&opcodes), w.first&finBit != 0
	switch {
	case w.first&reserved != 0 && w.flags&extended == 0,
		(second&maskBit != 0) != (w.flags&masked != 0):
		return true
	case op >= Close:
		return op > Pong || !fin || w.length > MaxControl || op == Close && w.length == 1
	case op == Continuation:
		return w.flags&fragmented == 0
	default:
		return op > Binary || w.flags&fragmented != 0
	}
}

// begun is called when a header is complete. A length must not take more bytes than it needs.
func (w *Watcher) begun() {
	if w.length == length16 && w.left < length16 ||
		w.length == length64 && (w.left <= 0xffff || w.left > 1<<63-1) {
		w.flags |= broken
		return
	}
	w.flags |= inPayload
	w.got = 0
	if op := Opcode(w.first & opcodes); op < Close {
		if op != Continuation {
			w.message = 0
		}
		if w.message += w.left; w.message < w.left {
			w.message = 1<<64 - 1
		}
		w.flags |= fragmented
	}
}

// begin keeps the first bytes of a control frame's payload, without the mask.
func (w *Watcher) begin(data []byte) {
	for _, b := range data[:min(len(data), Beginning-int(w.got))] {
		if w.flags&masked != 0 {
			b ^= w.key[w.got%keyBytes]
		}
		w.begins[w.got] = b
		w.got++
	}
}

// end is called when a frame is complete.
func (w *Watcher) end() {
	w.flags &^= inPayload
	switch op := Opcode(w.first & opcodes); {
	case op < Close:
		if w.first&finBit != 0 {
			w.Messages++
			w.flags &^= fragmented
		}
		w.got = 0
		return
	case op == Close:
		w.flags |= closed
		if w.code = NoCode; w.length >= 2 {
			w.code = binary.BigEndian.Uint16(w.begins[:])
		}
	}
	w.Controls++
	w.got = 0
}

// AtBoundary says that a control frame can be put in where the stream stands: between two frames,
// be it in the middle of a message, and not behind a close frame.
func (w *Watcher) AtBoundary() bool {
	return w.flags&(closed|broken|inPayload) == 0 && w.got == 0
}

// InHeader says that the stream stands within a frame's header.
func (w *Watcher) InHeader() bool {
	return w.flags&(closed|broken|inPayload) == 0 && w.got > 0
}

// Matches says that the frame that the stream stands in, or whose end it has just passed, is a
// control frame of that kind which begins with, or has begun with, the bytes of payload and has
// their length: 1 to Beginning bytes.
func (w *Watcher) Matches(op Opcode, payload []byte) bool {
	if Opcode(w.first&opcodes) != op || int(w.length) != len(payload) {
		return false
	}
	n := len(payload)
	if w.flags&inPayload != 0 {
		n = int(w.got)
	}
	return string(w.begins[:n]) == string(payload[:n])
}

// Message is how many bytes of payload the message under way, or the last one, has, as far as the
// headers of its frames announce it.
func (w *Watcher) Message() uint64 { return w.message }

// Closed says that a close frame has gone by.
func (w *Watcher) Closed() bool { return w.flags&closed != 0 }

// Code is that of the close frame, NoCode for one without; 0 while none has gone by.
func (w *Watcher) Code() uint16 { return w.code }

// Broken says that what came is not what RFC 6455 allows. Where it goes on is not known.
func (w *Watcher) Broken() bool { return w.flags&broken != 0 }
