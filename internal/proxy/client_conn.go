package proxy

import (
	"io"
	"net/netip"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/http1"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/tlsio"
	"plimsoll/internal/upstream"
)

// clientConn is a client's connection. One that waits for a request owns no buffer and no exchange,
// about 400 bytes in all.
//
// Its states:
//
//	handshake → head ⇄ busy → tunnel
//	              └──────┴──→ linger → closed
//
// head: a request's head is awaited or partly there. busy: an exchange is under way. tunnel: after
// 101, bytes both ways. linger: the last response is sent and what the client still sends is thrown
// away for a while, because closing on unread bytes would make the kernel reset the connection and
// could take the response away from the client.
type clientConn struct {
	conn     reactor.Conn
	w        *Worker
	acceptor *Acceptor
	listener *Listener   // the acceptor's, as of the present request
	tls      *tlsio.Conn // nil for plain text
	tlsInfo  *exchange.TLS
	flow     *flow // the exchange under way, or the one whose head is being read
	// Bytes read and not yet used, behind the head of the exchange under way, which aliases it.
	in    *reactor.Buffer
	ahead *reactor.Buffer // bytes behind a chunked body, read with it: the next request's first
	// Until when a handshake, a head or the next request must have come; when the pace of a body is
	// judged; the end of linger.
	timer              reactor.Timer
	pace               reactor.Timer // see pace.go
	next, prev         *clientConn   // in the worker's list
	lineNext, linePrev *clientConn   // in its line
	inLineFrom         int64         // the loop's processor time when it came to its line
	waited             int64         // how long the present request waited in line, nanoseconds
	peer               netip.AddrPort
	peerText           []byte // the peer's address as text, made at a listener's first request; nil before
	since              int64  // when it was accepted
	discarded          int64  // in linger, the bytes that were thrown away
	given              int64  // bytes written when the window of pace began
	acked              int64  // bytes that the client had acknowledged when it was last looked at
	requests           uint32
	state              clientState
	counted            bool  // among its address's in the listener's quota
	watching           bool  // pace's window is under way
	queued             bool  // something was queued when the window of pace began
	trusted            bool  // the listener trusts the peer; made with peerText
	slow               bool  // counted among those that are too slow
	begun              bool  // in head, bytes of a head have come, be they a part of a TLS record
	highest            uint8 // the highest class of its requests: P0 is 0
	// The end of the connection ends the last response, or it is a tunnel: only a reset shows that it
	// was cut off.
	toEOF    bool
	late     bool // the handshake took too long
	inLine   bool // it waits to be read: see lines
	shaking  bool // the handshake has begun: a goroutine has the socket
	deferred bool // Run is to be called, once: until then no event is looked into
}

type clientState uint8

const (
	clientHandshake clientState = iota
	clientHead
	clientBusy
	clientTunnel
	clientLinger
	clientClosed
)

const (
	firstRead   = 4 << 10 // the most that is read of a request at first
	lingerTime  = int64(2 * time.Second)
	lingerBytes = 16 << 20 // more than this a client that is no longer listened to may not send

	// drainGrace is how long a connection that waits for a request is kept while the gateway
	// drains: clients that send again soon are told Connection: close with an answer. Closed at
	// once, it would take along the requests that are on their way already.
	drainGrace = int64(time.Second)
)

// Acceptor is a listener as one loop sees it. Only that loop touches it.
type Acceptor struct {
	Peers    []*Acceptor // those of all loops; set before any loop listens
	Worker   *Worker
	Listener *Listener // replaced by a reload
	Closed   bool      // no longer in the config: its connections end with the exchange they are at
}

// Shed implements reactor.Acceptor.
func (a *Acceptor) Shed(*reactor.Loop) {
	a.Worker.shed()
}

