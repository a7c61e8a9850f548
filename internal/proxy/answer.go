package proxy

import (
	"strings"

	"plimsoll/internal/exchange"
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
	f.at = 0
	if f.respondPolicies() == exchange.Continue {
		f.writeAnswer()
	}
}

// writeAnswer writes the gateway's own answer and ends the exchange.
func (f *flow) writeAnswer() {
	f.stage = stageStreaming
	if !f.is(requestSent) {
		f.skipBody()
	}
	if f.call != nil {
		f.answerCall()
	}
	first := 0
	if status := f.Response.Status; !f.is(toHEAD) && status != 204 && status != 304 {
		first = min(len(f.Body), f.piece())
		f.rest = f.Body[first:]
	}
	if f.send(f.Body, 0, first, withHead|f.endOfAnswer()) {
		f.pumpAnswer()
	}
}

// pumpAnswer writes what is left of an answer's body as long as the client keeps up, one burst at a
// time, and in pieces: what the client does not take would be copied and kept for it otherwise.
func (f *flow) pumpAnswer() {
	for pieces := 0; len(f.rest) > 0; pieces++ {
		if pieces == burst {
			f.stream.later()
		}
		if pieces == burst || f.stream.congested() {
			f.w.loop.StopTimer(&f.timer) // only the client is waited for now
			return
		}
		piece := f.rest[:min(len(f.rest), f.piece())]
		f.rest = f.rest[len(piece):]
		if !f.send(piece, 0, len(piece), f.endOfAnswer()) {
			return
		}
	}
	f.finish(exchange.GatewayAnswer, reactor.Clock())
}

// endOfAnswer is withEnd where nothing of the answer is left to be sent after this.
func (f *flow) endOfAnswer() parts {
	if len(f.rest) > 0 {
		return 0
	}
	return withEnd
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
