package http2

import "encoding/binary"

// Type is the type of a frame (RFC 9113, section 6). Frames of other types are unknown and ignored.
type Type uint8

// The types.
const (
	Data           Type = 0x0
	Headers        Type = 0x1
	PriorityFrame  Type = 0x2
	RSTStream      Type = 0x3
	SettingsFrame  Type = 0x4
	PushPromise    Type = 0x5
	Ping           Type = 0x6
	GoAway         Type = 0x7
	WindowUpdate   Type = 0x8
	Continuation   Type = 0x9
	PriorityUpdate Type = 0x10 // RFC 9218, section 7.1
)

// known reports whether t is one of these types.
func (t Type) known() bool { return t <= Continuation || t == PriorityUpdate }

// Flags are the flags of a frame. Their meaning depends on the type.
type Flags uint8

// The flags.
const (
	Ack         Flags = 0x1  // of SettingsFrame and Ping
	EndStream   Flags = 0x1  // of Data and Headers
	EndHeaders  Flags = 0x4  // of Headers and Continuation
	Padded      Flags = 0x8  // of Data and Headers
	HasPriority Flags = 0x20 // of Headers
)

// Frame is a received frame, or a part of a Data frame or of a frame of unknown type.
type Frame struct {
	// Payload aliases the bytes passed to Reader.Next. It does not include padding or, for Headers,
	// the priority. For Data and unknown types it is the part that has arrived, and may be empty.
	Payload []byte
	Stream  uint32
	// Length is the length of the whole frame's payload in bytes, including all that Payload leaves
	// out. It is what a Data frame takes from the windows, as soon as its first part has arrived.
	Length int
	// Overhead is how many bytes of Length are not data: the padding and its length byte. It is set
	// only in the first part of a Data frame. It can be returned to the windows at once.
	Overhead int
	Type     Type
	Flags    Flags
	// First and Last say whether a part begins or ends its frame. Both are set for complete frames.
	First, Last bool
}

// Has reports whether the flag is set.
func (f *Frame) Has(flag Flags) bool { return f.Flags&flag != 0 }

// Ends reports whether f is the last of its stream: the last part of Data, or Headers, with
// END_STREAM. The field block of such Headers may still continue.
func (f *Frame) Ends() bool {
	return f.Last && f.Flags&EndStream != 0 && f.Type <= Headers
}

// Code is the error code of RSTStream and GoAway.
func (f *Frame) Code() Code {
	if f.Type == GoAway {
		return Code(binary.BigEndian.Uint32(f.Payload[4:]))
	}
	return Code(binary.BigEndian.Uint32(f.Payload))
}

// LastStream is the last stream that the sender of a GoAway will process.
func (f *Frame) LastStream() uint32 { return binary.BigEndian.Uint32(f.Payload) & streamBits }

// Debug is the debug data of a GoAway. It may contain any bytes and is usually empty.
func (f *Frame) Debug() []byte { return f.Payload[8:] }

// Increment is by how much a WindowUpdate enlarges the window, 1 to 2^31-1 bytes.
func (f *Frame) Increment() uint32 { return binary.BigEndian.Uint32(f.Payload) & streamBits }

// Prioritised returns the stream that a PriorityUpdate refers to, and its new priority (RFC 9218,
// section 7.1). The stream may not have begun yet.
func (f *Frame) Prioritised() (stream uint32, p Priority) {
	return binary.BigEndian.Uint32(f.Payload) & streamBits, ParsePriority(f.Payload[4:])
}
