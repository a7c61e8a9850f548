// Package http1 is the HTTP/1.x codec (RFC 9112): it reads heads and bodies from byte slices and
// appends them to byte slices. It knows no sockets, no time and no gateway. Nothing in it allocates
// in the steady state.
//
// Everything is incremental: a parser gets the bytes that have arrived so far, and says how many it
// used or that it needs more. Any division of the same input gives the same result and the same
// error. Where leniency would let one message be read in two ways, the codec is strict, because a
// gateway must read a message as everyone else does.
package http1

import "plimsoll/internal/head"

// Limits bound a head and the framing of a body. A zero field means no bound is checked, which no
// listener uses.
type Limits struct {
	Line      int // bytes of the request line or status line, without its CRLF
	Head      int // bytes of all field lines together, with their CRLFs; of a trailer section likewise
	Fields    int // number of fields
	Extension int // bytes of chunk extensions of one body, all chunks together
}

// Framing is how the end of a body is found (RFC 9112, section 6.3).
type Framing uint8

const (
	None    Framing = iota // no body
	Length                 // Content-Length bytes
	Chunked                // until the last chunk and its trailers
	ToEOF                  // responses only: until the connection closes
)

// Request parses the head of a request. The zero value is ready; Reset makes it ready again. It is
// 256 bytes plus the fields'.
type Request struct {
	head.Request
	Minor   uint8   // 0 or 1, of HTTP/1.x
	Framing Framing // of the body
	// KeepAlive says that the client lets the connection be used again after this exchange (RFC
	// 9112, section 9.3).
	KeepAlive bool
	// Expect100 says that the client waits for 100 Continue before it sends the body (HTTP/1.1
	// only).
	Expect100 bool
	// Upgrade is the value of Upgrade where Connection names it, the version is 1.1 and a protocol
	// other than h2c is among it, else nil: see NextProtocol.
	Upgrade []byte

	parser
}

// Response parses the head of a response.
type Response struct {
	head.Response
	Minor     uint8
	Framing   Framing
	KeepAlive bool
	// Upgrade as in Request.
	Upgrade []byte

	parser
}
