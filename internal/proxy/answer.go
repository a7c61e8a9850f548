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

// shed refuses an exchange to protect the service. Clients that all come again at the same time
// would be the next overload, so each is told another one: up to three seconds more than least, which
// is in seconds.
func (f *flow) shed(reason exchange.Reason, least int) {
	f.Answer(503, reason, exchange.RefusalBody(503, reason))
	f.Exchange.Response.Fields.Add(contentTypeName, textPlain)
	f.RetryAfter(max(1, least) + int(uint64(f.Start)*0x9e3779b97f4a7c15>>62))
	f.sendAnswer()
}

// failMethod answers that the path is there for other methods (RFC 9110, section 15.5.6).
func (f *flow) failMethod() {
	allowed := f.view.Table.Allowed(&f.req.Request, f.req.Host, f.req.Path)
	f.Answer(405, exchange.WrongMethod, exchange.RefusalBody(405, exchange.WrongMethod))
	f.Exchange.Response.Fields.Add(contentTypeName, textPlain)
	f.Exchange.Response.Fields.Add(allowName, []byte(strings.Join(allowed, ", ")))
	f.sendAnswer()
}

// sendAnswer sends the answer that Exchange.Answer has set. Whatever was under way upstream is
// given up.
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
	// A fetch has no client; those who wait for it are asked on their own.
	if !f.is(isFetch) && !f.successOpens() {
		f.route.Chain.StandIn(&f.Exchange, int(f.asked))
	}
	f.at = f.firstResponse()
	if f.is(isFetch) && int(f.asked) == f.route.Chain.FetchRequest {
		f.writeAnswer() // the sink's own: no policy has met this fetch
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

// successOpens says that any status of success tells the client that its WebSocket is open (RFC
// 9110, section 9.3.6; RFC 8441, section 5), where in HTTP/1.1 only 101 does. So nothing but a 101
// of the service may become one.
func (f *flow) successOpens() bool { return f.WebSocket && f.version >= http20 }

// bodiless says that the response has no body, whatever its head says of one.
func (f *flow) bodiless() bool {
	return f.is(toHEAD) || f.Response.Status == 204 || f.Response.Status == 304
}

// pumpAnswer writes what is left of an answer's body as long as the client keeps up, one burst at a
// time, and in pieces: what the client does not take would be copied and kept for it otherwise.
func (f *flow) pumpAnswer() {
	for pieces := 0; ; pieces++ {
		full := pieces >= f.burst()
		if full {
			f.stream.later()
		}
		if full || f.stream.congested() {
			f.w.loop.StopTimer(&f.timer) // only the client is waited for now
			return
		}
		if !f.answerPart(0) {
			return
		}
	}
}

// answerPart sends the next part of an answer, and ends the exchange with the last. False means that
// there is nothing to go on with.
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

// answerRead is answerPart for what is in memory, or is read. The head of an answer goes out alone to
// a client that is congested: of HTTP/2, dozens of answers to one connection begin in a turn, and the
// first piece of each would be queued.
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
	case parts&withHead != 0: // nothing has gone out
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

// filePiece is how much of a file is sent in one call, which nothing interrupts: 256 KB take about
// 50 µs.
const filePiece = 256 << 10

// storedPiece is how much of what is stored is sent in one call: as much as the kernel holds of it
// unsent. maxContent is from how many places at most.
const (
	storedPiece = reactor.UnsentLimit
	maxContent  = 16
)

// answerStored is answerPart for content that stands in memory. What the client does not take stays
// there. With bodies of 100 KB this is one call in place of three, and a copy of 64 KB less.
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

// answerFile is answerPart for n bytes from at in the file fd. What the client does not take stays
// with the source, so that it costs no memory of ours.
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

// hasContent says that there is more to send than the head.
func (f *flow) hasContent() bool { return !f.bodiless() && (f.Source != nil || len(f.rest) > 0) }

// nextAnswer is the next content of an answer: of its source, or of its body in memory. io.EOF
// comes with the last.
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

// awaitSource waits for a source that has no content now, when what there was is out.
func (f *flow) awaitSource(data []byte, parts parts) bool {
	if (len(data) > 0 || parts != 0) && !f.send(data, 0, len(data), parts) || !f.flushEncoder() {
		return false
	}
	f.w.loop.SetTimer(&f.timer, f, f.silentUntil(f.w.loop.Now()))
	return false
}

// woken goes on with a source that has content again, or a fetch whose sink takes it.
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

// skipBody passes over a request body that nobody needs, where all of it is there already; else the
// connection cannot go on.
func (f *flow) skipBody() {
	if !f.is(bodyWhole) && !f.stream.skip() {
		f.flags |= closeClient
		return
	}
	f.flags |= bodyWhole | requestSent
}
