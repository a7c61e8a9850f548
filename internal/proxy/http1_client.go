package proxy

import (
	"bytes"

	"plimsoll/internal/exchange"
	"plimsoll/internal/http1"
	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// http1Stream is the part of a clientConn that belongs to the HTTP/1.1 request that is under way,
// or whose head is being read: see stream.
type http1Stream struct {
	// Bytes read and not used yet. In front of them is the head of the exchange under way, whose
	// fields point into this buffer.
	in       *reactor.Buffer
	ahead    *reactor.Buffer // first bytes of the next request, read with the end of a chunked body
	body     http1.Body      // of the request
	marked   http1.Body      // body at the mark
	markedAt int             // in.Start at the mark
	toClient http1.Framing   // of the response
}

var preface = []byte(http2.Preface)

// firstRead is how many bytes of a request at most are read at first.
const firstRead = 4 << 10

// wantHead looks for the next request in the bytes that were read, and then in the socket. Bytes
// that came with the request before were not looked at yet, and may fill their buffer.
func (c *clientConn) wantHead() {
	if c.flow == nil && c.in != nil && !c.conn.Congested() && c.parseHead() {
		return
	}
	c.readHead()
}

// readHead reads until a head is complete, and then begins its exchange. If the client does not
// take its answers, no further request begins until it does: then Drained goes on.
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

// receive reads once. It reads a request's first bytes into the loop's scratch memory and copies
// them into a buffer of their size. Most heads have some hundred bytes, and with many requests
// under way the cost is in the memory that they touch.
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

// parseHead looks for a head in the bytes that were read. It returns true if the caller need not
// read on.
func (c *clientConn) parseHead() (done bool) {
	if c.requests == 0 && c.tls == nil && c.listener.OffersHTTP2 {
		switch spoken := c.in.Data(); {
		case bytes.HasPrefix(spoken, preface):
			c.startHTTP2()
			return true
		case bytes.HasPrefix(preface, spoken):
			return false // the rest of it may follow
		}
	}
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
	// Before any policy adds a field that the client's Connection may name.
	http1.StripConnection(&f.req.Fields)
	c.body.Start(f.req.Framing, f.req.Length, &c.listener.Head)
	c.body.UsePool(&c.w.trailerPool)
	f.version = version(f.req.Minor)
	if f.req.Expect100 {
		f.flags |= expects
	}
	if !f.req.KeepAlive || c.w.draining || c.acceptor.Closed ||
		c.listener.MaxRequests > 0 && c.requests >= c.listener.MaxRequests {
		f.flags |= closeClient
	}
	f.begin(used, c.body.Done())
	if c.state == clientBusy && c.conn.PeerEnded() {
		c.Readable() // the client's end came with the request, and no further event will come
	}
	return true
}

// headFlow returns the flow of the request whose first bytes have come, and takes one if need be.
func (c *clientConn) headFlow() *flow {
	if c.flow == nil {
		c.flow = c.w.newFlow(c, &c.origin)
		if c.listener != c.acceptor.Listener {
			c.listener, c.peerText = c.acceptor.Listener, nil
		}
	}
	return c.flow
}

// headPaused deals with a read that brought nothing while a head is awaited. Once the first bytes
// of a head have come, even if only a part of a TLS record, the rest must come within HeadTimeout.
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

// holdsRecord reports whether a part of a TLS record has come, which holds a buffer.
func (c *clientConn) holdsRecord() bool { return c.tls != nil && c.tls.Holding() }

// grow makes room behind a head that fills its buffer: it moves the head to the front of the
// buffer, or into the next larger one. A listener's limits end this before the sizes of buffers do.
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

// again goes on with the connection after an exchange. If bytes of the next request have come
// already, they are dealt with at the end of the turn, so that others are served in between.
// Otherwise the connection waits for them.
func (c *clientConn) again() {
	l := c.w.loop
	c.state, c.begun, c.waited = clientHead, false, 0
	if c.highest == upstream.Classes && c.w.view.Admission != nil {
		c.highest-- // its request was answered before its class counted: take the lowest class
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

// goOn has Run look for the next request at the end of the turn, if some of it may have come
// already.
func (c *clientConn) goOn() {
	if c.in != nil || c.pending() || c.holdsRecord() || c.conn.PeerEnded() {
		c.later()
	}
}

// finishLast ends a connection after its last response. It closes the connection at once if
// everything was sent and the client expects that, because it sent a whole request that said so.
// Any other client may be sending its next request just now. On a closed socket that would make the
// kernel send a reset, which discards what the client has not read of the response (RFC 9112,
// section 9.6).
func (c *clientConn) finishLast(expected bool) {
	over := expected && c.conn.Queued() == 0 && !c.conn.MayRead() && c.buffered() == 0 && c.ahead == nil
	if over && c.tls != nil {
		c.tls.CloseWrite()
		over = c.conn.Queued() == 0 // else the socket has no room for it now
	}
	if over {
		c.state = clientHead
		c.close()
		return
	}
	c.lingerClose()
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

// refuse answers a request that the codec refused. Nothing in it is relied on, not even where it
// ends.
func (c *clientConn) refuse(bad http1.Error) {
	c.w.shard.RefusedRequests[bad]++
	c.refuseWith(bad.Status(), exchange.BadRequest)
}

// refuseWith answers a request whose head is malformed or was never complete, and ends the
// connection.
func (c *clientConn) refuseWith(status int, reason exchange.Reason) {
	f := c.flow
	c.state = clientBusy
	c.w.loop.StopTimer(&c.timer)
	f.Exchange.Begin(c.w)
	f.identify(c.w.loop.Now())
	f.route = &noRoute
	f.version = http11
	f.flags |= closeClient
	// It is not known where the request ends, so what follows is discarded.
	c.body.Start(http1.ToEOF, 0, &c.listener.Head)
	f.fail(status, reason)
}
