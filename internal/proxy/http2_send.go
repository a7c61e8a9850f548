package proxy

import (
	"errors"

	"plimsoll/internal/head"
	"plimsoll/internal/hpack"
	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
)

// Frames for the client are gathered in one buffer and written once, after the loop's batch of
// requests to upstreams: what many streams answer in a turn is one TLS record and one system call.
// Content of more than batchBytes goes at once, from where it is, with what was gathered in front of
// it.
//
// Content that the client's windows hold back is copied into the stream's queue. A stream whose
// queue is not empty, or whose windows are closed, is congested, so nothing more is read for it: the
// queue has at most what one read brought.

// outSize is how many bytes of frames are gathered.
const outSize = 16 << 10

// recordSize is how many bytes are written at once: a full TLS record. What goes beyond would have to
// be put together from two records, by a copy; so the rest of a response of 16 KB goes with what
// other streams send. It is also the largest frame that every client takes.
const recordSize = 16 << 10

var errConnectionLost = errors.New("proxy: the client's connection is lost")

// room is where frames are appended: what was gathered, with at least n bytes behind it. wrote takes
// the longer slice back.
func (h *http2Conn) room(n int) []byte {
	l := h.c.w.loop
	if h.out != nil && len(h.out.Room()) < n {
		h.flush()
	}
	if h.out == nil {
		h.out = l.GetBuffer(max(n, outSize))
	}
	if !h.flushing {
		h.flushing = true
		l.AfterBatch(h)
	}
	return h.out.Data()
}

func (h *http2Conn) wrote(dst []byte) { h.out.End = len(dst) }

// Run implements reactor.Runner: the turn's frames go out.
func (h *http2Conn) Run() {
	h.flushing = false
	h.flush()
}

// flush writes what was gathered.
func (h *http2Conn) flush() {
	if out := h.out; out != nil {
		h.out = nil
		h.write(out.Data())
		h.c.w.loop.PutBuffer(out)
	}
}

// write writes frames. A failure is dealt with at the end of the turn: the caller may be in the
// middle of a stream that this would end.
func (h *http2Conn) write(p []byte) {
	c := h.c
	if c.state != clientHTTP2 || h.broken || len(p) == 0 {
		return
	}
	if c.write(p) != nil {
		h.broken = true
		c.later()
		return
	}
	if c.conn.Queued() > 0 {
		c.watchTaking()
	}
}

// writeBehind writes what was gathered and content behind it. Where the content is in scratch
// memory, what was gathered goes in front of it, and both out in one call.
func (h *http2Conn) writeBehind(buf []byte, from, to int, scratch bool) {
	out := h.out
	if !scratch || len(out.Data()) > from {
		h.flush()
		h.write(buf[from:to])
		return
	}
	h.out = nil
	from -= copy(buf[from-len(out.Data()):], out.Data())
	h.c.w.loop.PutBuffer(out)
	h.write(buf[from:to])
}

// send implements stream.
func (st *http2Stream) send(f *flow, buf []byte, from, to int, parts parts) error {
	h := st.h
	if h.dead || h.broken {
		return errConnectionLost
	}
	var trailers *head.List
	if parts&withEnd != 0 {
		trailers = f.responseTrailers()
		st.finished = true
	}
	ends := parts&withEnd != 0 && trailers == nil
	if parts&withHead != 0 {
		st.begun = true
		st.endSent = ends && to == from
		f.headOut = int64(st.sendHead(f, st.endSent))
		f.bodyOut += f.headOut
	}
	f.bodyOut += int64(to - from)
	if st.queue == nil {
		from = st.sendData(buf, from, to, ends, parts&scratch != 0)
	}
	if from < to {
		st.hold(buf[from:to])
	}
	if trailers != nil {
		st.tail = h.appendTrailers(nil, st.id, trailers)
		st.sendTail()
	}
	return nil
}

