package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/hpack"
	"plimsoll/internal/http2"
	"plimsoll/internal/invariant"
	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// http2Upstream is what an upstreamConn that speaks HTTP/2 has besides: its requests, each a stream
// (RFC 9113). upstreamConn keeps the socket, TLS, the dial and its end.
//
// Its life:
//
//	connecting → open ⇄ idle → closed
//
// connecting: requests may be assigned to it already, and wait until its target's SETTINGS have come:
// before, nobody knows how many it takes. open: it carries requests, and is shared in its pool while
// it takes more. idle: it carries none, and lies in its pool as any connection does.
type http2Upstream struct {
	http2Link
	s       *upstreamConn
	head    http2.ResponseHead
	waiting []*http2Request // assigned while it connects, in their order
	unshown []*http2Request // see showLater
	used    int             // requests that it carries or that wait for it
	most    int             // how many it takes at once
	next    uint32          // the next stream's identifier
	timer   reactor.Timer   // when it is looked whether the target is still there
	shared  bool            // in its pool's list of those that take more
	leaving bool            // it takes no further requests
	heard   bool            // bytes have come since the last look
	pinged  bool            // a PING is to bring some
	asked   asked
}

// asked are the PINGs since the target sent fields or content.
type asked struct {
	times int
	at    int64  // when the last one was sent
	last  uint32 // the last stream then
}

const (
	// upstreamStreams is how many requests one connection carries at once, whatever its target
	// allows. What goes beyond opens another: one TCP connection loses all of its streams' time with
	// each lost packet.
	upstreamStreams = 100

	// upstreamWindow is what a target may have under way of all responses of a connection together, at
	// first: more than a client, because it is trusted and has many answers to give at once.
	// upstreamHeld is what is kept in memory of responses that their clients do not take until that
	// is missing in the window: all of them with a full window of their own.
	upstreamWindow = 2 << 20
	upstreamHeld   = upstreamStreams * streamWindow

	// keepAliveAfter is how long a connection with requests may be silent until the target is asked by
	// a PING whether it is there, and then how long it may take to answer, in nanoseconds.
	keepAliveAfter = int64(15e9)

	// Servers of gRPC close a connection with too_many_pings that gets more than three PINGs within
	// five minutes of each other while they have nothing to send: a stream that is silent for a minute
	// would be cut off. So hastyPings are sent, one more when a request has come since, and others so
	// much later.
	hastyPings    = 2
	patientlyAsks = int64(330e9)

	// lastIdentifier is the highest that a connection uses; the protocol ends at 2^31-1.
	lastIdentifier = 1<<30 + 1
)

// upstreamLimits bound the heads and trailers of responses over HTTP/2, as responseLimits do over
// HTTP/1.1.
var upstreamLimits = http2.Limits{Head: 60 << 10, Fields: 256}

// startHTTP2 makes a connection, open or not, one of HTTP/2.
func (s *upstreamConn) startHTTP2() *http2Upstream {
	h := &http2Upstream{s: s, most: upstreamStreams, next: 1}
	h.init(s.w, h, false, nil)
	h.intake.init(upstreamWindow, upstreamHeld)
	h.blockMost = upstreamLimits.Head
	s.http2 = h
	return h
}

// assign makes f a request on the connection: at once where it is open, or else when it will be.
func (h *http2Upstream) assign(f *flow) {
	r := h.request(f)
	h.used++
	h.list()
	if h.greeted {
		h.begin(r)
		return
	}
	h.waiting = append(h.waiting, r)
	f.stage, f.sentAt = stageConnecting, h.w.loop.Now()
	f.beginWait()
	f.w.loop.SetTimer(&f.timer, f, f.tryDeadline(h.s.upstream.ConnectTimeout))
}

// shared says that the connection carries requests beside another that may come.
func (s *upstreamConn) shared() bool { return s.http2 != nil && s.http2.used > 0 }

