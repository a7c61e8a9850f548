package proxy

import (
	"io"

	"plimsoll/internal/exchange"
	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
)

// http2Stream is one stream of a client's HTTP/2 connection: see stream. It begins with the
// request's head. It is over once its exchange is over and the whole response was written to the
// socket, or once it was reset. So it outlives its exchange if the client's windows hold back a
// part of the response.
type http2Stream struct {
	streamData
	h    *http2Conn
	flow *flow        // nil once the exchange is over, and while it is packed
	next *http2Stream // in the worker's list of free ones

	packed *packedFlow // the exchange while it waits for long: see pack

	fields   *reactor.Buffer // the head's bytes, which the exchange borrows
	stall    reactor.Timer   // how long the client may let its response wait
	how      ending
	tunnel   bool  // see startTunnel
	deferred bool  // Run is to be called
	watched  bool  // it is measured how fast the client opens its windows
	decided  bool  // the response itself has set its priority
	wentMark int64 // went when that measurement began
	linkMark int64 // the connection's turns.sent at that time
}

// maxSpareStreams is how many streams a loop keeps for their next use.
const maxSpareStreams = 1024

// stream returns the open stream with this identifier, or nil. It unpacks its exchange.
func (h *http2Conn) stream(id uint32) *http2Stream { return h.find(id).client() }

// client returns the stream of a client's connection whose data this is, nil if d is nil. It
// unpacks its exchange.
func (d *streamData) client() *http2Stream {
	if d == nil {
		return nil
	}
	st := d.owner.(*http2Stream)
	if st.packed != nil {
		st.unpack()
	}
	return st
}

// begin makes a stream for a request.
func (h *http2Conn) begin(id uint32) *http2Stream {
	w := h.c.w
	st := w.freeStreams
	if st == nil {
		st = &http2Stream{}
	} else {
		w.freeStreams, st.next = st.next, nil
		w.spareStreams--
	}
	st.h = h
	w.streamCounts.move(h.open, h.open+1)
	h.add(&st.streamData, st, id)
	return st
}

// leave removes a stream from its connection, which remembers for a while how the stream ended.
func (st *http2Stream) leave() {
	w := st.h.c.w
	w.streamCounts.move(st.h.open, st.h.open-1)
	st.remove()
	st.h.closedBy(st.id, st.how)
	if st.fields != nil {
		w.loop.PutBuffer(st.fields)
	}
	w.loop.ReleaseTimer(&st.stall)
	if st.deferred {
		return // Run is still to be called, and finds that the stream is over
	}
	st.keep(w)
}

// keep resets the stream and keeps it for its next use, unless enough are kept already.
func (st *http2Stream) keep(w *Worker) {
	*st = http2Stream{}
	if w.spareStreams < maxSpareStreams {
		st.next, w.freeStreams = w.freeStreams, st
		w.spareStreams++
	}
}

// closedBy notes how a stream ended.
func (h *http2Conn) closedBy(id uint32, how ending) {
	for i := range h.closed {
		if h.closed[i].id == id {
			h.closed[i].how = how
			return
		}
	}
	h.closed[h.closedAt] = closedStream{id, how}
	h.closedAt = (h.closedAt + 1) % closedKept
}

// closedHow returns how a stream ended that is no longer open, as far as that is remembered.
func (h *http2Conn) closedHow(id uint32) (how ending, known bool) {
	for i := range h.closed {
		if h.closed[i].id == id {
			return h.closed[i].how, true
		}
	}
	return 0, false
}

// resetFor implements http2Side.
func (h *http2Conn) resetFor(id uint32, why http2.Reason) {
	h.c.w.shard.RefusedHTTP2[why]++
	if over := h.budget.Spend(http2.FaultKind, h.c.w.loop.Now()); over != http2.OK {
		h.fail(over)
		return
	}
	h.wrote(http2.AppendRST(h.room(32), id, why.Code()))
	if st := h.stream(id); st != nil {
		st.how = ourReset
		st.giveUp(exchange.BadRequest)
		return
	}
	h.closedBy(id, ourReset)
}

// giveUp ends a stream on which nothing more is sent, and its exchange. If the whole response has
// just been sent, the exchange, and the stream with it, end later in this turn.
func (st *http2Stream) giveUp(reason exchange.Reason) {
	st.endSent = true // or it is no longer wanted
	st.dropQueue()
	switch {
	case st.flow == nil:
		st.over()
	default:
		st.flow.abort(reason)
	}
}

// over ends a stream without an exchange once its response has been sent.
func (st *http2Stream) over() {
	h := st.h
	if st.flow != nil || !st.endSent {
		return
	}
	if !st.ended && st.how == endedBoth && !h.dead {
		// The response is whole, so the rest of the body is not needed (RFC 9113, section 8.1).
		st.how = ourReset
		h.wrote(http2.AppendRST(h.room(32), st.id, http2.NoError))
	}
	if st.how == endedBoth {
		h.budget.Completed()
	}
	st.leave()
	h.streamEnded()
}

