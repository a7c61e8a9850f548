package proxy

import (
	"errors"
	"io"

	"github.com/quic-go/quic-go"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/http2"
	"plimsoll/internal/http3"
	"plimsoll/internal/reactor"
)

// http3Stream is one request of a client's HTTP/3 connection: see stream. It begins with the
// request's head. It is over once its exchange is over and quic-go has been given the whole
// response, or once it was reset. in and out are shared with its goroutines; the rest belongs to
// the loop.
type http3Stream struct {
	h             *http3Conn
	q             *quic.Stream
	flow          *flow        // nil once the exchange is over
	before, after *http3Stream // in the connection's list
	id            quic.StreamID

	in     inbox
	got    http3Delivery // taken out of in by the loop, and not yet by the exchange
	marked []byte        // the content of got at the mark; nil once another delivery took its place
	length http2.BodyLength
	out    outbox
	stall  reactor.Timer // how long the client may let its response wait
	went   int64         // bytes of the response that had gone when the wait began
	// stops the watch for the client's ceasing to read; nil if there is none
	unwatchCancel func() bool

	how      ending
	ended    bool // the client has sent all
	linked   bool // in the connection's list
	tunnel   bool // see startTunnel
	finished bool // the response's end is in out, or with quic-go
	outDone  bool // no more of the response is sent
	deferred bool // Run is to be called
	waits    bool // the response waits for the client
	gone     bool // the stream is over
}

var errMalformedBody = errors.New("proxy: the body of a request is malformed")

// begin begins the exchange of a request.
func (st *http3Stream) begin(hd *http3Head) {
	h := st.h
	st.got, st.ended = hd.begin, hd.begin.ended
	switch {
	case h.dead || st.how == peerReset:
		st.drop(http3.RequestCancelled)
		return
	case h.leaving == left && uint64(st.id) >= h.nextStream():
		h.w.shard.RefusedHTTP3[http3.AfterGoAway]++
		st.drop(http3.RequestRejected)
		return
	}
	f := st.newFlow()
	why := h.judge(f, hd, st.ended && len(st.got.content) == 0)
	if why == http2.OK && hd.begin.fault != http2.OK {
		why = hd.begin.fault
	}
	if why != http2.OK && why.Status() == 400 {
		h.w.freeFlow(f)
		st.flow = nil
		st.malformed(why)
		return
	}
	if why != http2.OK {
		h.w.shard.RefusedHeads3[why]++
		if !h.spend(http2.FaultKind, http3.TooManyFaults) {
			h.w.freeFlow(f)
			st.flow = nil
			st.drop(http3.ExcessiveLoad)
			return
		}
	}
	st.link()
	f.req.Minor = 1 // it is judged and copied like a request of HTTP/1.1
	if h.head.Expect100 {
		f.flags |= expects
	}
	if why != http2.OK {
		st.flow.refuse(why.Status(), exchange.BadRequest)
		return
	}
	st.length = http2.ExpectLength(f.req.Length)
	if bad := st.count(); bad != http2.OK {
		st.how = ourReset
		st.flow = nil
		h.w.freeFlow(f)
		st.malformed(bad)
		return
	}
	st.prioritize(f)
	if hd.early {
		f.flags |= earlyData
	}
	whole := st.ended && len(st.got.content) == 0
	if protocol := h.head.Protocol; protocol != nil {
		if !head.EqualFold(protocol, protocolWebSocket) {
			st.flow.refuse(501, exchange.BadRequest)
			return
		}
		askUpgrade(f)
		whole = true // what follows belongs to the tunnel
	}
	f.begin(hd.bytes+http3.MaxHeader/4, whole)
}

