package proxy

import (
	"io"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/reactor"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/tlsio"
	"plimsoll/internal/upstream"
)

// clientConn is a client's connection. While it waits for a request it owns no buffer and no
// exchange, and takes about 500 bytes in all.
//
// Its states:
//
//	handshake → head ⇄ busy → tunnel
//	              ├──────┴──→ linger → closed
//	              └→ HTTP/2 ──┘
//
// head: a request's head is awaited or partly there. busy: an exchange is under way. tunnel: after
// 101, bytes both ways. HTTP/2: frames, see http2Conn. linger: the last response has been sent, and
// what the client still sends is discarded for a while: if the socket were closed with unread
// bytes, the kernel would reset the connection, and the client could lose the response.
type clientConn struct {
	origin
	http1Stream
	conn reactor.Conn
	w    *Worker
	tls  *tlsio.Conn // nil for plain text
	flow *flow       // the exchange under way, or the one whose head is being read
	// the rest of a connection that speaks HTTP/2, else nil
	http2 *http2Conn
	// when a handshake, a head or the next request must have come, or linger ends
	timer              reactor.Timer
	pace               reactor.Timer // see pace.go
	next, prev         *clientConn   // in the worker's list
	lineNext, linePrev *clientConn   // in its line
	inLineFrom         int64         // the loop's processor time when it joined its line
	since              int64         // when it was accepted
	discarded          int64         // in linger, the bytes that were discarded
	given              int64         // bytes written when the window of pace began
	acked              int64         // bytes that the client had acknowledged when it was last looked at
	state              clientState
	counted            bool // counted in the listener's quota, for its address
	watching           bool // pace's window is under way
	queued             bool // something was queued when the window of pace began
	slow               bool // counted among the connections that are too slow
	largeFile          bool // the kernel may hold more of the present response
	begun              bool // in head, bytes of a head have come, or a part of a TLS record
	// The last response ends with the connection, or it is a tunnel: only a reset shows the client
	// that it was cut off.
	toEOF    bool
	late     bool  // the handshake took too long
	inLine   bool  // it waits to be read: see lines
	line     uint8 // the number of the line that it joined last
	shaking  bool  // the handshake has begun: a goroutine has the socket
	deferred bool  // Run is to be called, once; until then events are not dealt with
}

type clientState uint8

const (
	clientHandshake clientState = iota
	clientHead
	clientBusy
	clientTunnel
	clientHTTP2
	clientLinger
	clientClosed
)

const (
	lingerTime  = int64(2 * time.Second)
	lingerBytes = 16 << 20 // how many bytes a client may send in linger

	// drainGrace is how long a connection that waits for a request is kept while the gateway
	// drains: clients that send again soon are told Connection: close with an answer. If it were
	// closed at once, requests that are on their way already would be lost.
	drainGrace = int64(time.Second)
)

