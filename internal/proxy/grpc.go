package proxy

import (
	"bytes"

	"plimsoll/internal/exchange"
	"plimsoll/internal/grpc"
	"plimsoll/internal/head"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/upstream"
)

// This file is what the data plane does otherwise for a gRPC call than for other exchanges. A call
// is one by its Content-Type. It has a deadline of its own (grpc-timeout), its result is a status
// behind the body and not the one in front of it, both bodies last as long as both sides like, and
// what the gateway itself has to say is said in gRPC's terms. grpc_web.go is the translation of
// gRPC-Web.

// call is what an exchange has that carries gRPC. Calls are reused as flows are.
type call struct {
	kind   grpc.Kind // as the client speaks it
	code   grpc.Code // what the call ended with, where ended says so
	ended  bool      // a status has come, or the gateway has given one
	web    webCall
	up     callBody     // the request's body, as the upstream gets it
	marked callBody     // up at the mark to which a retry goes back
	down   grpc.Watcher // the response's body, as the upstream sends it
	own    *head.List   // trailers of the gateway's own; nil for the upstream's

	timeout [16]byte // the value of grpc-timeout as it goes on
	next    *call    // in the worker's list of free ones
}

// callBody is where a request's body stands.
type callBody struct {
	messages grpc.Watcher
	text     grpc.TextDecoder // of gRPC-Web's text mode
}

// maxSpareCalls is how many calls a loop keeps for their next use.
const maxSpareCalls = 1024

var (
	grpcStatusName   = []byte("Grpc-Status")
	grpcMessageName  = []byte("Grpc-Message")
	grpcTimeoutName  = []byte("Grpc-Timeout")
	grpcPushbackName = []byte("Grpc-Retry-Pushback-Ms")
	retryAfterName   = []byte("Retry-After")
)

// beginCall notes that the request is gRPC.
func (f *flow) beginCall() {
	if !f.req.Fields.Has(head.ContentType) {
		return
	}
	kind := grpc.KindOf(f.req.Fields.Value(head.ContentType))
	if kind == grpc.None {
		return
	}
	w := f.w
	c := w.calls
	if c == nil {
		c = &call{}
	} else {
		w.calls, c.next = c.next, nil
		w.spareCalls--
	}
	c.kind, f.call = kind, c
}

// freeCall gives the call back with its exchange.
func (f *flow) freeCall() {
	c, w := f.call, f.w
	if c == nil {
		return
	}
	tail := c.web.tail[:0]
	if cap(tail) > batchBytes {
		tail = nil
	}
	*c = call{}
	c.web.tail = tail
	if w.spareCalls < maxSpareCalls {
		c.next, w.calls = w.calls, c
		w.spareCalls++
	}
}

// startCall readies a call that its policies have let go on.
func (f *flow) startCall() {
	if f.route.GRPCWeb && f.call.kind != grpc.Native {
		f.translateRequest()
	}
}

// takeTimeout takes the deadline that the client has set, where it is sooner than those that there
// are. Anybody may say that he waits for a shorter time. A malformed one refuses the call, as a
// server of gRPC does: false means that the exchange is over.
func (f *flow) takeTimeout(now int64) bool {
	value, claimed := onlyValue(&f.req.Fields, grpcTimeoutName)
	if !claimed {
		return true
	}
	left, ok := grpc.ParseTimeout(value)
	if !ok {
		f.fail(400, exchange.BadRequest)
		return false
	}
	if due := now + min(left, longestClaim); left <= longestClaim && (f.due == 0 || due < f.due) {
		f.due = due
		f.deadline = min(f.deadline, due)
	}
	if f.overdue(now) {
		f.fail(504, exchange.DeadlinePassed)
		return false
	}
	return true
}

// passTimeout tells the upstream how much is left of the deadline, for the present try.
func (f *flow) passTimeout() {
	if f.due != 0 {
		left := max(1, f.due-f.w.loop.Now())
		f.req.Fields.Set(grpcTimeoutName, grpc.AppendTimeout(f.call.timeout[:0], left))
	}
}

