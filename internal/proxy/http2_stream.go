package proxy

import (
	"io"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
)

// http2Stream is one stream of a client's HTTP/2 connection: see stream. It begins with the
// request's head, and is over when its exchange is and the response has gone to the socket whole,
// or when it was reset. So it may outlive its exchange, by what the client's windows hold back.
//
// What came of the body and the exchange has not taken is in memory: arrived during the call that
// brought it, and in afterwards. It is bounded by the windows that the client was given.
type http2Stream struct {
	h             *http2Conn
	flow          *flow        // nil once the exchange is over
	chain         *http2Stream // in its bucket
	before, after *http2Stream // in the connection's list; after also in the worker's of free ones
	id            uint32

	fields  *reactor.Buffer // the head's bytes, which the exchange borrows
	in      *reactor.Buffer // content that came and was not taken
	arrived []byte          // likewise, in the connection's buffer
	window  http2.SendWindow
	receive http2.ReceiveWindow
	length  http2.BodyLength
	trailer *head.List // of the request; nil for none

	queue    *reactor.Buffer // content of the response that the windows hold back
	tail     []byte          // trailers behind it, as a frame
	stall    reactor.Timer   // how long the client may let its response wait
	how      ending
	ended    bool  // the client has sent all
	begun    bool  // the response's head is sent
	tunnel   bool  // see startTunnel
	finished bool  // the response's end is in queue, or sent
	endSent  bool  // END_STREAM is sent
	deferred bool  // Run is to be called
	waits    bool  // the response waits for the client's windows
	went     int64 // bytes of it that went since that is judged
}

// maxSpareStreams is how many streams a loop keeps for their next use.
const maxSpareStreams = 1024

func (h *http2Conn) find(id uint32) *http2Stream {
	for st := h.streams[id/2%streamBuckets]; st != nil; st = st.chain {
		if st.id == id {
			return st
		}
	}
	return nil
}

// begin makes a stream for a request.
func (h *http2Conn) begin(id uint32) *http2Stream {
	w := h.c.w
	st := w.freeStreams
	if st == nil {
		st = &http2Stream{}
	} else {
		w.freeStreams, st.after = st.after, nil
		w.spareStreams--
	}
	bucket := &h.streams[id/2%streamBuckets]
	st.h, st.id, st.chain, st.before = h, id, *bucket, h.newest
	*bucket = st
	if h.newest == nil {
		h.first = st
	} else {
		h.newest.after = st
	}
	h.newest = st
	h.open++
	st.window = http2.SendWindow(h.peer.InitialWindowSize)
	st.receive = http2.NewReceiveWindow(streamWindow)
	return st
}

// remove takes a stream off its connection, which remembers for a while how it ended.
func (st *http2Stream) remove() {
	h := st.h
	w := h.c.w
	for at := &h.streams[st.id/2%streamBuckets]; ; at = &(*at).chain {
		if *at == st {
			*at = st.chain
			break
		}
	}
	if st.before == nil {
		h.first = st.after
	} else {
		st.before.after = st.after
	}
	if st.after == nil {
		h.newest = st.before
	} else {
		st.after.before = st.before
	}
	h.open--
	h.closedBy(st.id, st.how)
	st.dropBody()
	for _, b := range [...]**reactor.Buffer{&st.fields, &st.in, &st.queue} {
		if *b != nil {
			w.loop.PutBuffer(*b)
		}
	}
	w.loop.ReleaseTimer(&st.stall)
	if st.deferred {
		return // Run is still to be called, and finds that the stream is over
	}
	st.keep(w)
}

