package proxy

import (
	"bytes"

	"plimsoll/internal/exchange"
	"plimsoll/internal/http1"
	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// http1Stream is what a clientConn has of the HTTP/1.1 request that is under way, or whose head is
// being read, besides its exchange: see stream.
type http1Stream struct {
	// Bytes read and not yet used, behind the head of the exchange under way, which aliases it.
	in       *reactor.Buffer
	ahead    *reactor.Buffer // bytes behind a chunked body, read with it: the next request's first
	body     http1.Body      // of the request
	marked   http1.Body      // body, at the mark
	markedAt int             // where in in the mark is
	toClient http1.Framing   // of the response
}

var preface = []byte(http2.Preface)

// firstRead is the most that is read of a request at first.
const firstRead = 4 << 10

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
	// Before any policy adds a field that a client could have named.
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
		c.Readable() // its end came with the request, and no further event will tell
	}
	return true
}

// headFlow is the flow of the request whose first bytes are there.
func (c *clientConn) headFlow() *flow {
	if c.flow == nil {
		c.flow = c.w.newFlow(c, &c.origin)
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

// finishLast ends a connection after its last response. It can be closed at once when the client
// expects that, because it sent a whole request that said so, and all is sent. Any other may be
// sending its next request just now: on a closed socket that would make the kernel send a reset,
// which throws away what of the response the client has not read (RFC 9112, section 9.6).
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

// refuse answers a request that the codec refused; nothing of it is believed, not even where it
// ends.
func (c *clientConn) refuse(bad http1.Error) {
	c.w.shard.RefusedRequests[bad]++
	c.refuseWith(bad.Status(), exchange.BadRequest)
}

// refuseWith answers a head that is not, or never was, complete.
func (c *clientConn) refuseWith(status int, reason exchange.Reason) {
	f := c.flow
	c.state = clientBusy
	c.w.loop.StopTimer(&c.timer)
	f.Exchange.Begin(c.w)
	f.identify(c.w.loop.Now())
	f.route = &noRoute
	f.version = http11
	f.flags |= closeClient
	// The request has no end, so what comes behind it is thrown away.
	c.body.Start(http1.ToEOF, 0, &c.listener.Head)
	f.fail(status, reason)
}
