package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/hpack"
	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
)

// http2Conn is what a clientConn that speaks HTTP/2 has besides: its streams, windows and header
// compression (RFC 9113). clientConn keeps the socket, TLS, the connection's time-outs and its end.
//
// Its frames are gathered in out and go to the socket once in a turn: see http2_send.go.
type http2Conn struct {
	c       *clientConn
	reader  http2.Reader
	decoder hpack.Decoder
	encoder hpack.Encoder
	peer    http2.Settings
	budget  http2.Budget
	send    http2.SendWindow    // of the connection
	receive http2.ReceiveWindow // likewise

	in    *reactor.Buffer // bytes read and not yet used; nil while there are none
	out   *reactor.Buffer // frames for the client; nil while there are none
	block *reactor.Buffer // a field block that is not complete; nil while there is none

	head       http2.RequestHead
	streams    [streamBuckets]*http2Stream // by identifier, chained
	first      *http2Stream                // all streams, oldest first
	newest     *http2Stream
	open       int                      // how many
	last       uint32                   // the highest stream that the client began
	blockOf    uint32                   // the stream of block
	blockEnds  bool                     // END_STREAM came with the Headers that block begins with
	blockFault http2.Reason             // why its stream is reset once it is decoded, or OK
	heads      int                      // requests begun in this turn
	closed     [closedKept]closedStream // the streams that ended last, in a ring
	closedAt   int

	leaving  leaving
	leftAt   uint32 // the last stream of the GOAWAY that was sent last
	leaveAt  int64  // when the second GOAWAY is due, after the first
	broken   bool   // a write failed: it ends at the end of the turn
	greeted  bool   // its SETTINGS have come
	dead     bool   // nothing more is sent or read; the connection ends with its last stream
	flushing bool   // Run is to be called at the end of the batch
}

// leaving is how far the gateway has told the client that the connection ends.
type leaving uint8

const (
	staying leaving = iota
	warned          // GOAWAY was sent that still takes care of every stream
	left            // GOAWAY was sent: streams after last are not taken care of
)

const (
	streamBuckets = 16
	closedKept    = 32

	// maxStreams is SETTINGS_MAX_CONCURRENT_STREAMS. RFC 9113 asks for no less than 100; nginx and
	// h2o have 128 and 100.
	maxStreams = 128

	// headsPerTurn is how many requests of one connection begin until others are served.
	headsPerTurn = 32

	// A client may send streamWindow bytes of a body that the gateway does not take on, and
	// connectionWindow of all bodies of a connection together: as much is kept in memory at most.
	streamWindow     = 64 << 10
	connectionWindow = 256 << 10
)

// closedStream is a stream that has ended: what still comes for it is judged by how.
type closedStream struct {
	id  uint32
	how ending
}

type ending uint8

const (
	endedBoth ending = iota // both sides have said all
	peerReset               // by the client
	ourReset                // by us: the client may not know yet
)

// startHTTP2 makes the connection one of HTTP/2. early is what came already of it.
func (c *clientConn) startHTTP2() {
	h := &http2Conn{
		c: c, peer: http2.InitialSettings(), send: http2.ConnectionWindow,
		receive: http2.NewReceiveWindow(http2.ConnectionWindow),
	}
	h.reader.Reset(true, http2.InitialSettings().MaxFrameSize)
	h.decoder.Init(hpack.Initial)
	h.encoder.Init(0, false)
	c.http2, c.state = h, clientHTTP2
	h.in, c.in = c.in, nil
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
	h.wrote(http2.AppendWindowUpdate(dst, 0, h.receive.Grow(connectionWindow)))
	c.w.loop.SetTimer(&c.timer, c, c.w.loop.Now()+c.listener.HeadTimeout)
	if c.w.draining || c.acceptor.Closed {
		h.leave(warned)
	}
	c.later()
}

// readOn reads frames as long as there are some, the client takes what it is sent, and others need
// not be served.
func (h *http2Conn) readOn() {
	c := h.c
	if h.broken {
		h.lost()
		return
	}
	h.heads = 0
	for reads := 0; !h.dead; reads++ {
		if h.in != nil && !h.frames() {
			return
		}
		if c.conn.Congested() { // Drained goes on
			if h.in != nil {
				h.shrink()
			}
			return
		}
		if reads == burst {
			c.later()
			return
		}
		if err := h.receiveBytes(); err != nil {
			if !pause(err) {
				h.lost()
			}
			return
		}
	}
}

// receiveBytes reads once. The buffer has room for the largest frame.
func (h *http2Conn) receiveBytes() error {
	l := h.c.w.loop
	if h.in == nil {
		// Not the loop's scratch memory: what a frame brings about may read into that.
		h.in = l.GetBuffer(reactor.ScratchSize)
	} else if len(h.in.Room()) < reactor.ScratchSize/2 {
		larger := l.GetBuffer(reactor.ScratchSize)
		larger.End = copy(larger.Bytes, h.in.Data())
		l.PutBuffer(h.in)
		h.in = larger
	}
	n, err := h.c.read(h.in.Room())
	h.in.End += n
	if err != nil {
		h.shrink()
	}
	return err
}

// shrink gives the large buffer of reading back, and keeps what is there of a frame in one of its
// size.
func (h *http2Conn) shrink() {
	l := h.c.w.loop
	left := h.in.Data()
	switch {
	case len(left) == 0:
		l.PutBuffer(h.in)
		h.in = nil
	case len(h.in.Bytes) > 2*len(left):
		small := l.GetBuffer(len(left))
		small.End = copy(small.Bytes, left)
		l.PutBuffer(h.in)
		h.in = small
	}
}