// newFlow takes a flow for the request. If the client has moved to another address, or a reload has
// replaced the listener, the new one counts from now on.
func (st *http3Stream) newFlow() *flow {
	h := st.h
	if h.listener != h.acceptor.Listener {
		// The quota stays the same over reloads.
		h.listener, h.peerText = h.acceptor.Listener, nil
		h.current.Store(h.listener)
	}
	if peer := addrPort(h.q.RemoteAddr()); peer != h.peer {
		h.peer, h.peerText = peer, nil
	}
	f := h.w.newFlow(st, &h.origin)
	st.flow, f.version = f, http30
	return f
}

// judge makes a request from its fields, and returns what is wrong with it. ended says that no body
// follows.
func (h *http3Conn) judge(f *flow, hd *http3Head, ended bool) http2.Reason {
	h.head.Reset(&h.listener.HTTP2, true)
	for _, field := range hd.fields {
		if why := h.head.Field(&f.req.Request, field.Name, field.Value); why != http2.OK {
			return why
		}
	}
	_, why := h.head.End(&f.req.Request, ended, nil)
	return why
}

var priorityName = []byte("Priority")

// prioritize sets the priority of the response among the others as the client asks (RFC 9218).
func (st *http3Stream) prioritize(f *flow) {
	if field := f.req.Fields.Find(priorityName); field != nil {
		p := http2.ParsePriority(field.Value)
		st.q.SetPriority(int8(p.Urgency), p.Incremental)
	}
}

// link puts the stream into its connection's list.
func (st *http3Stream) link() {
	h := st.h
	st.before = h.newest
	if h.newest == nil {
		h.first = st
	} else {
		h.newest.after = st
	}
	h.newest = st
	st.linked = true
	h.open++
	h.requests++
	h.last, h.began = max(h.last, st.id), true
	if h.leaving == staying {
		h.w.loop.StopTimer(&h.timer)
	}
}

// refuseUnread answers a request whose head did not come, or was not read.
func (st *http3Stream) refuseUnread(why http3.Reason, status int) {
	if st.h.dead {
		st.drop(http3.RequestCancelled)
		return
	}
	st.h.w.shard.RefusedHTTP3[why]++
	if why != http3.Overloaded && !st.h.spend(http2.FaultKind, http3.TooManyFaults) {
		st.drop(why.Code())
		return
	}
	st.newFlow()
	st.link()
	reason := exchange.BadRequest
	switch why {
	case http3.HeadTimeout:
		reason = exchange.HeadTimeout
	case http3.Overloaded:
		reason = exchange.InstanceOverloaded
	}
	st.flow.refuse(status, reason)
}

// malformed ends a stream whose message is malformed. The reasons are the same as over HTTP/2.
func (st *http3Stream) malformed(why http2.Reason) {
	h := st.h
	h.w.shard.RefusedHeads3[why]++
	h.spend(http2.FaultKind, http3.TooManyFaults)
	st.drop(http3.MessageError)
}

// fault ends a stream that failed before its head was whole. err says why.
func (st *http3Stream) fault(err error) {
	h := st.h
	why, ours := err.(http3.Reason)
	switch {
	case h.dead:
	case ours && why.EndsConnection():
		h.fail(why)
	case ours:
		h.w.shard.RefusedHTTP3[why]++
		h.spend(http2.FaultKind, http3.TooManyFaults)
		st.drop(why.Code())
		return
	case err == errStreamReset:
		h.w.shard.HTTP3Resets++
		h.spend(http2.ResetKind, http3.TooManyResets)
	}
	st.drop(http3.RequestCancelled)
}

// drop ends a stream that has no exchange.
func (st *http3Stream) drop(c http3.Code) {
	if st.how == endedBoth {
		st.how = ourReset
	}
	st.q.CancelRead(streamCode(c))
	st.q.CancelWrite(streamCode(c))
	st.outDone = true
	st.over()
}

