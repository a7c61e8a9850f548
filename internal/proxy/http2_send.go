package proxy

import (
	"errors"

	"plimsoll/internal/head"
	"plimsoll/internal/hpack"
	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
)

// Content that the client's windows hold back is copied into the stream's queue. A stream whose
// queue is not empty, or whose windows are closed, is congested, so nothing more is read for it. So
// the queue has at most what one read brought.

var errConnectionLost = errors.New("proxy: the client's connection is lost")

// send implements stream.
func (st *http2Stream) send(f *flow, buf []byte, from, to int, parts parts) error {
	h := st.h
	if h.dead || h.broken {
		return errConnectionLost
	}
	var trailers *head.List
	ends := parts&withEnd != 0
	if ends {
		trailers = f.responseTrailers()
	}
	if parts&withHead != 0 {
		st.headSent = true
		st.endSent = ends && trailers == nil && to == from
		if f.Response.Fields.Has(head.Priority) {
			st.decide(&f.Response.Fields)
		}
		f.headOut = int64(st.sendHead(f, st.endSent))
		f.bodyOut += f.headOut
	}
	f.bodyOut += int64(to - from)
	st.put(buf, from, to, ends, trailers, parts&scratch != 0)
	if st.queue != nil {
		st.watch()
	}
	return nil
}

// resume implements streamOwner.
func (st *http2Stream) resume() {
	if !st.sendQueue() {
		return
	}
	switch {
	case st.flow == nil:
		st.over()
	case st.finished: // a tunnel, whose other direction goes on
		st.unwatch()
	case st.congested():
	default:
		st.unwatch()
		st.flow.clientDrained()
	}
}

// congested implements stream. A head is sent whatever the windows are. After the end of the
// response, which in a tunnel need not be the end of the stream, nothing waits for the windows.
func (st *http2Stream) congested() bool {
	switch {
	case st.h.c.conn.Congested():
	case !st.headSent || st.endSent || st.queue == nil && st.space() > 0:
		return false
	default:
		st.watch()
	}
	st.wait()
	return true
}

// watch begins to measure how fast the client opens its windows for a response that waits for them.
func (st *http2Stream) watch() {
	if !st.watched {
		c := st.h.c
		st.watched, st.wentMark, st.linkMark = true, st.went, st.h.turns.sent
		c.w.loop.SetTimer(&st.stall, st, c.w.loop.Now()+c.listener.SendTimeout)
	}
}

func (st *http2Stream) unwatch() {
	if st.watched {
		st.watched = false
		st.h.c.w.loop.StopTimer(&st.stall)
	}
}

// Expire implements reactor.Expirer: a response has waited for SendTimeout, or the timer of a
// packed exchange is due.
func (st *http2Stream) Expire(_ *reactor.Timer, now int64) {
	h := st.h
	if st.packed != nil {
		f := st.unpack()
		f.Expire(&f.timer, now)
		return
	}
	st.watched = false
	if st.keptUp() {
		st.watch()
		return
	}
	h.c.w.shard.SlowStreams++
	h.wrote(http2.AppendRST(h.room(32), st.id, http2.Cancel))
	st.how = ourReset
	st.endSent = true
	st.dropQueue()
	if f := st.flow; f != nil {
		f.endSlow()
		st.free(f)
	}
	st.over()
}

// keptUp reports whether the client has taken enough since the watch began, either of this stream
// or, if other streams had their turns before it, of all streams together as much as that for each
// one that waits. clientConn.judgeTaking judges how it takes what is queued in the socket.
func (st *http2Stream) keptUp() bool {
	h := st.h
	least := h.c.listener.leastAcked()
	if st.went-st.wentMark >= least {
		return true
	}
	return st.window.Available() > 0 &&
		(h.c.conn.Congested() || h.turns.sent-st.linkMark >= least*max(1, h.turns.waiting()))
}