// begin sends a request.
func (h *http2Upstream) begin(r *http2Request) {
	f := r.flow
	if h.s.requests++; h.s.requests > 1 {
		h.s.stats().Reused++
	}
	h.last = h.next
	h.add(&r.streamData, r, h.next)
	r.priority.Incremental = true // the requests are of different clients: they share
	h.next += 2
	most := h.s.upstream.MaxRequests
	if h.next > lastIdentifier || most > 0 && h.s.requests >= most {
		h.leave()
	}
	f.endWait(h.w.loop.Now())
	if f.is(isMirror) {
		f.sendCopy()
	} else {
		f.sendRequest()
	}
	h.list()
}

// list has the pool know whether the connection takes more requests. One that is congested does not:
// the heads of many would stand behind what the target does not take.
func (h *http2Upstream) list() {
	may := h.used > 0 && h.used < h.most && !h.leaving && !h.dead && !h.backlogged()
	if may == h.shared {
		return
	}
	h.shared = may
	if may {
		h.s.member.Share(h.s)
	} else if !h.s.member.Unshare(h.s) && invariant.On {
		panic("proxy: a connection that was shared is not in its pool")
	}
}

// leave makes the connection take no further requests.
func (h *http2Upstream) leave() {
	h.leaving = true
	h.list()
}

// opened begins the protocol.
func (h *http2Upstream) opened() {
	dst := append(h.room(256), http2.Preface...)
	dst = http2.AppendSettings(dst,
		http2.Setting{ID: http2.EnablePush, Value: 0},
		http2.Setting{ID: http2.InitialWindowSize, Value: streamWindow},
		http2.Setting{ID: http2.MaxHeaderListSize, Value: uint32(upstreamLimits.Head)})
	h.wrote(h.announceWindow(dst))
	h.w.loop.SetTimer(&h.timer, h, h.w.loop.Now()+keepAliveAfter)
}

// Expire implements reactor.Expirer: it is time to look whether the target is still there.
func (h *http2Upstream) Expire(_ *reactor.Timer, now int64) {
	switch {
	case h.dead:
		return
	case h.heard || h.used == 0:
		h.pinged = false
	case h.pinged:
		h.lost()
		return
	case h.mayAsk(now):
		h.pinged = true
		h.asked = asked{times: h.asked.times + 1, at: now, last: h.last}
		h.wrote(http2.AppendPing(h.room(32), false, [8]byte{}))
	}
	h.heard = false
	h.w.loop.SetTimer(&h.timer, h, now+keepAliveAfter)
}

// mayAsk says whether the target takes a PING, see hastyPings.
func (h *http2Upstream) mayAsk(now int64) bool {
	if h.spoke {
		h.spoke, h.asked = false, asked{}
	}
	a := &h.asked
	return a.times < hastyPings || a.times == hastyPings && h.last > a.last || now-a.at >= patientlyAsks
}

// read implements http2Side.
func (h *http2Upstream) read(p []byte) (int, error) {
	n, err := h.s.read(p)
	h.w.shard.UpstreamReceived += uint64(n)
	h.heard = h.heard || n > 0
	return n, err
}

// write implements http2Side.
func (h *http2Upstream) write(p []byte) {
	if h.s.state != upstreamOpen || h.broken || h.dead || len(p) == 0 {
		return
	}
	if h.flushing {
		h.s.conn.Cork()
	}
	if h.s.write(p) != nil {
		h.broken = true
		h.later()
	}
}

// push implements http2Side.
func (h *http2Upstream) push() {
	h.s.conn.Push()
	if h.s.conn.Failed() && h.s.state == upstreamOpen && !h.broken && !h.dead {
		h.broken = true
		h.later()
	}
}

// backlogged implements http2Side.
func (h *http2Upstream) backlogged() bool { return h.s.conn.Congested() }

// later implements http2Side.
func (h *http2Upstream) later() { h.s.later() }

// awaitBlock implements http2Side: each request has its own time-out.
func (h *http2Upstream) awaitBlock(bool) {}

// readable reads what came.
func (h *http2Upstream) readable() {
	h.readOn()
	h.showAll()
}

// lives deals with what the target has sent on a connection that carries nothing, and says whether that
// was not its end.
func (h *http2Upstream) lives() bool {
	h.readable()
	return !h.dead && !h.broken && !h.leaving && h.most > 0
}

