package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/hpack"
	"plimsoll/internal/http2"
	"plimsoll/internal/invariant"
	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// http2Upstream is the part of an upstreamConn that only HTTP/2 has: its requests, each a stream
// (RFC 9113). The upstreamConn keeps the socket, TLS, the dial and the end.
//
// Its states:
//
//	connecting → open ⇄ idle → closed
//
// connecting: requests may be assigned to it already, and wait until the target's SETTINGS have
// come, which say how many requests it takes. open: it carries requests, and is shared in its pool
// while it takes more. idle: it carries none, and is idle in its pool like any other connection.
type http2Upstream struct {
	http2Link
	s       *upstreamConn
	head    http2.ResponseHead
	waiting []*http2Request // assigned while it connects, in their order
	unshown []*http2Request // see showLater
	used    int             // requests that it carries or that wait for it
	most    int             // how many it takes at once
	next    uint32          // the next stream's identifier
	timer   reactor.Timer   // of the next check whether the target is still there
	shared  bool            // it is in its pool's list of shared connections
	leaving bool            // it takes no further requests
	heard   bool            // bytes have come since the last check
	pinged  bool            // a PING was sent that must bring some
	asked   asked
}

// asked counts the PINGs since the target last sent fields or content.
type asked struct {
	times int
	at    int64  // when the last PING was sent
	last  uint32 // the identifier of the last stream at that time
}

const (
	// upstreamStreams is how many requests one connection carries at once, even if its target
	// allows more. Further requests open another connection: a lost packet delays all streams of
	// its TCP connection.
	upstreamStreams = 100

	// upstreamWindow is the first size, in bytes, of the window for all responses of a connection
	// together. It is larger than a client's, because a target is trusted and has many answers to
	// give at once. upstreamHeld is how many bytes of responses that clients do not take are kept
	// in memory before the window shrinks by them: a full window of every stream.
	upstreamWindow = 2 << 20
	upstreamHeld   = upstreamStreams * streamWindow

	// keepAliveAfter is for how many nanoseconds a connection with requests may be silent before a
	// PING asks whether the target is still there, and how long the target may then take to answer.
	keepAliveAfter = int64(15e9)

	// Servers of gRPC close a connection with too_many_pings if it sends more than three PINGs
	// within five minutes of each other while they have nothing to send. A stream that is silent
	// for a minute would be cut off. So only hastyPings are sent at first, one more if a request
	// has come since, and each further one patientlyAsks nanoseconds after the one before.
	hastyPings    = 2
	patientlyAsks = int64(330e9)

	// lastIdentifier is the highest stream identifier that a connection uses. The protocol allows
	// up to 2^31-1.
	lastIdentifier = 1<<30 + 1
)

// upstreamLimits bound the heads and trailers of responses over HTTP/2, as responseLimits do over
// HTTP/1.1.
var upstreamLimits = http2.Limits{Head: 60 << 10, Fields: 256}

// startHTTP2 makes a connection, whether open or not yet, one that speaks HTTP/2.
func (s *upstreamConn) startHTTP2() *http2Upstream {
	h := &http2Upstream{s: s, most: upstreamStreams, next: 1}
	h.init(s.w, h, false, nil)
	h.intake.init(upstreamWindow, upstreamHeld)
	h.blockMost = upstreamLimits.Head
	s.http2 = h
	return h
}

// assign sends f's request on the connection, at once if the connection is open, or else when it
// is.
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

// shared reports whether the connection carries requests already, and so shares itself with a new
// one.
func (s *upstreamConn) shared() bool { return s.http2 != nil && s.http2.used > 0 }

