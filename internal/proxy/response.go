package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/http1"
	"plimsoll/internal/invariant"
	"plimsoll/internal/upstream"
)

// responseLimits bound the heads of upstreams. They are services of ours, so the bounds are wide
// and not configured.
var responseLimits = http1.Limits{Line: 8 << 10, Head: 48 << 10, Fields: 256, Extension: 16 << 10}

// The most interim responses before one response, and the most bytes of their heads together.
// Services send one or two. Without a bound one target could keep its loop busy for as long as the
// route's timeout.
const (
	maxInterims     = 64
	maxInterimBytes = 64 << 10
)

// countInterim counts an interim response whose head had so many bytes. False means that there were
// too many, and the try is over.
func (f *flow) countInterim(bytes int) bool {
	f.interims++
	f.interimBytes += bytes
	if f.interims > maxInterims || f.interimBytes > maxInterimBytes {
		f.badResponse()
		return false
	}
	return true
}

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

// sendEarlyHints sends the 103 that a policy has for a client that now waits. False means that the
// client is gone and the exchange over. Over HTTP/1.1 none is sent: browsers ignore it there, and
// other clients take it for the response (RFC 8297, section 3). What a service sends is passed on.
func (f *flow) sendEarlyHints() bool {
	hints := f.EarlyHints
	if hints == nil || f.version < http20 || f.call != nil {
		return true
	}
	f.EarlyHints = nil
	f.w.shard.EarlyHints++
	f.res.Status = 103
	f.res.Fields.Add(linkName, hints)
	out := f.stream.appendInterim(f, f.w.out[:0])
	f.res.Reset()
	return f.sendInterim(out)
}

var linkName = []byte("Link")

// badResponse ends a try whose response is malformed: 502, or a cut where the head was sent
// already.
func (f *flow) badResponse() {
	f.upstreamFailed(upstream.BadResponse, exchange.UpstreamBad)
}