// settled implements http2Side. The first SETTINGS begin the requests that wait for them.
func (h *http2Upstream) settled(first bool) {
	h.most = int(min(upstreamStreams, h.peer.MaxConcurrentStreams))
	if h.most == 0 && first {
		h.fail(http2.StreamRefused) // it would be of no use to anybody
		return
	}
	h.list()
	if !first {
		if h.most == 0 && h.used == 0 {
			h.closeIdle()
		}
		return
	}
	waiting := h.waiting
	h.waiting = nil
	for i, r := range waiting {
		f := r.flow
		switch {
		case f == nil: // given up meanwhile, by what happened to one before
		case i < h.most && !h.dead && !h.leaving && !h.backlogged():
			h.w.loop.StopTimer(&f.timer)
			h.begin(r)
		default: // more than it takes, or reads: another connection serves them
			f.stage = stagePolicies
			f.dropUpstream()
			f.connect()
		}
	}
}

// fieldBlock implements http2Side.
func (h *http2Upstream) fieldBlock(block []byte) {
	id := h.blockOf
	r := h.requestOf(id)
	why := h.blockFault
	h.blockFault = http2.OK
	switch {
	case id > h.last:
		h.fail(http2.IdleStream)
	case r == nil || r.ended || why != http2.OK:
		if h.discardBlock(block) && why != http2.OK {
			h.resetFor(id, why)
		}
	case !r.answered:
		h.response(r, block)
	default:
		h.trailers(r, block)
	}
}

// response takes the head of a response, interim or final. The fields of a final one are copied into
// memory of their own: the exchange may keep them for long.
func (h *http2Upstream) response(r *http2Request, block []byte) {
	f := r.flow
	bytes := h.w.fieldBytes()[:0]
	h.head.Reset(&upstreamLimits)
	h.decoder.Begin(block)
	var field hpack.Field
	why := http2.OK
	for {
		out, ok, err := h.decoder.Next(&field, bytes)
		if err != nil {
			h.fail(http2.BadBlock)
			return
		}
		if !ok {
			break
		}
		bytes = out
		if why == http2.OK {
			why = h.head.Field(&f.res.Response, field.Name, field.Value)
		}
	}
	if why == http2.OK && h.decoder.TooLarge() {
		why = http2.HeadTooLarge
	}
	if why == http2.OK {
		why = h.head.End(&f.res.Response, f.is(toHEAD), h.blockEnds)
	}
	if why != http2.OK {
		h.resetFor(r.id, why)
		return
	}
	if f.res.Status < 200 {
		if f.countInterim(len(block)) {
			r.interim = f.appendInterim(r.interim)
			f.res.Reset()
			h.showLater(r)
		}
		return
	}
	r.fields = h.w.loop.GetBuffer(len(bytes))
	r.fields.End = copy(r.fields.Bytes, bytes)
	rebaseFields(&f.res.Fields, bytes, r.fields.Bytes)
	r.begun(h.blockEnds)
	if r.ended || len(h.in.Data()) == 0 {
		r.show()
	} else {
		h.showLater(r)
	}
}

// trailers takes the field block that ends a response.
func (h *http2Upstream) trailers(r *http2Request, block []byte) {
	why, ok := r.takeTrailers(block, &upstreamLimits)
	if !ok {
		return
	}
	if why == http2.OK {
		why = r.length.End()
	}
	if why != http2.OK {
		h.resetFor(r.id, why)
		return
	}
	r.ended = true
	r.show()
}

// showLater has what came of a response shown to its exchange when the frames of this read have been
// dealt with: a head together with the data behind it, and many small pieces as one. A write to the
// client for each of them would cost too much.
func (h *http2Upstream) showLater(r *http2Request) {
	if !r.unshown {
		r.unshown = true
		h.unshown = append(h.unshown, r)
	}
}

// showAll shows what waits for it.
func (h *http2Upstream) showAll() {
	for i := 0; i < len(h.unshown); i++ { // it may grow, or be gone through meanwhile
		if r := h.unshown[i]; r != nil {
			h.unshown[i], r.unshown = nil, false
			r.show()
		}
	}
	h.unshown = h.unshown[:0]
}

