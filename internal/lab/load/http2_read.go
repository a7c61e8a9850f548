package load

import (
	"bytes"
	"fmt"

	"plimsoll/internal/hpack"
	"plimsoll/internal/http2"
	"plimsoll/internal/lab/measure"
)

// frames uses all complete frames and returns how many bytes they were.
func (h *http2Conn) frames(b []byte) (used int) {
	for {
		f, n, err := h.reader.Next(b[used:])
		switch {
		case err.Failed() && err.Stream == 0:
			if h.c.state == greeting && bytes.HasPrefix(b, []byte("HTTP/1.")) {
				h.lost(measure.BadHTTP, "", errNotHTTP2)
			} else {
				h.violated(err.Reason)
			}
			return used
		case n == 0:
			h.keep()
			return used
		}
		used += n
		if s := h.fresh; s != nil && !(f.Type == http2.Data && f.Stream == s.stream && f.Ends()) {
			h.keep()
		}
		h.frame(&f, err)
		if !h.alive() {
			return used
		}
	}
}

// frame uses one frame, or a part of one. err is an error of its stream.
func (h *http2Conn) frame(f *http2.Frame, err http2.Error) {
	switch f.Type {
	case http2.Data, http2.Headers, http2.RSTStream, http2.WindowUpdate:
		if f.Stream >= h.idle() {
			h.violated(http2.IdleStream)
			return
		}
	}
	switch f.Type {
	case http2.Data:
		h.data(f)
	case http2.Headers, http2.Continuation:
		h.headers(f, err)
		return
	case http2.RSTStream:
		h.reset(f)
	case http2.SettingsFrame:
		h.settings(f)
	case http2.Ping:
		if !f.Has(http2.Ack) {
			h.out = http2.AppendPing(h.out, true, [8]byte(f.Payload))
			h.flushSoon()
		}
	case http2.GoAway:
		h.goAway(f)
	case http2.WindowUpdate:
		if !err.Failed() {
			h.enlarge(f)
		}
	}
	if s := h.at(f.Stream); err.Failed() && h.alive() && s != nil {
		h.broken(s, err.Reason)
	}
}

// idle returns the lowest identifier of a stream that the target has not seen. Streams whose
// requests have begun but are not sent yet count as idle.
func (h *http2Conn) idle() uint32 {
	if len(h.unsent) > 0 {
		return h.unsent[0]
	}
	return h.next
}

// broken ends a stream because of what came on it.
func (h *http2Conn) broken(s *stream, reason http2.Reason) {
	h.cut(s, reason.Code(), measure.BadHTTP, "the answer breaks the rules of HTTP/2", reason)
}

// settings handles SETTINGS. The first one makes the connection ready for requests.
func (h *http2Conn) settings(f *http2.Frame) {
	if f.Has(http2.Ack) {
		return
	}
	change, reason := h.peer.Apply(f.Payload, true)
	if change.Has(http2.HeaderTableSize) {
		h.encoder.Resize(change.TableSize)
		h.encoder.Resize(h.peer.HeaderTableSize)
	}
	for _, s := range h.slots {
		if s != nil && change.Window != 0 && reason == http2.OK {
			reason = s.window.Shift(change.Window)
		}
	}
	if reason != http2.OK {
		h.violated(reason)
		return
	}
	w := h.c.w
	h.out = http2.AppendSettingsAck(h.out)
	h.flushSoon()
	if n := h.limit(); n > 0 && (w.allowed == 0 || n < w.allowed) {
		w.allowed = n
	}
	if h.c.state == greeting {
		h.c.ready()
		return
	}
	h.pump()
	h.c.reuse(!h.leaving)
}

// enlarge handles WINDOW_UPDATE.
func (h *http2Conn) enlarge(f *http2.Frame) {
	if f.Stream == 0 {
		if reason := h.window.Add(f.Increment()); reason != http2.OK {
			h.violated(reason)
			return
		}
	} else if s := h.at(f.Stream); s != nil {
		if reason := s.window.Add(f.Increment()); reason != http2.OK {
			h.broken(s, reason)
			return
		}
	}
	h.pump()
}