// cancelled is called when the client stops reading the response, or the connection has ended.
func (st *http3Stream) cancelled() {
	if st.gone || st.how != endedBoth {
		return
	}
	h := st.h
	st.how = peerReset
	if !h.dead && h.q.Context().Err() == nil {
		h.w.shard.HTTP3Resets++
		h.spend(http2.ResetKind, http3.TooManyResets) // this does not end the present stream
	}
	if st.linked {
		st.giveUp(exchange.NoReason)
	}
}

// giveUp ends a stream on which nothing more is sent, and its exchange. If the whole response has
// just been sent, the exchange, and the stream with it, end later in this turn.
func (st *http3Stream) giveUp(reason exchange.Reason) {
	st.stopSending(http3.RequestCancelled)
	if st.flow == nil {
		st.over()
		return
	}
	st.flow.abort(reason)
}

// stopSending drops what is left of the response.
func (st *http3Stream) stopSending(c http3.Code) {
	st.outDone = true
	if st.out.drop() {
		st.q.CancelWrite(streamCode(c))
	}
}

// over ends a stream without an exchange once its response is with quic-go.
func (st *http3Stream) over() {
	if st.gone || st.flow != nil || !st.outDone {
		return
	}
	st.gone = true
	h := st.h
	if st.unwatchCancel != nil {
		st.unwatchCancel()
	}
	st.in.close()
	st.got.free()
	st.q.CancelRead(streamCode(http3.NoError)) // does nothing if its end has come
	st.q.ReleaseStreamCredit()
	h.w.loop.ReleaseTimer(&st.stall)
	if !st.linked {
		return
	}
	if st.how == endedBoth {
		h.budget.Completed()
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
	h.streamEnded()
}

// arrived is called when the inbox has been filled. What the exchange does not take now stays
// there, and so holds the client back.
func (st *http3Stream) arrived() {
	if st.gone || st.flow == nil {
		return
	}
	if _, err := st.in.peek(); err != nil {
		st.failed(err)
		return
	}
	st.flow.bodyReadable()
}

// failed ends an exchange whose body will not come whole.
func (st *http3Stream) failed(err error) {
	st.lost(err)
	st.giveUp(exchange.NoReason)
}

// lost notes that the body will not come whole. If the connection has to fail, it does so in a
// later turn: the caller may be in the middle of an exchange.
func (st *http3Stream) lost(err error) {
	h := st.h
	why, ours := err.(http3.Reason)
	switch {
	case ours && why.EndsConnection():
	case err == errStreamReset && st.how == endedBoth:
		h.w.shard.HTTP3Resets++
		if h.budget.Spend(http2.ResetKind, h.w.loop.Now()) == http2.OK {
			why = http3.OK
			break
		}
		why = http3.TooManyResets
	default:
		why = http3.OK
	}
	if why != http3.OK {
		h.w.loop.Post(func() { h.fail(why) })
	}
	st.how = peerReset
}

// pull takes the delivery in the inbox once the one before is used up.
func (st *http3Stream) pull() http2.Reason {
	if len(st.got.content) > 0 || st.ended {
		return http2.OK
	}
	d, ok := st.in.take()
	if !ok {
		return http2.OK
	}
	if len(st.marked) > 0 && st.flow.stage != stageHolding {
		// The marked content is gone, and was not kept for another try: that would hold the client
		// back.
		st.flow.flags |= bodyStreamed
	}
	st.got.free()
	st.got, st.ended, st.marked = d, d.ended, nil
	return st.count()
}

// count checks the delivery that was taken: its length against the one that the request has
// announced, and its trailers.
func (st *http3Stream) count() http2.Reason {
	bad := st.length.Add(len(st.got.content))
	if bad == http2.OK && st.ended {
		bad = st.length.End()
	}
	if bad == http2.OK {
		bad = st.got.fault
	}
	return bad
}

// buffered implements stream. Content without the body's end does not count: the next delivery
// takes its place, so it could not be sent again unless it is held.
func (st *http3Stream) buffered() int {
	if !st.ended {
		return 0
	}
	return len(st.got.content)
}

// nextBody implements stream.
func (st *http3Stream) nextBody(most int) (data []byte, err error) {
	if bad := st.pull(); bad != http2.OK {
		st.got.free()
		return nil, st.badBody(bad)
	}
	if err := st.got.err; err != nil {
		st.lost(err)
		return nil, err
	}
	if n := min(most, len(st.got.content)); n > 0 {
		data, st.got.content = st.got.content[:n], st.got.content[n:]
		if st.flow.stage != stageHolding && len(st.marked) == 0 {
			st.flow.flags |= bodyStreamed // it cannot be taken again
		}
	} else if !st.ended {
		return nil, reactor.ErrAgain
	}
	if st.ended && len(st.got.content) == 0 {
		return data, io.EOF
	}
	return data, nil
}

// badBody deals with a body whose length is not the announced one, or whose trailers are malformed.
// The caller gives up the exchange.
func (st *http3Stream) badBody(why http2.Reason) error {
	h := st.h
	h.w.shard.RefusedHeads3[why]++
	st.how = ourReset
	st.flow.Reason = exchange.BadRequest
	st.stopSending(http3.MessageError)
	if h.budget.Spend(http2.FaultKind, h.w.loop.Now()) != http2.OK {
		h.w.loop.Post(func() { h.fail(http3.TooManyFaults) }) // not in the middle of an exchange
	}
	return errMalformedBody
}

// mark implements stream. rewind can go back only within one delivery. That is enough for a short
// body, which comes with its request's head.
func (st *http3Stream) mark() { st.marked = st.got.content }

// rewind implements stream.
func (st *http3Stream) rewind() bool {
	if len(st.marked) > 0 {
		st.got.content = st.marked
	}
	return st.ended && len(st.got.content) == 0
}

// trailers implements stream.
func (st *http3Stream) trailers() *head.List { return st.got.trailer }

// skip implements stream.
func (st *http3Stream) skip() bool {
	for !st.ended {
		if full, err := st.in.peek(); !full || err != nil {
			break
		}
		if st.got.content = nil; st.pull() != http2.OK {
			break
		}
	}
	st.got.free()
	st.marked = nil
	return st.ended
}

// pending implements stream.
func (st *http3Stream) pending() bool {
	full, _ := st.in.peek()
	return full || st.ended || len(st.got.content) > 0
}

// later implements stream.
func (st *http3Stream) later() {
	if !st.deferred {
		st.deferred = true
		st.h.w.loop.Defer(st)
	}
}

// Run implements reactor.Runner. It does what later put off.
func (st *http3Stream) Run() {
	st.deferred = false
	if st.flow != nil {
		st.flow.bodyReadable()
	}
}

// finish implements stream. Whether the request is the last one matters only over HTTP/1.1.
func (st *http3Stream) finish(f *flow, _ bool) {
	if !st.finished { // a tunnel that the service has not ended
		if !f.toldToClose() {
			st.resetWith(f, http3.RequestCancelled)
			return
		}
		st.finished = true
		st.push(nil, nil, nil, true)
		if !st.outDone {
			st.watch()
		}
	}
	st.free(f)
	st.over()
}

// reset implements stream.
func (st *http3Stream) reset(f *flow) { st.resetWith(f, http3.InternalError) }

func (st *http3Stream) resetWith(f *flow, code http3.Code) {
	c := http3.RequestCancelled
	if st.how == endedBoth {
		st.how, c = ourReset, code
	}
	st.stopSending(c)
	st.free(f)
	st.over()
}

// cut implements stream.
func (st *http3Stream) cut(f *flow) { st.reset(f) }

// free ends the stream's exchange. The rest of the request's body is not read (RFC 9114, section
// 4.1).
func (st *http3Stream) free(f *flow) {
	st.flow = nil
	f.w.freeFlow(f)
	st.in.close()
	st.got.free()
	if !st.ended {
		st.q.CancelRead(streamCode(http3.NoError))
	}
}
