package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/http1"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
)

// judge says whether an exchange that is over, and took total nanoseconds, met the objective of its
// SLA class. It did if the client has got a whole answer with a status below 500 in time, whether
// from the service or the gateway: a refusal that is the client's own fault is a good answer.
//
// An exchange that matched no route has no objective. One whose client left, or was too slow, says
// nothing about the service and is not judged either.
//
// The time is that to the end of the response. But if the service alone does not decide when a
// response ends (headCounts), it is the time to the head.
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
		// We cut it off. That is bad unless it has no end of its own to wait for.
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

// headCounts reports whether the time to the response's head is the one that counts. It is for
// tunnels and streams of events, which last as long as both sides like, and for responses so long
// that the time they took depends on the client's pace.
func (f *flow) headCounts() bool {
	if f.upstreamEnd == 0 || f.is(answered) {
		return false
	}
	return f.withoutEnd() || f.bodyOut-f.headOut > reactor.HighWater
}

// withoutEnd reports whether the client was sent the head of a tunnel or a stream of events.
func (f *flow) withoutEnd() bool {
	return f.Response.Status == 101 && f.headOut > 0 || f.is(endless)
}

// endlessTypes are the media types of responses that go on until one side leaves. They have no
// Content-Length.
var endlessTypes = [][]byte{
	[]byte("text/event-stream"), []byte("application/x-ndjson"), []byte("application/grpc"),
	[]byte("multipart/x-mixed-replace"),
}

// noteEndless notes that the response is a stream of events. It must be called while the head is in
// memory, which is used again before the stream is over.
func (f *flow) noteEndless() {
	f.flags &^= endless // it may be set by a response before a retry
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
