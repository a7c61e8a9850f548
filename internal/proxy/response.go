package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/http1"
	"plimsoll/internal/invariant"
	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// responseLimits bound the heads of upstreams. They are services of ours, so the bounds are wide
// and not configured.
var responseLimits = http1.Limits{Line: 8 << 10, Head: 48 << 10, Fields: 256, Extension: 16 << 10}

// responseBytes takes what was read of a response: buf[from:to], with room in front that may be
// overwritten.
func (f *flow) responseBytes(buf []byte, from, to int) {
	switch {
	case f.stage == stageStreaming && f.is(isMirror):
		f.discardBody(buf[from:to])
		return
	case f.stage == stageStreaming:
		f.streamBody(buf, from, to, scratch)
		return
	}
	s := f.upstreamConn
	if s.partial != nil {
		if !f.appendPartial(buf[from:to]) {
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
				f.keepPartial(buf[from:to])
			}
			return
		}
		from += used
		if f.res.Status >= 200 || f.res.Status == 101 {
			break
		}
		f.interims++
		f.interimBytes += used
		if f.interims > maxInterims || f.interimBytes > maxInterimBytes {
			f.badResponse()
			return
		}
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
	f.responseHead(buf, from, to)
	if partial != nil {
		f.w.loop.PutBuffer(partial)
	}
}

// keepPartial keeps a head that is not complete, in memory of its own.
func (f *flow) keepPartial(data []byte) {
	s := f.upstreamConn
	if s.partial != nil {
		return
	}
	s.partial = f.w.loop.GetBuffer(max(firstRead, len(data)))
	s.partial.End = copy(s.partial.Bytes, data)
	f.res.Reset()
}

// appendPartial adds to a head that is not complete.
func (f *flow) appendPartial(data []byte) bool {
	s, l := f.upstreamConn, f.w.loop
	if len(data) > len(s.partial.Room()) {
		need := len(s.partial.Data()) + len(data)
		if need > reactor.ScratchSize {
			f.badResponse()
			return false
		}
		larger := l.GetBuffer(need)
		larger.End = copy(larger.Bytes, s.partial.Data())
		l.PutBuffer(s.partial)
		s.partial = larger
		f.res.Reset()
	}
	s.partial.End += copy(s.partial.Room(), data)
	return true
}

// The most interim responses before one response, and the most bytes of their heads together.
// Services send one or two. Without a bound one target could keep its loop busy for as long as the
// route's timeout.
const (
	maxInterims     = 64
	maxInterimBytes = 64 << 10
)

// appendInterim appends an interim response as the client gets it (RFC 9110, section 15.2). It
// leaves out a 100 that the client does not wait for.
func (f *flow) appendInterim(out []byte) []byte {
	if f.res.Status == 100 && !f.is(expecting) || f.is(isMirror) {
		return out
	}
	if f.res.Status == 100 {
		f.settleExpect()
	}
	f.stripInterim()
	return f.stream.appendInterim(f, out)
}

// sendInterim passes on, in one write, what one read brought of interim responses. False means that
// the client is gone and the exchange over.
func (f *flow) sendInterim(out []byte) bool {
	if len(out) > 0 && f.stream.sendInterim(out) != nil {
		f.abort(exchange.NoReason)
		return false
	}
	return true
}

// badResponse ends a try whose response is malformed: 502, or a cut where the head was sent
// already.
func (f *flow) badResponse() {
	f.upstreamFailed(upstream.BadResponse, exchange.UpstreamBad)
}

