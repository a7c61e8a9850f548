package proxy

import (
	"unsafe"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
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
		f.streamBody(buf, from, to, nil)
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
	if f.res.Status == 100 && !f.is(expecting) || f.is(isMirror) || f.req.Minor == 0 {
		return out
	}
	if f.res.Status == 100 {
		f.settleExpect()
	}
	out = http1.AppendStatusLine(out, f.res.Status)
	f.stripInterim()
	out = http1.AppendFields(out, &f.res.Fields, interimDrop)
	return append(out, crlf...)
}

// sendInterim passes on, in one write, what one read brought of interim responses. False means that
// the client is gone and the exchange over.
func (f *flow) sendInterim(out []byte) bool {
	if len(out) > 0 && f.client.write(out) != nil {
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
	for i := range f.res.Fields.Len() {
		field := f.res.Fields.At(i)
		field.Name, field.Value, field.Line = rebase(field.Name, buf, kept.Bytes), rebase(field.Value, buf, kept.Bytes), rebase(field.Line, buf, kept.Bytes)
	}
	f.res.Upgrade = rebase(f.res.Upgrade, buf, kept.Bytes)
	kept.Start, kept.End = from, to
	s.partial = kept
}

// rebase is the part of new that p was of old; what was not part of old stays.
func rebase(p, old, new []byte) []byte {
	offset := uintptr(unsafe.Pointer(unsafe.SliceData(p))) - uintptr(unsafe.Pointer(unsafe.SliceData(old)))
	if len(p) == 0 || offset >= uintptr(len(old)) {
		return p
	}
	return new[offset : int(offset)+len(p)]
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
		f.startTunnel(buf[from:to])
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
	out := f.appendResponseHead(f.w.out[:0])
	f.headOut = int64(len(out))
	f.streamBody(buf, from, to, out)
	// Not earlier: whoever gets the slot begins at once, and uses the memory that buf and out are in.
	if events && s.flow == f && f.Life() == life {
		s.free()
	}
}

// appendResponseHead is the head as the client gets it, and decides how the body is framed for it.
func (f *flow) appendResponseHead(out []byte) []byte {
	f.toClient = f.res.Framing
	switch f.res.Framing {
	case http1.Chunked, http1.ToEOF:
		f.toClient = http1.Chunked
		if f.req.Minor == 0 {
			f.toClient = http1.ToEOF
			f.flags |= closeClient
			f.client.toEOF = true
		}
	}
	out = http1.AppendStatusLine(out, f.res.Status)
	f.trimResponse()
	drop := hopByHop &^ http1.OfStatus(f.res.Status)
	if f.is(toHEAD) || f.res.Status == 304 {
		drop &^= 1 << head.ContentLength // it tells of the body that is not sent
	}
	out = f.appendVia(http1.AppendFields(out, &f.res.Fields, drop), f.res.Minor)
	switch f.toClient {
	case http1.Length:
		out = appendLength(out, f.res.Length)
	case http1.Chunked:
		out = append(out, chunkedLine...)
	case http1.None:
		if !f.is(toHEAD) && f.res.Status != 204 && f.res.Status != 304 {
			out = appendLength(out, 0)
		}
	}
	if !f.res.Fields.Has(head.Date) {
		out = http1.AppendField(out, dateName, f.w.httpDate())
	}
	return append(f.appendConnection(out), crlf...)
}

var dateName = []byte("Date")

// streamBody sends body bytes buf[from:to] on to the client, behind the head where out is not
// empty.
//
// The usual response is read in one call and goes out in one: where the body is passed on as it is,
// the head is written into the room in front of it, over the upstream's head, so that only some
// hundred bytes are copied and not the body.
func (f *flow) streamBody(buf []byte, from, to int, out []byte) {
	in, headUnsent := buf[from:to], len(out) > 0
	var used int
	var bad http1.Error
	if f.toClient == http1.Chunked || f.res.Framing == http1.Chunked {
		out, used, bad = f.appendDown(out, in)
	} else {
		var data []byte
		data, used, bad = f.down.Next(in)
		switch {
		case len(data) == 0:
		case len(out) <= from:
			copy(buf[from-len(out):], out)
			out = buf[from-len(out) : from+len(data)]
		default:
			out = append(out, data...)
		}
	}
	if bad != http1.OK {
		if headUnsent {
			f.stage = stageSent
		}
		f.badResponse()
		return
	}
	if f.down.Done() {
		f.responseWhole(out, used == len(in))
		return
	}
	if len(out) > 0 && !f.toClientWrite(out) {
		return
	}
	f.w.loop.SetTimer(&f.timer, f, f.w.loop.Now()+f.route.StreamTimeout)
}

// appendDown decodes body bytes of the upstream and appends them framed for the client. It says how
// many it used.
func (f *flow) appendDown(out, in []byte) ([]byte, int, http1.Error) {
	used := 0
	for !f.down.Done() {
		data, n, bad := f.down.Next(in[used:])
		if bad != http1.OK {
			return out, used, bad
		}
		if n == 0 {
			break
		}
		used += n
		switch {
		case len(data) == 0:
		case f.toClient == http1.Chunked:
			out = http1.AppendChunk(out, data)
		default:
			out = append(out, data...)
		}
	}
	return out, used, http1.OK
}

// toClientWrite sends bytes to the client; false means that the client is gone and the exchange
// over.
func (f *flow) toClientWrite(out []byte) bool {
	c := f.client
	f.bodyOut += int64(len(out))
	if c.write(out) != nil {
		f.abort(exchange.NoReason)
		return false
	}
	if c.conn.Queued() > 0 {
		c.watchTaking()
	}
	return true
}

// clientDrained goes on reading from the upstream.
func (f *flow) clientDrained() {
	switch s := f.upstreamConn; {
	case s != nil && f.stage.headSent():
		s.Readable()
	case f.stage == stageStreaming:
		f.pumpAnswer()
	}
}

// responseWhole ends the exchange with the last bytes of its response. clean says that nothing
// stood behind them.
func (f *flow) responseWhole(out []byte, clean bool) {
	if f.toClient == http1.Chunked {
		if out == nil {
			out = f.w.out[:0]
		}
		out = http1.AppendLastChunk(out, f.responseTrailers())
	}
	if len(out) <= batchBytes {
		f.client.conn.Batch()
	}
	if len(out) > 0 && !f.toClientWrite(out) {
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
	if f.client.conn.Failed() {
		f.stage = stageStreaming
		f.abort(exchange.NoReason)
		return
	}
	sent := f.client.conn.Sent()
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
	if !f.is(isMirror) && f.client.conn.Congested() {
		f.w.loop.SetTimer(&f.timer, f, now+f.route.StreamTimeout)
		return
	}
	if f.stage == stageTunnel {
		f.endTunnel()
		return
	}
	f.upstreamFailed(upstream.Timeout, exchange.StreamTimeout)
}