// reset handles RST_STREAM.
func (h *http2Conn) reset(f *http2.Frame) {
	s := h.at(f.Stream)
	if s == nil {
		return
	}
	kind, why := measure.ConnectionLost, "the target reset the stream"
	if f.Code() == http2.RefusedStream {
		kind, why = measure.Refused, "the target refused the stream"
	}
	var err error
	if h.c.w.examples[kind] == "" {
		err = codeError(f.Code())
	}
	h.fail(s, kind, why, err)
	h.c.reuse(!h.leaving)
}

// goAway handles GOAWAY: no more requests begin, and those that the target will not process end.
func (h *http2Conn) goAway(f *http2.Frame) {
	h.leaving = true
	h.c.w.leaveIdle(h.c)
	for _, s := range h.slots {
		if s == nil || s.stream <= f.LastStream() {
			continue
		}
		var err error
		if h.c.w.examples[measure.Refused] == "" {
			err = codeError(f.Code())
			if text := f.Debug(); len(text) > 0 {
				err = fmt.Errorf("%w, %q", err, text[:min(len(text), 100)])
			}
		}
		h.fail(s, measure.Refused, "the target goes away and did not take the stream", err)
	}
	if h.c.state == greeting {
		h.lost(measure.Refused, "", fmt.Errorf("the target goes away: %w", codeError(f.Code())))
		return
	}
	h.c.reuse(false)
}

// headers handles a field block, or a part of one.
func (h *http2Conn) headers(f *http2.Frame, err http2.Error) {
	if f.Type == http2.Headers {
		h.blockEnds = f.Has(http2.EndStream)
	}
	block := f.Payload
	if whole := f.Has(http2.EndHeaders); !whole || len(h.block) > 0 {
		if len(h.block)+len(block) > mostBlock {
			h.violated(http2.BlockTooLarge)
			return
		}
		h.block = append(h.block, block...)
		if !whole {
			return
		}
		block = h.block
	}
	s := h.at(f.Stream)
	reason := h.decode(s, block)
	h.block = h.block[:0]
	switch {
	case reason == http2.BadBlock:
		h.violated(reason)
	case s == nil: // it was reset
	case err.Failed():
		h.broken(s, err.Reason)
	case reason != http2.OK:
		h.broken(s, reason)
	case h.c.w.response.Status < 200 && !s.headed:
		if s.interim++; s.interim > maxInterim {
			h.cut(s, http2.EnhanceYourCalm, measure.BadHTTP, "1xx answers without end", nil)
		}
	case s.headed: // trailers
		h.whole(s)
	default:
		s.headed, s.status = true, h.c.w.response.Status
		s.length = http2.ExpectLength(h.c.w.response.Length)
		h.fresh = s
		if h.blockEnds {
			h.whole(s)
		}
	}
}

// decode decodes a field block into the worker's response. If the stream is over or the block holds
// trailers, it decodes it only for its effect on the dynamic table. It returns BadBlock for a block
// that cannot be decoded.
func (h *http2Conn) decode(s *stream, block []byte) (reason http2.Reason) {
	w := h.c.w
	if w.arena == nil {
		w.arena = make([]byte, headLimits.Head)
	}
	w.response.Status = 0
	w.response.Fields.Reset()
	var answer http2.ResponseHead
	var trailers http2.TrailerHead
	answer.Reset(&headLimits)
	trailers.Reset(&headLimits)
	h.decoder.Begin(block)
	arena := w.arena[:0]
	for {
		var f hpack.Field
		var ok bool
		var err error
		arena, ok, err = h.decoder.Next(&f, arena)
		switch {
		case err != nil:
			return http2.BadBlock
		case ok && s != nil && s.headed:
			trailers.Field(&w.response.Fields, f.Name, f.Value)
		case ok && s != nil:
			answer.Field(&w.response, f.Name, f.Value)
		}
		if !ok {
			break
		}
	}
	switch {
	case s == nil:
		return http2.OK
	case h.decoder.TooLarge() && s.headed:
		return http2.TrailersTooLarge
	case h.decoder.TooLarge():
		return http2.HeadTooLarge
	case s.headed:
		if reason = trailers.End(h.blockEnds); reason == http2.OK {
			reason = s.length.End()
		}
		return reason
	}
	return answer.End(&w.response, s.request.Head, h.blockEnds)
}

