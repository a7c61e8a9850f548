package proxy

import (
	"io"
	"strings"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

var (
	textPlain       = []byte("text/plain; charset=utf-8")
	contentTypeName = []byte("Content-Type")
	allowName       = []byte("Allow")
)

// fail answers with an error of the gateway's own.
func (f *flow) fail(status int, reason exchange.Reason) {
	f.Answer(status, reason, exchange.RefusalBody(status, reason))
	f.Exchange.Response.Fields.Add(contentTypeName, textPlain)
	f.sendAnswer()
}

// shed refuses an exchange to protect the service. Clients that all came again at the same time
// would cause the next overload, so each is told another time to retry after: least seconds, at
// least one, and up to three more.
func (f *flow) shed(reason exchange.Reason, least int) {
	f.Answer(503, reason, exchange.RefusalBody(503, reason))
	f.Exchange.Response.Fields.Add(contentTypeName, textPlain)
	f.RetryAfter(max(1, least) + int(uint64(f.Start)*0x9e3779b97f4a7c15>>62))
	f.sendAnswer()
}

// failMethod answers that the path exists, but only for other methods (RFC 9110, section 15.5.6).
func (f *flow) failMethod() {
	allowed := f.view.Table.Allowed(&f.req.Request, f.req.Host, f.req.Path)
	f.Answer(405, exchange.WrongMethod, exchange.RefusalBody(405, exchange.WrongMethod))
	f.Exchange.Response.Fields.Add(contentTypeName, textPlain)
	f.Exchange.Response.Fields.Add(allowName, []byte(strings.Join(allowed, ", ")))
	f.sendAnswer()
}

// sendAnswer sends the answer that Exchange.Answer has set. It gives up a try that is under way.
func (f *flow) sendAnswer() {
	if f.is(isMirror) {
		f.endMirror()
		return
	}
	f.unhold()
	f.dropUpstream()
	f.endTry(upstream.Cancelled, 0)
	f.flags |= answered
	if f.stage == stageHolding {
		// The rest of the body is not received any more, whatever a policy does with the answer.
		f.stage = stagePolicies
	}
	// A fetch has no client. The exchanges that wait for it call StandIn themselves.
	if !f.is(isFetch) && !f.successOpens() {
		f.route.Chain.StandIn(&f.Exchange, int(f.asked))
	}
	f.at = f.firstResponse()
	if f.is(isFetch) && int(f.asked) == f.route.Chain.FetchRequest {
		f.writeAnswer() // it is the sink's answer: no policy has seen this fetch
		return
	}
	if f.respondPolicies() == exchange.Continue {
		f.writeAnswer()
	}
}

// writeAnswer writes the gateway's own answer and ends the exchange.
func (f *flow) writeAnswer() {
	if f.successOpens() && f.Response.Status/100 == 2 {
		f.Answer(501, exchange.BadRequest, exchange.RefusalBody(501, exchange.BadRequest))
		f.Exchange.Response.Fields.Add(contentTypeName, textPlain)
	}
	f.stage = stageStreaming
	if !f.is(requestSent) {
		f.skipBody()
	}
	if f.call != nil {
		f.answerCall()
	}
	f.rest = f.Body
	if f.bodiless() {
		f.rest = nil
		f.CloseEncoder()
	}
	f.answerPart(withHead)
}

// successOpens reports whether any status of success would tell the client that its WebSocket is
// open (RFC 9110, section 9.3.6; RFC 8441, section 5). In HTTP/1.1 only 101 does. So only a 101 of
// the service may become a status of success.
func (f *flow) successOpens() bool { return f.WebSocket && f.version >= http20 }

// bodiless reports whether the response has no body, whatever its head says.
func (f *flow) bodiless() bool {
	return f.is(toHEAD) || f.Response.Status == 204 || f.Response.Status == 304
}

// pumpAnswer writes the rest of an answer's body as long as the client keeps up, one burst at a
// time. It writes pieces, because what the client does not take has to be copied and kept.
func (f *flow) pumpAnswer() {
	for pieces := 0; ; pieces++ {
		full := pieces >= f.burst()
		if full {
			f.stream.later()
		}
		if full || f.stream.congested() {
			f.w.loop.StopTimer(&f.timer) // the exchange now waits only for the client
			return
		}
		if !f.answerPart(0) {
			return
		}
	}
}

// answerPart sends the next part of an answer, and ends the exchange with the last. It returns
// false if the caller must not go on.
func (f *flow) answerPart(parts parts) bool {
	if f.Source == nil || f.Encoder != nil || f.Response.Length == head.Unknown || f.call != nil {
		return f.answerRead(parts)
	}
	switch source := f.Source.(type) {
	case exchange.FileSource:
		if st, ok := f.stream.(fileStream); ok && st.sendsFiles() {
			if fd, at, n := source.NextFile(); n > 0 {
				return f.answerFile(st, source, fd, at, n, parts)
			}
		}
	case exchange.StoredSource:
		if st, ok := f.stream.(storedStream); ok && !f.bodiless() && st.sendsStored() {
			if content := source.NextParts(f.w.content[:0], storedPiece); len(content) > 0 {
				return f.answerStored(st, source, content, parts)
			}
		}
	}
	return f.answerRead(parts)
}

// answerRead is answerPart for content that is in memory, or is read. A client that is congested is
// sent the head of an answer alone: with HTTP/2, dozens of answers on one connection may begin in
// one turn, and the first piece of each would be queued.
func (f *flow) answerRead(parts parts) bool {
	if parts&withHead != 0 && f.hasContent() && f.stream.congested() {
		if f.send(nil, 0, 0, parts) {
			f.pumpAnswer()
		}
		return false
	}
	data, err := f.nextAnswer()
	switch {
	case err == nil:
	case err == io.EOF:
		parts |= withEnd
	case err == exchange.ErrWait:
		return f.awaitSource(data, parts)
	case parts&withHead != 0: // nothing was sent
		f.stage = stagePolicies
		f.fail(502, exchange.SourceFailed)
		return false
	default:
		f.cut(exchange.SourceFailed)
		return false
	}
	if !f.send(data, 0, len(data), parts) {
		return false
	}
	if parts&withEnd != 0 {
		f.finish(exchange.GatewayAnswer, reactor.Clock())
		return false
	}
	if parts&withHead != 0 {
		f.pumpAnswer()
		return false
	}
	return true
}

// filePiece is how many bytes of a file are sent in one call, during which the loop does nothing
// else: 256 KB take about 50 µs.
const filePiece = 256 << 10

// storedPiece is how many bytes of stored content are sent in one call: as many as the kernel holds
// unsent. maxContent is from how many places at most they come.
const (
	storedPiece = reactor.UnsentLimit
	maxContent  = 16
)

// answerStored is answerPart for content that is stored in memory. What the client does not take
// stays there. With bodies of 100 KB this takes one call instead of three, and saves a copy of 64
// KB.
func (f *flow) answerStored(
	st storedStream, source exchange.StoredSource, content [][]byte, parts parts,
) bool {
	sent, err := st.sendStored(f, content, parts)
	clear(content)
	source.Took(sent)
	if err != nil {
		f.abort(exchange.NoReason)
		return false
	}
	if parts&withHead != 0 {
		f.pumpAnswer()
		return false
	}
	return true
}

// answerFile is answerPart for n bytes at the offset at of the file fd. What the client does not
// take stays in the file, so it costs no memory of ours.
func (f *flow) answerFile(st fileStream, source exchange.FileSource, fd int, at, n int64, parts parts) bool {
	sent, err := st.sendFile(f, fd, at, min(n, filePiece), parts)
	source.Took(sent)
	switch err {
	case nil:
	case reactor.ErrNoSendFile:
		if !f.answerRead(parts &^ withHead) {
			return false
		}
	case reactor.ErrFileCut:
		f.cut(exchange.SourceFailed)
		return false
	default:
		f.abort(exchange.NoReason)
		return false
	}
	if parts&withHead != 0 {
		f.pumpAnswer()
		return false
	}
	return true
}

// hasContent reports whether there is more to send than the head.
func (f *flow) hasContent() bool { return !f.bodiless() && (f.Source != nil || len(f.rest) > 0) }

// nextAnswer returns the next content of an answer, from its source or from its body in memory.
// io.EOF comes with the last content.
func (f *flow) nextAnswer() ([]byte, error) {
	if f.Source != nil && !f.bodiless() { // a source is kept to the end: the head's fields may be its
		return f.Source.Next(f.piece())
	}
	piece := f.rest[:min(len(f.rest), f.piece())]
	if f.rest = f.rest[len(piece):]; len(f.rest) == 0 {
		return piece, io.EOF
	}
	return piece, nil
}

// awaitSource sends data, flushes the encoder, and waits for a source that has no content now.
func (f *flow) awaitSource(data []byte, parts parts) bool {
	if (len(data) > 0 || parts != 0) && !f.send(data, 0, len(data), parts) || !f.flushEncoder() {
		return false
	}
	f.w.loop.SetTimer(&f.timer, f, f.silentUntil(f.w.loop.Now()))
	return false
}

// woken goes on with a source that has content again, or with a fetch whose sink takes content
// again.
func (f *flow) woken() {
	switch st, fetching := f.stream.(*fetchStream); {
	case fetching:
		st.full = false
		f.clientDrained()
	case f.Source != nil && f.stage == stageStreaming && !f.is(held):
		if source, ok := f.Source.(exchange.Revocable); ok && source.Revoked() {
			f.cut(exchange.ClientSlow)
			return
		}
		f.pumpAnswer()
	}
}

// skipBody skips a request body that is not needed, if all of it has come already. Otherwise the
// client's connection cannot go on after the answer.
func (f *flow) skipBody() {
	if !f.is(bodyWhole) && !f.stream.skip() {
		f.flags |= closeClient
		return
	}
	f.flags |= bodyWhole | requestSent
}
