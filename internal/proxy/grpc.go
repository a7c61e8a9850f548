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

// This file holds what the data plane does differently for gRPC calls. The Content-Type makes an
// exchange a call. A call has a deadline of its own (grpc-timeout). Its result is a status behind
// the body, and not the one in front of it. Both bodies last as long as both sides like, and the
// gateway's own answers have the form that gRPC expects. grpc_web.go is the translation of
// gRPC-Web.

// call is the state of an exchange that carries gRPC. Calls are reused as flows are.
type call struct {
	kind   grpc.Kind // the client's variant of gRPC
	code   grpc.Code // the status with which the call ended; valid if ended
	ended  bool      // a status has come, or the gateway has given one
	web    webCall
	up     callBody     // the request's body, as the upstream gets it
	marked callBody     // up at the mark to which a retry goes back
	down   grpc.Watcher // the response's body, as the upstream sends it
	own    *head.List   // trailers of the gateway's own; nil for the upstream's

	timeout [16]byte // the value of grpc-timeout that is sent on
	next    *call    // in the worker's list of free ones
}

// callBody is the state of a request's body.
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

// beginCall sets f.call if the request is a gRPC call.
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

// freeCall frees the call of an exchange that is over, and keeps it for its next use.
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

// startCall prepares a call for the upstream after its policies have let it go on.
func (f *flow) startCall() {
	if f.route.GRPCWeb && f.call.kind != grpc.Native {
		f.translateRequest()
	}
}

// takeTimeout takes over the deadline that the client has set, if it is sooner than those that the
// exchange has. Any client, trusted or not, may shorten its own wait. takeTimeout refuses the call
// if the deadline is malformed, as gRPC servers do, or is over. It returns false if the exchange is
// over.
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

// passTimeout tells the upstream, with each try, how much time is left until the deadline.
func (f *flow) passTimeout() {
	if f.due != 0 {
		left := max(1, f.due-f.w.loop.Now())
		f.req.Fields.Set(grpcTimeoutName, grpc.AppendTimeout(f.call.timeout[:0], left))
	}
}

// silentUntil returns the time until which the response may be silent. The deadline of a call
// bounds the whole response.
func (f *flow) silentUntil(now int64) int64 {
	by := now + f.route.StreamTimeout
	if f.call != nil && f.due != 0 {
		by = min(by, f.due)
	}
	return by
}

// keepSent keeps a copy of a part of the request's body that is sent on, so that the call can be
// retried as long as no response has begun. Other requests hold the body for that, but a call must
// not wait for its body, because either side may be waiting for the other's next message. streamed
// says that an earlier part was not kept.
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

// takeUp takes the next content of the request's body, and returns what to send on. It decodes
// gRPC-Web's text mode and counts messages. whole says that the content is the last.
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

// framed reports whether the gateway sees the messages in the bodies. It does not in text mode that
// it does not decode.
func (c *call) framed() bool { return c.kind != grpc.WebText || c.web.asked }

// callHead looks for the status in the head of the upstream's response: it is there if nothing
// follows the head (Trailers-Only). content says that content came with the head.
func (f *flow) callHead(content bool) {
	f.call.ended = false
	if !content && f.up.whole() && f.up.trailers() == nil {
		f.call.takeStatus(&f.res.Fields)
	}
}

// retryCodes maps a status to the configured kind of retry.
var retryCodes = [grpc.Codes]RetryOn{
	grpc.Canceled: RetryGRPCCancelled, grpc.DeadlineExceeded: RetryGRPCDeadlineExceeded,
	grpc.ResourceExhausted: RetryGRPCResourceExhausted, grpc.Aborted: RetryGRPCAborted,
	grpc.Internal: RetryGRPCInternal, grpc.Unavailable: RetryGRPCUnavailable,
}

// retryCode reports whether to retry a call because of the status in its response's head. A status
// behind a body does not count: the client has messages by then. The method POST does not matter:
// by configuring codes the operator says that calls may be carried out twice. If the server itself
// says when to try again (grpc-retry-pushback-ms), that is left to the client.
func (f *flow) retryCode() bool {
	c := f.call
	return c.ended && f.view.Upstreams[f.Upstream].RetryOn&retryCodes[c.code] != 0 && f.triesLeft() &&
		!f.is(bodyStreamed) && f.w.loop.Now() < f.deadline && !f.overdue(f.w.loop.Now()) &&
		f.res.Fields.Find(grpcPushbackName) == nil && f.spendRetry()
}

// outcome returns how a try that has a response ended, for its target. It goes by the status of the
// call if there is one, else by that of the response.
func (f *flow) outcome() upstream.Outcome {
	if c := f.call; c != nil && c.ended {
		return outcomes[c.code]
	}
	return outcomeOf(f.res.Status)
}

// outcomes maps a status to what it says about the target. A status that a client alone may cause
// is no failure of the target. DeadlineExceeded depends on the client's choice of a deadline; a
// target that is too slow is noticed by the route's own timeout.
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

// failed reports whether the call ended in a way that counts against the objective, like a 5xx.
func (c *call) failed() bool {
	switch {
	case c == nil || !c.ended:
		return false
	case c.code == grpc.DeadlineExceeded:
		return true
	}
	return outcomes[c.code] != upstream.Success
}

// callStats returns the counts of a call that is over, nil for other exchanges. Without a status a
// call counts as Canceled if its client left, and otherwise as Unknown, as clients report it. The
// result is valid until the next call of callStats on the loop.
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

// answerCall turns the gateway's own answer into a gRPC response: status 200 and the result in the
// head (Trailers-Only), or, for gRPC-Web, a body that contains only the trailers. It keeps fields
// that policies have added. It leaves alone an answer that is gRPC already, which a route may give.
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

// maxMediaType is more bytes than translating one of gRPC's media types into another can add.
const maxMediaType = 32

// messageOf encodes a text of the gateway as the value of grpc-message.
func (f *flow) messageOf(text []byte) []byte {
	text = bytes.TrimSuffix(text, []byte("\n"))
	return grpc.AppendMessage(f.Alloc(3 * len(text))[:0], text)
}

// cutCall ends a call whose response has begun and cannot be completed. It sends trailers that say
// so, because a reset would tell the client less. It returns false if that is not possible, so that
// the caller must reset the exchange.
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
