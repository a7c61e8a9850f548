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

// upstreamConn is a connection to a target. One of HTTP/1.1 is idle, in its member's pool, or used by
// one exchange, whose upstreamStream it is: see http1_upstream.go.
type upstreamConn struct {
	http1Response
	conn     reactor.Conn
	w        *Worker
	member   *upstream.Member
	upstream *Upstream
	tls      *tlsio.Conn  // nil for plain text
	flow     *flow        // the exchange that uses it; nil when idle or packed, and with HTTP/2
	packed   *http2Stream // the client's stream, while its exchange is packed
	// The rest of a connection that speaks HTTP/2, else nil.
	http2     *http2Upstream
	target    string // the member's address
	idleSince int64
	requests  uint32
	state     upstreamConnState
	freed     bool // its slot was given back: what it carries has no end of its own
	upgrades  bool // it must speak HTTP/1.1: its request asks for an upgrade
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

// stats are this loop's counters of the upstream.
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

// beginHandshake is clientConn.startHandshake's mirror image; a client speaks first, so that it
// waits for nothing.
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

// connectFailed ends the requests that are to use the connection.
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
	f := s.flow
	switch {
	case s.state == upstreamHandshake || s.state == upstreamAborting:
		s.tls.Wake()
	case s.http2 != nil:
		s.http2.readable()
	case s.packed != nil:
		s.packed.unpack()
		s.Readable()
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

// idleReadable is told of an idle connection: its target has closed it, or says something that
// nobody asked for, which makes it unfit for the next request. Records of TLS itself (tickets, key
// updates) are neither.
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

// Drained implements reactor.Handler: the upstream has taken what was waiting for it.
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
// until the others are served. A peer that is as fast as the gateway would otherwise have the
// loop for itself.
const burst = 16

// later has Run called at the end of the turn.
func (s *upstreamConn) later() {
	if !s.deferred {
		s.deferred = true
		s.w.loop.Defer(s)
	}
}

// Run implements reactor.Runner: it goes on after a burst.
func (s *upstreamConn) Run() {
	s.deferred = false
	if s.state == upstreamOpen && (s.flow != nil || s.http2 != nil) {
		s.Readable()
	}
}

// release puts the connection into its pool, or closes it where it may not be used again: what was
// read before the request had gone out whole was not an answer to it, and the answer that is still
// to come would be taken for the next request's.
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

// unread says that something stands behind the response, which the next request would take for its
// own: a part of a record too. The socket itself is asked only where the last read filled its
// buffer, which hardly ever happens.
func (s *upstreamConn) unread() bool {
	return s.conn.MayRead() && !s.conn.Alive() || s.tls != nil && (s.tls.Buffered() || s.tls.Holding())
}

// Retire implements upstream.Conn: the pool has counted the idle connection off and wants it
// closed.
func (s *upstreamConn) Retire() { s.shut() }

// parked is an idle connection between two loops. It is the same upstreamConn, which no loop
// touches meanwhile.
type parked struct {
	s      *upstreamConn
	socket reactor.Socket
}

// pending implements upstreamStream. A part of a record that is there already, in a buffer of this
// loop, counts.
func (s *upstreamConn) pending() bool {
	return s.conn.MayRead() || s.tls != nil && (s.tls.Buffered() || s.tls.Holding())
}

// Detach implements upstream.Conn. A connection of HTTP/2 stays on its loop: one is enough for a
// hundred requests, and another loop opens its own.
func (s *upstreamConn) Detach() (upstream.Parked, bool) {
	if s.deferred || s.http2 != nil || s.pending() {
		return nil, false
	}
	return &parked{s, s.conn.Detach()}, true
}

// Attach implements upstream.Parked. Which member it belongs to now is set when it is used.
func (p *parked) Attach(loop int) (upstream.Conn, bool) {
	s := p.s
	s.w = s.w.shared.Workers[loop]
	if s.tls != nil {
		s.tls.Move(s.w.tls) // first, because closing writes
	}
	if s.conn.Attach(s.w.loop, p.socket, s) != nil || !s.conn.Alive() {
		s.shut()
		return nil, false
	}
	return s, true
}

// Discard implements upstream.Parked.
func (p *parked) Discard() { p.socket.Close() }

// close ends a connection that is in use or being made. A handshake's goroutine still using the
// socket gets to know first.
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
