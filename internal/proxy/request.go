package proxy

import (
	"io"

	"plimsoll/internal/exchange"
	"plimsoll/internal/grpc"
	"plimsoll/internal/http1"
	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// bodyReadable is called when the stream may have more of the request's body, or when what was put
// off is to go on.
func (f *flow) bodyReadable() {
	switch {
	case f.stage == stageTunnel:
		f.relayUp()
	case f.stage == stageHolding:
		f.pumpHold()
	case !f.is(requestSent) && f.up != nil && f.stage.headSent():
		f.pumpRequest()
	case f.stage == stageStreaming && f.up == nil:
		f.pumpAnswer() // it was put off
	}
	// In other stages the exchange reads nothing from the client.
}

// nextUp takes the next content of the body, as stream.nextBody does, and counts it.
func (f *flow) nextUp(most int) ([]byte, error) {
	data, err := f.stream.nextBody(most)
	if f.bodyIn += int64(len(data)); f.MaxBody > 0 && f.bodyIn > f.MaxBody {
		return nil, http1.BodyTooLong
	}
	if err == io.EOF {
		f.flags |= bodyWhole
		err = nil
	}
	if f.call != nil && err == nil {
		return f.takeUp(data, f.is(bodyWhole))
	}
	return data, err
}

// bodyFailed deals with an error of nextUp.
func (f *flow) bodyFailed(err error) {
	if pause(err) {
		return
	}
	if bad, malformed := err.(http1.Error); malformed {
		f.badBody(bad)
		return
	}
	if err == grpc.ErrText {
		f.badText()
		return
	}
	f.abort(exchange.NoReason)
}

// heldBodyPart takes the next part of the body that has come already: first all that is held, then
// what the stream has in memory. more says that there may be another part.
func (f *flow) heldBodyPart() (data []byte, more bool, err error) {
	if f.heldBody != nil && !f.is(heldSent) {
		f.flags |= heldSent
		data = f.heldBody.Data()
	} else if !f.is(bodyWhole) && f.stream.buffered() > 0 {
		streamed := f.is(bodyStreamed)
		if data, err = f.nextUp(reactor.ScratchSize); err != nil {
			return nil, false, err
		}
		if f.call != nil {
			f.keepSent(data, streamed)
		}
	}
	if f.is(mirrored) && len(data) > 0 {
		f.copyBody(data)
	}
	return data, !f.is(bodyWhole) && f.stream.buffered() > 0, nil
}

// pumpRequest moves the request's body from the client to the upstream until it is whole, the
// client pauses, or the upstream's queue is full.
func (f *flow) pumpRequest() {
	s := f.up
	if !f.invite() {
		return
	}
	for reads := 0; !f.is(requestSent) && !s.full(); reads++ {
		if reads == burst {
			f.stream.later()
			return
		}
		streamed := f.is(bodyStreamed)
		data, err := f.nextUp(s.room())
		if err != nil {
			f.bodyFailed(err)
			return
		}
		if f.call != nil {
			f.keepSent(data, streamed)
		} else {
			f.flags |= bodyStreamed
		}
		if f.is(expecting) {
			f.settleExpect()
		}
		if f.is(bodyStreamed) {
			f.dropHeld()
		}
		// A long upload is not a slow answer, so the route's timeout counts from when bytes of the
		// body last moved. The body timer deals with a client that sends too slowly.
		f.restartTimeout(f.w.loop.Now())
		if f.stage == stageSent {
			f.awaitAnswer(f.deadline)
		}
		if !f.forwardBody(data) {
			return
		}
	}
	if f.is(requestSent) {
		f.w.loop.StopTimer(&f.pace)
		if f.stage == stageSent {
			f.awaitAnswer(f.deadline)
		}
		if f.is(mirrored) {
			f.sendMirror()
		}
	}
}

// invite tells the client to send its body, if it waits to be told. It returns false if the client
// is gone and the exchange over.
func (f *flow) invite() bool {
	return !f.is(expects) || f.is(continued|expecting) || f.bodyIn > 0 || f.letContinue()
}

// forwardBody sends the content of one read to the upstream. It returns false if the caller must
// not go on.
func (f *flow) forwardBody(data []byte) bool {
	if f.is(mirrored) && len(data) > 0 {
		f.copyBody(data)
	}
	if err := f.up.sendBody(f, data); err != nil {
		f.upstreamBroken(err)
		return false
	}
	return true
}

// upstreamBroken deals with an upstream that takes no more of the request. It may have answered
// before it closed the connection, and the client should get that answer. So upstreamBroken reads
// first, and fails the try only if there is no answer.
func (f *flow) upstreamBroken(err error) {
	s := f.up
	f.flags |= closeClient
	s.readOn()
	if f.up == s && f.stage == stageSent && err != io.EOF {
		f.upstreamFailed(upstream.Reset, exchange.UpstreamReset)
	}
}

// badBody ends an exchange whose request body is malformed, or longer than it may be.
func (f *flow) badBody(bad http1.Error) {
	f.flags |= closeClient
	reason := exchange.BodyTooLarge
	if bad != http1.BodyTooLong {
		reason = exchange.BadRequest
		f.w.shard.RefusedRequests[bad]++
	}
	if f.stage.responseBegun() {
		f.cut(reason)
		return
	}
	f.fail(bad.Status(), reason)
}

// badText ends a gRPC-Web exchange whose request body is not in the text mode that its head
// announces.
func (f *flow) badText() {
	f.flags |= closeClient
	if f.stage.responseBegun() {
		f.cut(exchange.BadRequest)
		return
	}
	f.fail(400, exchange.BadRequest)
}

// looks is how many times within a route's timeout to check whether the upstream takes the body.
const looks = 4

// awaitAnswer sets the time until which the response's head must come, which is by at the latest.
// The time that a try has of its own begins when the whole request was sent: the target is not to
// blame for a client that is slow with its body.
func (f *flow) awaitAnswer(by int64) {
	if u := f.up.on().upstream; u.PerTry > 0 && f.is(requestSent) {
		by = min(by, f.w.loop.Now()+u.PerTry)
	}
	f.answerBy = by
	f.setAnswerTimer()
}

func (f *flow) setAnswerTimer() {
	at := f.answerBy
	if f.is(bodyOnItsWay) {
		at = min(at, f.w.loop.Now()+f.route.Timeout/looks)
	}
	if f.is(expecting) {
		at = min(f.answerBy, f.w.loop.Now()+min(expectWait, f.route.Timeout/2))
	}
	f.w.loop.SetTimer(&f.timer, f, at)
}

// answerExpired is called when the response's head is overdue, or when it is time to check whether
// the upstream takes the body.
func (f *flow) answerExpired(now int64) {
	if f.is(expecting) && now < f.answerBy {
		f.letContinue()
		return
	}
	if f.is(bodyOnItsWay) {
		f.lookAtBody(now)
	}
	if now < f.answerBy {
		f.setAnswerTimer()
		return
	}
	// While the client is congested nothing of the answer is read, so the answer may have come. How
	// long a client may be congested is bounded in pace.go.
	congested := !f.is(isMirror) && f.stream.congested()
	switch waitsForBody := f.waitsForBody(); {
	case f.overdue(now) && (congested || waitsForBody || !f.triedEnough(now)):
		f.fail(504, exchange.DeadlinePassed)
	case congested:
		f.restartTimeout(now)
		f.awaitAnswer(f.deadline)
	case waitsForBody:
		f.slowBody()
	default:
		f.upstreamFailed(upstream.Timeout, exchange.UpstreamTimeout)
	}
}

// waitsForBody reports whether the upstream has everything that the client has sent of its body,
// and the body is not complete. Then the upstream is not to blame if no answer comes: otherwise a
// few clients that stop in the middle of their bodies could take every target out of use.
func (f *flow) waitsForBody() bool {
	if f.is(requestSent | expecting) {
		return false
	}
	_, all := f.up.took()
	return all
}

// lookAtBody restarts the route's timeout if the upstream has acknowledged more of the body since
// the last check: some hundred kilobytes may still be in the kernel, and an upstream that reads
// slowly needs time for them. A body that has all been acknowledged at the first check was not
// slow.
func (f *flow) lookAtBody(now int64) {
	mark, all := f.up.took()
	moved, behind := mark > f.bodyAcked, !all
	if moved && (behind || f.is(bodyBehind)) {
		f.restartTimeout(now)
		f.awaitAnswer(f.deadline)
	}
	f.bodyAcked = mark
	f.flags &^= bodyBehind
	switch {
	case behind:
		f.flags |= bodyBehind
	case f.is(requestSent):
		f.flags &^= bodyOnItsWay
	}
}

// bodyWindow is the time over which the rate of a request's body is measured, in nanoseconds.
const bodyWindow = int64(10e9)

// armBodyTimer begins to measure how fast the body comes. It does nothing for a gRPC call, whose
// client sends messages only when it has some.
func (f *flow) armBodyTimer() {
	if f.call == nil && f.origin.listener.MinBodyRate > 0 {
		f.mark = f.bodyIn
		f.w.loop.SetTimer(&f.pace, f, f.w.loop.Now()+bodyWindow)
	}
}

// judgeBody is called at the end of a window. The body must have come at MinBodyRate at least.
func (f *flow) judgeBody() {
	// Once the response has begun, a slow body does no harm. In stageSending the exchange ends in
	// this turn anyway.
	if f.is(requestSent|expecting) || f.stage.responseBegun() {
		return
	}
	busy := !f.stage.headSent() && f.stage != stageHolding || f.up != nil && f.up.full()
	if !busy && // the exchange does not wait for the upstream
		f.bodyIn-f.mark < f.origin.listener.MinBodyRate*(bodyWindow/1e9) {
		f.slowBody()
		return
	}
	f.armBodyTimer()
}

func (f *flow) slowBody() {
	f.flags |= closeClient
	f.fail(408, exchange.BodyTimeout)
}