// responseHead deals with a complete head, in f.res; buf[from:to] is what came with it of the body's
// content, with what stands in front of it free to be overwritten.
func (f *flow) responseHead(buf []byte, from, to int) {
	status := f.res.Status
	f.upstreamEnd = f.w.loop.Now()
	f.noteSent()
	if f.call != nil {
		f.callHead(to > from)
	}
	if status == 101 {
		f.leaveTarget(upstream.Cancelled) // what follows has no end of its own
	} else {
		f.leaveTarget(f.outcome())
	}
	if f.is(isMirror) {
		f.mirrorHead()
		return
	}
	if status == 101 && (!http1.Switches(f.req.Upgrade, f.res.Upgrade) || !f.is(requestSent)) {
		// Nobody asked for it, or what the client is still sending is the request's body and not
		// the new protocol's.
		f.badResponse()
		return
	}
	if f.successOpens() && status/100 == 2 { // the service does not switch, and says so in good order
		f.fail(502, exchange.UpstreamBad)
		return
	}
	if status >= 502 && status <= 504 && f.retryStatus(status) || f.call != nil && f.retryCode() {
		o := f.outcome()
		f.dropUpstream()
		f.endTry(o, 0)
		f.retry(false)
		return
	}
	if len(f.route.Chain.Response) > 0 {
		f.at = f.firstResponse()
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

// firstResponse is where the response phase begins: a fetch has the policies behind the one that
// fetches.
func (f *flow) firstResponse() uint8 {
	if f.is(isFetch) {
		return uint8(f.route.Chain.FetchResponse)
	}
	return 0
}

// responseChain is the policies of the response phase. An answer that no upstream gave does not
// come to those behind the policy that fetches: what is stored went through them already.
func (f *flow) responseChain() []exchange.ResponsePolicy {
	chain := &f.route.Chain
	if chain.Fetches && f.is(answered) && !f.is(isFetch) {
		return chain.Response[:chain.FetchResponse]
	}
	return chain.Response
}

// respondPolicies runs the rest of the chain's response phase. Continue: what is there goes out.
// Held: a policy will resume. Answered: a policy's answer went its way instead, and f may be over.
func (f *flow) respondPolicies() exchange.PolicyVerdict {
	for chain := f.responseChain(); int(f.at) < len(chain); {
		policy := chain[f.at]
		f.at++
		switch policy.OnResponse(&f.Exchange) {
		case exchange.Held:
			f.pause(held | inResponse)
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
// The fields may alias the memory that buf is in, so they are moved into the copy.
func (f *flow) holdResponse(buf []byte, from, to int) {
	kept := f.w.loop.GetBuffer(len(buf))
	copy(kept.Bytes, buf)
	rebaseFields(&f.res.Fields, buf, kept.Bytes)
	f.res.Upgrade = rebase(f.res.Upgrade, buf, kept.Bytes)
	kept.Start, kept.End = from, to
	f.heldResponse = kept
}

// dropResponse gives the memory of a held response back.
func (f *flow) dropResponse() {
	if f.heldResponse != nil {
		f.w.loop.PutBuffer(f.heldResponse)
		f.heldResponse = nil
	}
}

// runResponse goes on after a policy held the exchange in the response phase.
func (f *flow) runResponse() {
	if f.respondPolicies() != exchange.Continue {
		return
	}
	s := f.up
	if s == nil {
		f.writeAnswer()
		return
	}
	kept, life := f.heldResponse, f.Life()
	f.heldResponse = nil
	f.startResponse(kept.Bytes, kept.Start, kept.End)
	loop := f.w.loop
	loop.PutBuffer(kept)
	if f.Life() == life && f.up == s {
		s.readOn()
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
	if f.call != nil && f.call.web.asked {
		f.translateResponse()
	}
	if f.Encoder != nil {
		f.startEncoding()
	}
	s, life, events := f.up, f.Life(), f.is(endless)
	f.trimResponse()
	f.responseBody(buf, from, to, withHead|scratch)
	// Not earlier: the one that gets the slot begins at once, and uses the memory that buf is in.
	if events && f.Life() == life && f.up == s {
		s.free()
	}
}

// responseBody sends the content buf[from:to] of the body on to the client.
func (f *flow) responseBody(buf []byte, from, to int, parts parts) {
	switch {
	case f.is(isMirror):
		f.mirrorBody()
	case f.up.whole():
		f.responseWhole(buf, from, to, parts)
	case parts&withHead == 0 && to == from || f.send(buf, from, to, parts):
		f.w.loop.SetTimer(&f.timer, f, f.silentUntil(f.w.loop.Now()))
	}
}

// readsOn says whether what comes of the response is wanted now.
func (f *flow) readsOn() bool {
	return !f.is(held) && f.stage.readsResponse() && (f.stream == nil || !f.stream.congested())
}

// send sends a part of the response to the client; false means that the client is gone and the
// exchange over.
func (f *flow) send(buf []byte, from, to int, parts parts) bool {
	if c := f.call; c != nil && !f.is(answered) {
		if c.web.down {
			return f.sendWeb(buf, from, to, parts)
		}
		if c.framed() {
			c.down.Pass(buf[from:to])
		}
	}
	if f.Encoder != nil {
		return f.sendEncoded(buf[from:to], parts)
	}
	return f.sendParts(buf, from, to, parts)
}

// sendParts is send without a look at what is sent.
func (f *flow) sendParts(buf []byte, from, to int, parts parts) bool {
	if f.stream.send(f, buf, from, to, parts) != nil {
		f.abort(exchange.NoReason)
		return false
	}
	return true
}

// piece is how many bytes of the response to read, or to make, at a time: what its client does not
// take is kept in memory.
func (f *flow) piece() int {
	switch {
	case f.stream == nil:
		return f.w.loop.Piece()
	case f.Encoder != nil: // space is of what comes out
		return min(f.w.loop.Piece(), encodePiece)
	}
	return min(f.w.loop.Piece(), max(firstRead, f.stream.space()))
}

// clientDrained goes on reading from the upstream.
func (f *flow) clientDrained() {
	switch {
	case f.stage == stageTunnel:
		f.relayDown()
	case f.up != nil && f.stage.headSent():
		f.up.readOn()
	case f.stage == stageStreaming:
		f.pumpAnswer()
	}
}

// upstreamDrained goes on sending to the upstream.
func (f *flow) upstreamDrained() {
	switch {
	case f.is(isMirror):
	case f.stage == stageTunnel:
		f.relayUp()
	case !f.is(requestSent) && f.stage.headSent():
		f.pumpRequest()
	}
}

// responseWhole sends the last content of the response, and ends the exchange.
func (f *flow) responseWhole(buf []byte, from, to int, parts parts) {
	if !f.send(buf, from, to, parts|withEnd) {
		return
	}
	f.endTry(f.outcome(), f.upstreamEnd-f.sentAt)
	f.finishUpstream()
	f.stage, f.lastRead = stageSending, f.w.loop.Now()
	f.w.loop.AfterBatch(f)
}

// finishUpstream gives the connection of a whole response to other requests.
func (f *flow) finishUpstream() {
	s := f.up
	f.up = nil
	s.finish(f.is(requestSent))
}

// Run implements reactor.Runner: the last bytes of the response have gone out with the batch, or
// could not.
func (f *flow) Run() {
	if invariant.On && f.stage != stageSending {
		panic("proxy: an exchange was ended between its last bytes and the batch, in stage " +
			stageText[f.stage])
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
	if f.call != nil && f.overdue(now) {
		f.cut(exchange.DeadlinePassed)
		return
	}
	if !f.is(isMirror) && f.stream.congested() {
		f.w.loop.SetTimer(&f.timer, f, f.silentUntil(now))
		return
	}
	if f.stage == stageTunnel {
		f.endTunnel()
		return
	}
	if f.Source != nil {
		f.cut(exchange.SourceFailed)
		return
	}
	f.upstreamFailed(upstream.Timeout, exchange.StreamTimeout)
}