// sendData sends as much of buf[from:to] as the windows allow, and returns where the rest begins.
// ends says that the stream ends with it.
func (st *http2Stream) sendData(buf []byte, from, to int, ends, scratch bool) int {
	h := st.h
	if from == to && ends && !st.endSent {
		st.endSent = true
		h.wrote(http2.AppendDataHeader(h.room(http2.HeaderSize), st.id, 0, true))
	}
	for from < to {
		space := recordSize - http2.HeaderSize - len(h.room(http2.HeaderSize))
		if space < min(to-from, batchBytes) {
			h.flush()
			space = recordSize - http2.HeaderSize
		}
		n := min(to-from, st.window.Available(), h.send.Available(), space)
		if n <= 0 {
			break
		}
		st.window.Take(n)
		h.send.Take(n)
		h.budget.Sent()
		st.went += int64(n)
		st.endSent = ends && from+n == to
		if n <= batchBytes {
			dst := http2.AppendDataHeader(h.room(http2.HeaderSize+n), st.id, n, st.endSent)
			h.wrote(append(dst, buf[from:from+n]...))
		} else {
			h.wrote(http2.AppendDataHeader(h.room(http2.HeaderSize), st.id, n, st.endSent))
			h.writeBehind(buf, from, from+n, scratch)
		}
		from += n
	}
	return from
}

// hold keeps content that the windows hold back.
func (st *http2Stream) hold(data []byte) {
	l := st.h.c.w.loop
	old := st.queue
	if old == nil || len(old.Room()) < len(data) {
		size := len(data)
		if old != nil {
			size += len(old.Data())
		}
		st.queue = l.GetBuffer(size)
		if old != nil {
			st.queue.End = copy(st.queue.Bytes, old.Data())
			l.PutBuffer(old)
		}
	}
	st.queue.End += copy(st.queue.Room(), data)
	st.watch()
}

// sendTail sends the trailers once nothing is in front of them.
func (st *http2Stream) sendTail() {
	if st.queue != nil || st.tail == nil {
		return
	}
	h := st.h
	h.wrote(append(h.room(len(st.tail)), st.tail...))
	h.budget.Sent()
	st.tail, st.endSent = nil, true
}

// dropQueue forgets what the windows hold back.
func (st *http2Stream) dropQueue() {
	if st.queue != nil {
		st.h.c.w.loop.PutBuffer(st.queue)
		st.queue = nil
	}
	st.tail = nil
}

// resume goes on when the client takes more.
func (st *http2Stream) resume() {
	h := st.h
	if q := st.queue; q != nil {
		q.Start = st.sendData(q.Bytes, q.Start, q.End, st.finished && st.tail == nil, true)
		if q.Start < q.End {
			return
		}
		st.queue = nil
		h.c.w.loop.PutBuffer(q)
		st.sendTail()
	}
	switch {
	case st.flow == nil:
		st.over()
	case st.finished || st.congested():
	default:
		st.unwatch()
		st.flow.clientDrained()
	}
}

// congested implements stream. A head goes out whatever the windows say.
func (st *http2Stream) congested() bool {
	h := st.h
	if h.c.conn.Congested() {
		return true
	}
	if !st.begun || st.queue == nil && st.window.Available() > 0 && h.send.Available() > 0 {
		return false
	}
	st.watch()
	return true
}

// space implements stream.
func (st *http2Stream) space() int {
	return max(0, min(st.window.Available(), st.h.send.Available()))
}

// watch begins to judge how the client opens its windows for a response that waits for them.
func (st *http2Stream) watch() {
	if !st.waits {
		c := st.h.c
		st.waits, st.went = true, 0
		c.w.loop.SetTimer(&st.stall, st, c.w.loop.Now()+c.listener.SendTimeout)
	}
}

func (st *http2Stream) unwatch() {
	if st.waits {
		st.waits = false
		st.h.c.w.loop.StopTimer(&st.stall)
	}
}

