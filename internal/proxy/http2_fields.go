package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/hpack"
	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
)

// This file deals with the field blocks on a client's HTTP/2 connection, which begin requests or
// are their trailers. Each block is decoded to its end, even if its stream is over, because later
// blocks depend on it.

// awaitBlock implements http2Side.
func (h *http2Conn) awaitBlock(begins bool) {
	if c := h.c; begins {
		c.w.loop.SetTimer(&c.timer, c, c.w.loop.Now()+c.listener.HeadTimeout)
		return
	}
	h.restTimer()
}

// restTimer sets the connection's timer for the time between field blocks.
func (h *http2Conn) restTimer() {
	c := h.c
	switch {
	case h.leaving == warned:
		c.w.loop.SetTimer(&c.timer, c, h.leaveAt)
	case h.open == 0:
		c.w.loop.SetTimer(&c.timer, c, c.w.loop.Now()+c.listener.IdleTimeout)
	default:
		c.w.loop.StopTimer(&c.timer)
	}
}

// fieldBlock implements http2Side.
func (h *http2Conn) fieldBlock(block []byte) {
	id := h.blockOf
	if why := h.blockFault; why != http2.OK {
		h.blockFault, h.last = http2.OK, max(h.last, id)
		if h.discardBlock(block) {
			h.resetFor(id, why)
		}
		return
	}
	if st := h.stream(id); st != nil {
		h.trailers(st, block)
		return
	}
	how, known := h.closedHow(id)
	switch {
	case id > h.last && h.leaving != left && h.open < maxStreams:
		h.last = id
		h.request(id, block)
	case id > h.last:
		h.last = id
		if h.discardBlock(block) {
			h.resetFor(id, http2.StreamRefused)
		}
	case !h.discardBlock(block) || known && how == ourReset:
	case known && how == peerReset:
		h.resetFor(id, http2.ClosedStream)
	case known:
		h.fail(http2.ClosedStream)
	default:
		h.fail(http2.IdleStream) // identifiers must grow (RFC 9113, section 5.1.1)
	}
}

// request begins an exchange. It decodes the fields into the worker's memory, and then copies them
// into a buffer of their size, which is known only then.
func (h *http2Conn) request(id uint32, block []byte) {
	c := h.c
	w := c.w
	if c.listener != c.acceptor.Listener {
		c.listener, c.peerText = c.acceptor.Listener, nil
		h.blockMost = c.listener.HTTP2.Head
	}
	f := w.newFlow(nil, &c.origin)
	bytes, why := h.decodeRequest(f, block)
	if why == http2.BadBlock {
		w.freeFlow(f)
		h.fail(why)
		return
	}
	if why != http2.OK && why.Status() == 400 {
		w.freeFlow(f)
		h.resetFor(id, why)
		return
	}
	if why != http2.OK && !h.maySayWhy() {
		w.freeFlow(f)
		return
	}
	c.requests++
	h.heads++
	if h.leaving != warned { // else the timer is that of the second GOAWAY
		w.loop.StopTimer(&c.timer)
	}
	st := h.begin(id)
	st.flow, f.stream, f.version = f, st, http20
	st.ended = h.blockEnds
	st.setPriority(&f.req.Fields)
	st.length = http2.ExpectLength(f.req.Length)
	st.fields = w.loop.GetBuffer(len(bytes))
	st.fields.End = copy(st.fields.Bytes, bytes)
	rebaseRequest(&f.req.Request, bytes, st.fields.Bytes)
	f.req.Minor = 1 // the upstream's side speaks HTTP/1.1
	if h.head.Expect100 {
		f.flags |= expects
	}
	if why != http2.OK {
		st.refuse(why)
		return
	}
	whole := st.ended
	if protocol := h.head.Protocol; protocol != nil {
		if !head.EqualFold(protocol, protocolWebSocket) {
			f.refuse(501, exchange.BadRequest)
			return
		}
		askUpgrade(f)
		whole = true // what follows belongs to the tunnel
	}
	f.begin(len(block)+http2.HeaderSize, whole)
}

// decodeRequest decodes a field block as a request's head. bytes is the memory of the head's parts,
// which belongs to the worker.
func (h *http2Conn) decodeRequest(f *flow, block []byte) (bytes []byte, why http2.Reason) {
	bytes = h.c.w.fieldBytes()[:0]
	h.head.Reset(&h.c.listener.HTTP2, true)
	h.decoder.Begin(block)
	var field hpack.Field
	for {
		out, ok, err := h.decoder.Next(&field, bytes)
		if err != nil {
			return nil, http2.BadBlock
		}
		if !ok {
			break
		}
		bytes = out
		if why == http2.OK {
			why = h.head.Field(&f.req.Request, field.Name, field.Value)
		}
	}
	if why == http2.OK && h.decoder.TooLarge() {
		why = http2.HeadTooLarge
	}
	if why != http2.OK {
		return bytes, why
	}
	out, why := h.head.End(&f.req.Request, h.blockEnds, bytes)
	if len(out) > reactor.ScratchSize { // joined cookies take their room a second time
		return bytes, http2.HeadTooLarge
	}
	return out, why
}

// rebaseRequest makes the parts of a head that point into old point to the same places in new.
func rebaseRequest(r *head.Request, old, new []byte) {
	for _, part := range [...]*[]byte{&r.Method, &r.Scheme, &r.Host, &r.Target, &r.Query} {
		*part = rebase(*part, old, new)
	}
	rebaseFields(&r.Fields, old, new)
}

// maySayWhy counts a head that is over a limit, and reports whether to answer it. Because a byte of
// a compressed head may stand for much, each may have cost as much as a hundred requests. A client
// that goes on sending them loses the connection.
func (h *http2Conn) maySayWhy() bool {
	over := h.budget.Spend(http2.FaultKind, h.c.w.loop.Now())
	if over != http2.OK {
		h.fail(over)
	}
	return over == http2.OK
}

// refuse answers a request whose head is over a limit.
func (st *http2Stream) refuse(why http2.Reason) {
	st.flow.w.shard.RefusedHTTP2[why]++
	st.flow.refuse(why.Status(), exchange.BadRequest)
}

// trailers deals with the field block that ends a request.
func (h *http2Conn) trailers(st *http2Stream, block []byte) {
	why, ok := st.takeTrailers(block, &h.c.listener.HTTP2)
	switch {
	case !ok:
		return
	case st.ended:
		why = http2.ClosedStream
	case why == http2.OK && st.flow != nil: // the length of a discarded body is not counted
		why = st.length.End()
	}
	if why != http2.OK {
		h.resetFor(st.id, why)
		return
	}
	st.ended = true
	if st.flow != nil {
		st.flow.bodyReadable()
	}
}