// Accepted implements reactor.Acceptor.
func (a *Acceptor) Accepted(l *reactor.Loop, s reactor.Socket) {
	a = a.Peers[l.ID]
	w, ln := a.Worker, a.Listener
	if w.closed { // its handshake could outlast the loop
		s.Close()
		return
	}
	if w.shared.Clients.Add(1) > w.shared.MaxClients.Load() {
		w.shared.Clients.Add(-1)
		w.shed()
		s.Close()
		return
	}
	r, counted := ln.Quota.take(s.Peer.Addr())
	if r != admitted {
		w.shared.Clients.Add(-1)
		s.Close()
		if r == tooMany {
			w.shard.RefusedConnections[telemetry.ListenerFull]++
		} else {
			w.shard.RefusedConnections[telemetry.AddressFull]++
		}
		return
	}
	c := &clientConn{w: w, acceptor: a, listener: ln, peer: s.Peer, counted: counted, since: w.loop.Now(), state: clientHead, highest: upstream.Classes}
	w.link(c)
	w.shard.Accepted++
	if err := c.conn.Attach(l, s, c); err != nil {
		w.complainOfWatches(err)
		c.release()
		return
	}
	if ln.TLS != nil {
		c.awaitHandshake()
		return
	}
	c.await()
}

func (w *Worker) link(c *clientConn) {
	c.next, c.prev = w.clients.next, &w.clients
	c.next.prev, c.prev.next = c, c
}

// Connected implements reactor.Handler; clients are never dialled.
func (c *clientConn) Connected(error) {}

// Readable implements reactor.Handler. A client that waits for Run is not served before it: else
// each event would bring it one more exchange in the same turn.
func (c *clientConn) Readable() {
	if c.inLine {
		if c.gone() {
			c.close()
		}
		return
	}
	if c.deferred {
		return
	}
	switch c.state {
	case clientHead:
		if !c.takeTurn() {
			c.wantHead()
		}
	case clientBusy:
		c.flow.clientReadable()
	case clientTunnel:
		c.flow.relayUp()
	case clientLinger:
		c.discard()
	case clientHandshake:
		c.startHandshake()
	}
}

// Drained implements reactor.Handler: the client has taken what was waiting for it.
func (c *clientConn) Drained() {
	switch c.state {
	case clientHead:
		if !c.deferred && !c.inLine {
			c.wantHead()
		}
	case clientBusy:
		c.flow.clientDrained()
	case clientTunnel:
		c.flow.relayDown()
	}
}

// read is Conn.Read through TLS where there is TLS.
func (c *clientConn) read(p []byte) (int, error) {
	if c.tls != nil {
		return c.tls.Read(p)
	}
	return c.conn.Read(p)
}

// write is Conn.Write through TLS where there is TLS.
func (c *clientConn) write(p []byte) error {
	if c.tls != nil {
		return c.tls.Write(p)
	}
	return c.conn.Write(p)
}

// pending says that a read could find something without a further event.
func (c *clientConn) pending() bool {
	return c.conn.MayRead() || c.tls != nil && c.tls.Buffered()
}

// wantHead looks for the next request in what is there, then in the socket. Bytes that came with
// the request before have not been looked at yet, and may fill their buffer.
func (c *clientConn) wantHead() {
	if c.flow == nil && c.in != nil && !c.conn.Congested() && c.parseHead() {
		return
	}
	c.readHead()
}

// readHead reads until a head is complete, then begins its exchange. A client that does not take
// its answers gets no further ones until it does: Drained goes on then.
func (c *clientConn) readHead() {
	for reads := 0; !c.conn.Congested(); reads++ {
		if reads == burst {
			c.later()
			return
		}
		if err := c.receive(); err != nil {
			c.headPaused(err)
			return
		}
		if c.parseHead() {
			return
		}
	}
}

// receive reads once. A request's first bytes are read into the loop's scratch memory and copied
// into a buffer of their own size: most heads are some hundred bytes, and with many requests under
// way the memory that they touch is what costs.
func (c *clientConn) receive() error {
	if c.in != nil {
		n, err := c.read(c.in.Room())
		c.in.End += n
		return err
	}
	first := c.w.loop.Scratch()[:firstRead]
	n, err := c.read(first)
	if err != nil {
		return err
	}
	c.in = c.w.loop.GetBuffer(n)
	c.in.End = copy(c.in.Bytes, first[:n])
	return nil
}