// frames deals with the frames that are there. False means that the connection is over, or goes on
// at the end of the turn.
func (h *http2Conn) frames() bool {
	for len(h.in.Data()) > 0 {
		if h.heads >= headsPerTurn {
			h.c.later()
			return false
		}
		f, n, bad := h.reader.Next(h.in.Data())
		if bad.Failed() && bad.Stream == 0 {
			h.fail(bad.Reason)
			return false
		}
		if n == 0 {
			break
		}
		h.in.Start += n
		if why := h.budget.Frame(&f, h.c.listener.HTTP2.Head, h.c.w.loop.Now()); why != http2.OK {
			h.fail(why)
			return false
		}
		switch {
		case !bad.Failed():
			h.frame(&f)
		case f.Type == http2.Headers:
			// The field block that begins with it must be decoded: later blocks build upon it.
			h.blockFault = bad.Reason
			h.fields(&f)
		case f.Type != http2.WindowUpdate || h.mustHaveBegun(f.Stream):
			h.resetFor(bad.Stream, bad.Reason)
		}
		if h.dead {
			return false
		}
	}
	return true
}

// frame deals with one frame.
func (h *http2Conn) frame(f *http2.Frame) {
	switch f.Type {
	case http2.Data:
		h.data(f)
	case http2.Headers, http2.Continuation:
		h.fields(f)
	case http2.RSTStream:
		h.peerResets(f)
	case http2.SettingsFrame:
		h.settings(f)
	case http2.Ping:
		if !f.Has(http2.Ack) {
			h.wrote(http2.AppendPing(h.room(32), true, [8]byte(f.Payload)))
		}
	case http2.GoAway:
		h.leave(left)
	case http2.WindowUpdate:
		h.windowUpdate(f)
	}
	// The rest, PRIORITY among it, changes nothing.
}

// settings takes the client's SETTINGS.
func (h *http2Conn) settings(f *http2.Frame) {
	if f.Has(http2.Ack) {
		return
	}
	if !h.greeted {
		h.greeted = true
		h.restTimer() // the beginning came in time
	}
	change, bad := h.peer.Apply(f.Payload, false)
	if bad != http2.OK {
		h.fail(bad)
		return
	}
	if change.Has(http2.HeaderTableSize) {
		h.encoder.Resize(change.TableSize)
		h.encoder.Resize(h.peer.HeaderTableSize)
	}
	h.wrote(http2.AppendSettingsAck(h.room(32)))
	if change.Window == 0 {
		return
	}
	for st := h.first; st != nil; st = st.after {
		if bad := st.window.Shift(change.Window); bad != http2.OK {
			h.fail(bad)
			return
		}
	}
	h.resume()
}

// windowUpdate takes a WINDOW_UPDATE.
func (h *http2Conn) windowUpdate(f *http2.Frame) {
	if f.Stream == 0 {
		if bad := h.send.Add(f.Increment()); bad != http2.OK {
			h.fail(bad)
			return
		}
		h.resume()
		return
	}
	st := h.find(f.Stream)
	if st == nil {
		h.mustHaveBegun(f.Stream)
		return
	}
	if bad := st.window.Add(f.Increment()); bad != http2.OK {
		h.resetFor(f.Stream, bad)
		return
	}
	st.resume()
}

// mustHaveBegun ends the connection where a frame came for a stream that has not begun (RFC 9113,
// section 5.1). It says whether it had.
func (h *http2Conn) mustHaveBegun(id uint32) bool {
	if id <= h.last {
		return true
	}
	h.fail(http2.IdleStream)
	return false
}

// peerResets takes a RST_STREAM.
func (h *http2Conn) peerResets(f *http2.Frame) {
	st := h.find(f.Stream)
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

// resume lets every stream that waited for the connection go on.
func (h *http2Conn) resume() {
	w := h.c.w
	w.ids = h.identifiers(w.ids[:0])
	for _, id := range w.ids {
		if st := h.find(id); st != nil && !h.dead {
			st.resume()
		}
	}
}

// identifiers appends those of all streams. Who goes through them looks each one up again: what
// happens to one stream may end others, by a place at an upstream that it leaves.
func (h *http2Conn) identifiers(ids []uint32) []uint32 {
	for st := h.first; st != nil; st = st.after {
		ids = append(ids, st.id)
	}
	return ids
}

// fail ends the connection because of what the client did: it is told why, and every exchange is
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

// lost is called when the client has gone, or its connection broke.
func (h *http2Conn) lost() {
	h.dead = true
	h.giveUpAll(exchange.NoReason)
	h.ended()
}

// end closes the connection in order, after what was sent.
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

// giveUpAll ends the exchanges of all streams. What one gives up at an upstream may go to another,
// which may end by it at once.
func (h *http2Conn) giveUpAll(reason exchange.Reason) {
	for _, id := range h.identifiers(nil) {
		if st := h.find(id); st != nil {
			st.how = peerReset
			st.giveUp(reason)
		}
	}
}

// leave tells the client that the connection ends, in two steps where there is time: requests that
// are on their way when the first GOAWAY arrives are still served (RFC 9113, section 6.8).
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

// lastServed is the last stream that is taken care of. Once the client was told it does not grow (RFC
// 9113, section 6.8), whatever streams it begins afterwards.
func (h *http2Conn) lastServed() uint32 {
	if h.leaving == left {
		return h.leftAt
	}
	return h.last
}

// grace is how long the first GOAWAY comes before the second.
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

// endIfIdle ends a connection that has no stream left and begins none.
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

// release gives back what the connection holds.
func (h *http2Conn) release() {
	l := h.c.w.loop
	for _, b := range [...]**reactor.Buffer{&h.in, &h.out, &h.block} {
		if *b != nil {
			l.PutBuffer(*b)
			*b = nil
		}
	}
}
