package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/http1"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
)

// judge says whether an exchange that is over, and took total, met the objective of its SLA
// class. It did when the client has got a whole answer with a status below 500 in time, no matter who gave
// the answer: a refusal that is the client's own fault is a good answer.
//
// An exchange that matched no route has no objective. One that its client left, or was too slow to
// go on with, says nothing about the service either.
//
// The time is that to the end of the response, but for responses whose end the service does not
// decide alone (headCounts): there it is the time to the head.
func (f *flow) judge(end exchange.End, total int64) telemetry.ObjectiveVerdict {
	if f.route == &noRoute {
		return telemetry.NotJudged
	}
	took := total
	if f.headCounts() {
		took = f.upstreamEnd - f.Start + f.pausedDown
	}
	switch end {
	case exchange.Completed, exchange.GatewayAnswer:
		if f.Reason == exchange.BodyTimeout {
			return telemetry.NotJudged
		}
	case exchange.ClientGone:
		if f.Reason != exchange.Draining {
			return telemetry.NotJudged
		}
		// It was cut by us. Only what has no end of its own could not be waited for.
		if !f.withoutEnd() {
			return telemetry.Bad
		}
	default: // shed, or failed by the upstream
		return telemetry.Bad
	}
	if f.call.failed() {
		return telemetry.Bad
	}
	if status := f.Response.Status; status == 0 || status >= 500 || took > f.view.Classes[f.Class].Latency {
		return telemetry.Bad
	}
	return telemetry.Good
}

// headCounts says that the time to the response's head is the service's answer in time: of tunnels
// and streams of events, which last as long as both sides like, and of responses so long that the
// client's own pace has set how long they took.
func (f *flow) headCounts() bool {
	if f.upstreamEnd == 0 || f.is(answered) {
		return false
	}
	return f.withoutEnd() || f.bodyOut-f.headOut > reactor.HighWater
}

// withoutEnd says that the response's head is with the client, and that it is that of a tunnel or a
// stream of events.
func (f *flow) withoutEnd() bool {
	return f.Response.Status == 101 && f.headOut > 0 || f.is(endless)
}

// Types of responses that go on until somebody leaves. They have no Content-Length.
var endlessTypes = [][]byte{
	[]byte("text/event-stream"), []byte("application/x-ndjson"), []byte("application/grpc"),
	[]byte("multipart/x-mixed-replace"),
}

// noteEndless notes a stream of events while its head is there: the type is in memory that is used
// again before the stream is over.
func (f *flow) noteEndless() {
	f.flags &^= endless // of a response before a retry
	if f.res.Framing != http1.Chunked && f.res.Framing != http1.ToEOF {
		return
	}
	field := f.res.Fields.Get(head.ContentType)
	if field == nil {
		return
	}
	for _, name := range endlessTypes {
		if len(field.Value) >= len(name) && head.EqualFold(field.Value[:len(name)], name) {
			f.flags |= endless
		}
	}
}
