package proxy

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"plimsoll/internal/crash"
	"plimsoll/internal/head"
	"plimsoll/internal/http2"
	"plimsoll/internal/http3"
)

// This file holds the goroutine that reads a request's stream. It ends when the request is whole,
// when its client or the connection has gone, or when the loop wants no more of it.

// http3Piece is how many bytes at most are read and handed over at once. A stream whose body comes
// has at most three such buffers: one that is read into, one that is handed over, and one that the
// loop takes from.
const http3Piece = 16 << 10

var http3Pieces = sync.Pool{New: func() any { return new([http3Piece]byte) }}

// http3Scarce reports whether the streams of HTTP/3 hold as much memory as they may. Then new
// requests are refused before they are read, and little of each response is held. Without this a
// few clients with many streams, which send slowly or do not read, could take all memory: quic-go's
// windows bound only one stream and one connection.
func (s *Shared) http3Scarce() bool {
	most := s.HTTP3Most.Load()
	if most == 0 {
		most = int64(len(s.Workers)) * loopHeldMost
	}
	return s.HTTP3Held.Load() > most
}

// endWait is how long to wait for the end of a request without a body if it did not come with the
// head. Without this wait the request would have to go on as one whose body comes later.
const endWait = 50 * time.Millisecond

// errStreamReset tells the loop that the client has given up the request.
var errStreamReset = errors.New("proxy: the client has reset its stream")

// http3Head is the head of a request as received, with what came of the body.
type http3Head struct {
	fields []http3.Field
	bytes  int  // of the encoded head
	early  bool // it came before the handshake was complete
	begin  http3Delivery
}

// http3Delivery is the part of a request's body that is handed over at once.
type http3Delivery struct {
	piece   *[http3Piece]byte // the memory that content is in; nil for none
	held    *atomic.Int64     // counts the bytes of piece
	content []byte
	trailer *head.List // nil for none
	ended   bool       // this is the last delivery
	fault   http2.Reason
	err     error // errStreamReset, or an http3.Reason
}

func (d *http3Delivery) free() {
	if d.piece != nil {
		http3Pieces.Put(d.piece)
		d.held.Add(-http3Piece)
		d.piece = nil
	}
	d.content = nil
}

// inbox is where the reading goroutine puts what it has read, one delivery at a time.
type inbox struct {
	mu     sync.Mutex
	what   http3Delivery
	full   bool
	closed bool          // the loop wants no more
	room   chan struct{} // has one place; signals that the inbox is empty again, or closed
}

// put waits until the inbox is empty, and fills it. It returns false if the inbox is closed.
func (in *inbox) put(d http3Delivery) bool {
	in.mu.Lock()
	for in.full && !in.closed {
		in.mu.Unlock()
		<-in.room
		in.mu.Lock()
	}
	defer in.mu.Unlock()
	if in.closed {
		d.free()
		return false
	}
	in.what, in.full = d, true
	return true
}

// take empties the inbox.
func (in *inbox) take() (d http3Delivery, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.full {
		return d, false
	}
	d, in.what, in.full = in.what, http3Delivery{}, false
	in.signal()
	return d, true
}

// peek reports whether the inbox is full, and returns the error of the delivery in it.
func (in *inbox) peek() (full bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.full, in.what.err
}

// close makes the goroutine end, and frees a delivery that was not taken.
func (in *inbox) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.what.free()
	in.closed, in.full = true, false
	in.signal()
}

func (in *inbox) signal() {
	select {
	case in.room <- struct{}{}:
	default:
	}
}

// http3Reading is the goroutine's state.
type http3Reading struct {
	st     *http3Stream
	reader http3.Reader
	limits *http2.Limits
	piece  *[http3Piece]byte
	have   []byte // the part of piece that was read and not looked at yet
	ended  bool   // the stream's end has come

	trailer *head.List   // the trailers; nil for none
	fault   http2.Reason // what is wrong with the trailers
}

// readHTTP3 reads a request.
func readHTTP3(h *http3Conn, q *quic.Stream) {
	defer crash.Guard("where a request of HTTP/3 is read")
	ln := h.current.Load()
	st := &http3Stream{h: h, q: q, id: q.StreamID()}
	st.in.room = make(chan struct{}, 1)
	st.out.held = &h.w.shared.HTTP3Held
	loop := h.w.loop
	if h.w.shared.http3Scarce() {
		loop.Post(func() { st.refuseUnread(http3.Overloaded, 503) })
		return
	}
	r := http3Reading{st: st, limits: &ln.HTTP2}
	defer r.free()
	r.reader.Reset(ln.HTTP2.Head)
	q.SetReadDeadline(time.Now().Add(time.Duration(ln.HeadTimeout)))
	hd, err := r.head()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		loop.Post(func() { st.refuseUnread(http3.HeadTimeout, 408) })
		return
	case err == http3.BlockTooLarge:
		loop.Post(func() { st.refuseUnread(http3.BlockTooLarge, 431) })
		return
	case err != nil:
		loop.Post(func() { st.fault(err) })
		return
	}
	if hd.early, err = awaitHandshake(h.q, hd); err != nil {
		hd.begin.free() // the connection has ended
		return
	}
	q.SetReadDeadline(time.Time{})
	// A client that gives up its stream does so in both directions, but only one of them is read.
	st.unwatchCancel = context.AfterFunc(q.Context(), func() { loop.Post(st.cancelled) })
	loop.Post(func() { st.begin(hd) })
	if !hd.begin.ended {
		r.body()
	}
}