// silentUntil is until when the response may be silent. A call's deadline holds for all of it.
func (f *flow) silentUntil(now int64) int64 {
	by := now + f.route.StreamTimeout
	if f.call != nil && f.due != 0 {
		by = min(by, f.due)
	}
	return by
}

// keepSent keeps a part of the request's body that goes on, so that the call may be tried again as
// long as nothing has come back. It is what holding a body is for other requests, but waits for
// nothing: of a call either side may be the one that waits for the other's next message. streamed
// says that what was before it is not kept.
func (f *flow) keepSent(data []byte, streamed bool) {
	if streamed || f.stage.responseBegun() || len(data) > f.holdRoom() {
		f.flags |= bodyStreamed
		return
	}
	f.flags &^= bodyStreamed
	f.flags |= heldSent
	f.keep(data)
	f.stream.mark()
	f.call.marked, f.heldIn = f.call.up, f.bodyIn
}

// takeUp is shown the next content of the request's body, and gives what goes on of it.
func (f *flow) takeUp(data []byte, whole bool) ([]byte, error) {
	c := f.call
	if c.web.textUp {
		var err error
		w := f.w
		if w.textUp, err = c.up.text.Append(w.textUp[:0], data); err != nil {
			return nil, err
		}
		if data = w.textUp; whole {
			if err := c.up.text.End(); err != nil {
				return nil, err
			}
		}
	}
	if c.framed() {
		c.up.messages.Pass(data)
	}
	return data, nil
}

// takeStatus notes the status in the fields of a head or of trailers.
func (c *call) takeStatus(l *head.List) {
	if field := l.Find(grpcStatusName); field != nil {
		c.code, _ = grpc.ParseCode(field.Value)
		c.ended = true
	}
}

// framed says that the bodies are messages as the gateway sees them: not those in text mode that
// nobody decodes.
func (c *call) framed() bool { return c.kind != grpc.WebText || c.web.asked }

// callHead looks at the head of the upstream's response. One with nothing behind it has the status
// itself (Trailers-Only); content says that there is some.
func (f *flow) callHead(content bool) {
	f.call.ended = false
	if !content && f.up.whole() && f.up.trailers() == nil {
		f.call.takeStatus(&f.res.Fields)
	}
}

// retryCodes are the outcomes that a status can be.
var retryCodes = [grpc.Codes]RetryOn{
	grpc.Canceled: RetryGRPCCancelled, grpc.DeadlineExceeded: RetryGRPCDeadlineExceeded,
	grpc.ResourceExhausted: RetryGRPCResourceExhausted, grpc.Aborted: RetryGRPCAborted,
	grpc.Internal: RetryGRPCInternal, grpc.Unavailable: RetryGRPCUnavailable,
}

// retryCode decides whether a call is tried again whose status came in the head: behind a body the
// client has messages already. That the method is POST does not matter: who configures codes
// says by that that calls may be carried out twice. A server that says itself when to come again
// (grpc-retry-pushback-ms) says it to the client.
func (f *flow) retryCode() bool {
	c := f.call
	return c.ended && f.view.Upstreams[f.Upstream].RetryOn&retryCodes[c.code] != 0 && f.triesLeft() &&
		!f.is(bodyStreamed) && f.w.loop.Now() < f.deadline && !f.overdue(f.w.loop.Now()) &&
		f.res.Fields.Find(grpcPushbackName) == nil && f.spendRetry()
}

// outcome is how a try ended that has a response, for its target: by the status of the call where it
// has one.
func (f *flow) outcome() upstream.Outcome {
	if c := f.call; c != nil && c.ended {
		return outcomes[c.code]
	}
	return outcomeOf(f.res.Status)
}

// outcomes are what a status says of the target. What a client may cause alone is none of its
// failures. DeadlineExceeded is the client's own choice; a target that is too slow for the route's
// own timeout is found by that.
var outcomes = [grpc.Codes]upstream.Outcome{
	grpc.OK: upstream.Success, grpc.Canceled: upstream.Success, grpc.Unknown: upstream.ServerError,
	grpc.InvalidArgument: upstream.Success, grpc.DeadlineExceeded: upstream.Success,
	grpc.NotFound: upstream.Success, grpc.AlreadyExists: upstream.Success,
	grpc.PermissionDenied: upstream.Success, grpc.ResourceExhausted: upstream.Success,
	grpc.FailedPrecondition: upstream.Success, grpc.Aborted: upstream.Success,
	grpc.OutOfRange: upstream.Success, grpc.Unimplemented: upstream.Success,
	grpc.Internal: upstream.ServerError, grpc.Unavailable: upstream.Status5xx,
	grpc.DataLoss: upstream.ServerError, grpc.Unauthenticated: upstream.Success,
}