// keep makes the stream ready for its next use.
func (st *http2Stream) keep(w *Worker) {
	*st = http2Stream{}
	if w.spareStreams < maxSpareStreams {
		st.after, w.freeStreams = w.freeStreams, st
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

// closedHow is how a stream ended that is not there any more, as far as that is remembered.
func (h *http2Conn) closedHow(id uint32) (how ending, known bool) {
	for i := range h.closed {
		if h.closed[i].id == id {
			return h.closed[i].how, true
		}
	}
	return 0, false
}

// resetFor ends a stream because of what the client did.
func (h *http2Conn) resetFor(id uint32, why http2.Reason) {
	h.c.w.shard.RefusedHTTP2[why]++
	if over := h.budget.Spend(http2.FaultKind, h.c.w.loop.Now()); over != http2.OK {
		h.fail(over)
		return
	}
	h.wrote(http2.AppendRST(h.room(32), id, why.Code()))
	if st := h.find(id); st != nil {
		st.how = ourReset
		st.giveUp(exchange.BadRequest)
		return
	}
	h.closedBy(id, ourReset)
}

// giveUp ends a stream of which nothing more is sent, and its exchange. An exchange whose response
// has just been sent whole ends in this very turn, and the stream with it.
func (st *http2Stream) giveUp(reason exchange.Reason) {
	st.endSent = true // or nobody wants to know
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
		// The response is whole, and nobody needs the rest of the body (RFC 9113, section 8.1).
		st.how = ourReset
		h.wrote(http2.AppendRST(h.room(32), st.id, http2.NoError))
	}
	if st.how == endedBoth {
		h.budget.Completed()
	}
	st.remove()
	h.streamEnded()
}

// streamEnded looks what follows for the connection when it has one stream less.
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

// data takes a part of a Data frame.
func (h *http2Conn) data(f *http2.Frame) {
	if f.First {
		if bad := h.receive.Consume(f.Length); bad != http2.OK {
			h.fail(bad)
			return
		}
		h.passOver(f.Overhead)
	}
	st := h.find(f.Stream)
	if st == nil || st.ended || st.flow == nil {
		h.strayData(f, st)
		return
	}
	if f.First {
		if bad := st.receive.Consume(f.Length); bad != http2.OK {
			h.passOver(len(f.Payload))
			h.resetFor(st.id, bad)
			return
		}
		st.release(f.Overhead)
	}
	bad := st.length.Add(len(f.Payload))
	if st.ended = f.Ends(); bad == http2.OK && st.ended {
		bad = st.length.End()
	}
	if bad != http2.OK {
		h.passOver(len(f.Payload))
		h.resetFor(st.id, bad)
		return
	}
	if len(f.Payload) == 0 && !st.ended {
		return
	}
	st.deliver(f.Payload)
}

// strayData deals with data of a stream whose request is over. Of a stream that we have ended the
// client may not know yet.
func (h *http2Conn) strayData(f *http2.Frame, st *http2Stream) {
	h.passOver(len(f.Payload))
	switch {
	case st != nil && !st.ended:
		st.ended = f.Ends()
	case st != nil:
		h.resetFor(f.Stream, http2.ClosedStream)
	case !h.mustHaveBegun(f.Stream):
	default:
		if how, known := h.closedHow(f.Stream); f.First && (!known || how != ourReset) {
			h.resetFor(f.Stream, http2.ClosedStream)
		}
	}
}

// passOver gives bytes that nobody keeps back to the connection's window.
func (h *http2Conn) passOver(n int) {
	if by := h.receive.Release(n); by > 0 {
		h.wrote(http2.AppendWindowUpdate(h.room(32), 0, by))
	}
}

// deliver shows content to the exchange, and keeps what that does not take.
func (st *http2Stream) deliver(data []byte) {
	h, id := st.h, st.id
	switch waiting := st.in != nil && len(st.in.Data()) > 0; {
	case waiting:
	case len(data) < batchBytes && len(h.in.Data()) > 0:
		st.later() // with what follows: a write for each small frame would cost too much
	default:
		st.arrived = data
		st.flow.bodyReadable()
		if h.find(id) != st || st.flow == nil {
			return // the exchange is over
		}
		data = st.arrived
		st.arrived = nil
	}
	if len(data) > 0 {
		st.keepContent(data)
	}
}

// keepContent adds content to in. What was taken makes room: what is left is in the stream's window.
func (st *http2Stream) keepContent(data []byte) {
	l := st.h.c.w.loop
	old := st.in
	if old != nil && old.Start > 0 {
		old.Start, old.End = 0, copy(old.Bytes, old.Data())
	}
	if old == nil || len(old.Room()) < len(data) {
		size := len(data)
		if old != nil {
			size += old.End
		}
		st.in = l.GetBuffer(size)
		if old != nil {
			st.in.End = copy(st.in.Bytes, old.Data())
			l.PutBuffer(old)
		}
	}
	st.in.End += copy(st.in.Room(), data)
}

// dropBody gives what was not taken of the body back to the connection's window.
func (st *http2Stream) dropBody() {
	n := len(st.arrived)
	st.arrived = nil
	if st.in != nil {
		n += len(st.in.Data())
		st.in.Start = st.in.End
	}
	if n > 0 {
		st.h.passOver(n)
	}
}

// buffered implements stream.
func (st *http2Stream) buffered() int {
	n := len(st.arrived)
	if st.in != nil {
		n += len(st.in.Data())
	}
	return n
}

// nextBody implements stream.
func (st *http2Stream) nextBody(most int) (data []byte, err error) {
	switch {
	case st.in != nil && len(st.in.Data()) > 0:
		data = st.in.Data()
		data = data[:min(most, len(data))]
		st.in.Start += len(data)
		st.taken(len(data))
	case len(st.arrived) > 0:
		data = st.arrived[:min(most, len(st.arrived))]
		st.arrived = st.arrived[len(data):]
		st.taken(len(data))
	case !st.ended:
		return nil, reactor.ErrAgain
	}
	if st.ended && st.buffered() == 0 {
		return data, io.EOF
	}
	return data, nil
}

// taken gives content that went on back to both windows. Where it is not held by the exchange, it is
// gone: were it kept for a further try, it would need room that the client may already use again.
func (st *http2Stream) taken(n int) {
	if st.flow.stage != stageHolding {
		st.flow.flags |= bodyStreamed
	}
	st.h.passOver(n)
	st.release(n)
}

// release gives bytes back to the stream's window.
func (st *http2Stream) release(n int) {
	if by := st.receive.Release(n); by > 0 && !st.ended {
		st.h.wrote(http2.AppendWindowUpdate(st.h.room(32), st.id, by))
	}
}

// mark implements stream. There is no way back to it over content that was taken: see taken.
func (st *http2Stream) mark() {}

// rewind implements stream.
func (st *http2Stream) rewind() bool { return st.ended && st.buffered() == 0 }

// trailers implements stream.
func (st *http2Stream) trailers() *head.List { return st.trailer }

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

// Run implements reactor.Runner: what later put off.
func (st *http2Stream) Run() {
	st.deferred = false
	switch {
	case st.h.find(st.id) != st:
		st.keep(st.h.c.w)
	case st.flow != nil:
		st.flow.bodyReadable()
	}
}

// sent implements stream.
func (st *http2Stream) sent() (int64, bool) {
	conn := &st.h.c.conn
	return conn.Sent(), !st.h.dead && !conn.Failed() && st.how != peerReset
}

// finish implements stream. Last concerns connections of another kind: this one goes on for its
// other streams.
func (st *http2Stream) finish(f *flow, _ bool) {
	if !st.finished { // a tunnel that nobody has ended
		st.finished = true
		if st.queue == nil && !st.h.dead {
			st.sendData(nil, 0, 0, true, false)
		}
	}
	st.free(f)
	st.over()
}

// reset implements stream.
func (st *http2Stream) reset(f *flow) {
	st.free(f)
	st.dropQueue()
	if st.how == endedBoth && !st.h.dead {
		st.how = ourReset
		st.h.wrote(http2.AppendRST(st.h.room(32), st.id, http2.InternalError))
	}
	st.endSent = true
	st.over()
}

// cut implements stream.
func (st *http2Stream) cut(f *flow) { st.reset(f) }

// free ends the stream's exchange. What is left of its body in memory has no reader.
func (st *http2Stream) free(f *flow) {
	st.flow = nil
	f.w.freeFlow(f)
	st.dropBody()
}