// stray implements http2Side: what comes for a request that was given up is passed over.
func (h *http2Upstream) stray(f *http2.Frame, d *streamData) {
	if d != nil && d.ended {
		h.resetFor(f.Stream, http2.ClosedStream)
		return
	}
	h.mustHaveBegun(f.Stream)
}

// frame implements http2Side.
func (h *http2Upstream) frame(f *http2.Frame) {
	h.showAll()
	if f.Type == http2.GoAway {
		h.goAway(f.LastStream())
		return
	}
	r := h.requestOf(f.Stream)
	switch {
	case r == nil:
		h.mustHaveBegun(f.Stream)
	case r.ended: // nobody needs the rest of the request (RFC 9113, section 8.1)
		r.stop()
	case f.Code() == http2.RefusedStream:
		r.gone = true
		r.fail(unprocessed)
	default:
		r.gone = true
		r.fail(brokenOff)
	}
}

// goAway takes a GOAWAY: what the target has not begun is sent to another connection.
func (h *http2Upstream) goAway(last uint32) {
	h.leave()
	for _, id := range h.identifiers(nil) {
		if r := h.requestOf(id); r != nil && id > last && !r.ended {
			r.gone = true
			r.flow.flags |= notBegun
			r.fail(unprocessed)
		}
	}
	if h.used == 0 {
		h.closeIdle()
	}
}

// resetFor implements http2Side.
func (h *http2Upstream) resetFor(id uint32, why http2.Reason) {
	h.w.shard.UpstreamFaults2[why]++
	h.wrote(http2.AppendRST(h.room(32), id, why.Code()))
	if r := h.requestOf(id); r != nil {
		r.gone = true
		r.fail(malformed)
	}
}

// fail implements http2Side.
func (h *http2Upstream) fail(why http2.Reason) {
	if h.dead {
		return
	}
	h.w.shard.UpstreamFaults2[why]++
	h.wrote(http2.AppendGoAway(h.room(64), 0, why.Code(), why.Error()))
	h.flush()
	h.end(malformed)
}

// lost implements http2Side.
func (h *http2Upstream) lost() {
	if !h.dead {
		h.end(brokenOff)
	}
}

// end ends the connection, and every request on it with a fault. A response that is whole is still
// given to a client that takes it slowly.
func (h *http2Upstream) end(how fault) {
	h.showAll()
	if h.dead {
		return
	}
	h.dead = true
	h.list()
	if h.used == 0 {
		h.closeIdle()
		return
	}
	h.failWaiting(func(f *flow) { f.upstreamFailed(upstream.ConnectFailed, exchange.ConnectFailed) })
	for _, id := range h.identifiers(nil) {
		switch r := h.requestOf(id); {
		case r == nil:
		case r.ended:
			r.stop()
		default:
			r.fail(how)
		}
	}
}

// failWaiting ends the requests that wait for a connection that does not come about.
func (h *http2Upstream) failWaiting(fail func(*flow)) {
	h.leave()
	waiting := h.waiting
	h.waiting = nil
	for _, r := range waiting {
		if f := r.flow; f != nil {
			fail(f)
		}
	}
}

// closeIdle closes a connection that carries nothing, and takes it out of its pool.
func (h *http2Upstream) closeIdle() {
	if h.s.state == upstreamOpen && h.s.member.Drop(h.s, h.w.loop.Now()) {
		h.s.shut()
	}
}

// over is called when the connection carries one request less. freed says that its slot was given
// back before.
func (h *http2Upstream) over(freed bool) {
	s, now := h.s, h.w.loop.Now()
	h.used--
	h.list()
	if h.used > 0 {
		if !freed {
			s.member.Free(now)
		}
		return
	}
	s.freed = freed
	useless := h.leaving || h.dead || h.broken || h.most == 0
	if s.state != upstreamOpen || !h.greeted || useless || s.conn.PeerEnded() {
		s.close()
		return
	}
	s.freed, s.idleSince = false, now
	if freed {
		s.member.PutFreed(s, now)
	} else {
		s.member.Put(s, now)
	}
}

// shut gives back what the connection holds, as its socket closes.
func (h *http2Upstream) shut() {
	h.flush()
	h.dead = true
	h.w.loop.ReleaseTimer(&h.timer)
	h.release()
}
