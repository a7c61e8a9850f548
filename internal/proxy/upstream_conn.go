package proxy

import (
	"errors"

	"plimsoll/internal/crash"
	"plimsoll/internal/exchange"
	"plimsoll/internal/invariant"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/tlsio"
	"plimsoll/internal/upstream"
)

// upstreamConn is a connection to a target. With HTTP/1.1 it is either idle in its member's pool,
// or the upstreamStream of one exchange: see http1_upstream.go.
type upstreamConn struct {
	http1Response
	conn     reactor.Conn
	w        *Worker
	member   *upstream.Member
	upstream *Upstream
	tls      *tlsio.Conn  // nil for plain text
	flow     *flow        // the exchange that uses it; nil when idle or packed, and with HTTP/2
	packed   *http2Stream // the client's stream, while its exchange is packed
	// the rest of a connection that speaks HTTP/2, else nil
	http2     *http2Upstream
	target    string // the member's address
	idleSince int64
	requests  uint32
	state     upstreamConnState
	freed     bool // its slot was given back, because what it carries has no end of its own
	upgrades  bool // it must speak HTTP/1.1, because its request asks for an upgrade
	deferred  bool // Run is to be called: it stays on its loop until then
}

type upstreamConnState uint8

const (
	upstreamConnecting upstreamConnState = iota
	upstreamHandshake
	upstreamOpen
	upstreamAborting // a handshake's goroutine still has the socket
	upstreamClosed
)

// stats returns this loop's counters for the upstream.
func (s *upstreamConn) stats() *telemetry.UpstreamStats { return s.w.shard.Upstream(s.upstream.Stat) }

// Connected implements reactor.Handler.
func (s *upstreamConn) Connected(err error) {
	if err != nil {
		s.connectFailed()
		return
	}
	if s.upstream.TLS != nil {
		s.beginHandshake()
		return
	}
	s.opened()
}

// beginHandshake begins the TLS handshake as a client, on a goroutine of its own. A TLS client
// speaks first, so, unlike clientConn.startHandshake, it need not wait for bytes.
func (s *upstreamConn) beginHandshake() {
	configs := s.upstream.TLS
	if s.upgrades {
		configs = s.upstream.TLSForUpgrades
	}
	cfg, err := configs(s.member.Target().Address().Host)
	if err != nil {
		s.tlsFailed(err)
		s.connectFailed()
		return
	}
	s.state = upstreamHandshake
	s.tls = tlsio.NewClient(&s.conn, cfg, s.w.tls)
	s.conn.Lend()
	s.w.handshakes++
	session, loop := s.tls, s.w.loop
	go func() {
		defer crash.Guard("in a TLS handshake with an upstream")
		err := session.Handshake()
		loop.Post(func() { s.w.handshakes--; s.handshaken(err) })
	}()
}

func (s *upstreamConn) handshaken(err error) {
	switch {
	case s.state == upstreamAborting:
		s.state = upstreamConnecting
		s.close()
	case err == nil && s.upstream.Protocol == upstream.HTTP2 && s.tls.State().ALPN != "h2":
		err = errors.New("the target does not offer HTTP/2 by ALPN: have it do so, or set protocol: http1")
		fallthrough
	case err != nil:
		s.state = upstreamConnecting
		s.tlsFailed(err)
		s.connectFailed()
	default:
		s.conn.TakeOver()
		s.opened()
	}
}

// connectFailed fails the requests that were to use the connection.
func (s *upstreamConn) connectFailed() {
	s.stats().ConnectFailures++
	failed := func(f *flow) { f.upstreamFailed(upstream.ConnectFailed, exchange.ConnectFailed) }
	if s.http2 != nil {
		s.http2.failWaiting(failed)
		return
	}
	failed(s.flow)
}

func (s *upstreamConn) opened() {
	s.state = upstreamOpen
	s.stats().Opened++
	f := s.flow
	if s.http2 == nil && s.tls != nil && s.tls.State().ALPN == "h2" {
		s.flow = nil
		s.startHTTP2().assign(f)
	}
	if s.http2 != nil {
		s.http2.opened()
		return
	}
	f.w.loop.StopTimer(&f.timer)
	f.use(s)
}

// Readable implements reactor.Handler.
func (s *upstreamConn) Readable() {
	if s.givesWay() {
		s.later()
	} else {
		s.dealWith()
	}
}

// dealWith deals with what has come, now.
func (s *upstreamConn) dealWith() {
	f := s.flow
	switch {
	case s.state == upstreamHandshake || s.state == upstreamAborting:
		s.tls.Wake()
	case s.http2 != nil:
		s.http2.readable()
	case s.packed != nil:
		s.packed.unpack()
		s.dealWith()
	case f == nil:
		s.idleReadable()
	case f.stage == stageTunnel:
		f.relayDown()
	case f.stage == stageSent && s.conn.Batched():
		s.spokeFirst()
	case f.stage.headSent():
		s.readResponse()
	}
}

// idleReadable is called when an idle connection is readable: its target has closed it, or has sent
// something unasked, which makes it unfit for the next request. The connection is closed then.
// Records of TLS itself (tickets, key updates) do not count.
func (s *upstreamConn) idleReadable() {
	if s.tls != nil {
		var b [1]byte
		if _, err := s.tls.Read(b[:]); err != nil && pause(err) {
			return
		}
	}
	if !s.member.Drop(s, s.w.loop.Now()) && invariant.On {
		panic("proxy: an idle connection is not in the pool it belongs to")
	}
	s.shut()
}