// parseHead looks for a head in what is there; it says whether there is nothing more to do for now.
func (c *clientConn) parseHead() (done bool) {
	f := c.headFlow()
	used, err := f.req.Parse(c.in.Data(), &c.listener.Head)
	if err != http1.OK {
		c.refuse(err)
		return true
	}
	if used == 0 {
		if len(c.in.Room()) == 0 {
			c.grow()
		}
		return false
	}
	c.in.Start += used
	c.state = clientBusy
	c.requests++
	c.w.loop.StopTimer(&c.timer)
	f.begin(used)
	if c.state == clientBusy && c.conn.PeerEnded() {
		c.flow.clientReadable() // its end came with the request, and no further event will tell
	}
	return true
}

// headFlow is the flow of the request whose first bytes are there.
func (c *clientConn) headFlow() *flow {
	if c.flow == nil {
		c.flow = c.w.newFlow(c)
		if c.listener != c.acceptor.Listener {
			c.listener, c.peerText = c.acceptor.Listener, nil
		}
	}
	return c.flow
}

// headPaused deals with a read that brought nothing while a head is awaited. From a head's first
// bytes on, be they a part of a TLS record, the rest has HeadTimeout to come.
func (c *clientConn) headPaused(err error) {
	if !pause(err) {
		c.close()
		return
	}
	if c.in != nil && c.in.Start == c.in.End {
		c.w.loop.PutBuffer(c.in)
		c.in = nil
	}
	switch begun := c.in != nil || c.holdsRecord(); {
	case begun && !c.begun:
		c.begun = true
		c.w.loop.SetTimer(&c.timer, c, c.w.loop.Now()+c.listener.HeadTimeout)
	case !begun && c.begun: // the record is whole now, and had no data
		c.begun = false
		c.await()
	}
}

// holdsRecord says that a part of a TLS record is there, and with it a buffer.
func (c *clientConn) holdsRecord() bool { return c.tls != nil && c.tls.Holding() }

// grow moves a head that fills its buffer into the next larger one; the limits of a listener end
// this before the sizes do.
func (c *clientConn) grow() {
	l := c.w.loop
	old := c.in
	if old.Start > 0 && old.Start >= len(old.Bytes)/2 {
		old.End = copy(old.Bytes, old.Data())
		old.Start = 0
	} else {
		c.in = l.GetBuffer(min(2*len(old.Bytes), reactor.ScratchSize))
		c.in.End = copy(c.in.Bytes, old.Data())
		l.PutBuffer(old)
	}
	c.flow.req.Reset()
}

// again goes on with the connection after an exchange: with the request that is there already, in
// the turn's end so that others are served in between, or by waiting for the next.
func (c *clientConn) again() {
	l := c.w.loop
	c.state, c.begun, c.waited = clientHead, false, 0
	if c.highest == upstream.Classes && c.w.view.Admission != nil {
		c.highest-- // what was refused or answered before its class counted: of the lowest
	}
	if c.ahead != nil {
		l.PutBuffer(c.in)
		c.in, c.ahead = c.ahead, nil
	} else if c.in != nil && c.in.Start == c.in.End {
		l.PutBuffer(c.in)
		c.in = nil
	}
	c.await()
	c.goOn()
}

// goOn looks, at the end of the turn, at what is there already of a next request.
func (c *clientConn) goOn() {
	if c.in != nil || c.pending() || c.holdsRecord() || c.conn.PeerEnded() {
		c.later()
	}
}

// later has Run called at the end of the turn.
func (c *clientConn) later() {
	if !c.deferred {
		c.deferred = true
		c.w.loop.Defer(c)
	}
}

// await sets the time that the connection may wait for its next request.
func (c *clientConn) await() {
	wait := c.listener.IdleTimeout
	if c.w.draining {
		wait = min(wait, drainGrace)
	}
	c.w.loop.SetTimer(&c.timer, c, c.w.loop.Now()+wait)
	c.watchTaking()
}

