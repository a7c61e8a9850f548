// Package http2 is the HTTP/2 codec (RFC 9113), for servers and clients. It splits bytes into
// frames, appends frames to byte slices, checks settings, windows and the fields of messages, and
// counts actions of a peer that cost work and serve no request. It treats field blocks as bytes: it
// knows no HPACK (RFC 7541), no sockets, no stream states, no timers and no gateway. Where time
// matters, it is a parameter. Nothing in it allocates, except to grow a slice that the caller gave
// it.
//
// A message that is forwarded as HTTP/1.1 must mean the same there. So fields obey the rules of
// package http1, which are stricter than those of RFC 9113: see RequestHead.
package http2

// Preface is the first thing that a client sends (RFC 9113, section 3.4). A SETTINGS frame follows.
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// HeaderSize is the length of a frame's header in bytes (RFC 9113, section 4.1).
const HeaderSize = 9

// Bounds of the protocol.
const (
	minMaxFrame   = 1 << 14   // the smallest SETTINGS_MAX_FRAME_SIZE, and its initial value
	maxMaxFrame   = 1<<24 - 1 // the largest
	maxWindow     = 1<<31 - 1 // of flow control
	initialWindow = 1<<16 - 1 // the initial window
	streamBits    = 1<<31 - 1 // of a stream's identifier; the bit above them is reserved
	unlimited     = 1<<32 - 1 // the value of a setting that is absent
)
