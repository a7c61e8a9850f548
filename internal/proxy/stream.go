package proxy

import (
	"net/netip"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// stream is one request and its response on a client's connection of any protocol version. It is an
// exchange's interface to its client. clientConn is the only stream of an HTTP/1.1 connection.
//
// A stream knows chunks, frames and the Connection field, and nothing of routes, policies or
// targets; with the exchange it is the other way round. A stream tells its exchange what happens by
// calling flow.bodyReadable, flow.clientDrained and flow.abort.
//
// Only the connection's loop may call the methods.
type stream interface {
	// buffered returns how many bytes of the request's body are in memory, framing included.
	buffered() int
	// nextBody takes the next content of the request's body, at most most bytes, from memory or
	// else from the connection. The content stays valid until the loop reads anything. io.EOF comes
	// with the last content, or after it. reactor.ErrAgain means that there is nothing now, an
	// http1.Error that the body is malformed, and any other error that the client is gone. If there
	// is neither content nor an error, only framing came.
	nextBody(most int) ([]byte, error)
	// mark notes the place in the body to which rewind goes back. rewind works as long as no
	// content was taken that was not in memory at the mark. A stream that cannot give other content
	// again sets bodyStreamed when that is taken.
	mark()
	// rewind goes back to the mark, and reports whether the body was whole there.
	rewind() bool
	// trailers returns the trailers of the whole body, or nil. The caller may change the list.
	trailers() *head.List
	// skip skips what is in memory of a body that is not needed, and reports whether that was all.
	skip() bool
	// pending reports whether nextBody could find something without a further event.
	pending() bool
	// later has bodyReadable called at the end of the turn.
	later()

	// appendInterim appends the interim response in f.res; it may leave it out.
	appendInterim(f *flow, out []byte) []byte
	// sendInterim sends what appendInterim made.
	sendInterim(out []byte) error
	// sendContinue tells the client to send its body.
	sendContinue() error
	// send sends a part of the response: its head if parts has withHead, the content buf[from:to],
	// and its end if parts has withEnd. It may overwrite buf[:from]. It adds to bodyOut and headOut
	// of f. What the client does not take now is kept for it. An error means that the client is
	// gone.
	send(f *flow, buf []byte, from, to int, parts parts) error
	// congested reports whether no more may be sent until clientDrained is called.
	congested() bool
	// space returns about how many bytes of content the client takes now, so that none have to be
	// kept.
	space() int
	// sent returns when the last bytes were sent, in monotonic nanoseconds, and whether they were.
	sent() (at int64, ok bool)
	// startTunnel makes the content of both directions bytes of another protocol, which last until
	// the peer ends its direction. The head of the response, which is sent next, says so.
	startTunnel()

	// finish ends the stream after its response, and frees the exchange. If last is set, the
	// connection ends too, unless it has other streams.
	finish(f *flow, last bool)
	// reset ends the stream, such that the client does not take its response to be whole, and frees
	// the exchange.
	reset(f *flow)
	// cut does the same for a client that is too slow to wait for: what is queued is dropped.
	cut(f *flow)
}

// fileStream is a stream that can have the kernel send from a file.
type fileStream interface {
	stream
	// sendsFiles reports whether it can do so for the present response, whose length is known.
	sendsFiles() bool
	// sendFile is send for content in a file: n bytes at the offset at of fd. parts must not have
	// withEnd. It returns how many bytes were sent. If they are fewer than n, the stream is
	// congested or has failed, and the rest is not kept. reactor.ErrNoSendFile and
	// reactor.ErrFileCut are errors of the file, and not of the client.
	sendFile(f *flow, fd int, at, n int64, parts parts) (int64, error)
}

// storedStream is a stream that can send content from where it is stored.
type storedStream interface {
	stream
	// sendsStored reports whether it can do so for the present response, whose length is known.
	sendsStored() bool
	// sendStored is send for content in several places. parts must not have withEnd. It returns how
	// many bytes of the content were sent. If these are not all, the stream is congested or has
	// failed, and the rest is not kept. It may change the elements of content, but not the bytes in
	// them.
	sendStored(f *flow, content [][]byte, parts parts) (int64, error)
}

// upstreamStream is one request and its response on a connection to a target, of any protocol
// version. It is an exchange's interface to its upstream for one try. upstreamConn is the only one
// of an HTTP/1.1 connection.
//
// It tells its exchange what happens by calling flow.responseHead, which finds the head in
// flow.res, flow.responseBody, flow.upstreamDrained and flow.upstreamFailed.
//
// Only the connection's loop may call the methods.
type upstreamStream interface {
	on() *upstreamConn // the connection

	// sendRequest sends the request's head, with the part of its body that flow.heldBodyPart
	// returns. It returns false if the exchange has failed, or goes on in another way.
	sendRequest(f *flow) bool
	// sendBody sends content of the body, and the end of the request if the flag bodyWhole is set.
	// An error means that nothing more can be sent.
	sendBody(f *flow, data []byte) error
	// sendCopy sends a mirrored request: see mirror.go.
	sendCopy(f *flow, message []byte) error
	// full reports whether no more of the body may be sent until flow.upstreamDrained is called.
	full() bool
	// room returns how many bytes of content to send at a time, if it is not full.
	room() int
	// took returns how far the target has taken what it was sent, a number that only grows, and
	// whether that is all.
	took() (mark int64, all bool)

	// readOn gives the exchange what has come of the response, as far as it takes it.
	readOn()
	// pending reports whether readOn could find something without a further event.
	pending() bool
	// whole reports whether the response is whole, and the exchange was given all of its content.
	whole() bool
	// trailers returns the trailers of a whole response, or nil. The caller may change the list.
	trailers() *head.List
	// unanswered reports whether the connection was used before this request, and nothing of the
	// response has come.
	unanswered() bool

	// finish releases the connection for other requests, after a whole response. clean says that
	// the whole request was sent.
	finish(clean bool)
	// drop gives up the rest of the try.
	drop()
	// free gives back the slot at the target, if its concurrency is limited. Otherwise tunnels and
	// streams of events would keep it as long as a client listens.
	free()
}

// parts says what stream.send sends besides content, and which memory it may overwrite.
type parts uint8

const (
	withHead parts = 1 << iota
	withEnd
	scratch // send may overwrite the content as well, once it is sent
)

// origin is what exchanges know about the connection that they come on.
type origin struct {
	acceptor *Acceptor
	listener *Listener // the acceptor's at the time of the present request
	tlsInfo  *exchange.TLS
	peer     netip.AddrPort
	peerText []byte // the peer's address as text; nil before the first request on this listener
	waited   int64  // how long the present request waited in line, in nanoseconds
	requests uint32
	trusted  bool  // the listener trusts the peer; made with peerText
	highest  uint8 // the highest class of its requests: P0 is 0
	fresh    bool  // a loop has accepted it, and none of its requests has been judged yet
}
