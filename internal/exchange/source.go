package exchange

import (
	"errors"

	"plimsoll/internal/head"
)

// Source is the body of an answer that does not lie in memory whole: a stored response, a file, a
// fetch for which others wait too. The engine asks it for as much as the client takes, whatever the
// protocol. All methods are for the exchange's loop and must not block.
type Source interface {
	// Next gives the next content, most bytes at the most. It stays unchanged until the engine calls
	// any source of the loop again: the engine has sent or copied it by then. io.EOF comes with the
	// last content or after it. ErrWait means that there is none now: the source wakes the exchange
	// (Exchange.Waker) when there is. Any other error means that the body cannot be completed, and
	// the response is cut off.
	Next(most int) ([]byte, error)
	// Close is called once, when the exchange is over or has another answer.
	Close()
}

// FileSource is a Source whose content, or the next part of it, stands in a file. Where the client's
// stream can, it has the kernel send from there, and calls Next no more for that part.
type FileSource interface {
	Source
	// NextFile says where the next content stands: n bytes from at in the file fd, which stays open
	// until Close. n is 0 where Next is to be called instead: because the content is not in a file, or
	// because reading it might wait for the disk.
	NextFile() (fd int, at, n int64)
	// Took says how many of these bytes were sent, in their order; the rest is asked for again.
	Took(n int64)
}

// StoredSource is a Source whose content stands in memory that nobody changes before Close. Where the
// client's stream can, it is sent from there: in one call with the head, without a copy, and what the
// client does not take stays with the source.
type StoredSource interface {
	Source
	// NextParts appends the next content to parts, in its order: at most most bytes, and no more slices
	// than parts has room for. It appends nothing where Next is to be called instead.
	NextParts(parts [][]byte, most int) [][]byte
	// Took says how many of these bytes were sent, in their order; the rest is asked for again.
	Took(n int64)
}

// Revocable is a Source that may end while its client is still behind with what it was given. It wakes the
// exchange then.
type Revocable interface {
	Source
	// Revoked says that nothing more comes: the response is cut off, because of its client's slowness.
	Revoked() bool
}

// TrailingSource is a Source that may have trailers behind its content.
type TrailingSource interface {
	Source
	// Trailers is called after Next has given the last content. nil is for none. The list may be changed.
	Trailers() *head.List
}

// ErrWait is given by a Source that has no content now.
var ErrWait = errors.New("exchange: no content now")

// AnswerFrom is Answer with a body from a source. length is that of the body, in bytes, also where
// none is sent because the request is HEAD or the status has none; head.Unknown for not known. The
// exchange closes the source when it is over, not before: the fields of the head may alias memory
// that the source holds. source may be x.Source already.
func (x *Exchange) AnswerFrom(status int, reason Reason, length int64, source Source) {
	if x.Source == source {
		x.Source = nil
	}
	x.Answer(status, reason, nil)
	x.Response.Length, x.Source = length, source
}

// CloseSource gives the source of the answer up, if it has one. Only the engine calls it, and
// Answer.
func (x *Exchange) CloseSource() {
	if s := x.Source; s != nil {
		x.Source = nil
		s.Close()
	}
}

// Encoder changes the content of a response on its way to the client: it compresses. A policy sets
// it in the response phase (Exchange.Encode), when it has made the head one of the encoded
// content. All methods are for the exchange's loop.
type Encoder interface {
	// Encode appends to dst what src becomes, and gives dst. After Flush everything that was given so
	// far can be decoded by who has what came out, after Last the encoding is complete. src may be
	// empty. An error means that the content cannot be completed, and the response is cut off.
	Encode(dst, src []byte, until Until) ([]byte, error)
	// Close is called once, after the last content, or when nobody needs it any more.
	Close()
}

// Until says what follows the content that an Encoder is given.
type Until uint8

const (
	More  Until = iota // more, at once
	Flush              // more, and nobody knows when
	Last               // nothing
)

// Encode has e encode the content of the response whose head is in. Its length is not known any
// more. An encoder that was set before is replaced; a policy asks for Encoder first.
func (x *Exchange) Encode(e Encoder) {
	x.CloseEncoder()
	x.Encoder = e
	x.Response.Fields.RemoveID(head.ContentLength)
	x.Response.Length = head.Unknown
}

// CloseEncoder gives the encoder up, if there is one. Only the engine calls it, and Answer.
func (x *Exchange) CloseEncoder() {
	if e := x.Encoder; e != nil {
		x.Encoder = nil
		e.Close()
	}
}

// Waker tells an exchange that its Source has content, or that the Sink of a fetch takes content
// again. It may be kept and used on any goroutine, also after the exchange has ended, when Wake does
// nothing. Several calls may count as one.
type Waker struct {
	x      *Exchange
	engine Engine
	life   uint64
}

// Waker is the exchange's in its present life.
func (x *Exchange) Waker() Waker { return Waker{x, x.engine, x.life} }

// Wake has the exchange go on with its source or its sink, on its loop.
func (w Waker) Wake() { w.engine.Wake(w.x, w.life) }

// Sink takes the response to a fetch. All methods are called on the loop that began the fetch.
type Sink interface {
	// FetchHead is called once, when the response's head is in, after the policies behind the one that
	// began the fetch. x is the fetch's own exchange; its memory is used for other things after the
	// call.
	FetchHead(x *Exchange)
	// FetchBody gives content, after FetchHead, which the sink copies. full says that nothing more is
	// to be read until the fetch is woken (x.Waker in FetchHead); up to 64 KB may come all the same.
	// An error ends the fetch.
	FetchBody(content []byte) (full bool, err error)
	// FetchStalled is called when the sink has been full for an eighth of the time that a client
	// may wait for more of a response, and then again as long as it is.
	FetchStalled()
	// FetchEnd is called once, at the end. whole says that the response came whole. Where it did not
	// and there was no FetchHead, x.Response.Status and x.Reason are the answer that a client would
	// have had.
	FetchEnd(x *Exchange, whole bool)
}

// TrailingSink is a Sink that takes trailers.
type TrailingSink interface {
	Sink
	// FetchTrailers gives the trailers of a response that came whole, as far as they are passed on, before
	// FetchEnd. The sink copies them.
	FetchTrailers(*head.List)
}

// BeginningSink is a Sink that may have the response without an upstream.
type BeginningSink interface {
	Sink
	// FetchBegin is called once, on the fetch's own exchange, before the policies behind the one
	// that began it. It may hold the exchange. Continue goes on to them; Answered ends the fetch:
	// then FetchHead is not called, and no policy is.
	FetchBegin(x *Exchange) PolicyVerdict
}

// Fetch begins an exchange of the gateway's own beside x, on its loop, for the same route: with the
// head of req, which is copied, and without a body. It runs through the policies behind the one that
// calls it, in both phases, and then to the upstream like any other, but no client waits for it: it
// goes on when x is over. False means that the loop has too many fetches under way; the sink hears
// nothing then.
func (x *Exchange) Fetch(req *head.Request, sink Sink) bool { return x.engine.Fetch(x, req, sink) }
