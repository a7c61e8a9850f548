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
		// Nobody waits for the answer any more. A client that only ends its own direction is not told apart from one that has
		// gone, whatever it has sent before and whether that is read yet.
		f.abort(exchange.NoReason)
	case !f.is(requestSent) && f.server != nil && f.stage >= stageSent:
		f.pumpRequest()
	}
	// Else nothing is wanted from the client now, and the bytes of its next request wait in the socket.
}

// appendHeldBody appends what is there of the body already, behind the head in the client's buffer.
func (f *flow) appendHeldBody(out []byte) ([]byte, http1.Error) {
	c := f.client
	used, bad := 0, http1.OK
	if c.in != nil {
		out, used, bad = f.appendUp(out, c.in.Data())
		c.in.Start += used
	}
	return out, bad
}

// appendUp decodes body bytes of the client and appends them framed for the upstream. It says how many it used.
func (f *flow) appendUp(out, in []byte) ([]byte, int, http1.Error) {
	used := 0
	for !f.up.Done() {
		data, n, bad := f.up.Next(in[used:])
		if bad != http1.OK {
			return out, used, bad
		}
		if n == 0 {
			break
		}
		used += n
		if f.bodyIn += int64(len(data)); f.MaxBody > 0 && f.bodyIn > f.MaxBody {
			return out, used, http1.HeadTooLarge
		}
		if f.is(mirrored) {
			f.copyBody(data)
		}
		if len(data) == 0 {
			continue
		}
		if f.req.Framing == http1.Chunked {
			out = http1.AppendChunk(out, data)
		} else {
			out = append(out, data...)
		}
	}
	if f.up.Done() {
		f.flags |= requestSent
		if f.req.Framing == http1.Chunked {
			out = http1.AppendLastChunk(out, f.up.Trailers())
		}
	}
	return out, used, http1.OK
}

// pumpRequest moves the request's body from the client to the upstream until it is whole, the client pauses, or the upstream's queue
// is full.
func (f *flow) pumpRequest() {
	c, s := f.client, f.server
	if f.req.Expect100 && !f.is(continued) && f.bodyIn == 0 {
		f.flags |= continued
		if c.write(continueMessage) != nil {
			f.abort(exchange.NoReason)
			return
		}
	}
	for reads := 0; !f.is(requestSent) && !s.conn.Congested(); reads++ {
		if reads == burst {
			f.w.loop.Defer(c)
			return
		}
		in := f.w.loop.Scratch()
		if f.req.Framing == http1.Length {
			in = in[:min(int64(len(in)), f.req.Length-f.bodyIn)]
		}
		n, err := c.read(in)
		if err != nil {
			if !pause(err) {
				f.abort(exchange.NoReason)
			}
			return
		}
		f.flags |= bodyStreamed
		// A long upload is no slow answer: the route's timeout counts from the last bytes of the body that moved. A client that
		// sends too slowly is the body timer's business.
		f.deadline = f.w.loop.Now() + f.route.Timeout
		if f.stage == stageSent {
			f.w.loop.SetTimer(&f.timer, f, f.deadline)
		}
		if !f.forwardBody(in[:n]) {
			return
		}
	}
	if f.is(requestSent) {
		if !c.waiting {
			f.w.loop.StopTimer(&c.timer)
		}
		if f.stage == stageSent {
			f.w.loop.SetTimer(&f.timer, f, f.answerDeadline())
		}
		if f.is(mirrored) {
			f.sendMirror()
		}
	}
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
	if err := f.server.write(out); err != nil {
		f.upstreamBroken(err)
		return false
	}
	return true
}

// upstreamBroken deals with an upstream that takes no more of the request. It may have answered before it hung up: that answer is
// what the client should see, so reading goes first and only an upstream with nothing to say has failed.
func (f *flow) upstreamBroken(err error) {
	s := f.server
	f.flags |= closeClient
	s.Readable()
	if f.server == s && f.stage == stageSent && err != io.EOF {
		f.upstreamFailed(upstream.Reset, exchange.UpstreamReset)
	}
}

// badBody ends an exchange whose request body is malformed, or longer than it may be.
func (f *flow) badBody(bad http1.Error) {
	f.flags |= closeClient
	f.dropServer()
	f.endTry(upstream.Cancelled, 0)
	status, reason := bad.Status(), exchange.BadRequest
	if f.MaxBody > 0 && f.bodyIn > f.MaxBody {
		status, reason = 413, exchange.BodyTooLarge
	} else {
		f.w.shard.RefusedRequests[bad]++
	}
	if f.stage >= stageStreaming {
		f.cut(reason)
		return
	}
	f.fail(status, reason)
}

// keepAhead keeps bytes that were read with a chunked body's end: the next request's.
func (c *client) keepAhead(b []byte) {
	c.ahead = c.w.loop.GetBuffer(len(b))
	c.ahead.End = copy(c.ahead.Bytes, b)
}

// armBodyTimer begins to measure how fast the body comes.
func (f *flow) armBodyTimer() {
	if f.client.listener.MinBodyRate > 0 {
		f.mark = f.bodyIn
		f.w.loop.SetTimer(&f.client.timer, f.client, f.w.loop.Now()+bodyWindow)
	}
}

// clientSlow is called when the client's timer is due during an exchange: its body must have come at the least rate, and of what waits
// for it it must have taken something.
func (f *flow) clientSlow(now int64) {
	if f.stage == stageSending {
		return // over in this very turn; again, or lingerClose, sets the timer anew
	}
	c := f.client
	if c.conn.Queued() > 0 {
		sent := f.bodyOut - int64(c.conn.Queued())
		if sent-c.progress < c.listener.leastTaken() {
			f.abort(exchange.ClientSlow)
			return
		}
		c.progress = sent
		f.w.loop.SetTimer(&c.timer, c, now+c.listener.SendTimeout)
		return
	}
	c.waiting = false // the next bytes that have to wait set the timer again
	if f.is(requestSent) || f.stage == stageTunnel {
		return
	}
	waiting := f.stage < stageSent || f.server != nil && f.server.conn.Congested() // for the upstream, not for the client
	if !waiting && f.bodyIn-f.mark < c.listener.MinBodyRate*(bodyWindow/1e9) {
		f.slowBody()
		return
	}
	f.armBodyTimer()
}

// watchQueue sets the time within which the client must take some of the bytes that wait for it.
func (f *flow) watchQueue() {
	c := f.client
	if c.conn.Queued() > 0 && !c.waiting {
		c.waiting = true
		c.progress = f.bodyOut - int64(c.conn.Queued())
		f.w.loop.SetTimer(&c.timer, c, f.w.loop.Now()+c.listener.SendTimeout)
	}
}

func (f *flow) slowBody() {
	f.flags |= closeClient
	f.dropServer()
	f.endTry(upstream.Cancelled, 0)
	if f.stage >= stageStreaming {
		f.cut(exchange.BodyTimeout)
		return
	}
	f.fail(408, exchange.BodyTimeout)
}