// Drained implements reactor.Handler: the upstream has taken what was queued for it.
func (s *upstreamConn) Drained() {
	switch {
	case s.http2 != nil:
		s.http2.resume()
		s.http2.list()
		if s.state == upstreamOpen && !s.deferred {
			s.http2.readable()
		}
	case s.flow != nil:
		s.flow.upstreamDrained()
	}
}

func (s *upstreamConn) read(p []byte) (int, error) {
	if s.tls != nil {
		return s.tls.Read(p)
	}
	return s.conn.Read(p)
}

func (s *upstreamConn) write(p []byte) error {
	s.w.shard.UpstreamSent += uint64(len(p))
	if s.tls != nil {
		return s.tls.Write(p)
	}
	return s.conn.Write(p)
}

// burst is how many reads one connection may do, or how many pieces of an answer it may be sent,
// before others are served. Otherwise a peer that is as fast as the gateway could occupy the loop.
const burst = 16

// later has Run called at the end of the turn.
func (s *upstreamConn) later() {
	if !s.deferred {
		s.deferred = true
		s.w.loop.Defer(s)
	}
}

// Run implements reactor.Runner. It goes on reading after a burst.
func (s *upstreamConn) Run() {
	s.deferred = false
	if s.state == upstreamOpen && (s.flow != nil || s.http2 != nil) {
		s.dealWith()
	}
}

// givesWay reports whether a response that begins waits until the end of the turn: it is not to a
// request of the highest class, or is to a mirror's copy, and the loop has more to do than it can. To
// read and send a response costs as much as to read and send a request, so otherwise those of lower
// classes delay the requests of the highest. What comes while the request is still in the loop's
// batch does not answer it, and cannot wait until it was sent: see spokeFirst.
func (s *upstreamConn) givesWay() bool {
	a := s.w.view.Admission
	return a != nil && s.flow != nil && s.flow.stage == stageSent && !s.conn.Batched() &&
		a.Waits(s.flow.class()) && s.w.lines.mustWait(a)
}

// release puts the connection into its pool, or closes it if it may not be used again. If it has
// not sent the whole request, or has bytes left to read, the next request could be given an answer
// that is not its own.
func (s *upstreamConn) release(reusable bool) {
	s.flow = nil
	s.body.DropTrailers() // before another loop gets the connection
	most := s.upstream.MaxRequests
	if !reusable || s.conn.PeerEnded() || s.conn.Unsent() || most > 0 && s.requests >= most || s.unread() {
		s.close()
		return
	}
	s.idleSince = s.w.loop.Now()
	if s.freed {
		s.freed = false
		s.member.PutFreed(s, s.idleSince)
		return
	}
	s.member.Put(s, s.idleSince)
}

// unread reports whether something follows the response, which the next request would take for its
// own, if only a part of a TLS record. It asks the socket itself only if the last read filled its
// buffer, which hardly ever happens.
func (s *upstreamConn) unread() bool {
	return s.conn.MayRead() && !s.conn.Alive() || s.tls != nil && (s.tls.Buffered() || s.tls.Holding())
}

// Retire implements upstream.Conn. It closes the idle connection, which the pool has counted off.
func (s *upstreamConn) Retire() { s.shut() }

// parked is an idle connection that belongs to no loop. No loop touches its upstreamConn meanwhile.
type parked struct {
	s      *upstreamConn
	socket reactor.Socket
}

// pending implements upstreamStream. A part of a TLS record that was read already counts: it is in
// a buffer of this loop.
func (s *upstreamConn) pending() bool {
	return s.conn.MayRead() || s.tls != nil && (s.tls.Buffered() || s.tls.Holding())
}

// Detach implements upstream.Conn. An HTTP/2 connection stays on its loop: one is enough for a
// hundred requests, and another loop opens its own.
func (s *upstreamConn) Detach() (upstream.Parked, bool) {
	if s.deferred || s.http2 != nil || s.pending() {
		return nil, false
	}
	return &parked{s, s.conn.Detach()}, true
}

// Attach implements upstream.Parked. The connection's member is set when it is used.
func (p *parked) Attach(loop int) (upstream.Conn, bool) {
	s := p.s
	s.w = s.w.shared.Workers[loop]
	if s.tls != nil {
		s.tls.Move(s.w.tls) // first, because shut writes through TLS
	}
	if s.conn.Attach(s.w.loop, p.socket, s) != nil || !s.conn.Alive() {
		s.shut()
		return nil, false
	}
	return s, true
}

// Discard implements upstream.Parked.
func (p *parked) Discard() { p.socket.Close() }

// close ends a connection that is in use or being made. If the goroutine of a handshake still uses
// the socket, close only aborts the handshake, and the connection ends when the goroutine does.
func (s *upstreamConn) close() {
	switch s.state {
	case upstreamClosed, upstreamAborting:
		return
	case upstreamHandshake:
		s.state = upstreamAborting
		s.tls.Abort()
		s.conn.Shutdown()
		return
	}
	s.shut()
	if s.freed {
		s.member.ClosedFreed(s.w.loop.Now())
		return
	}
	s.member.Closed(s.w.loop.Now())
}

// free implements upstreamStream.
func (s *upstreamConn) free() {
	if !s.freed {
		s.freed = true
		s.member.Free(s.w.loop.Now())
	}
}

func (s *upstreamConn) shut() {
	if s.http2 != nil {
		s.http2.shut()
	}
	if s.tls != nil {
		if s.state == upstreamOpen {
			s.tls.CloseWrite()
		}
		s.tls.Release()
	}
	s.state = upstreamClosed
	s.conn.Close()
	if s.partial != nil {
		s.w.loop.PutBuffer(s.partial)
		s.partial = nil
	}
}
