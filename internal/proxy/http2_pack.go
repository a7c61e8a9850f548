package proxy

// packAfter is for how many nanoseconds an exchange waits for its answer, or for more of it, before
// it is packed. Most answers take less, so they are not affected.
const packAfter = int64(1e9)

// packsASweep is how many exchanges at most are packed in a sweep: a thousand take about two
// milliseconds.
const packsASweep = 1000

// packWaiting packs exchanges of an HTTP/2 client that wait for their answer, or for more of it.
// There may be 128 on a connection. (Each exchange over HTTP/1.1 has a socket, which costs more
// than its flow.) It packs at most left exchanges, and returns how many of left remain.
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

// waitsSince returns the time since which nothing has come from the upstream, for an exchange for
// which onlyWaits is true. Each part of a response sets the timer again.
func (f *flow) waitsSince() int64 {
	if f.stage == stageSent {
		return f.sentAt
	}
	return f.timer.Deadline() - f.route.StreamTimeout
}

// onlyWaits reports whether the stream does nothing but wait for its answer, or for more of it, and
// the client was sent everything that has come. It is false for an answer that the client's windows
// hold back: that has content in memory, but not for long (limits.send_timeout).
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

// pack packs the stream's exchange. Any event on either of its sides unpacks it first.
func (st *http2Stream) pack() {
	f, w := st.flow, st.h.c.w
	up, due := f.up, f.timer.Deadline()
	if !st.headSent {
		f.res.Reset() // an incomplete head is parsed again from its beginning
	}
	st.packed = w.pack(f, st.fields.Data())
	if st.packed == nil {
		return
	}
	st.flow = nil
	w.loop.PutBuffer(st.fields)
	st.fields = nil
	st.dropBody() // it is empty, but may have a buffer
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