// data handles a frame of an answer's body, or a part of one. It returns window credit at once, as
// the data is used at once.
func (h *http2Conn) data(f *http2.Frame) {
	if f.First {
		if reason := h.receipt.Consume(f.Length); reason != http2.OK {
			h.violated(reason)
			return
		}
		h.giveBack(0, h.receipt.Release(f.Length))
	}
	s := h.at(f.Stream)
	if s == nil {
		return // it was reset
	}
	if reason := h.takeData(s, f); reason != http2.OK {
		h.broken(s, reason)
		return
	}
	if f.Ends() {
		if h.fresh != s {
			h.whole(s)
			return
		}
		h.wholeAtOnce(s, f.Payload)
	}
}

// takeData counts bytes of an answer's body and keeps them if the script asks for them.
func (h *http2Conn) takeData(s *stream, f *http2.Frame) http2.Reason {
	if !s.headed {
		return http2.MissingPseudo
	}
	if f.First {
		if reason := s.receipt.Consume(f.Length); reason != http2.OK {
			return reason
		}
		if n := s.receipt.Release(f.Length); !f.Has(http2.EndStream) {
			h.giveBack(s.stream, n)
		}
	}
	if reason := s.length.Add(len(f.Payload)); reason != http2.OK {
		return reason
	}
	if f.Ends() {
		if reason := s.length.End(); reason != http2.OK {
			return reason
		}
	}
	if h.fresh != s {
		s.addBody(f.Payload)
	}
	return http2.OK
}

// giveBack announces n more bytes of a window.
func (h *http2Conn) giveBack(id, n uint32) {
	if n > 0 {
		h.out = http2.AppendWindowUpdate(h.out, id, n)
		h.flushSoon()
	}
}

// keep keeps the head of an answer whose body comes later.
func (h *http2Conn) keep() {
	s := h.fresh
	if s == nil {
		return
	}
	h.fresh = nil
	w := h.c.w
	s.held = w.getHeld()
	k, from := s.held, &w.response.Fields
	for i := range from.Len() {
		f := from.At(i)
		at := len(k.head)
		k.head = append(append(k.head, f.Name...), f.Value...)
		kept := k.fields.Extend(f.ID)
		end := at + len(f.Name)
		kept.Name, kept.Value = k.head[at:end:end], k.head[end:]
	}
}

// whole ends a stream whose answer is complete. Its head is fresh, or was kept with the body.
func (h *http2Conn) whole(s *stream) {
	if h.fresh == s {
		h.wholeAtOnce(s, nil)
		return
	}
	h.judged(s, s.judge(s.status, &s.held.fields, s.held.body, s.held.cut))
}

// wholeAtOnce ends a stream whose head is fresh and whose complete body is body.
func (h *http2Conn) wholeAtOnce(s *stream, body []byte) {
	h.fresh = nil
	h.judged(s, s.judge(s.status, &h.c.w.response.Fields, body, false))
}

// judged puts the session and the connection to their next use. If the target answered before it
// had the whole request, the rest is not sent.
func (h *http2Conn) judged(s *stream, verdict AnswerVerdict) {
	if s.sending {
		h.out = http2.AppendRST(h.out, s.stream, http2.NoError)
		h.flushSoon()
	}
	session := s.over(verdict.Kind)
	h.forget(s)
	h.c.next(session, &verdict, !h.leaving)
}

// codeError is an HTTP/2 error code as an error.
type codeError http2.Code

// codes are the names from RFC 9113, section 7.
var codes = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT",
	"STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR",
	"CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

// Error implements error.
func (c codeError) Error() string {
	if int(c) < len(codes) {
		return codes[c]
	}
	return fmt.Sprintf("error code %#x", uint32(c))
}
