package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/http2"
)

// http2Conn is the part of a clientConn that only HTTP/2 has: its streams, and what the client may
// do (RFC 9113). The clientConn keeps the socket, TLS, the connection's time-outs and its end.
type http2Conn struct {
	http2Link
	c *clientConn

	head     http2.RequestHead
	early    earlyPriorities
	closed   [closedKept]closedStream // the streams that ended last, in a ring
	closedAt int

	alive   alive
	leaving leaving
	leftAt  uint32 // the last stream of the GOAWAY that was sent last
	leaveAt int64  // when the second GOAWAY is due, after the first
}

// leaving says what the gateway has told the client about the end of the connection.
type leaving uint8

const (
	staying leaving = iota
	warned          // a GOAWAY was sent, and every stream is still served
	left            // a GOAWAY was sent, and streams after the one that it names are not served
)

const (
	closedKept = 32

	// maxStreams is SETTINGS_MAX_CONCURRENT_STREAMS. RFC 9113 asks for no less than 100; nginx and
	// h2o have 128 and 100.
	maxStreams = 128

	// connectionWindow is the first size, in bytes, of the window for all bodies of a connection
	// together. clientHeld is how many bytes of bodies that are not taken are kept in memory before
	// the window shrinks by them: a full window of 64 streams.
	connectionWindow = windowsAtOnce * streamWindow
	clientHeld       = 64 * streamWindow
)

// closedStream is a stream that has ended. What may still come for it depends on how it ended.
type closedStream struct {
	id  uint32
	how ending
}

type ending uint8

const (
	endedBoth ending = iota // both sides have ended it, or it goes on
	peerReset               // it was reset by the client
	ourReset                // it was reset by us, and the client may not know yet
)

// startHTTP2 makes the connection one that speaks HTTP/2. What was read already is in c.in.
func (c *clientConn) startHTTP2() {
	h := &http2Conn{c: c}
	h.init(c.w, h, true, c.in)
	h.intake.init(connectionWindow, clientHeld)
	h.blockMost = c.listener.HTTP2.Head
	c.http2, c.state = h, clientHTTP2
	h.alive.heard = true
	c.in = nil
	c.w.streamCounts[0]++
	if c.flow != nil {
		c.freeFlow()
	}
	dst := h.room(128)
	dst = http2.AppendSettings(dst,
		http2.Setting{ID: http2.MaxConcurrentStreams, Value: maxStreams},
		http2.Setting{ID: http2.InitialWindowSize, Value: streamWindow},
		http2.Setting{ID: http2.MaxHeaderListSize, Value: uint32(c.listener.HTTP2.Head)},
		http2.Setting{ID: http2.EnableConnectProtocol, Value: 1},
		http2.Setting{ID: http2.NoRFC7540Priorities, Value: 1})
	h.wrote(h.announceWindow(dst))
	c.w.loop.SetTimer(&c.timer, c, c.w.loop.Now()+c.listener.HeadTimeout)
	if c.w.draining || c.acceptor.Closed {
		h.leave(warned)
	}
	c.later()
}

// read implements http2Side.
func (h *http2Conn) read(p []byte) (int, error) {
	n, err := h.c.read(p)
	h.alive.heard = h.alive.heard || n > 0
	return n, err
}

// backlogged implements http2Side.
func (h *http2Conn) backlogged() bool { return h.c.conn.Congested() }

// later implements http2Side.
func (h *http2Conn) later() { h.c.later() }

// settled implements http2Side: the connection has begun in time.
func (h *http2Conn) settled(first bool) {
	if first {
		h.restTimer()
	}
}

// write implements http2Side.
func (h *http2Conn) write(p []byte) {
	c := h.c
	if c.state != clientHTTP2 || h.broken || len(p) == 0 {
		return
	}
	if h.flushing {
		c.conn.Cork()
	}
	h.wentOut(c.write(p) == nil)
}

// push implements http2Side.
func (h *http2Conn) push() {
	if c := h.c; c.state == clientHTTP2 && c.http2 == h && !h.broken {
		c.conn.Push()
		h.wentOut(!c.conn.Failed())
	}
}

