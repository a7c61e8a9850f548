// Package http3 is the HTTP/3 codec (RFC 9114), for servers and clients. It cuts the bytes of a
// stream into frames, appends frames to byte slices, and converts between fields and field sections
// (RFC 9204, without the dynamic table). It must know no sockets and no QUIC: the streams that
// carry the bytes are the caller's. What makes a field valid in a message is judged elsewhere, by
// the rules that also apply to HTTP/2.
//
// Everything that a peer can make it keep is bounded: a field section by the caller's limit, any
// other frame that it keeps by a constant. Skipped bytes are counted.
package http3

import "github.com/quic-go/quic-go/quicvarint"

// FrameType is the type of a frame (RFC 9114, section 7.2).
type FrameType uint64

// The frame types. Types that are not here are passed over.
const (
	Data        FrameType = 0x0
	Headers     FrameType = 0x1
	CancelPush  FrameType = 0x3
	Settings    FrameType = 0x4
	PushPromise FrameType = 0x5
	GoAway      FrameType = 0x7
	MaxPushID   FrameType = 0xd
)

// reserved says that the type is one that HTTP/2 has and HTTP/3 has not: nobody may send it
// (section 7.2.8).
func (t FrameType) reserved() bool { return t == 0x2 || t == 0x6 || t == 0x8 || t == 0x9 }

// StreamType is the type of a unidirectional stream, which it begins with (RFC 9114, section 6.2;
// RFC 9204, section 4.2).
type StreamType uint64

// The stream types. A stream of another type is not read.
const (
	ControlStream StreamType = 0x0
	PushStream    StreamType = 0x1
	EncoderStream StreamType = 0x2
	DecoderStream StreamType = 0x3
)

// Code is an error code of a stream or a connection (RFC 9114, section 8.1; RFC 9204, section 6).
type Code uint64

// The codes.
const (
	NoError              Code = 0x100
	GeneralProtocolError Code = 0x101
	InternalError        Code = 0x102
	StreamCreationError  Code = 0x103
	ClosedCriticalStream Code = 0x104
	FrameUnexpected      Code = 0x105
	FrameError           Code = 0x106
	ExcessiveLoad        Code = 0x107
	IDError              Code = 0x108
	SettingsError        Code = 0x109
	MissingSettings      Code = 0x10a
	RequestRejected      Code = 0x10b
	RequestCancelled     Code = 0x10c
	RequestIncomplete    Code = 0x10d
	MessageError         Code = 0x10e
	ConnectError         Code = 0x10f
	VersionFallback      Code = 0x110
	DecompressionFailed  Code = 0x200
	EncoderStreamError   Code = 0x201
	DecoderStreamError   Code = 0x202
)

// ALPN is the name of the protocol in a TLS handshake.
const ALPN = "h3"

// SettingID is what a setting is about (RFC 9114, section 7.2.4.1; RFC 9204, section 5; RFC 9220).
type SettingID uint64

// The settings.
const (
	MaxTableCapacity      SettingID = 0x1
	MaxFieldSectionSize   SettingID = 0x6
	BlockedStreams        SettingID = 0x7
	EnableConnectProtocol SettingID = 0x8
)

// Setting is one of an endpoint's settings.
type Setting struct {
	ID    SettingID
	Value uint64
}

// LastStream is what the first of two GOAWAY says: it takes care of every request yet (section
// 5.2).
const LastStream uint64 = 1<<62 - 4

// AppendFrame appends a frame whose payload is there whole.
func AppendFrame(dst []byte, t FrameType, payload []byte) []byte {
	return append(AppendHeader(dst, t, len(payload)), payload...)
}

// AppendHeader appends the beginning of a frame with a payload of n bytes.
func AppendHeader(dst []byte, t FrameType, n int) []byte {
	return quicvarint.Append(quicvarint.Append(dst, uint64(t)), uint64(n))
}

// MaxHeader is the most bytes that AppendHeader appends.
const MaxHeader = 16

// AppendControl appends the beginning of a control stream: its type and the settings.
func AppendControl(dst []byte, settings ...Setting) []byte {
	var payload []byte
	for _, s := range settings {
		payload = quicvarint.Append(quicvarint.Append(payload, uint64(s.ID)), s.Value)
	}
	return AppendFrame(quicvarint.Append(dst, uint64(ControlStream)), Settings, payload)
}

// AppendGoAway appends a GOAWAY: requests on streams from id on are not taken care of.
func AppendGoAway(dst []byte, id uint64) []byte {
	return AppendFrame(dst, GoAway, quicvarint.Append(nil, id))
}