// Acceptor is a listener as one loop sees it. Only that loop touches it.
type Acceptor struct {
	Peers    []*Acceptor // those of all loops; set before any loop listens
	Worker   *Worker
	Listener *Listener // replaced by a reload
	Closed   bool      // no longer in the config: its connections end with their present exchange

	newcomers newcomers
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
	if !a.comes(s) {
		w.shard.Accepted++
		w.shard.Closed++
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
	c := &clientConn{w: w, counted: counted, since: w.loop.Now(), state: clientHead}
	c.origin = origin{
		acceptor: a, listener: ln, peer: s.Peer, highest: upstream.Classes, fresh: true,
	}
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

// Readable implements reactor.Handler. A connection that waits for Run is not served before that:
// otherwise each event would let it begin one more exchange in the same turn.
func (c *clientConn) Readable() {
	if c.inLine {
		if c.gone() {
			c.leave()
		}
		return
	}
	if c.deferred {
		return
	}
	switch c.state {
	case clientHead, clientHTTP2:
		if !c.takeTurn() {
			if c.state == clientHTTP2 {
				c.waited = 0 // its earlier wait in a line was for other requests
			}
			c.readOn()
		}
	case clientBusy:
		if c.conn.PeerEnded() {
			// The client no longer waits for the answer. One that has only ended its own direction
			// looks the same as one that has gone, whatever it sent before, read or not.
			c.flow.abort(exchange.NoReason)
			return
		}
		// If the exchange takes no more now, the bytes of the next request stay in the socket.
		c.flow.bodyReadable()
	case clientTunnel:
		c.flow.bodyReadable()
	case clientLinger:
		c.discard()
	case clientHandshake:
		c.startHandshake()
	}
}

// Drained implements reactor.Handler: the client has taken what was queued for it.
func (c *clientConn) Drained() {
	switch c.state {
	case clientHead:
		if !c.deferred && !c.inLine {
			c.wantHead()
		}
	case clientHTTP2:
		c.http2.resume()
		if c.state == clientHTTP2 && !c.deferred && !c.inLine {
			c.http2.readOn()
		}
	case clientBusy, clientTunnel:
		c.flow.clientDrained()
	}
}

// readOn reads what the client sends next. The caller has checked that it is the connection's turn.
func (c *clientConn) readOn() {
	if c.state == clientHTTP2 {
		c.http2.readOn()
		return
	}
	c.wantHead()
}

// read is Conn.Read, through TLS if the connection uses it.
func (c *clientConn) read(p []byte) (int, error) {
	if c.tls != nil {
		return c.tls.Read(p)
	}
	return c.conn.Read(p)
}

// write is Conn.Write, through TLS if the connection uses it.
func (c *clientConn) write(p []byte) error {
	if c.tls != nil {
		return c.tls.Write(p)
	}
	return c.conn.Write(p)
}

// pending reports whether a read could find something without a further event.
func (c *clientConn) pending() bool {
	return c.conn.MayRead() || c.tls != nil && c.tls.Buffered()
}

// later has Run called at the end of the turn.
func (c *clientConn) later() {
	if !c.deferred {
		c.deferred = true
		c.w.loop.Defer(c)
	}
}

// await sets the timer that bounds the wait for the next request.
func (c *clientConn) await() {
	wait := c.listener.IdleTimeout
	if c.w.draining {
		wait = min(wait, drainGrace)
	}
	c.w.loop.SetTimer(&c.timer, c, c.w.loop.Now()+wait)
	c.watchTaking()
}

// Run implements reactor.Runner. It does what again put off, or goes on after a burst.
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
			c.takeUp()
		case c.flow != nil || c.begun:
			c.headFlow()
			c.refuseWith(408, exchange.HeadTimeout)
		case c.behind(): // busy with the last response; pace bounds how long
			c.await()
		default:
			c.close()
		}
	case clientHTTP2:
		c.http2.expire()
	case clientLinger:
		if c.behind() {
			c.w.loop.SetTimer(&c.timer, c, now+lingerTime)
			return
		}
		c.close()
	}
}

// lingerClose sends what is queued, and then the end. It discards what still comes until the client
// ends the connection too.
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

// discard reads bytes and drops them, without decrypting TLS.
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
	case clientHTTP2:
		c.http2.abort(reason)
	default:
		c.close()
	}
}

// endHTTP2 ends a connection whose last stream is over.
func (c *clientConn) endHTTP2() {
	c.http2.forget()
	c.state, c.http2 = clientHead, nil
	if c.conn.PeerEnded() || c.conn.Failed() {
		c.close()
		return
	}
	c.lingerClose()
}

// close ends a connection that has no exchange under way.
func (c *clientConn) close() {
	if c.state == clientClosed {
		return
	}
	if c.state == clientHTTP2 { // the client went while the connection was in a line
		c.http2.lost()
		return
	}
	if c.flow != nil {
		c.freeFlow()
	}
	cut := c.conn.Queued() > 0 // before close_notify, which would be queued if the socket is full
	if c.tls != nil && c.state == clientHead {
		c.tls.CloseWrite()
	}
	if cut {
		c.conn.Reset() // a response that is cut off must not look whole
	} else {
		c.conn.Close()
	}
	c.release()
}

// leaveLine takes the connection out of its line, when it reads no more requests.
func (c *clientConn) leaveLine() {
	if c.inLine {
		c.w.lines.remove(c)
	}
}

// release gives back everything that the connection holds, except its socket.
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
		if c.w.looked == c {
			c.w.looked = c.prev
		}
		c.next.prev, c.prev.next = c.prev, c.next
		c.next, c.prev = nil, nil
	}
	c.listener.Quota.give(c.peer.Addr(), c.counted)
	c.w.shared.Clients.Add(-1)
	c.w.shard.Closed++
}
