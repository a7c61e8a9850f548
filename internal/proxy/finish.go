package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/upstream"
)

// abort ends an exchange whose client is gone, or is being cut off. It gives up the upstream
// connection, the target's count, the timer and the place in a queue.
func (f *flow) abort(reason exchange.Reason) {
	if f.stage == stageSending {
		return // everything was sent, and Run ends the exchange in this turn
	}
	end := exchange.ClientGone
	if reason != exchange.NoReason {
		f.Reason = reason
	}
	f.leaveAll()
	f.flags |= closeClient
	f.account(end, reactor.Clock())
	f.stream.reset(f)
}

// cut ends an exchange whose response has begun and cannot be completed. It resets the stream, so
// that the client does not take what it has got to be whole.
func (f *flow) cut(reason exchange.Reason) {
	if f.call != nil && f.cutCall(reason) {
		return
	}
	f.Reason = reason
	f.leaveAll()
	f.account(exchange.UpstreamFailed, reactor.Clock())
	f.stream.reset(f)
}

// leaveAll gives up whatever the exchange holds upstream.
func (f *flow) leaveAll() {
	if f.stage == stageWaiting {
		f.wait.Remove()
	}
	f.dropUpstream()
	f.endTry(upstream.Cancelled, 0)
}

// finish ends an exchange whose whole response was sent.
func (f *flow) finish(end exchange.End, now int64) {
	if end == exchange.GatewayAnswer {
		end = endOf[f.Reason.Fault()]
	}
	f.account(end, now)
	f.stream.finish(f, f.is(closeClient))
}

// endOf maps the kind of fault to how an exchange ended that the gateway itself answered.
var endOf = [...]exchange.End{
	exchange.NoFault: exchange.GatewayAnswer, exchange.ClientFault: exchange.GatewayAnswer,
	exchange.UpstreamFault: exchange.UpstreamFailed, exchange.ProtectionFault: exchange.Shed,
}

// account reports the end of an exchange to the policies, the counters and the access log. It must
// be called exactly once in each exchange's life.
func (f *flow) account(end exchange.End, now int64) {
	if f.stage == stageOver {
		panic("proxy: an exchange ended twice")
	}
	f.stage = stageOver
	f.w.loop.StopTimer(&f.timer)
	if f.is(held) {
		f.endPause()
	}
	f.CloseSource()
	f.CloseEncoder()
	if f.is(isFetch) {
		f.route.Chain.DoneFetch(&f.Exchange, end, int(f.asked))
		return
	}
	f.route.Chain.Done(&f.Exchange, end, int(f.asked))
	total := now - f.Start
	own := f.headUp + f.headDown
	up := int64(0)
	if f.tries == 0 {
		f.endWait(now)
		own, up = total-f.waited-f.paused, f.waited
	} else if up = total - own - f.paused; up < 0 {
		up = 0
	}
	stat := f.route.Stat
	if f.route == &noRoute {
		stat = f.view.NoRoute
	}
	upstreamStat := telemetry.NoUpstream
	if f.Upstream != exchange.NoUpstream && f.tries > 0 {
		upstreamStat = f.view.Upstreams[f.Upstream].Stat
	}
	f.w.shard.Exchange(&telemetry.ExchangeStats{
		Route: stat, Upstream: upstreamStat, Status: f.Response.Status, Reason: uint8(f.Reason),
		End: uint8(end), Retries: uint8(max(0, int(f.tries)-1)),
		Class: f.Class, Verdict: f.judge(end, total),
		Total: total, UpstreamTime: up, Gateway: own,
		BytesIn: f.headBytes + f.bodyIn, BytesOut: f.bodyOut,
		Call: f.callStats(end),
	})
	if f.w.log != nil {
		f.writeLog(total, up, own)
	}
	if f.webSocket != nil {
		f.webSocket.forget()
	}
}
