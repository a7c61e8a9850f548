package websocket

import "encoding/binary"

// AppendPing appends a ping of a server, with a payload of at most MaxControl bytes.
func AppendPing(dst, payload []byte) []byte {
	return append(append(dst, finBit|byte(Ping), byte(len(payload))), payload...)
}

// AppendClose appends a close frame with a code and a reason, which is UTF-8 and cut to the 123
// bytes that there is room for. key is nil for a server's; a client's must be random (RFC 6455,
// section 5.3).
func AppendClose(dst []byte, code uint16, reason string, key *[4]byte) []byte {
	reason = reason[:min(len(reason), MaxControl-2)]
	size := byte(2 + len(reason))
	if key == nil {
		dst = append(dst, finBit|byte(Close), size)
	} else {
		dst = append(append(dst, finBit|byte(Close), maskBit|size), key[:]...)
	}
	from := len(dst)
	dst = append(binary.BigEndian.AppendUint16(dst, code), reason...)
	if key != nil {
		for i := range dst[from:] {
			dst[from+i] ^= key[i%keyBytes]
		}
	}
	return dst
}