// streamEnded decides how the connection goes on when one of its streams is over.
func (h *http2Conn) streamEnded() {
	c := h.c
	switch {
	case h.dead:
		h.ended()
	case h.leaving == left:
		h.endIfIdle()
	case h.leaving == warned: // the timer ends it
	case c.acceptor.Closed || c.w.draining ||
		c.listener.MaxRequests > 0 && c.requests >= c.listener.MaxRequests:
		h.leave(warned)
	case h.open == 0 && h.block == nil:
		c.w.loop.SetTimer(&c.timer, c, c.w.loop.Now()+c.listener.IdleTimeout)
	}
}

// stray implements http2Side: data has come for a stream whose request is over. If the gateway has
// ended the stream, the client may not know that yet.
func (h *http2Conn) stray(f *http2.Frame, d *streamData) {
	switch {
	case d != nil && !d.ended:
		d.ended = f.Ends()
	case d != nil:
		h.resetFor(f.Stream, http2.ClosedStream)
	case !h.mustHaveBegun(f.Stream):
	default:
		if how, known := h.closedHow(f.Stream); f.First && (!known || how != ourReset) {
			h.resetFor(f.Stream, http2.ClosedStream)
		}
	}
}

// deliver implements streamOwner. It gives content to the exchange, and keeps what that does not
// take.
func (st *http2Stream) deliver(data []byte) {
	h, id := st.h, st.id
	switch {
	case st.in.Len() > 0:
	case len(data) < batchBytes && len(h.in.Data()) > 0:
		st.later() // with what follows: a write for each small frame would cost too much
	default:
		st.arrived = data
		st.flow.bodyReadable()
		if h.stream(id) != st || st.flow == nil {
			return // the exchange is over
		}
		data = st.arrived
		st.arrived = nil
		st.behind = len(data) > 0
	}
	if len(data) > 0 {
		st.keepContent(data)
	}
}

// nextBody implements stream.
func (st *http2Stream) nextBody(most int) (data []byte, err error) {
	switch {
	case st.in.Len() > 0:
		buf, from, to := st.takeContent(most)
		data = buf[from:to]
		st.gone(len(data), false)
	case len(st.arrived) > 0:
		data = st.arrived[:min(most, len(st.arrived))]
		st.arrived = st.arrived[len(data):]
		st.gone(len(data), true)
	case !st.ended:
		return nil, reactor.ErrAgain
	}
	if st.ended && st.buffered() == 0 {
		return data, io.EOF
	}
	return data, nil
}

// gone gives n bytes of content that were taken back to both windows; atOnce is as in taken. Unless
// the exchange holds the content, it cannot be sent again: keeping it for another try would need
// room that the client may already use again.
func (st *http2Stream) gone(n int, atOnce bool) {
	if st.flow.stage != stageHolding {
		st.flow.flags |= bodyStreamed
	}
	st.taken(n, atOnce)
}

// mark implements stream. It does nothing, because content that was taken is not kept: see taken.
func (st *http2Stream) mark() {}

// rewind implements stream.
func (st *http2Stream) rewind() bool { return st.ended && st.buffered() == 0 }

// skip implements stream.
func (st *http2Stream) skip() bool {
	st.dropBody()
	return st.ended
}

// pending implements stream.
func (st *http2Stream) pending() bool { return st.buffered() > 0 || st.ended }

// later implements stream.
func (st *http2Stream) later() {
	if !st.deferred {
		st.deferred = true
		st.h.c.w.loop.Defer(st)
	}
}

// Run implements reactor.Runner. It does what later put off.
func (st *http2Stream) Run() {
	st.deferred = false
	switch {
	case st.h.stream(st.id) != st:
		st.keep(st.h.c.w)
	case st.flow != nil:
		h, id := st.h, st.id
		st.flow.bodyReadable()
		if h.stream(id) == st && st.in.Len() > 0 {
			st.behind = true
		}
	}
}

// sent implements stream.
func (st *http2Stream) sent() (int64, bool) {
	conn := &st.h.c.conn
	return conn.Sent(), !st.h.dead && !conn.Failed() && st.how != peerReset
}

// finish implements stream. Whether the request is the last one matters only over HTTP/1.1: this
// connection goes on for its other streams.
func (st *http2Stream) finish(f *flow, _ bool) {
	if !st.finished { // a tunnel that the service has not ended
		if !f.toldToClose() {
			st.resetWith(f, http2.Cancel)
			return
		}
		st.finished = true
		if st.queue == nil && !st.h.dead {
			st.sendData(nil, 0, 0, true, false)
		}
	}
	st.free(f)
	st.over()
}

// reset implements stream.
func (st *http2Stream) reset(f *flow) { st.resetWith(f, http2.InternalError) }

func (st *http2Stream) resetWith(f *flow, code http2.Code) {
	st.free(f)
	st.dropQueue()
	if st.how == endedBoth && !st.h.dead {
		st.how = ourReset
		st.h.wrote(http2.AppendRST(st.h.room(32), st.id, code))
	}
	st.endSent = true
	st.over()
}

// cut implements stream.
func (st *http2Stream) cut(f *flow) { st.reset(f) }

// free ends the stream's exchange, and drops the rest of the request's body.
func (st *http2Stream) free(f *flow) {
	st.flow, st.deaf = nil, true
	f.w.freeFlow(f)
	st.dropBody()
}
