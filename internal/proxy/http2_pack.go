package proxy

// packAfter is how long, in nanoseconds, an answer is awaited until its exchange is packed, or more of
// it: longer than most answers take, so that these cost nothing more.
const packAfter = int64(1e9)

// packsASweep is how many exchanges are packed at a time: a thousand take about two milliseconds.
const packsASweep = 1000

// packWaiting packs exchanges of an HTTP/2 client that wait for their answer or for more of it, left at
// the most: they may be many, 128 a connection. Those of HTTP/1.1 have a socket each, which costs more.
// It returns how many are left.
func (h *http2Conn) packWaiting(now int64, left int) int {
	for d := h.first; d != nil && left > 0; d = d.after {
		st := d.owner.(*http2Stream)
		if f := st.flow; f != nil && st.onlyWaits() && now-f.waitsSince() >= packAfter {
			st.pack()
			left--
		}
	}
	return left
}

// waitsSince is since when nothing has come from the upstream of an exchange that onlyWaits. Each part
// of a response moves the timer on.
func (f *flow) waitsSince() int64 {
	if f.stage == stageSent {
		return f.sentAt
	}
	return f.timer.Deadline() - f.route.StreamTimeout
}

// onlyWaits says that nothing is under way for the stream but an answer that is awaited, or more of it:
// what came of that is with the client. One that the client's windows hold back has content in memory,
// and that not for long (limits.send_timeout).
func (st *http2Stream) onlyWaits() bool {
	f := st.flow
	if f.up == nil || !f.stage.readsResponse() || f.stage.responseBegun() != st.headSent ||
		f.is(held|inResponse|expecting) || !f.is(requestSent) || f.pace.Deadline() != 0 ||
		f.Source != nil || f.Encoder != nil {
		return false
	}
	if !st.ended || st.buffered() > 0 || st.deferred || st.watched || st.waits || st.queue != nil {
		return false
	}
	switch up := f.up.(type) {
	case *upstreamConn:
		return !up.deferred && !up.pending() && !up.conn.Batched()
	case *http2Request:
		return up.queue == nil && !up.waits && !up.unshown && !up.pending()
	}
	return false
}

// pack packs the stream's exchange. Whatever happens to either of its sides unpacks it first.
func (st *http2Stream) pack() {
	f, w := st.flow, st.h.c.w
	up, due := f.up, f.timer.Deadline()
	if !st.headSent {
		f.res.Reset() // of a head that is not complete: it is parsed from its beginning again
	}
	st.packed = w.pack(f, st.fields.Data())
	if st.packed == nil {
		return
	}
	st.flow = nil
	w.loop.PutBuffer(st.fields)
	st.fields = nil
	st.dropBody() // nothing is in it, but it may have a buffer
	switch up := up.(type) {
	case *upstreamConn:
		up.flow, up.packed = nil, st
	case *http2Request:
		up.flow, up.packed = nil, st
		up.dropBody()
		up.dropFields()
	}
	if due != 0 {
		w.loop.SetTimer(&st.stall, st, due)
	}
}

// unpack makes the stream's exchange a flow again.
func (st *http2Stream) unpack() *flow {
	w := st.h.c.w
	st.fields = w.loop.GetBuffer(st.packed.borrowed)
	f := w.unpack(st.packed, st.fields)
	st.packed, st.flow = nil, f
	switch up := f.up.(type) {
	case *upstreamConn:
		up.flow, up.packed = f, nil
	case *http2Request:
		up.flow, up.packed = f, nil
	}
	if due := st.stall.Deadline(); due != 0 {
		w.loop.SetTimer(&f.timer, f, due)
		w.loop.StopTimer(&st.stall)
	}
	return f
}