// Expire implements reactor.Expirer: a response has waited for the client's windows for SendTimeout.
func (st *http2Stream) Expire(_ *reactor.Timer, _ int64) {
	h := st.h
	st.waits = false
	if st.went >= h.c.listener.leastAcked() {
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

// appendInterim implements stream.
func (st *http2Stream) appendInterim(f *flow, out []byte) []byte {
	h := st.h
	at := len(out)
	out = append(out, frameRoom[:]...)
	out = h.encoder.AppendStatus(h.encoder.Begin(out), f.res.Status)
	out = h.appendFields(out, &f.res.Fields, f.res.Status, interimDrop)
	return http2.FinishHeaders(out, at, st.id, false, h.peer.MaxFrameSize)
}

var frameRoom [http2.HeaderSize]byte

// sendInterim implements stream.
func (st *http2Stream) sendInterim(out []byte) error {
	h := st.h
	if h.dead || h.broken {
		return errConnectionLost
	}
	h.gather(out)
	return nil
}

// gather adds whole frames to those of this turn.
func (h *http2Conn) gather(frames []byte) {
	if len(frames) > outSize {
		h.flush()
		h.write(frames)
		return
	}
	h.wrote(append(h.room(len(frames)), frames...))
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
	drop := uint64(1 << head.ContentLength)
	length := f.res.Length
	switch bodiless := status == 204 || status == 304; {
	case f.is(answered) && !bodiless:
		length = int64(len(f.Body)) // for HEAD too
	case bodiless || f.is(toHEAD):
		length = head.Unknown
		if !f.is(answered) && status != 204 {
			drop = 0 // it tells of the body that is not sent
		}
	}
	out = h.appendFields(out, &f.Response.Fields, status, drop)
	if length != head.Unknown {
		out = h.encoder.AppendStatic(out, indexContentLength, appendInt(h.c.w.digits[:0], length), hpack.Once)
	}
	if !f.is(answered) && f.route.Via != "" {
		out = h.encoder.AppendField(out, viaName, f.viaValue(), hpack.Once)
	}
	if !f.Response.Fields.Has(head.Date) {
		out = h.encoder.AppendStatic(out, indexDate, f.w.httpDate(), hpack.Once)
	}
	return h.sendBlock(st, out, ends)
}

// sendBlock sends a field block behind room for its frame's header, and returns the frame's length.
func (h *http2Conn) sendBlock(st *http2Stream, out []byte, ends bool) int {
	out = http2.FinishHeaders(out, 0, st.id, ends, h.peer.MaxFrameSize)
	h.budget.Sent()
	h.gather(out)
	return len(out)
}

// Indexes of hpack's static table.
var (
	indexContentLength = hpack.StaticIndex([]byte("content-length"))
	indexDate          = hpack.StaticIndex([]byte("date"))
)

var viaName = []byte("via")

// appendFields appends the fields of a message that HTTP/2 may carry, but for those whose ID is in
// drop.
func (h *http2Conn) appendFields(out []byte, l *head.List, status int, drop uint64) []byte {
	for i := range l.Len() {
		field := l.At(i)
		if drop>>field.ID&1 == 0 && http2.MaySend(field, status) {
			out = h.encoder.AppendField(out, field.Name, field.Value, hpack.Once)
		}
	}
	return out
}

// appendTrailers appends the frame of a trailer section. It may wait behind content while other
// blocks are sent, so it must not depend on the order of blocks: every field is written out, and a
// change of the table's size is left to the next block.
func (h *http2Conn) appendTrailers(out []byte, id uint32, l *head.List) []byte {
	at := len(out)
	out = h.appendFields(append(out, frameRoom[:]...), l, 0, 0)
	return http2.FinishHeaders(out, at, id, true, h.peer.MaxFrameSize)
}

// slow gives all streams up because the client takes what it is sent too slowly. What becomes of the
// socket is left to the caller.
func (h *http2Conn) slow() {
	h.dead = true
	h.c.state, h.c.http2 = clientHead, nil // nothing is written any more
	for _, id := range h.identifiers(nil) {
		st := h.find(id)
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
	h.release()
}

// anySending says whether an exchange of the connection is over in this very turn.
func (h *http2Conn) anySending() bool {
	for st := h.first; st != nil; st = st.after {
		if st.flow != nil && st.flow.stage == stageSending {
			return true
		}
	}
	return false
}
