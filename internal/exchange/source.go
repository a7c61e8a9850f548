package exchange

import (
	"errors"

	"plimsoll/internal/head"
)

// Source is the body of an answer that is not in memory as a whole: a stored response, a file, or a
// fetch that several exchanges wait for. The engine asks it for as much as the client takes,
// whatever the protocol. All methods are called on the exchange's loop and must not block.
type Source interface {
	// Next returns the next content, at most most bytes. The bytes must stay unchanged until the
	// engine calls any source of the loop again; by then the engine has sent or copied them. io.EOF
	// comes with the last content or after it. ErrWait means that there is no content now; the
	// source must wake the exchange (Exchange.Waker) when there is. Any other error means that the
	// body cannot be completed, and the response is cut off.
	Next(most int) ([]byte, error)
	// Close is called once, when the exchange is over or has another answer.
	Close()
}

// FileSource is a Source whose content, or the next part of it, is in a file. If the client's
// stream can, it makes the kernel send from the file instead of calling Next for that part.
type FileSource interface {
	Source
	// NextFile says where the next content is: n bytes from offset at in the file fd, which stays
	// open until Close. n is 0 if Next must be called instead, because the content is not in a file
	// or because reading it might wait for the disk.
	NextFile() (fd int, at, n int64)
	// Took says how many of these bytes were sent, in their order; the rest is asked for again.
	Took(n int64)
}

// StoredSource is a Source whose content is in memory that does not change before Close. If the
// client's stream can, it sends from that memory: in one system call with the head and without a
// copy. What the client does not take stays with the source.
type StoredSource interface {
	Source
	// NextParts appends the next content to parts, in order: at most most bytes, and no more slices
	// than parts has capacity for. It appends nothing if Next must be called instead.
	NextParts(parts [][]byte, most int) [][]byte
	// Took says how many of these bytes were sent, in their order; the rest is asked for again.
	Took(n int64)
}

// Revocable is a Source that may be revoked while its client still has not taken all that it was
// given. It wakes the exchange when that happens.
type Revocable interface {
	Source
	// Revoked reports that no more content will come. The response is then cut off, because its
	// client is too slow.
	Revoked() bool
}

// TrailingSource is a Source that may have trailers after its content.
type TrailingSource interface {
	Source
	// Trailers is called after Next has returned the last content. It returns nil for none. The
	// caller may change the list.
	Trailers() *head.List
}

// ErrWait is returned by a Source that has no content now.
var ErrWait = errors.New("exchange: no content now")

// AnswerFrom is Answer with a body from a source. length is the length of the body in bytes, even
// if no body is sent because of the request method HEAD or the status; head.Unknown if not known.
// The source is closed when the exchange is over, not before, because the fields of the head may
// alias memory that the source holds. source may already be x.Source.
func (x *Exchange) AnswerFrom(status int, reason Reason, length int64, source Source) {
	if x.Source == source {
		x.Source = nil
	}
	x.Answer(status, reason, nil)
	x.Response.Length, x.Source = length, source
}

// CloseSource closes the source of the answer, if it has one. Only the engine and Answer call it.
func (x *Exchange) CloseSource() {
	if s := x.Source; s != nil {
		x.Source = nil
		s.Close()
	}
}

// Encoder encodes the content of a response on its way to the client: it compresses it. A policy
// sets it in the response phase (Exchange.Encode), once it has changed the head to describe the
// encoded content. All methods are called on the exchange's loop.
type Encoder interface {
	// Encode appends the encoded src to dst and returns the extended slice. After Flush, the client
	// can decode all content so far from the output so far. After Last, the encoding is complete.
	// src may be empty. An error means that the content cannot be completed, and the response is
	// cut off.
	Encode(dst, src []byte, until Until) ([]byte, error)
	// Close is called once, after the last content or when the encoder is no longer needed.
	Close()
}

// Until says what follows the content that is passed to an Encoder.
type Until uint8

const (
	More  Until = iota // more follows at once
	Flush              // more follows, at an unknown time
	Last               // nothing follows
)

// Encode makes e encode the content of the response whose head is in. The length becomes unknown.
// An encoder that is already set is replaced, so a policy must check x.Encoder first.
func (x *Exchange) Encode(e Encoder) {
	x.CloseEncoder()
	x.Encoder = e
	x.Response.Fields.RemoveID(head.ContentLength)
	x.Response.Length = head.Unknown
}

// CloseEncoder closes the encoder, if there is one. Only the engine, Encode and Answer call it.
func (x *Exchange) CloseEncoder() {
	if e := x.Encoder; e != nil {
		x.Encoder = nil
		e.Close()
	}
}

// Waker tells an exchange that its Source has content, or that the Sink of a fetch takes content
// again. It may be kept and used on any goroutine, even after the exchange has ended; Wake then
// does nothing. Several calls of Wake may count as one.
type Waker struct {
	x      *Exchange
	engine Engine
	life   uint64
}

// Waker returns a Waker for the exchange's present life.
func (x *Exchange) Waker() Waker { return Waker{x, x.engine, x.life} }

// Wake makes the exchange go on with its source or its sink, on its loop.
func (w Waker) Wake() { w.engine.Wake(w.x, w.life) }

// Sink takes the response to a fetch. All methods are called on the loop that began the fetch.
type Sink interface {
	// FetchHead is called once, when the response's head is in and the policies after the one that
	// began the fetch have seen it. x is the fetch's own exchange. Its memory is reused after the
	// call.
	FetchHead(x *Exchange)
	// FetchBody passes content, after FetchHead. The sink must copy it. full says that no more
	// should be read until the fetch is woken (x.Waker in FetchHead). Up to 64 KB may come
	// nevertheless. An error ends the fetch.
	FetchBody(content []byte) (full bool, err error)
	// FetchStalled is called when the sink has been full for an eighth of the time that a client
	// may wait for more of a response, and again for each further eighth.
	FetchStalled()
	// FetchEnd is called once, at the end. whole says that the response is complete. If it is not,
	// and FetchHead was not called, x.Response.Status and x.Reason are the answer that a client
	// would have got.
	FetchEnd(x *Exchange, whole bool)
}

// TrailingSink is a Sink that takes trailers.
type TrailingSink interface {
	Sink
	// FetchTrailers passes those trailers of a complete response that are forwarded. It is called
	// before FetchEnd. The sink must copy them.
	FetchTrailers(*head.List)
}

// BeginningSink is a Sink that may get the response without an upstream.
type BeginningSink interface {
	Sink
	// FetchBegin is called once, on the fetch's own exchange, before the policies after the one
	// that began the fetch. It may hold the exchange. Continue goes on to those policies. Answered
	// ends the fetch: neither they nor FetchHead are called then.
	FetchBegin(x *Exchange) PolicyVerdict
}

// Fetch begins an exchange of the gateway's own on the loop of x, for the same route, with a copy
// of the head of req and without a body. The fetch runs through the policies after the one that
// calls it, in both phases, and goes to the upstream like any other exchange. But no client waits
// for it, so it continues when x is over. Fetch returns false if the loop has too many fetches
// under way; it then does not call the sink.
func (x *Exchange) Fetch(req *head.Request, sink Sink) bool { return x.engine.Fetch(x, req, sink) }