// Run implements reactor.Runner: what again, or a burst, put off.
func (c *clientConn) Run() {
	c.deferred = false
	if c.state != clientHandshake && c.state != clientClosed {
		c.Readable()
	}
}

// Expire implements reactor.Expirer: the connection has been too slow, or idle for long enough.
func (c *clientConn) Expire(t *reactor.Timer, now int64) {
	if t == &c.pace {
		c.judgeTaking(now)
		return
	}
	switch c.state {
	case clientHandshake:
		c.late = true
		c.abortHandshake()
	case clientHead:
		switch {
		case c.inLine:
			c.w.lines.next(c)
			c.await()
			c.wantHead()
		case c.flow != nil || c.begun:
			c.headFlow()
			c.refuseWith(408, exchange.HeadTimeout)
		case c.behind(): // busy with the last response; pace bounds how long
			c.await()
		default:
			c.close()
		}
	case clientBusy:
		c.flow.judgeBody()
	case clientLinger:
		if c.behind() {
			c.w.loop.SetTimer(&c.timer, c, now+lingerTime)
			return
		}
		c.close()
	}
}

// lingerClose sends what is queued, then the end, and throws away what still comes until the client
// ends too.
func (c *clientConn) lingerClose() {
	c.state, c.discarded = clientLinger, 0
	c.leaveLine()
	c.dropBuffers()
	if c.tls != nil {
		c.tls.CloseWrite()
	}
	c.conn.CloseWrite()
	c.watchTaking()
	c.w.loop.SetTimer(&c.timer, c, c.w.loop.Now()+lingerTime)
	c.discard()
}

// discard reads and forgets; TLS bytes are not even decrypted.
func (c *clientConn) discard() {
	for reads := 0; c.discarded < lingerBytes; reads++ {
		if reads == burst {
			c.later()
			return
		}
		n, err := c.conn.Read(c.w.loop.Scratch())
		if err == reactor.ErrAgain {
			return
		}
		if err != nil && (err != io.EOF || c.conn.Queued() == 0) {
			break
		}
		if err == io.EOF {
			return // the rest of the response is still on its way out; the timer bounds it
		}
		c.discarded += int64(n)
	}
	c.close()
}

// abort ends the connection now, and the exchange under way with it.
func (c *clientConn) abort(reason exchange.Reason) {
	switch c.state {
	case clientHandshake:
		c.abortHandshake()
	case clientBusy, clientTunnel:
		c.flow.abort(reason)
	default:
		c.close()
	}
}

// close ends a connection that has no exchange under way.
func (c *clientConn) close() {
	if c.state == clientClosed {
		return
	}
	if c.flow != nil {
		c.w.freeFlow(c.flow)
		c.flow = nil
	}
	if c.tls != nil && c.state == clientHead {
		c.tls.CloseWrite()
	}
	if c.conn.Queued() > 0 {
		c.conn.Reset() // a response that is cut off must not look whole
	} else {
		c.conn.Close()
	}
	c.release()
}

// leaveLine is called when the connection reads no more requests.
func (c *clientConn) leaveLine() {
	if c.inLine {
		c.w.lines.remove(c)
	}
}

func (c *clientConn) dropBuffers() {
	if c.in != nil {
		c.w.loop.PutBuffer(c.in)
		c.in = nil
	}
	if c.ahead != nil {
		c.w.loop.PutBuffer(c.ahead)
		c.ahead = nil
	}
}

// release gives back everything that a connection holds but its socket.
func (c *clientConn) release() {
	if c.tls != nil {
		c.tls.Release()
	}
	c.state = clientClosed
	c.leaveLine()
	c.dropBuffers()
	c.w.loop.ReleaseTimer(&c.timer)
	c.w.loop.ReleaseTimer(&c.pace)
	if c.next != nil {
		c.next.prev, c.prev.next = c.prev, c.next
		c.next, c.prev = nil, nil
	}
	c.listener.Quota.give(c.peer.Addr(), c.counted)
	c.w.shared.Clients.Add(-1)
	c.w.shard.Closed++
}