// wentOut deals with the result of a write or a push.
func (h *http2Conn) wentOut(ok bool) {
	if !ok {
		h.broken = true
		h.c.later()
		return
	}
	if h.c.conn.Queued() > 0 {
		h.c.watchTaking()
	}
}

// frame implements http2Side.
func (h *http2Conn) frame(f *http2.Frame) {
	switch f.Type {
	case http2.GoAway:
		h.leave(left)
	case http2.PriorityUpdate:
		h.prioritise(f)
	default:
		h.peerResets(f)
	}
}

// peerResets deals with a RST_STREAM.
func (h *http2Conn) peerResets(f *http2.Frame) {
	st := h.stream(f.Stream)
	if st == nil {
		if h.mustHaveBegun(f.Stream) {
			h.closedBy(f.Stream, peerReset)
		}
		return
	}
	h.c.w.shard.HTTP2Resets++
	st.how = peerReset
	st.giveUp(exchange.NoReason)
}

// fail implements http2Side: the client is told why, and every exchange is
// given up.
func (h *http2Conn) fail(why http2.Reason) {
	if h.dead {
		return
	}
	h.c.w.shard.RefusedHTTP2[why]++
	h.wrote(http2.AppendGoAway(h.room(64), h.lastServed(), why.Code(), why.Error()))
	h.flush()
	h.end()
}

// lost implements http2Side.
func (h *http2Conn) lost() {
	h.dead = true
	h.giveUpAll(exchange.NoReason)
	h.ended()
}

// end gives up all exchanges, and closes the connection behind what was sent.
func (h *http2Conn) end() {
	if h.dead {
		return
	}
	h.dead = true
	h.giveUpAll(exchange.NoReason)
	h.ended()
}

// abort ends the connection from our side.
func (h *http2Conn) abort(reason exchange.Reason) {
	h.dead = true
	h.giveUpAll(reason)
	h.ended()
}

// giveUpAll ends the exchanges of all streams. The upstream connection that one gives up may go to
// another, and that may end at once.
func (h *http2Conn) giveUpAll(reason exchange.Reason) {
	for _, id := range h.identifiers(nil) {
		if st := h.stream(id); st != nil {
			st.how = peerReset
			st.giveUp(reason)
		}
	}
}

// leave tells the client that the connection ends, in two steps if there is time. Requests that are
// on their way when the first GOAWAY arrives are still served (RFC 9113, section 6.8).
func (h *http2Conn) leave(how leaving) {
	if h.dead || h.leaving >= how {
		return
	}
	h.leaving = how
	last := h.last
	h.leftAt = last
	if how == warned {
		last = 1<<31 - 1
		h.leaveAt = h.c.w.loop.Now() + h.grace()
		h.c.w.loop.SetTimer(&h.c.timer, h.c, h.leaveAt)
	}
	h.wrote(http2.AppendGoAway(h.room(64), last, http2.NoError, ""))
	h.endIfIdle()
}

// lastServed returns the last stream that is served. Once the client was told, it must not grow
// (RFC 9113, section 6.8), whatever streams the client begins afterwards.
func (h *http2Conn) lastServed() uint32 {
	if h.leaving == left {
		return h.leftAt
	}
	return h.last
}

// grace returns the time between the two GOAWAYs, in nanoseconds.
func (h *http2Conn) grace() int64 { return min(drainGrace, h.c.listener.IdleTimeout) }

// expire is called when the connection's timer is due: a field block has taken too long, there was no
// request for too long, or the time between the two GOAWAYs is over.
func (h *http2Conn) expire() {
	switch {
	case h.block != nil || !h.greeted:
		h.fail(http2.HeadTimeout)
	case h.leaving == warned || h.open == 0:
		h.leave(left)
	}
	h.endIfIdle()
}

// endIfIdle ends a connection that has no stream left and accepts no further one.
func (h *http2Conn) endIfIdle() {
	if h.leaving == left && h.open == 0 && !h.dead {
		h.flush()
		h.end()
	}
}

// ended closes the socket once the last stream has gone.
func (h *http2Conn) ended() {
	if !h.dead || h.open > 0 || h.c.state != clientHTTP2 {
		return
	}
	h.c.endHTTP2()
}
