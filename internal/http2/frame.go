package http2

import "encoding/binary"

// Type is the type of a frame (RFC 9113, section 6). Others than these are unknown, and ignored.
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

// known says whether t is one of the types.
func (t Type) known() bool { return t <= Continuation || t == PriorityUpdate }

// Flags are the flags of a frame. What each means depends on the type.
type Flags uint8

// The flags.
const (
	Ack         Flags = 0x1  // of SettingsFrame and Ping
	EndStream   Flags = 0x1  // of Data and Headers
	EndHeaders  Flags = 0x4  // of Headers and Continuation
	Padded      Flags = 0x8  // of Data and Headers
	HasPriority Flags = 0x20 // of Headers
)

// Frame is a frame that arrived, or a part of one of Data or of an unknown type.
type Frame struct {
	// Payload aliases the bytes that Reader.Next was shown. Padding is left out, of Headers the
	// priority too. Of Data and of unknown types it is what was there, and may be empty.
	Payload []byte
	Stream  uint32
	// Length is the payload of the whole frame in bytes, with all that Payload leaves out. It is
	// what Data takes from the windows, as soon as its first part is there.
	Length int
	// Overhead is how much of Length is not data: the padding and its length. It is set in the first
	// part of Data only, and can be given back to the windows at once.
	Overhead int
	Type     Type
	Flags    Flags
	// First and Last tell of a part whether it begins and ends its frame. Both are set in frames
	// that come whole.
	First, Last bool
}

// Has says whether the flag is set.
func (f *Frame) Has(flag Flags) bool { return f.Flags&flag != 0 }

// Ends says that nothing follows on the stream: a last part of Data, or Headers, with END_STREAM.
// The field block of such Headers may still go on.
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

// LastStream is the last stream that the sender of a GoAway takes care of.
func (f *Frame) LastStream() uint32 { return binary.BigEndian.Uint32(f.Payload) & streamBits }

// Debug is the text of a GoAway, which may hold any bytes and is mostly empty.
func (f *Frame) Debug() []byte { return f.Payload[8:] }

// Increment is by how much a WindowUpdate enlarges the window, 1 to 2^31-1 bytes.
func (f *Frame) Increment() uint32 { return binary.BigEndian.Uint32(f.Payload) & streamBits }

// Prioritised is the stream that a PriorityUpdate is about, and its new priority (RFC 9218, section
// 7.1). The stream may not have begun yet.
func (f *Frame) Prioritised() (stream uint32, p Priority) {
	return binary.BigEndian.Uint32(f.Payload) & streamBits, ParsePriority(f.Payload[4:])
}
