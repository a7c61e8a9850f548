package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/http1"
	"plimsoll/internal/invariant"
	"plimsoll/internal/upstream"
)

// responseLimits bound the heads of upstreams' responses. Upstreams are trusted, so the bounds are
// wide and cannot be configured.
var responseLimits = http1.Limits{Line: 8 << 10, Head: 48 << 10, Fields: 256, Extension: 16 << 10}

// maxInterims is how many interim responses may come before a response, and maxInterimBytes how
// many bytes their heads may have together. Services send one or two. Without a bound a target
// could keep its loop busy for as long as the route's timeout.
const (
	maxInterims     = 64
	maxInterimBytes = 64 << 10
)

// countInterim counts an interim response whose head has the given number of bytes. It returns
// false if there were too many; the try is over then.
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

// sendInterim sends the interim responses that one read brought, in one write. It returns false if
// the client is gone and the exchange over.
func (f *flow) sendInterim(out []byte) bool {
	if len(out) > 0 && f.stream.sendInterim(out) != nil {
		f.abort(exchange.NoReason)
		return false
	}
	return true
}

// sendEarlyHints sends the 103 that a policy has prepared, when the client begins to wait. It
// returns false if the client is gone and the exchange over. It sends none over HTTP/1.1: browsers
// ignore it there, and other clients take it for the response (RFC 8297, section 3). A 103 of a
// service is passed on over any version.
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

// badResponse ends a try whose response is malformed. The client gets a 502, or a response that is
// cut off if its head was sent already.
func (f *flow) badResponse() {
	f.upstreamFailed(upstream.BadResponse, exchange.UpstreamBad)
}

// responseHead deals with a complete head, in f.res. buf[from:to] is the content of the body that
// came with it; buf[:from] may be overwritten.
func (f *flow) responseHead(buf []byte, from, to int) {
	status := f.res.Status
	f.upstreamEnd = f.w.loop.Now()
	f.noteSent()
	if f.call != nil {
		f.callHead(to > from)
	}
	if status == 101 {
		f.leaveTarget(upstream.Cancelled) // a tunnel has no end of its own
	} else {
		f.leaveTarget(f.outcome())
	}
	if f.is(isMirror) {
		f.mirrorHead()
		return
	}
	if status == 101 && (!http1.Switches(f.req.Upgrade, f.res.Upgrade) || !f.is(requestSent)) {
		// The client did not ask for it, or is still sending the request's body, which is not the
		// new protocol.
		f.badResponse()
		return
	}
	if f.successOpens() && status/100 == 2 { // the service does not switch protocols
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

// firstResponse returns the index of the first policy of the response phase. A fetch passes only
// through the policies behind the one that fetches.
func (f *flow) firstResponse() uint8 {
	if f.is(isFetch) {
		return uint8(f.route.Chain.FetchResponse)
	}
	return 0
}

// responseChain returns the policies of the response phase. If there is a policy that fetches, an
// answer of the gateway's own does not pass through those behind it: what is stored went through
// them already.
func (f *flow) responseChain() []exchange.ResponsePolicy {
	chain := &f.route.Chain
	if chain.Fetches && f.is(answered) && !f.is(isFetch) {
		return chain.Response[:chain.FetchResponse]
	}
	return chain.Response
}

// respondPolicies runs the rest of the chain's response phase. It returns Continue if the response
// is to be sent, Held if a policy will resume, and Answered if a policy's answer was sent instead;
// then f may be over.
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

// replaceResponse sends a policy's answer in place of the upstream's response, of which nothing was
// sent. The rest of that response is not read, so its connection ends.
func (f *flow) replaceResponse() {
	f.dropUpstream()
	f.endTry(upstream.Success, f.upstreamEnd-f.sentAt)
	f.sendAnswer()
}

// holdResponse keeps a response's head, and what came of its body, while a policy holds the
// exchange. The fields may point into buf, so they are moved into the copy.
func (f *flow) holdResponse(buf []byte, from, to int) {
	kept := f.w.loop.GetBuffer(len(buf))
	copy(kept.Bytes, buf)
	rebaseFields(&f.res.Fields, buf, kept.Bytes)
	f.res.Upgrade = rebase(f.res.Upgrade, buf, kept.Bytes)
	kept.Start, kept.End = from, to
	f.heldResponse = kept
}

// dropResponse gives back the memory of a held response.
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

// startResponse sends the response's head and the content buf[from:to] of its body.
func (f *flow) startResponse(buf []byte, from, to int) {
	if f.res.Status == 101 {
		f.startTunnel(buf, from, to)
		return
	}
	f.stage = stageStreaming
	f.dropHeld()
	if !f.is(requestSent) {
		// The upstream answered before it had the whole request. The rest of the request is not
		// read, so neither connection can be used again.
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
	// Not earlier: the request that gets the slot begins at once, and uses the memory of buf.
	if events && f.Life() == life && f.up == s {
		s.free()
	}
}

// responseBody sends the content buf[from:to] of the body to the client.
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

// readsOn reports whether the exchange takes more of the response now.
func (f *flow) readsOn() bool {
	return !f.is(held) && f.stage.readsResponse() && (f.stream == nil || !f.stream.congested())
}

// send sends a part of the response to the client. It returns false if the client is gone and the
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

// sendParts is send without translating, counting or encoding the content.
func (f *flow) sendParts(buf []byte, from, to int, parts parts) bool {
	if f.stream.send(f, buf, from, to, parts) != nil {
		f.abort(exchange.NoReason)
		return false
	}
	return true
}

// piece returns how many bytes of the response to read, or to make, at a time. It is limited
// because what the client does not take is kept in memory.
func (f *flow) piece() int {
	switch {
	case f.stream == nil:
		return f.w.loop.Piece()
	case f.Encoder != nil: // space is for the encoded bytes
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

// finishUpstream releases the upstream connection of a whole response for other requests.
func (f *flow) finishUpstream() {
	s := f.up
	f.up = nil
	s.finish(f.is(requestSent))
}

// Run implements reactor.Runner. The last bytes of the response were sent with the batch, or could
// not be.
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

// streamExpired is called when nothing of the body has come from the upstream for too long. If the
// client does not read, that is not the upstream's fault.
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
