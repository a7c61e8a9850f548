package http3

import (
	"slices"

	"github.com/quic-go/quic-go/quicvarint"
)

// maxControl bounds a frame of a control stream that is kept whole.
const maxControl = 4 << 10

// maxSettings bounds how many settings a peer may have. RFC 9114 and its kin know six.
const maxSettings = 64

// Uni reads a unidirectional stream of a peer's: which type it is, and what comes on it. The zero
// value is a client's stream, as a server reads it.
type Uni struct {
	Server bool // the peer is a server

	header  partial
	known   bool // Type is
	kind    StreamType
	left    uint64
	within  bool
	frame   FrameType
	payload []byte
	unknown int
	settled bool // SETTINGS have come
	goaway  uint64
	gone    bool // GOAWAY has come
	pushes  uint64
	change  Change
}

// Change is what a control stream has said.
type Change struct {
	Settings []Setting // the peer's, once
	GoAway   bool      // a GOAWAY came, or several
	ID       uint64    // what the last one says
}

// Type is the stream's type, once it is known.
func (u *Uni) Type() (StreamType, bool) { return u.kind, u.known }

// Take takes bytes of the stream. The first call that returns with the type known may have used
// fewer bytes than there are; call it again with the rest.
func (u *Uni) Take(in []byte) (used int, change Change, why Reason) {
	if !u.known {
		n, done := u.header.take(in, 1)
		if !done {
			return n, Change{}, OK
		}
		u.kind, u.known = StreamType(u.header.values[0]), true
		if u.kind == PushStream && !u.Server {
			return n, Change{}, BadStream
		}
		return n, Change{}, OK
	}
	switch u.kind {
	case ControlStream:
		u.change = Change{}
		why = u.control(in)
		return len(in), u.change, why
	case EncoderStream:
		return len(in), Change{}, encoderBytes(in)
	case DecoderStream:
		return len(in), Change{}, u.decoderBytes(in)
	}
	return len(in), Change{}, OK
}

// encoderBytes judges instructions for our dynamic table, whose capacity is 0: only that may be
// said of it (RFC 9204, sections 3.2.3 and 4.3.1).
func encoderBytes(in []byte) Reason {
	for _, b := range in {
		if b != 0x20 {
			return BadEncoder
		}
	}
	return OK
}

// decoderBytes judges what a peer says of our field sections, none of which uses a dynamic table:
// it may only say that it gave a stream up (RFC 9204, section 4.4.2).
func (u *Uni) decoderBytes(in []byte) Reason {
	for _, b := range in {
		switch {
		case u.within: // of an integer with more than one byte
			if u.left++; u.left > 10 {
				return BadDecoder
			}
			u.within = b&0x80 != 0
		case b&0xc0 != 0x40:
			return BadDecoder
		default:
			u.left, u.within = 0, b&0x3f == 0x3f
		}
	}
	return OK
}

// control takes bytes of a control stream.
func (u *Uni) control(in []byte) Reason {
	for {
		if !u.within {
			n, done := u.header.take(in, 2)
			in = in[n:]
			if !done {
				return OK
			}
			if why := u.begin(FrameType(u.header.values[0]), u.header.values[1]); why != OK {
				return why
			}
		}
		n := int(min(u.left, uint64(len(in))))
		u.left -= uint64(n)
		u.within = u.left > 0
		if u.kept() {
			u.payload = append(u.payload, in[:n]...)
		} else if u.unknown += n; u.unknown > maxUnknown {
			return TooMuchUnknown
		}
		in = in[n:]
		if u.within {
			return OK
		}
		if why := u.end(); why != OK {
			return why
		}
	}
}

// kept says whether the payload of the frame under way is needed.
func (u *Uni) kept() bool {
	switch u.frame {
	case Settings, GoAway, MaxPushID, CancelPush:
		return true
	}
	return false
}

func (u *Uni) begin(t FrameType, length uint64) Reason {
	u.within, u.left, u.frame, u.payload = true, length, t, u.payload[:0]
	switch {
	case !u.settled && t != Settings:
		return NoSettings
	case u.settled && t == Settings, t == Data, t == Headers, t == PushPromise, t.reserved(),
		t == MaxPushID && u.Server:
		return UnexpectedFrame
	case u.kept() && length > maxControl:
		return FrameTooLarge
	case !u.kept():
		if u.unknown += MaxHeader; u.unknown > maxUnknown {
			return TooMuchUnknown
		}
	}
	return OK
}

// end deals with a frame that is there whole.
func (u *Uni) end() Reason {
	switch u.frame {
	case Settings:
		u.settled = true
		return u.settings()
	case GoAway, MaxPushID, CancelPush:
	default:
		return OK
	}
	// A client that leaves, or allows pushes, says so once or twice.
	if u.unknown += MaxHeader; u.unknown > maxUnknown {
		return TooMuchUnknown
	}
	id, n, err := quicvarint.Parse(u.payload)
	if err != nil || n != len(u.payload) {
		return BadFrame
	}
	switch {
	case u.frame == MaxPushID && id < u.pushes, u.frame == CancelPush, // nothing is ever pushed
		u.frame == GoAway && u.gone && id > u.goaway, u.frame == GoAway && u.Server && id%4 != 0:
		return BadID
	case u.frame == MaxPushID:
		u.pushes = id
	case u.frame == GoAway:
		u.gone, u.goaway = true, id
		u.change.GoAway, u.change.ID = true, id
	}
	return OK
}

func (u *Uni) settings() Reason {
	var list []Setting
	for rest := u.payload; len(rest) > 0; {
		id, n, err := quicvarint.Parse(rest)
		if err != nil {
			return BadFrame
		}
		value, m, err := quicvarint.Parse(rest[n:])
		if err != nil {
			return BadFrame
		}
		rest = rest[n+m:]
		same := func(s Setting) bool { return s.ID == SettingID(id) }
		switch {
		case len(list) == maxSettings:
			return FrameTooLarge
		case id == 0, id >= 2 && id <= 5, slices.ContainsFunc(list, same),
			SettingID(id) == EnableConnectProtocol && value > 1:
			return BadSettings
		}
		list = append(list, Setting{SettingID(id), value})
	}
	u.change.Settings = list
	return OK
}