// begin sends a request.
func (h *http2Upstream) begin(r *http2Request) {
	f := r.flow
	if h.s.requests++; h.s.requests > 1 {
		h.s.stats().Reused++
	}
	h.last = h.next
	h.add(&r.streamData, r, h.next)
	r.priority.Incremental = true // the requests are of different clients, so they share
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

// list tells the pool whether the connection takes more requests. A congested one does not: the
// heads of many requests would queue behind what the target does not take.
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

// opened sends the preface, the SETTINGS and the window, and starts the checks of the target.
func (h *http2Upstream) opened() {
	dst := append(h.room(256), http2.Preface...)
	dst = http2.AppendSettings(dst,
		http2.Setting{ID: http2.EnablePush, Value: 0},
		http2.Setting{ID: http2.InitialWindowSize, Value: streamWindow},
		http2.Setting{ID: http2.MaxHeaderListSize, Value: uint32(upstreamLimits.Head)})
	h.wrote(h.announceWindow(dst))
	h.w.loop.SetTimer(&h.timer, h, h.w.loop.Now()+keepAliveAfter)
}

// Expire implements reactor.Expirer: it checks whether the target is still there.
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

// mayAsk reports whether a PING may be sent, see hastyPings.
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

// awaitBlock implements http2Side. It does nothing: each request has its own time-out.
func (h *http2Upstream) awaitBlock(bool) {}

// readable reads what came.
func (h *http2Upstream) readable() {
	h.readOn()
	h.showAll()
}

// lives reads what the target has sent on a connection that carries no request, and reports whether
// the connection can still be used.
func (h *http2Upstream) lives() bool {
	h.readable()
	return !h.dead && !h.broken && !h.leaving && h.most > 0
}

// settled implements http2Side. The first SETTINGS begin the requests that wait for them.
func (h *http2Upstream) settled(first bool) {
	h.most = int(min(upstreamStreams, h.peer.MaxConcurrentStreams))
	if h.most == 0 && first {
		h.fail(http2.StreamRefused) // the connection is of no use
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
		case f == nil: // given up meanwhile, because of an earlier one in the list
		case i < h.most && !h.dead && !h.leaving && !h.backlogged():
			h.w.loop.StopTimer(&f.timer)
			h.begin(r)
		default: // the target takes, or reads, no more: another connection serves the rest
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

// response takes in the head of a response, interim or final. It copies the fields of a final one
// into memory of their own, because the exchange may keep them for long.
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

// trailers takes in the field block that ends a response.
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

// showLater shows what has come of a response to its exchange only once all frames of this read are
// dealt with. So the exchange gets the head together with the data behind it, and many small pieces
// as one: a write to the client for each of them would cost too much.
func (h *http2Upstream) showLater(r *http2Request) {
	if !r.unshown {
		r.unshown = true
		h.unshown = append(h.unshown, r)
	}
}

// showAll shows what showLater put off.
func (h *http2Upstream) showAll() {
	for i := 0; i < len(h.unshown); i++ { // show may add to it, or call showAll
		if r := h.unshown[i]; r != nil {
			h.unshown[i], r.unshown = nil, false
			r.show()
		}
	}
	h.unshown = h.unshown[:0]
}

// stray implements http2Side. It ignores what comes for a request that was given up.
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
	case r.ended: // the target does not need the rest of the request (RFC 9113, section 8.1)
		r.stop()
	case f.Code() == http2.RefusedStream:
		r.gone = true
		r.fail(unprocessed)
	default:
		r.gone = true
		r.fail(brokenOff)
	}
}

// goAway deals with a GOAWAY: the requests that the target has not begun go to another connection.
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

// end ends the connection, and fails every request on it whose response is not whole. A whole
// response is still given to a client that takes it slowly.
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

// failWaiting fails the requests that wait for a connection that could not be made.
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

// closeIdle takes a connection that carries no request out of its pool, and closes it.
func (h *http2Upstream) closeIdle() {
	if h.s.state == upstreamOpen && h.s.member.Drop(h.s, h.w.loop.Now()) {
		h.s.shut()
	}
}

// over is called when a request on the connection is over. freed says that its slot was given back
// before.
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

// shut gives back the memory and the timer of the connection when its socket closes.
func (h *http2Upstream) shut() {
	h.flush()
	h.dead = true
	h.w.loop.ReleaseTimer(&h.timer)
	h.release()
}
