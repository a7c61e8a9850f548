package proxy

import (
	"net/netip"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// stream is one request and its response on a client's connection, whatever the protocol version:
// what an exchange talks to on its client's side. clientConn is the only stream of an HTTP/1.1
// connection.
//
// The stream frames and the exchange decides: no exchange knows of chunks, frames or Connection, and
// no stream of routes, policies or targets. A stream tells its exchange what happens by
// flow.bodyReadable, flow.clientDrained and flow.abort.
//
// All methods are for the connection's loop.
type stream interface {
	// buffered is how many bytes of the request's body are in memory, framing included.
	buffered() int
	// nextBody takes the next content of the request's body: of what is in memory, or else of what the
	// connection has, most bytes at the most. It stays valid until the loop reads anything. io.EOF
	// comes with the last content, or after it; reactor.ErrAgain means that there is nothing now, an
	// http1.Error that the body is malformed, and any other error that the client is gone. No
	// content and no error: only framing came.
	nextBody(most int) ([]byte, error)
	// mark keeps the place in the body to which rewind goes back. That works as long as no content
	// was taken that was not in memory then; a stream that cannot give other content again sets
	// bodyStreamed when that is taken.
	mark()
	// rewind says whether the body was whole at the mark.
	rewind() bool
	// trailers are those of the whole body, or nil. The list may be changed.
	trailers() *head.List
	// skip passes over what is in memory of a body that nobody needs, and says whether that was all.
	skip() bool
	// pending says that nextBody could find something without a further event.
	pending() bool
	// later has bodyReadable called at the end of the turn.
	later()

	// appendInterim appends the interim response in f.res; it may leave it out.
	appendInterim(f *flow, out []byte) []byte
	// sendInterim sends what appendInterim made.
	sendInterim(out []byte) error
	// sendContinue tells the client to send its body.
	sendContinue() error
	// send sends a part of the response: its head where parts has withHead, the content buf[from:to],
	// its end where parts has withEnd. What stands in front of from may be overwritten. It counts
	// bodyOut and headOut of f. What the client does not take now is kept for it; an error means
	// that it is gone.
	send(f *flow, buf []byte, from, to int, parts parts) error
	// congested says that no more is to be sent until clientDrained.
	congested() bool
	// space is about how much content the client takes now without any being kept for it.
	space() int
	// sent is when the last bytes went out, monotonic nanoseconds, and whether they did.
	sent() (at int64, ok bool)
	// startTunnel makes the content of both directions bytes of another protocol, without an end
	// that anything but the peer's announces. The head of the response to come says so.
	startTunnel()

	// finish ends the stream after its response, and frees the exchange. Where last is set the
	// connection ends too, if it has no other stream.
	finish(f *flow, last bool)
	// reset ends the stream so that nobody takes its response for whole, and frees the exchange.
	reset(f *flow)
	// cut does the same for a client that is too slow to be waited for: what is queued is dropped.
	cut(f *flow)
}

// fileStream is a stream that can have the kernel send from a file.
type fileStream interface {
	stream
	// sendsFiles says whether it can for the present response, whose length is known.
	sendsFiles() bool
	// sendFile is send for content that stands in a file: n bytes from at in fd. The response's end
	// is not among its parts. It says how many bytes went; when they are fewer than n the stream is
	// congested, or has failed. What it does not take it does not keep. The error may be
	// reactor.ErrNoSendFile or reactor.ErrFileCut, which are the file's.
	sendFile(f *flow, fd int, at, n int64, parts parts) (int64, error)
}

// storedStream is a stream that can send content from where it is stored.
type storedStream interface {
	stream
	// sendsStored says whether it can for the present response, whose length is known.
	sendsStored() bool
	// sendStored is send for content in several places, without the response's end. It says how many
	// bytes of it went; when these are not all, the stream is congested, or has failed. What it does not
	// take it does not keep. It may change the slices of content, but not what they hold.
	sendStored(f *flow, content [][]byte, parts parts) (int64, error)
}

// upstreamStream is one request and its response on a connection to a target, whatever the protocol
// version: what an exchange talks to on its upstream's side, for one try. upstreamConn is the only
// one of an HTTP/1.1 connection.
//
// It tells its exchange what happens by flow.responseHead, which finds the head in flow.res, by
// flow.responseBody, flow.upstreamDrained and flow.upstreamFailed.
//
// All methods are for the connection's loop.
type upstreamStream interface {
	on() *upstreamConn // the connection

	// sendRequest sends the request's head, with what is there of its body: flow.heldBodyPart has it.
	// False means that the exchange went another way.
	sendRequest(f *flow) bool
	// sendBody sends content of the body, and the end of the request where flow.bodyWhole is set. An
	// error means that nothing more can be sent.
	sendBody(f *flow, data []byte) error
	// sendCopy sends a mirrored request: see mirror.go.
	sendCopy(f *flow, message []byte) error
	// full says that no more of the body is to be sent until flow.upstreamDrained.
	full() bool
	// room is how much content to send at a time, where it is not full.
	room() int
	// took is how far the target has taken what it was sent, a number that grows, and whether that is
	// all.
	took() (mark int64, all bool)

	// readOn has what there is of the response dealt with, as far as the exchange takes it.
	readOn()
	// pending says that readOn could find something without a further event.
	pending() bool
	// whole says that the response is whole, and all of its content was shown.
	whole() bool
	// trailers are those of a whole response, or nil. The list may be changed.
	trailers() *head.List
	// unanswered says that the connection was used before, and nothing of the response has come.
	unanswered() bool

	// finish gives the connection to other requests, after a whole response. clean says that the
	// request went out whole.
	finish(clean bool)
	// drop gives up what is left of the try.
	drop()
	// free gives the slot at the target back, where its concurrency is limited: tunnels and streams
	// of events would keep it for as long as somebody listens.
	free()
}

// parts says what stream.send sends besides content, and of what kind that is.
type parts uint8

const (
	withHead parts = 1 << iota
	withEnd
	scratch // what send overwrites may be the content too, once that is sent
)

// origin is what exchanges know of the connection that they come on.
type origin struct {
	acceptor *Acceptor
	listener *Listener // the acceptor's, as of the present request
	tlsInfo  *exchange.TLS
	peer     netip.AddrPort
	peerText []byte // the peer's address as text, made at a listener's first request; nil before
	waited   int64  // how long the present request waited in line, nanoseconds
	requests uint32
	trusted  bool  // the listener trusts the peer; made with peerText
	highest  uint8 // the highest class of its requests: P0 is 0
	fresh    bool  // accepted by a loop, and none of its requests has been judged yet
}
