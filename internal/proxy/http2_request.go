package proxy

import (
	"bytes"
	"io"
	"slices"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/hpack"
	"plimsoll/internal/http1"
	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// http2Request is one request on an http2Upstream, and its response: the upstreamStream of one try.
// It ends with the try, even if the windows still hold back a part of the request.
type http2Request struct {
	streamData
	h    *http2Upstream
	flow *flow         // nil once it is over, and while its exchange is packed
	next *http2Request // in the worker's list of free ones

	packed *http2Stream // the client's stream, while its exchange is packed

	fields    *reactor.Buffer // the response's head, which the exchange borrows
	interim   []byte          // interim responses, as the client gets them, that were not shown yet
	mark      int64           // see took
	noted     int64           // went when notedAt was taken
	notedAt   int64           // bytes written to the connection by then
	answered  bool            // the response's head has come
	headWaits bool            // the head was not shown yet
	unshown   bool            // it is in the list unshown of its connection
	freed     bool            // its slot was given back
	untouched bool            // the target has said that it did nothing for the request
	gone      bool            // the target does not wait for its end: there is nothing to reset
}

// fault is how a request failed on its connection.
type fault uint8

const (
	brokenOff   fault = iota // the stream or the connection was reset
	unprocessed              // likewise, and the target says that it has done nothing
	malformed                // the target broke the protocol
)

// request makes a request on h for f's present try.
func (h *http2Upstream) request(f *flow) *http2Request {
	w := h.w
	r := w.freeRequests
	if r == nil {
		r = &http2Request{}
	} else {
		w.freeRequests, r.next = r.next, nil
		w.spareRequests--
	}
	r.h, r.flow, r.link = h, f, &h.http2Link
	f.up, f.Target = r, h.s.target
	return r
}

// keep resets the request and keeps it for its next use, unless enough are kept already.
func (r *http2Request) keep(w *Worker) {
	*r = http2Request{}
	if w.spareRequests < maxSpareStreams {
		r.next, w.freeRequests = w.freeRequests, r
		w.spareRequests++
	}
}

// requestOf returns the request on the stream id, nil for none. It unpacks a packed exchange.
func (h *http2Upstream) requestOf(id uint32) *http2Request {
	d := h.find(id)
	if d == nil {
		return nil
	}
	r := d.owner.(*http2Request)
	if r.packed != nil {
		r.packed.unpack()
	}
	return r
}

// on implements upstreamStream.
func (r *http2Request) on() *upstreamConn { return r.h.s }

// sendRequest implements upstreamStream.
func (r *http2Request) sendRequest(f *flow) bool {
	if f.is(mirrored) {
		f.copyHead(f.appendRequestHead(f.w.out[:0]))
	}
	f.flags |= wroteRequest
	ends := f.is(requestSent)
	r.sendHead(f, ends)
	for !f.is(requestSent) {
		data, more, err := f.heldBodyPart()
		if err != nil {
			f.bodyFailed(err)
			return false
		}
		r.push(f, data)
		if !more || r.full() {
			break
		}
	}
	return true
}

var (
	indexMethod    = hpack.StaticIndex([]byte(":method"))
	indexPath      = hpack.StaticIndex([]byte(":path"))
	indexScheme    = hpack.StaticIndex([]byte(":scheme"))
	indexAuthority = hpack.StaticIndex([]byte(":authority"))
	indexExpect    = hpack.StaticIndex([]byte("expect"))
	indexVia       = hpack.StaticIndex([]byte("via"))

	teName       = []byte("te")
	teTrailers   = []byte("trailers")
	continueText = []byte("100-continue")
)

// sendHead sends the request's head, as appendRequestHead does over HTTP/1.1. ends says that no
// body follows.
func (r *http2Request) sendHead(f *flow, ends bool) {
	h := r.h
	e := &h.encoder
	authority := f.req.Fields.Value(head.Host)
	if authority == nil {
		authority = []byte(f.member.Target().Address().Authority())
	}
	f.trimRequest()
	out := e.Begin(append(h.w.out[:0], frameRoom[:]...))
	out = e.AppendStatic(out, indexMethod, f.req.Method, hpack.Once)
	scheme := schemeHTTP
	if h.s.tls != nil {
		scheme = schemeHTTPS
	}
	out = e.AppendStatic(out, indexScheme, scheme, hpack.Once)
	out = e.AppendStatic(out, indexAuthority, authority, hpack.Once)
	path := f.Forward
	if f.req.Query != nil {
		path = append(append(append(h.w.fieldBytes()[:0], path...), '?'), f.req.Query...)
	}
	out = e.AppendStatic(out, indexPath, path, hpack.Once)
	out = h.appendFields(out, &f.req.Fields, 0, hopByHop)
	if f.version > http10 && http1.AcceptsTrailers(&f.req.Fields) {
		out = e.AppendField(out, teName, teTrailers, hpack.Once)
	}
	if f.req.Length > 0 || f.req.Length == 0 && f.req.Fields.Has(head.ContentLength) {
		out = e.AppendStatic(out, indexContentLength, appendInt(h.w.digits[:0], f.req.Length), hpack.Once)
	}
	if f.route.Via != "" && !f.is(isMirror) {
		out = e.AppendStatic(out, indexVia, f.viaOf(f.version), hpack.Once)
	}
	if !f.is(isMirror) {
		if name, ms, ok := f.deadlineField(h.w.digits[:0]); ok {
			out = e.AppendField(out, name, ms, hpack.Once)
		}
		if !ends && f.expectsUpstream() {
			f.flags |= expecting
			out = e.AppendStatic(out, indexExpect, continueText, hpack.Once)
		}
	}
	r.headSent, r.endSent = true, ends
	h.sendBlock(r.id, out, ends)
}

// push sends content of the body, and, if that is the rest of it, the end of the request.
func (r *http2Request) push(f *flow, data []byte) {
	var trailers *head.List
	if f.is(bodyWhole) {
		f.flags |= requestSent
		trailers = f.requestTrailers()
	}
	if r.gone {
		return
	}
	r.give(data, f.is(bodyWhole), trailers)
}

// give sends content, or holds a copy while the connection is congested: many requests, each with a
// held body, may begin in one turn.
func (r *http2Request) give(data []byte, ends bool, trailers *head.List) {
	if len(data) > 0 && r.h.backlogged() {
		r.hold(data)
		data = nil
	}
	r.put(data, 0, len(data), ends, trailers, false)
	if r.h.backlogged() {
		r.h.list()
	}
}

// sendBody implements upstreamStream. It returns no error: a connection that breaks fails its
// requests itself.
func (r *http2Request) sendBody(f *flow, data []byte) error {
	r.push(f, data)
	return nil
}

// copyLimits bound the head of a copy. They are wide, because the original was within the limits of
// its listener.
var copyLimits = http1.Limits{Line: reactor.ScratchSize, Head: reactor.ScratchSize, Fields: 1 << 16}

// sendCopy implements upstreamStream. The copy is a message of HTTP/1.1; it is parsed and becomes
// the request of its exchange.
func (r *http2Request) sendCopy(f *flow, message []byte) error {
	n, bad := f.req.Parse(message, &copyLimits)
	if bad != http1.OK || n == 0 {
		return bad
	}
	f.Forward, _, _ = bytes.Cut(f.req.Target, questionMark)
	var body http1.Body
	framing := http1.Length
	switch {
	case f.req.Length == head.Unknown:
		framing = http1.Chunked
	case f.req.Length == 0:
		framing = http1.None
	}
	body.Start(framing, f.req.Length, &copyLimits)
	rest := message[n:]
	r.sendHead(f, framing == http1.None)
	for !body.Done() {
		data, used, bad := body.Next(rest)
		if bad != http1.OK || used == 0 {
			return io.ErrUnexpectedEOF
		}
		rest = rest[used:]
		r.give(data, body.Done(), nil)
	}
	return nil
}

// full implements upstreamStream.
func (r *http2Request) full() bool {
	if r.gone {
		return false // what is sent is discarded
	}
	if r.id == 0 {
		return true
	}
	if r.queue == nil && r.space() > 0 && !r.h.s.conn.Congested() {
		return false
	}
	r.wait()
	return true
}

// room implements upstreamStream.
func (r *http2Request) room() int {
	if r.gone {
		return r.h.w.loop.Piece()
	}
	return min(r.h.w.loop.Piece(), r.space())
}

// took implements upstreamStream. The windows tell, in large steps, how far the application has
// read. The kernel's acknowledgements tell that everything has arrived. They are counted for the
// whole connection, so those of the bytes sent since the last call are known at the next one.
func (r *http2Request) took() (mark int64, all bool) {
	conn := &r.h.s.conn
	if r.noted != r.went {
		r.noted, r.notedAt = r.went, conn.Written()
	}
	all = r.queue == nil && conn.Acked() >= r.notedAt
	mark = r.credit
	if all {
		mark += r.went
	}
	r.mark = max(r.mark, mark)
	return r.mark, all
}

// resume implements streamOwner.
func (r *http2Request) resume() {
	if r.sendQueue() && r.flow != nil && !r.full() {
		r.flow.upstreamDrained()
	}
}

// begun notes the head in flow.res; ends says that nothing follows it.
func (r *http2Request) begun(ends bool) {
	res := &r.flow.res
	r.answered, r.headWaits, r.ended = true, true, ends
	r.length = http2.ExpectLength(res.Length)
	res.KeepAlive, r.flow.answeredIn = true, http20
	switch {
	case res.Length == head.Unknown:
		res.Framing = http1.Chunked
	case res.Length > 0:
		res.Framing = http1.Length
	default:
		res.Framing = http1.None
	}
}

// deliver implements streamOwner. Most reads begin and end within a frame, so the parts of a
// response that one read brings are copied together, up to a record: a copy costs less than a write
// to the client for each part. A full frame is not copied.
func (r *http2Request) deliver(data []byte) {
	if r.packed != nil {
		r.packed.unpack()
	}
	h, id := r.h, r.id
	small := r.in.Len()+len(data) < recordSize
	switch {
	case !r.answered:
		h.resetFor(id, http2.MissingPseudo)
		return
	case small && !r.ended && len(h.in.Data()) > 0:
		r.keepContent(data)
		h.showLater(r)
		return
	case small && r.in.Len() > 0:
		r.keepContent(data)
		r.show()
		return
	}
	r.arrived = data
	r.show()
	if h.requestOf(id) == r && len(r.arrived) > 0 {
		data = r.arrived
		r.arrived = nil
		r.keepContent(data)
	}
}

// readOn implements upstreamStream.
func (r *http2Request) readOn() { r.show() }

// show gives the exchange what has come of the response, as far as it reads on.
func (r *http2Request) show() {
	f := r.flow
	if f == nil {
		return
	}
	life := f.Life()
	for r.flow == f && f.Life() == life && f.readsOn() {
		switch {
		case len(r.interim) > 0:
			out := r.interim
			r.interim = nil
			f.sendInterim(out)
		case r.headWaits:
			r.headWaits = false
			buf, from, to := r.nextContent()
			f.responseHead(buf, from, to)
		case r.buffered() > 0:
			buf, from, to := r.nextContent()
			f.responseBody(buf, from, to, scratch)
		case r.ended:
			f.responseBody(nil, 0, 0, 0)
		default:
			f.flushIdle()
			return
		}
	}
	if r.flow == f && f.Life() == life {
		r.behind = r.buffered() > 0
	}
}

// nextContent takes the next content of the response, buf[from:to]. The caller may overwrite
// buf[:from]. The content stays valid until the connection reads again.
func (r *http2Request) nextContent() (buf []byte, from, to int) {
	most := r.flow.piece()
	switch {
	case r.in.Len() > 0:
		buf, from, to = r.takeContent(most)
		r.taken(to-from, false)
	case len(r.arrived) > 0:
		buf = r.h.in.Bytes
		from = offset(r.arrived, buf)
		to = from + min(len(r.arrived), most)
		r.arrived = r.arrived[to-from:]
		r.taken(to-from, true)
	}
	return buf, from, to
}

// pending implements upstreamStream.
func (r *http2Request) pending() bool {
	return len(r.interim) > 0 || r.headWaits || r.buffered() > 0 || r.ended
}

// whole implements upstreamStream.
func (r *http2Request) whole() bool { return r.ended && r.buffered() == 0 }

// unanswered implements upstreamStream.
func (r *http2Request) unanswered() bool { return !r.answered && (r.h.s.requests > 1 || r.untouched) }

// finish implements upstreamStream: the response is whole, so the rest of the request is not
// needed.
func (r *http2Request) finish(bool) { r.end() }

// drop implements upstreamStream.
func (r *http2Request) drop() { r.end() }

// free implements upstreamStream.
func (r *http2Request) free() {
	if !r.freed {
		r.freed = true
		r.h.s.member.Free(r.h.w.loop.Now())
	}
}

// stop is called when the response is whole and the target takes no more of the request.
func (r *http2Request) stop() {
	r.gone = true
	r.dropQueue()
}

// dropFields gives back the memory of the response's head.
func (r *http2Request) dropFields() {
	if r.fields != nil {
		r.h.w.loop.PutBuffer(r.fields)
		r.fields = nil
	}
}

// end removes the request from its connection. It resets the stream if the target still works on
// the request, or waits for the rest of it.
func (r *http2Request) end() {
	h, w := r.h, r.h.w
	if r.unshown {
		h.unshown[slices.Index(h.unshown, r)] = nil
	}
	r.flow = nil
	freed := r.freed
	r.dropFields()
	if r.id == 0 { // it waits for the connection
		if at := slices.Index(h.waiting, r); at >= 0 {
			h.waiting = slices.Delete(h.waiting, at, at+1)
		}
		h.over(freed)
		return
	}
	if r.headSent && !(r.ended && r.endSent) && !r.gone && !h.dead {
		h.wrote(http2.AppendRST(h.room(32), r.id, http2.Cancel))
	}
	r.remove()
	r.keep(w)
	h.over(freed)
}

// fail ends the request's try with a fault of its connection.
func (r *http2Request) fail(how fault) {
	f := r.flow
	reason := exchange.UpstreamReset
	if f.stage.responseBegun() {
		reason = exchange.UpstreamCut
	}
	switch how {
	case malformed:
		f.badResponse()
	case unprocessed:
		r.untouched = true
		f.flags &^= wroteRequest // so that it may be sent again even if it is not idempotent
		f.upstreamFailed(upstream.Reset, reason)
	default:
		f.upstreamFailed(upstream.Reset, reason)
	}
}
