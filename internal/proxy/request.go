package proxy

import (
	"io"

	"plimsoll/internal/exchange"
	"plimsoll/internal/http1"
	"plimsoll/internal/upstream"
)

// clientReadable is told when the client's connection changes while the exchange is under way.
func (f *flow) clientReadable() {
	switch {
	case f.client.conn.PeerEnded():
		// Nobody waits for the answer any more. A client that only ends its own direction is not
		// distinguished from one that has gone, whatever it has sent before and whether that is
		// read yet.
		f.abort(exchange.NoReason)
	case f.stage == stageHolding:
		f.pumpHold()
	case !f.is(requestSent) && f.upstreamConn != nil && f.stage.headSent():
		f.pumpRequest()
	case f.stage == stageStreaming && f.upstreamConn == nil:
		f.pumpAnswer() // it was put off
	}
	// Else nothing is wanted from the client now, and the bytes of its next request wait in the
	// socket.
}

// appendHeldBody appends what is there of the body already: what is held, then what stands behind
// the head in the client's buffer.
func (f *flow) appendHeldBody(out []byte) ([]byte, http1.Error) {
	c := f.client
	if f.heldBody != nil {
		out = f.appendContent(out, f.heldBody.Data())
	}
	out, used, bad := f.appendUp(out, c.in.Data())
	c.in.Start += used
	return out, bad
}

// nextUp decodes the next bytes of the body, as http1.Body.Next does, and counts them.
func (f *flow) nextUp(in []byte) (data []byte, n int, bad http1.Error) {
	data, n, bad = f.up.Next(in)
	if f.bodyIn += int64(len(data)); bad == http1.OK && f.MaxBody > 0 && f.bodyIn > f.MaxBody {
		return nil, 0, http1.BodyTooLong
	}
	return data, n, bad
}

// appendContent appends bytes of the body framed for the upstream.
func (f *flow) appendContent(out, data []byte) []byte {
	if f.is(mirrored) {
		f.copyBody(data)
	}
	if len(data) == 0 {
		return out
	}
	if f.req.Framing == http1.Chunked {
		return http1.AppendChunk(out, data)
	}
	return append(out, data...)
}

// appendUp decodes body bytes of the client and appends them framed for the upstream. It says how
// many it used.
func (f *flow) appendUp(out, in []byte) ([]byte, int, http1.Error) {
	used := 0
	for !f.up.Done() {
		data, n, bad := f.nextUp(in[used:])
		if bad != http1.OK {
			return out, used, bad
		}
		if n == 0 {
			break
		}
		used += n
		out = f.appendContent(out, data)
	}
	if f.up.Done() {
		f.flags |= requestSent
		if f.req.Framing == http1.Chunked {
			out = http1.AppendLastChunk(out, f.requestTrailers())
		}
	}
	return out, used, http1.OK
}

// pumpRequest moves the request's body from the client to the upstream until it is whole, the
// client pauses, or the upstream's queue is full.
func (f *flow) pumpRequest() {
	c, s := f.client, f.upstreamConn
	if !f.invite() {
		return
	}
	for reads := 0; !f.is(requestSent) && !s.conn.Congested(); reads++ {
		if reads == burst {
			c.later()
			return
		}
		in, ok := f.readBody(f.w.loop.Piece())
		if !ok {
			return
		}
		f.flags |= bodyStreamed
		if f.is(expecting) {
			f.settleExpect()
		}
		f.dropHeld()
		// A long upload is not a slow answer: the route's timeout counts from the last bytes of the
		// body that moved. A client that sends too slowly is the body timer's business.
		f.restartTimeout(f.w.loop.Now())
		if f.stage == stageSent {
			f.awaitAnswer(f.deadline)
		}
		if !f.forwardBody(in) {
			return
		}
	}
	if f.is(requestSent) {
		f.w.loop.StopTimer(&c.timer)
		if f.stage == stageSent {
			f.awaitAnswer(f.deadline)
		}
		if f.is(mirrored) {
			f.sendMirror()
		}
	}
}

// readBody reads bytes of the request's body into the loop's scratch memory: at most so many, and
// none that stand behind the body. False means that there are none now, or that the client is gone
// and the exchange over.
func (f *flow) readBody(most int) ([]byte, bool) {
	in := f.w.loop.Scratch()[:most]
	if f.req.Framing == http1.Length {
		in = in[:min(int64(len(in)), f.req.Length-f.bodyIn)]
	}
	n, err := f.client.read(in)
	if err == nil {
		return in[:n], true
	}
	if !pause(err) {
		f.abort(exchange.NoReason)
	}
	return nil, false
}