// failed says that the call ended in a way that counts against the objective, as 5xx does.
func (c *call) failed() bool {
	switch {
	case c == nil || !c.ended:
		return false
	case c.code == grpc.DeadlineExceeded:
		return true
	}
	return outcomes[c.code] != upstream.Success
}

// callStats is what is counted of a call that is over; nil for other exchanges. A call that its
// client left is cancelled, and one that ended well without a status is what clients make of it.
func (f *flow) callStats(end exchange.End) *telemetry.CallStats {
	c := f.call
	if c == nil {
		return nil
	}
	if !c.ended {
		c.code = grpc.Unknown
		if end == exchange.ClientGone {
			c.code = grpc.Canceled
		}
	}
	f.w.callStats = telemetry.CallStats{
		Code: c.code, Received: c.up.messages.Messages, Sent: c.down.Messages,
	}
	return &f.w.callStats
}

// answerCall turns the gateway's own answer into one of gRPC's: status 200 and a head that has the
// result (Trailers-Only), or, for gRPC-Web, a body with the trailers alone. Headers that policies
// have added stay. An answer that is gRPC's already, as a route may give it, is left alone.
func (f *flow) answerCall() {
	c, fields := f.call, &f.Response.Fields
	c.own = nil
	if grpc.KindOf(fields.Value(head.ContentType)) != grpc.None {
		c.ended = false
		c.takeStatus(fields)
		return
	}
	status := f.Response.Status
	c.code, c.ended = f.Reason.GRPC(status), true
	message := f.messageOf(exchange.RefusalBody(status, f.Reason))
	fields.RemoveID(head.ContentType)
	asked := f.req.Fields.Value(head.ContentType)
	fields.Add(contentTypeName, grpc.Translated(f.Alloc(len(asked) + maxMediaType)[:0], asked, c.kind))
	if after := fields.Find(retryAfterName); after != nil {
		fields.Add(grpcPushbackName, append(append(f.Alloc(len(after.Value) + 3)[:0],
			after.Value...), "000"...))
	}
	f.Response.Status, f.Body = 200, nil
	if c.kind != grpc.Native {
		f.Body = f.webAnswer(message)
	} else {
		fields.Add(grpcStatusName, grpc.AppendCode(f.Alloc(3)[:0], c.code))
		fields.Add(grpcMessageName, message)
	}
	f.Response.Length = int64(len(f.Body))
}

// maxMediaType is more than the longest of gRPC's media types is longer than the shortest.
const maxMediaType = 32

// messageOf is a text of the gateway's own as a value of grpc-message.
func (f *flow) messageOf(text []byte) []byte {
	text = bytes.TrimSuffix(text, []byte("\n"))
	return grpc.AppendMessage(f.Alloc(3 * len(text))[:0], text)
}

// cutCall ends a call whose response has begun, and cannot be completed, by trailers that say so:
// a reset would tell the client less. False means that this is not possible; the exchange goes on
// to be reset then.
func (f *flow) cutCall(reason exchange.Reason) bool {
	c := f.call
	possible := c.kind == grpc.Native && f.version >= http20 || c.web.down && c.down.Between()
	if !possible || f.is(answered) || f.stage == stageTunnel {
		return false
	}
	f.Reason = reason
	f.leaveAll()
	c.code, c.ended = reason.GRPC(200), true
	c.own = &head.List{}
	c.own.Add(grpcStatusName, grpc.AppendCode(f.Alloc(3)[:0], c.code))
	c.own.Add(grpcMessageName, f.messageOf([]byte(reason.String())))
	if f.send(nil, 0, 0, withEnd) {
		f.finish(exchange.UpstreamFailed, reactor.Clock())
	}
	return true
}