// appendInterim implements stream.
func (st *http2Stream) appendInterim(f *flow, out []byte) []byte {
	h := st.h
	at := len(out)
	out = append(out, frameRoom[:]...)
	out = h.encoder.AppendStatus(h.encoder.Begin(out), f.res.Status)
	out = h.appendFields(out, &f.res.Fields, f.res.Status, interimDrop)
	return http2.FinishHeaders(out, at, st.id, false, h.peer.MaxFrameSize)
}

// sendInterim implements stream.
func (st *http2Stream) sendInterim(out []byte) error {
	h := st.h
	if h.dead || h.broken {
		return errConnectionLost
	}
	h.gather(out)
	return nil
}

// sendContinue implements stream.
func (st *http2Stream) sendContinue() error {
	h := st.h
	out := h.encoder.AppendStatus(h.encoder.Begin(append(h.c.w.out[:0], frameRoom[:]...)), 100)
	return st.sendInterim(http2.FinishHeaders(out, 0, st.id, false, h.peer.MaxFrameSize))
}

// sendHead sends the response's head, and returns its length.
func (st *http2Stream) sendHead(f *flow, ends bool) int {
	h := st.h
	status := f.Response.Status
	if st.tunnel {
		return st.sendTunnelHead(f)
	}
	out := append(h.c.w.out[:0], frameRoom[:]...)
	out = h.encoder.AppendStatus(h.encoder.Begin(out), status)
	length, drop := f.announcedLength()
	out = h.appendFields(out, &f.Response.Fields, status, drop)
	if length != head.Unknown {
		out = h.encoder.AppendStatic(out, indexContentLength, appendInt(h.c.w.digits[:0], length), hpack.Once)
	}
	if f.passesOn() && f.route.Via != "" {
		out = h.encoder.AppendField(out, viaName, f.viaValue(), hpack.Once)
	}
	if !f.Response.Fields.Has(head.Date) {
		out = h.encoder.AppendStatic(out, indexDate, f.w.httpDate(), hpack.Once)
	}
	if f.mustSayAltSvc(h.c.listener) {
		out = h.encoder.AppendField(out, altSvcName, h.c.listener.AltSvc, hpack.Once)
	}
	return h.sendBlock(st.id, out, ends)
}

// announcedLength returns the Content-Length of a response's head over HTTP/2 or HTTP/3, or
// head.Unknown for none, and the IDs of the fields that are not to be sent.
func (f *flow) announcedLength() (length int64, drop uint64) {
	length, drop = f.res.Length, 1<<head.ContentLength
	status := f.Response.Status
	switch bodiless := status == 204 || status == 304; {
	case f.is(answered) && !bodiless:
		length = f.Response.Length // for HEAD too
	case bodiless || f.is(toHEAD):
		length = head.Unknown
		if !f.is(answered) && status != 204 {
			drop = 0 // the field is the length of the body that is not sent
		}
	case length == 0 && !f.Response.Fields.Has(head.ContentLength):
		length = head.Unknown // a service that sends only a head needs no length: gRPC, for example
	}
	return length, drop
}

// slow gives up all streams because the client takes what it is sent too slowly. The caller deals
// with the socket.
func (h *http2Conn) slow() {
	h.dead = true
	h.c.state, h.c.http2 = clientHead, nil // nothing is written any more
	for _, id := range h.identifiers(nil) {
		st := h.stream(id)
		if st == nil {
			continue
		}
		st.how, st.endSent = peerReset, true
		st.dropQueue()
		if f := st.flow; f != nil {
			f.endSlow()
			st.free(f)
		}
		st.over()
	}
	h.forget()
}

// anySending reports whether an exchange of the connection is in stageSending, and so ends in this
// turn.
func (h *http2Conn) anySending() bool {
	for d := h.first; d != nil; d = d.after {
		if st := d.client(); st.flow != nil && st.flow.stage == stageSending {
			return true
		}
	}
	return false
}
