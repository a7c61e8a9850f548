package http2

import "encoding/binary"

// PutFrameHeader writes a frame's header to dst[:HeaderSize]. length must be below 2^24, stream
// below 2^31.
func PutFrameHeader(dst []byte, length int, t Type, flags Flags, stream uint32) {
	_ = dst[HeaderSize-1]
	dst[0], dst[1], dst[2] = byte(length>>16), byte(length>>8), byte(length)
	dst[3], dst[4] = byte(t), byte(flags)
	binary.BigEndian.PutUint32(dst[5:], stream)
}

func appendFrameHeader(dst []byte, length int, t Type, flags Flags, stream uint32) []byte {
	var h [HeaderSize]byte
	PutFrameHeader(h[:], length, t, flags, stream)
	return append(dst, h[:]...)
}

// AppendDataHeader appends the header of a Data frame of n bytes. The caller appends the bytes.
func AppendDataHeader(dst []byte, stream uint32, n int, endStream bool) []byte {
	return appendFrameHeader(dst, n, Data, endFlag(endStream), stream)
}

func endFlag(endStream bool) Flags {
	if endStream {
		return EndStream
	}
	return 0
}

// AppendHeaders appends an encoded field block as Headers, followed by Continuation frames if it is
// longer than maxFrame, the peer's SETTINGS_MAX_FRAME_SIZE.
func AppendHeaders(
	dst []byte, stream uint32, block []byte, endStream bool, maxFrame uint32,
) []byte {
	at := len(dst)
	var room [HeaderSize]byte
	dst = append(append(dst, room[:]...), block...)
	return FinishHeaders(dst, at, stream, endStream, maxFrame)
}

// FinishHeaders turns a field block that was encoded in place into Headers: dst[at:] begins with
// HeaderSize bytes of room, and the block follows up to the end of dst. If the block is longer than
// maxFrame, the peer's SETTINGS_MAX_FRAME_SIZE, it is split into Headers and Continuation frames,
// for which dst may grow.
func FinishHeaders(dst []byte, at int, stream uint32, endStream bool, maxFrame uint32) []byte {
	flags := endFlag(endStream)
	whole := len(dst) - at - HeaderSize
	if uint32(whole) <= maxFrame {
		PutFrameHeader(dst[at:], whole, Headers, flags|EndHeaders, stream)
		return dst
	}
	size := int(maxFrame)
	more := (whole - 1) / size // Continuation frames
	for range more {
		dst = appendFrameHeader(dst, 0, Continuation, 0, stream)
	}
	from, to := at+HeaderSize+whole, len(dst)
	for i := more; i > 0; i-- { // backwards, because each part moves towards the end
		n := whole - i*size
		flags := Flags(0)
		if i == more {
			flags = EndHeaders
		} else {
			n = size
		}
		copy(dst[to-n:to], dst[from-n:from])
		from, to = from-n, to-n-HeaderSize
		PutFrameHeader(dst[to:], n, Continuation, flags, stream)
	}
	PutFrameHeader(dst[at:], size, Headers, flags, stream)
	return dst
}

// Setting is one parameter of SETTINGS.
type Setting struct {
	ID    SettingID
	Value uint32
}

// AppendSettings appends SETTINGS with these parameters. Without parameters it appends an empty
// frame, which begins a connection with the initial values.
func AppendSettings(dst []byte, settings ...Setting) []byte {
	dst = appendFrameHeader(dst, settingSize*len(settings), SettingsFrame, 0, 0)
	for _, s := range settings {
		dst = binary.BigEndian.AppendUint16(dst, uint16(s.ID))
		dst = binary.BigEndian.AppendUint32(dst, s.Value)
	}
	return dst
}

// AppendSettingsAck appends the acknowledgement of the peer's SETTINGS.
func AppendSettingsAck(dst []byte) []byte {
	return appendFrameHeader(dst, 0, SettingsFrame, Ack, 0)
}

// AppendRST appends RST_STREAM.
func AppendRST(dst []byte, stream uint32, code Code) []byte {
	dst = appendFrameHeader(dst, 4, RSTStream, 0, stream)
	return binary.BigEndian.AppendUint32(dst, uint32(code))
}

// AppendGoAway appends GOAWAY. last is the last of the peer's streams that will be processed, or
// 2^31-1 to announce that a GOAWAY with a lower number follows. debug is a text to help debug the
// peer.
func AppendGoAway(dst []byte, last uint32, code Code, debug string) []byte {
	dst = appendFrameHeader(dst, 8+len(debug), GoAway, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, last)
	dst = binary.BigEndian.AppendUint32(dst, uint32(code))
	return append(dst, debug...)
}

// AppendWindowUpdate appends WINDOW_UPDATE. by is 1 to 2^31-1 bytes; stream 0 means the connection.
func AppendWindowUpdate(dst []byte, stream, by uint32) []byte {
	dst = appendFrameHeader(dst, 4, WindowUpdate, 0, stream)
	return binary.BigEndian.AppendUint32(dst, by)
}

// AppendPing appends PING or, with ack, the acknowledgement of one, which has the same 8 bytes.
func AppendPing(dst []byte, ack bool, data [8]byte) []byte {
	flags := Flags(0)
	if ack {
		flags = Ack
	}
	dst = appendFrameHeader(dst, len(data), Ping, flags, 0)
	return append(dst, data[:]...)
}