// invite tells a client that waits for it to send its body. False means that the client is gone and
// the exchange over.
func (f *flow) invite() bool {
	return !f.req.Expect100 || f.is(continued|expecting) || f.bodyIn > 0 || f.letContinue()
}

// forwardBody sends one read's bytes on; it says whether to go on.
func (f *flow) forwardBody(in []byte) bool {
	out, used, bad := f.appendUp(f.w.out[:0], in)
	if bad != http1.OK {
		f.badBody(bad)
		return false
	}
	if used < len(in) {
		f.client.keepAhead(in[used:])
	}
	if err := f.upstreamConn.write(out); err != nil {
		f.upstreamBroken(err)
		return false
	}
	return true
}

// upstreamBroken deals with an upstream that takes no more of the request. It may have answered
// before it hung up: that answer is what the client should see, so reading goes first and only an
// upstream with nothing to say has failed.
func (f *flow) upstreamBroken(err error) {
	s := f.upstreamConn
	f.flags |= closeClient
	s.Readable()
	if f.upstreamConn == s && f.stage == stageSent && err != io.EOF {
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

// keepAhead keeps bytes that were read with a chunked body's end: the next request's.
func (c *clientConn) keepAhead(b []byte) {
	c.ahead = c.w.loop.GetBuffer(len(b))
	c.ahead.End = copy(c.ahead.Bytes, b)
}

// looks is how many times within a route's timeout it is looked whether the upstream takes a body.
const looks = 4

// awaitAnswer sets the time for the response's head, by at the latest. A try's own time begins when
// the request is with the target whole: a client that is slow with its body is not the target's
// slowness.
func (f *flow) awaitAnswer(by int64) {
	if u := f.upstreamConn.upstream; u.PerTry > 0 && f.is(requestSent) {
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

// answerExpired is called when the response's head is overdue, or it is time to look whether the
// upstream takes the body.
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
	// Nothing is read of the answer while the client does not take what it has: the answer may be
	// there. How long a client may do that is pace's business.
	congested := !f.is(isMirror) && f.client.conn.Congested()
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

// waitsForBody says that the upstream has all that the client has sent of its body, and the body is
// not complete: that no answer comes is not the upstream's fault. Were it blamed, some clients that
// stop in their bodies could take every target out of use.
func (f *flow) waitsForBody() bool {
	conn := &f.upstreamConn.conn
	return !f.is(requestSent|expecting) && conn.Acked() == conn.Written()
}

// lookAtBody restarts the route's timeout when the upstream has acknowledged more of the body since
// the last look: some hundred kilobytes are in the kernel by then, and an upstream that reads
// slowly needs its time for them. A body that is all there when it is looked at for the first time
// was not a slow one.
func (f *flow) lookAtBody(now int64) {
	conn := &f.upstreamConn.conn
	acked := conn.Acked()
	moved, behind := acked > f.bodyAcked, acked < conn.Written()
	if moved && (behind || f.is(bodyBehind)) {
		f.restartTimeout(now)
		f.awaitAnswer(f.deadline)
	}
	f.bodyAcked = acked
	f.flags &^= bodyBehind
	switch {
	case behind:
		f.flags |= bodyBehind
	case f.is(requestSent):
		f.flags &^= bodyOnItsWay
	}
}

// bodyWindow is over how long the rate of a request's body is measured, in nanoseconds.
const bodyWindow = int64(10e9)

// armBodyTimer begins to measure how fast the body comes.
func (f *flow) armBodyTimer() {
	if f.client.listener.MinBodyRate > 0 {
		f.mark = f.bodyIn
		f.w.loop.SetTimer(&f.client.timer, f.client, f.w.loop.Now()+bodyWindow)
	}
}

// judgeBody is called when the client's timer is due during an exchange: its body must have come at
// the least rate.
func (f *flow) judgeBody() {
	// Once the response has begun nobody needs what is left of a body. In sending the exchange is
	// over in this very turn.
	if f.is(requestSent|expecting) || f.stage.responseBegun() {
		return
	}
	busy := !f.stage.headSent() && f.stage != stageHolding || f.upstreamConn != nil && f.upstreamConn.conn.Congested()
	if !busy && // it is not the upstream that is waited for
		f.bodyIn-f.mark < f.client.listener.MinBodyRate*(bodyWindow/1e9) {
		f.slowBody()
		return
	}
	f.armBodyTimer()
}

func (f *flow) slowBody() {
	f.flags |= closeClient
	f.fail(408, exchange.BodyTimeout)
}
