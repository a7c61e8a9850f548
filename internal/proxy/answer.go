package proxy

import (
	"strings"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/http1"
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

// refuse answers a request that the codec refused; nothing of it is believed, not even where it
// ends.
func (c *clientConn) refuse(bad http1.Error) {
	c.w.shard.RefusedRequests[bad]++
	c.refuseWith(bad.Status(), exchange.BadRequest)
}

// refuseWith answers a head that is not, or never was, complete.
func (c *clientConn) refuseWith(status int, reason exchange.Reason) {
	f := c.flow
	c.state = clientBusy
	c.w.loop.StopTimer(&c.timer)
	f.Exchange.Begin(c.w)
	f.identify(c.w.loop.Now())
	f.route = &noRoute
	f.req.Minor = 1
	f.flags |= closeClient
	// The request has no end, so what comes behind it is thrown away.
	f.up.Start(http1.ToEOF, 0, &c.listener.Head)
	f.fail(status, reason)
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
	status := f.Response.Status
	out := http1.AppendStatusLine(f.w.out[:0], status)
	out = http1.AppendFields(out, &f.Response.Fields, hopByHop&^http1.OfStatus(status))
	if status != 204 && status != 304 {
		out = appendLength(out, int64(len(f.Body)))
	}
	if !f.Response.Fields.Has(head.Date) {
		out = http1.AppendField(out, dateName, f.w.httpDate())
	}
	out = append(f.appendConnection(out), crlf...)
	f.headOut = int64(len(out))
	if !f.is(toHEAD) && status != 204 && status != 304 {
		first := min(len(f.Body), f.w.loop.Piece())
		out = append(out, f.Body[:first]...)
		f.rest = f.Body[first:]
	}
	if f.toClientWrite(out) {
		f.pumpAnswer()
	}
}

// pumpAnswer writes what is left of an answer's body as long as the client keeps up, one burst at a
// time, and in pieces: what the client does not take would be copied and kept for it otherwise.
func (f *flow) pumpAnswer() {
	c := f.client
	for pieces := 0; len(f.rest) > 0; pieces++ {
		if pieces == burst {
			c.later()
		}
		if pieces == burst || c.conn.Congested() {
			f.w.loop.StopTimer(&f.timer) // only the client is waited for now
			return
		}
		piece := f.rest[:min(len(f.rest), f.w.loop.Piece())]
		f.rest = f.rest[len(piece):]
		if !f.toClientWrite(piece) {
			return
		}
	}
	f.finish(exchange.GatewayAnswer, reactor.Clock())
}

// skipBody passes over a request body that nobody needs, where all of it is there already; else the
// connection cannot go on.
func (f *flow) skipBody() {
	in := f.client.in
	for in != nil && !f.up.Done() {
		_, n, bad := f.up.Next(in.Data())
		if bad != http1.OK || n == 0 {
			break
		}
		in.Start += n
	}
	if !f.up.Done() {
		f.flags |= closeClient
		return
	}
	f.flags |= requestSent
}