// responseHead deals with a complete head; buf[from:to] is what came with it of the body.
func (f *flow) responseHead(buf []byte, from, to int) {
	status := f.res.Status
	f.upstreamEnd = f.w.loop.Now()
	f.noteSent()
	if status == 101 {
		f.leaveTarget(upstream.Cancelled) // what follows has no end of its own
	} else {
		f.leaveTarget(outcomeOf(status))
	}
	if f.is(isMirror) {
		f.mirrorHead(buf[from:to])
		return
	}
	if status == 101 && (!http1.Switches(f.req.Upgrade, f.res.Upgrade) || !f.is(requestSent)) {
		// Nobody asked for it, or what the client is still sending is the request's body and not
		// the new protocol's.
		f.badResponse()
		return
	}
	if status >= 502 && status <= 504 && f.retryStatus(status) {
		f.dropUpstream()
		f.endTry(upstream.Status5xx, 0)
		f.retry()
		return
	}
	f.down.Start(f.res.Framing, f.res.Length, &responseLimits)
	// Before any policy adds a field that the upstream could have named.
	http1.StripConnection(&f.res.Fields)
	if len(f.route.Chain.Response) > 0 {
		f.at = 0
		switch f.respondPolicies() {
		case exchange.Held:
			f.holdResponse(buf, from, to)
			return
		case exchange.Answered:
			return
		}
	}
	f.startResponse(buf, from, to)
}

// respondPolicies runs the rest of the chain's response phase. Continue: what is there goes out.
// Held: a policy will resume. Answered: a policy's answer went its way instead, and f may be over.
func (f *flow) respondPolicies() exchange.PolicyVerdict {
	for chain := f.route.Chain.Response; int(f.at) < len(chain); {
		policy := chain[f.at]
		f.at++
		switch policy.OnResponse(&f.Exchange) {
		case exchange.Held:
			f.pause(held | heldResponse)
			return exchange.Held
		case exchange.Answered:
			if !f.is(answered) {
				f.replaceResponse()
				return exchange.Answered
			}
		}
	}
	return exchange.Continue
}

// replaceResponse sends a policy's answer in place of the upstream's response, of which nothing has
// gone out. What is left of that response is not read, so its connection ends.
func (f *flow) replaceResponse() {
	f.dropUpstream()
	f.endTry(upstream.Success, f.upstreamEnd-f.sentAt)
	f.sendAnswer()
}

// holdResponse keeps a response's head and what came of its body while a policy holds the exchange.
// The fields alias the loop's scratch memory, so they are moved into the copy.
func (f *flow) holdResponse(buf []byte, from, to int) {
	s, l := f.upstreamConn, f.w.loop
	kept := l.GetBuffer(len(buf))
	copy(kept.Bytes, buf)
	rebaseFields(&f.res.Fields, buf, kept.Bytes)
	f.res.Upgrade = rebase(f.res.Upgrade, buf, kept.Bytes)
	kept.Start, kept.End = from, to
	s.partial = kept
}

// runResponse goes on after a policy held the exchange in the response phase.
func (f *flow) runResponse() {
	if f.respondPolicies() != exchange.Continue {
		return
	}
	s := f.upstreamConn
	if s == nil {
		f.writeAnswer()
		return
	}
	kept := s.partial
	s.partial = nil
	f.startResponse(kept.Bytes, kept.Start, kept.End)
	f.w.loop.PutBuffer(kept)
	if f.upstreamConn == s {
		s.Readable()
	}
}

// startResponse sends the response's head and what is there of its body.
func (f *flow) startResponse(buf []byte, from, to int) {
	if f.res.Status == 101 {
		f.startTunnel(buf, from, to)
		return
	}
	f.stage = stageStreaming
	f.dropHeld()
	if !f.is(requestSent) {
		// The upstream answered before it had the whole request. What is left of it has no reader,
		// so neither connection can be used again.
		f.flags |= closeClient
	}
	f.noteEndless()
	s, life, events := f.upstreamConn, f.Life(), f.is(endless)
	f.trimResponse()
	f.streamBody(buf, from, to, withHead|scratch)
	// Not earlier: whoever gets the slot begins at once, and uses the memory that buf is in.
	if events && s.flow == f && f.Life() == life {
		s.free()
	}
}

