package proxy

import (
	"errors"
	"io"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/http1"
	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// This file makes upstreamConn the upstreamStream of the HTTP/1.1 request that is under way.

// http1Response is the state of the response that is being read.
type http1Response struct {
	body    http1.Body
	partial *reactor.Buffer // a head that is not complete; nil while there is none
	inHead  bool            // its head has not come yet
	clean   bool            // nothing that was read follows it
}

// on implements upstreamStream.
func (s *upstreamConn) on() *upstreamConn { return s }

// sendRequest implements upstreamStream. It sends the head and the held part of the body in one
// call.
func (s *upstreamConn) sendRequest(f *flow) bool {
	s.inHead = true
	out := f.appendRequestHead(f.w.out[:0])
	if f.is(mirrored) {
		f.copyHead(out) // without Expect: a copy is sent with its body
	}
	if f.expectsUpstream() {
		out = f.appendExpect(out)
	}
	for !f.is(requestSent) {
		data, more, err := f.heldBodyPart()
		if err != nil {
			f.bodyFailed(err)
			return false
		}
		out = s.appendBody(f, out, data)
		if !more || len(out) > reactor.ScratchSize { // pumpRequest goes on
			break
		}
	}
	f.flags |= wroteRequest // even if the write fails: a part may have been sent
	if len(out) <= batchBytes {
		s.conn.Batch()
	}
	if s.write(out) != nil {
		f.upstreamFailed(upstream.Reset, exchange.UpstreamReset)
		return false
	}
	return true
}

// appendBody appends content of the body as the upstream gets it, and, if that is the rest of it,
// the end of the request.
func (s *upstreamConn) appendBody(f *flow, out, data []byte) []byte {
	chunked := f.req.Length == head.Unknown
	switch {
	case len(data) == 0:
	case chunked:
		out = http1.AppendChunk(out, data)
	default:
		out = append(out, data...)
	}
	if f.is(bodyWhole) {
		f.flags |= requestSent
		if chunked {
			out = http1.AppendLastChunk(out, f.requestTrailers())
		}
	}
	return out
}

// sendBody implements upstreamStream. If the body's length is known, data is sent without a copy.
func (s *upstreamConn) sendBody(f *flow, data []byte) error {
	out := data
	if f.req.Length == head.Unknown {
		out = s.appendBody(f, f.w.out[:0], data)
	} else if f.is(bodyWhole) {
		f.flags |= requestSent
	}
	if len(out) == 0 {
		return nil
	}
	return s.write(out)
}

// sendCopy implements upstreamStream.
func (s *upstreamConn) sendCopy(_ *flow, message []byte) error {
	s.inHead = true
	return s.write(message)
}

// full implements upstreamStream.
func (s *upstreamConn) full() bool { return s.conn.Congested() }

// room implements upstreamStream.
func (s *upstreamConn) room() int { return s.w.loop.Piece() }

// took implements upstreamStream. It goes by what the target's kernel has acknowledged.
func (s *upstreamConn) took() (mark int64, all bool) {
	mark = s.conn.Acked()
	return mark, mark >= s.conn.Written()
}

// readOn implements upstreamStream.
func (s *upstreamConn) readOn() { s.dealWith() }

// whole implements upstreamStream.
func (s *upstreamConn) whole() bool { return !s.inHead && s.body.Done() }

// trailers implements upstreamStream.
func (s *upstreamConn) trailers() *head.List { return s.body.Trailers() }

// unanswered implements upstreamStream.
func (s *upstreamConn) unanswered() bool { return s.requests > 1 && s.partial == nil }

// finish implements upstreamStream.
func (s *upstreamConn) finish(clean bool) { s.release(clean && s.clean && s.flow.res.KeepAlive) }

// drop implements upstreamStream. It closes the connection, because its exchange is not finished.
func (s *upstreamConn) drop() {
	s.flow = nil
	s.close()
}

// spokeFirst is called when the target ends the connection, or sends something, while the request
// is still in the loop's batch. For example, a target may send a 408 before it closes an idle
// connection. That is not an answer to this request, of which nothing was written, so another
// connection gets the request.
func (s *upstreamConn) spokeFirst() {
	if _, err := s.read(s.w.loop.Scratch()); err != nil && pause(err) {
		return
	}
	f := s.flow
	f.flags &^= wroteRequest
	f.upstreamFailed(upstream.Reset, exchange.UpstreamReset)
}

// readResponse reads as long as there is something to read and the client keeps up. Once the
// response is whole, the connection may already belong to another loop, so the exchange decides
// whether to go on.
func (s *upstreamConn) readResponse() {
	f := s.flow
	for reads := 0; f.up == s && f.readsOn(); reads++ {
		if reads >= f.burst() {
			s.later()
			return
		}
		buf := s.w.loop.Scratch()
		room := buf[scratchRoom:][:min(f.piece(), reactor.ScratchSize-scratchRoom)]
		if s.partial != nil { // what is read must fit behind the part of the head in partial
			room = room[:min(len(room), reactor.ScratchSize-len(s.partial.Data()))]
		}
		n, err := s.read(room)
		if err != nil {
			if !pause(err) {
				s.responseEnded(err)
			} else {
				f.flushIdle()
			}
			return
		}
		s.w.shard.UpstreamReceived += uint64(n)
		if s.inHead {
			s.responseHead(buf, scratchRoom, scratchRoom+n)
		} else {
			s.responseBody(buf, scratchRoom, scratchRoom+n)
		}
	}
}

// responseEnded is called when the connection ends, or fails, before the response is known to be
// whole.
func (s *upstreamConn) responseEnded(err error) {
	f := s.flow
	if f.stage == stageSent {
		f.upstreamFailed(upstream.Reset, exchange.UpstreamReset)
		return
	}
	if errors.Is(err, io.EOF) && s.body.EOF() == http1.OK && s.body.Done() {
		f.responseBody(nil, 0, 0, 0)
		return
	}
	f.upstreamFailed(upstream.Reset, exchange.UpstreamCut)
}

// responseHead deals with buf[from:to], which was read of the head of the response, or of interim
// responses before it.
func (s *upstreamConn) responseHead(buf []byte, from, to int) {
	f := s.flow
	if s.partial != nil {
		if !s.appendPartial(buf[from:to]) {
			return
		}
		buf, from, to = s.partial.Bytes, s.partial.Start, s.partial.End
	}
	interim := f.w.out[:0]
	for {
		used, bad := f.res.Parse(buf[from:to], &responseLimits, f.is(toHEAD))
		if bad != http1.OK {
			f.badResponse()
			return
		}
		if used == 0 {
			if f.sendInterim(interim) {
				s.keepPartial(buf[from:to])
			}
			return
		}
		from += used
		if f.res.Status >= 200 || f.res.Status == 101 {
			break
		}
		if !f.countInterim(used) {
			return
		}
		http1.StripConnection(&f.res.Fields)
		interim = f.appendInterim(interim)
		f.res.Reset()
		if s.partial != nil {
			s.partial.Start = from
		}
	}
	if !f.sendInterim(interim) {
		return
	}
	partial := s.partial
	s.partial = nil
	s.wholeHead(buf, from, to)
	if partial != nil {
		f.w.loop.PutBuffer(partial)
	}
}

// wholeHead gives the exchange the complete head in f.res, with the content that came behind it.
func (s *upstreamConn) wholeHead(buf []byte, from, to int) {
	f := s.flow
	s.inHead, f.answeredIn = false, version(f.res.Minor)
	// Before any policy adds a field that the upstream's Connection may name.
	http1.StripConnection(&f.res.Fields)
	if f.res.Status == 101 {
		s.body.Start(http1.ToEOF, 0, &responseLimits) // another protocol follows, without framing
		f.responseHead(buf, from, to)
		return
	}
	s.body.Start(f.res.Framing, f.res.Length, &responseLimits)
	s.body.UsePool(&s.w.trailerPool)
	begin, end, bad := s.content(buf, from, to)
	if bad != http1.OK {
		f.badResponse()
		return
	}
	f.responseHead(buf, begin, end)
}

// responseBody deals with buf[from:to], which was read of the body.
//
// Most responses are read in one call and sent in one. The content stays where it was read, and the
// client's stream writes the head into the room in front of it, over the upstream's head. So only
// some hundred bytes are copied, and not the body.
func (s *upstreamConn) responseBody(buf []byte, from, to int) {
	begin, end, bad := s.content(buf, from, to)
	if bad != http1.OK {
		s.flow.badResponse()
		return
	}
	s.flow.responseBody(buf, begin, end, scratch)
}

// content removes the framing from the body in buf[from:to], and moves the content of several
// chunks together. The content is buf[begin:end] afterwards.
func (s *upstreamConn) content(buf []byte, from, to int) (begin, end int, bad http1.Error) {
	begin, end = from, from
	used := 0
	for !s.body.Done() {
		data, n, bad := s.body.Next(buf[from+used : to])
		if bad != http1.OK {
			return 0, 0, bad
		}
		if n == 0 {
			break
		}
		used += n
		switch { // the data is the last of the n bytes
		case len(data) == 0:
		case end == begin:
			end = from + used
			begin = end - len(data)
		default:
			end += copy(buf[end:], data)
		}
	}
	s.clean = used == to-from
	return begin, end, http1.OK
}

// keepPartial copies an incomplete head into memory of its own, unless it is there already.
func (s *upstreamConn) keepPartial(data []byte) {
	if s.partial != nil {
		return
	}
	s.partial = s.w.loop.GetBuffer(max(firstRead, len(data)))
	s.partial.End = copy(s.partial.Bytes, data)
	s.flow.res.Reset()
}

// appendPartial appends data to the incomplete head. It returns false if the head is too long; the
// try is over then.
func (s *upstreamConn) appendPartial(data []byte) bool {
	loop := s.w.loop
	if len(data) > len(s.partial.Room()) {
		need := len(s.partial.Data()) + len(data)
		if need > reactor.ScratchSize {
			s.flow.badResponse()
			return false
		}
		larger := loop.GetBuffer(need)
		larger.End = copy(larger.Bytes, s.partial.Data())
		loop.PutBuffer(s.partial)
		s.partial = larger
		s.flow.res.Reset()
	}
	s.partial.End += copy(s.partial.Room(), data)
	return true
}