// free gives back the memory of the goroutine.
func (r *http3Reading) free() {
	if r.piece != nil {
		http3Pieces.Put(r.piece)
		r.st.out.held.Add(-http3Piece)
	}
}

// read reads once, and appends to have.
func (r *http3Reading) read() error {
	if r.ended {
		return io.EOF
	}
	if r.piece == nil {
		r.piece = http3Pieces.Get().(*[http3Piece]byte)
		r.st.out.held.Add(http3Piece)
	}
	n := copy(r.piece[:], r.have)
	more, err := r.st.q.Read(r.piece[n:])
	r.have = r.piece[:n+more]
	if err == io.EOF {
		r.ended, err = true, nil
	}
	if _, reset := errors.AsType[*quic.StreamError](err); reset {
		return errStreamReset
	}
	return err
}

// head reads the head, and the part of the body that came with it.
func (r *http3Reading) head() (*http3Head, error) {
	hd := &http3Head{}
	for hd.fields == nil {
		if err := r.read(); err != nil && err != io.EOF {
			return nil, err
		}
		part, used, why := r.reader.Next(r.have)
		r.have = r.have[used:]
		if why == http3.OK && part.Kind == http3.Head {
			hd.bytes = len(part.Data)
			hd.fields, why = http3.DecodeFields(part.Data, r.limits.Head, r.limits.Fields)
		} else if why == http3.OK && r.ended {
			why = r.reader.End()
		}
		if why != http3.OK {
			return nil, why
		}
	}
	if len(r.have) == 0 && !r.ended && hd.endsSoon() {
		if err := r.awaitEnd(); err != nil {
			return nil, err
		}
	}
	return hd, r.deliverable(&hd.begin)
}

// awaitEnd waits, for at most endWait, for what follows the head.
func (r *http3Reading) awaitEnd() error {
	r.st.q.SetReadDeadline(time.Now().Add(endWait))
	err := r.read()
	if err == io.EOF || errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// endsSoon reports whether the request has no body, as far as its head tells.
func (hd *http3Head) endsSoon() bool {
	for _, f := range hd.fields {
		if string(f.Name) == "content-length" {
			return false
		}
	}
	return hd.safe()
}

// safe reports whether the request's method changes nothing (RFC 9110, section 9.2.1). Then it may
// be served although it may be a replay (RFC 8470, section 3).
func (hd *http3Head) safe() bool {
	for _, f := range hd.fields {
		if string(f.Name) == ":method" {
			switch string(f.Value) {
			case "GET", "HEAD", "OPTIONS", "TRACE":
				return true
			}
			return false
		}
	}
	return false
}

// awaitHandshake reports whether a request is to be served before the handshake is complete. If the
// request might change something, it waits for the end of the handshake. It returns an error if the
// connection ends first.
func awaitHandshake(q *quic.Conn, hd *http3Head) (early bool, err error) {
	select {
	case <-q.HandshakeComplete():
		return false, nil
	default:
	}
	if hd.safe() {
		return true, nil
	}
	select {
	case <-q.HandshakeComplete():
		return false, nil
	case <-q.Context().Done():
		return false, q.Context().Err()
	}
}

// body hands over the body, piece by piece.
func (r *http3Reading) body() {
	loop := r.st.h.w.loop
	for {
		var d http3Delivery
		err := r.read()
		if err == nil {
			err = r.deliverable(&d)
		}
		if err != nil {
			d.free()
			d = http3Delivery{err: err}
		}
		if d.content == nil && !d.ended && d.err == nil {
			continue
		}
		ended := d.ended || d.err != nil
		if !r.st.in.put(d) {
			return
		}
		loop.Post(r.st.arrived)
		if ended {
			return
		}
	}
}

// deliverable makes a delivery of what was read: it moves the content of the frames together. The
// memory belongs to the delivery from then on.
func (r *http3Reading) deliverable(d *http3Delivery) error {
	in := r.have
	to := 0
	for {
		part, used, why := r.reader.Next(in)
		if why == http3.BlockTooLarge {
			// Treat them as malformed trailers, for which there is a budget. Do not read on.
			r.trailer, r.fault, r.ended = nil, http2.TrailersTooLarge, true
			break
		}
		if why != http3.OK {
			return why
		}
		in = in[used:]
		switch part.Kind {
		case http3.Content:
			to += copy(r.piece[to:], part.Data)
		case http3.Trailer:
			if why := r.trailers(part.Data); why != http3.OK {
				return why
			}
		}
		if part.Kind == http3.None {
			break
		}
	}
	r.have = nil
	if d.ended = r.ended; d.ended {
		d.trailer, d.fault = r.trailer, r.fault
		if why := r.reader.End(); why != http3.OK && r.fault != http2.TrailersTooLarge {
			return why
		}
	}
	if to > 0 {
		d.piece, d.held, d.content, r.piece = r.piece, r.st.out.held, r.piece[:to], nil
	}
	return nil
}

// trailers decodes and checks a trailer section.
func (r *http3Reading) trailers(block []byte) http3.Reason {
	fields, why := http3.DecodeFields(block, r.limits.Head, r.limits.Fields)
	if why != http3.OK {
		return why
	}
	var judge http2.TrailerHead
	judge.Reset(r.limits)
	list := &head.List{}
	for _, f := range fields {
		r.fault = judge.Field(list, f.Name, f.Value)
	}
	if r.fault == http2.OK && list.Len() > 0 {
		r.trailer = list
	}
	return http3.OK
}