// streamBody sends the content of the body bytes buf[from:to] on to the client.
//
// The usual response is read in one call and goes out in one: its content stays where it was read,
// and the stream writes the head into the room in front of it, over the upstream's head, so that
// only some hundred bytes are copied and not the body.
func (f *flow) streamBody(buf []byte, from, to int, parts parts) {
	begin, end, used, bad := f.content(buf, from, to)
	if bad != http1.OK {
		if parts&withHead != 0 {
			f.stage = stageSent
		}
		f.badResponse()
		return
	}
	if f.down.Done() {
		f.responseWhole(buf, begin, end, parts, used == to-from)
		return
	}
	if (parts&withHead != 0 || end > begin) && !f.send(buf, begin, end, parts) {
		return
	}
	f.w.loop.SetTimer(&f.timer, f, f.w.loop.Now()+f.route.StreamTimeout)
}

// content takes the framing off the body bytes buf[from:to] of the upstream: the content is
// buf[begin:end] afterwards, moved together where it came in several chunks. used is how many of the
// bytes were the body's.
func (f *flow) content(buf []byte, from, to int) (begin, end, used int, bad http1.Error) {
	begin, end = from, from
	for !f.down.Done() {
		data, n, bad := f.down.Next(buf[from+used : to])
		if bad != http1.OK {
			return 0, 0, used, bad
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
	return begin, end, used, http1.OK
}

// send sends a part of the response to the client; false means that the client is gone and the
// exchange over.
func (f *flow) send(buf []byte, from, to int, parts parts) bool {
	if f.stream.send(f, buf, from, to, parts) != nil {
		f.abort(exchange.NoReason)
		return false
	}
	return true
}

// piece is how many bytes of the response to read, or to make, at a time: what its client does not
// take is kept in memory.
func (f *flow) piece() int {
	if f.stream == nil {
		return f.w.loop.Piece()
	}
	return min(f.w.loop.Piece(), max(firstRead, f.stream.space()))
}

// clientDrained goes on reading from the upstream.
func (f *flow) clientDrained() {
	switch s := f.upstreamConn; {
	case f.stage == stageTunnel:
		f.relayDown()
	case s != nil && f.stage.headSent():
		s.Readable()
	case f.stage == stageStreaming:
		f.pumpAnswer()
	}
}

// responseWhole sends the last content of the response, and ends the exchange. clean says that
// nothing stood behind it.
func (f *flow) responseWhole(buf []byte, from, to int, parts parts, clean bool) {
	if !f.send(buf, from, to, parts|withEnd) {
		return
	}
	s := f.upstreamConn
	f.upstreamConn = nil
	f.endTry(outcomeOf(f.res.Status), f.upstreamEnd-f.sentAt)
	s.release(clean && f.is(requestSent) && f.res.KeepAlive)
	f.stage, f.lastRead = stageSending, f.w.loop.Now()
	f.w.loop.AfterBatch(f)
}

// Run implements reactor.Runner: the last bytes of the response have gone out with the batch, or
// could not.
func (f *flow) Run() {
	if invariant.On && f.stage != stageSending {
		panic("proxy: an exchange was ended between its last bytes and the batch, in stage " + stageText[f.stage])
	}
	sent, ok := f.stream.sent()
	if !ok {
		f.stage = stageStreaming
		f.abort(exchange.NoReason)
		return
	}
	f.headDown = max(1, sent-f.lastRead-f.pausedDown)
	f.finish(exchange.Completed, sent)
}

func outcomeOf(status int) upstream.Outcome {
	if status >= 502 && status <= 504 {
		return upstream.Status5xx
	}
	if status >= 500 {
		return upstream.ServerError
	}
	return upstream.Success
}

// streamExpired is called when the upstream has been silent for too long after its head. A client
// that does not read is not the upstream's silence.
func (f *flow) streamExpired(now int64) {
	if !f.is(isMirror) && f.stream.congested() {
		f.w.loop.SetTimer(&f.timer, f, now+f.route.StreamTimeout)
		return
	}
	if f.stage == stageTunnel {
		f.endTunnel()
		return
	}
	f.upstreamFailed(upstream.Timeout, exchange.StreamTimeout)
}
