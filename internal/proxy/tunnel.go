package proxy

import (
	"io"

	"plimsoll/internal/exchange"
	"plimsoll/internal/http1"
	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// A tunnel begins after the upstream's 101 and not before: until then bytes behind the request are
// the client's next request, because a refused upgrade leaves an ordinary connection (RFC 9110,
// section 7.8). Afterwards the two sockets carry bytes both ways, each side's end is passed on as
// an end of that direction only, and the tunnel is over when both have ended or nothing moved for
// too long.

// startTunnel sends the 101 on, then what is there already of both directions.
func (f *flow) startTunnel(first []byte) {
	c, s := f.client, f.upstreamConn
	out := http1.AppendStatusLine(f.w.out[:0], 101)
	out = http1.AppendFields(out, &f.res.Fields, hopByHop)
	out = append(out, upgradeLine...)
	out = http1.AppendField(out, upgradeName, f.res.Upgrade)
	out = append(out, crlf...)
	f.headOut = int64(len(out))
	out = append(out, first...)
	f.stage, c.state, c.toEOF = stageTunnel, clientTunnel, true
	f.flags |= closeClient
	f.dropHeld()
	f.headDown = max(1, reactor.Clock()-f.w.loop.Now())
	if !f.tunnelWrite(out) {
		return
	}
	s.free() // not earlier: whoever gets the slot begins at once, and uses the memory that out is in
	for _, early := range [...]*reactor.Buffer{c.in, c.ahead} {
		if early == nil || len(early.Data()) == 0 {
			continue
		}
		if s.write(early.Data()) != nil {
			f.endTunnel()
			return
		}
		f.bodyIn += int64(len(early.Data()))
		early.Start = early.End
	}
	f.touchTunnel()
	f.relayUp()
	if f.stage == stageTunnel {
		f.relayDown()
	}
}

func (f *flow) touchTunnel() {
	f.w.loop.SetTimer(&f.timer, f, f.w.loop.Now()+f.route.TunnelTimeout)
}

func (f *flow) tunnelWrite(p []byte) bool {
	f.bodyOut += int64(len(p))
	if f.client.write(p) != nil {
		f.endTunnel()
		return false
	}
	f.client.watchTaking()
	return true
}

// relayUp moves bytes from the client to the upstream. It is not one function with relayDown: the
// two sides are of different types, so each read and write would be an indirect call, and they
// count different things.
func (f *flow) relayUp() {
	c, s := f.client, f.upstreamConn
	for reads := 0; !f.is(upEnded) && !s.conn.Congested(); reads++ {
		if reads == burst {
			c.later()
			return
		}
		buf := f.w.loop.Scratch()[:f.w.loop.Piece()]
		n, err := c.read(buf)
		if err != nil {
			f.relayPaused(err, upEnded)
			return
		}
		f.touchTunnel()
		f.bodyIn += int64(n)
		if s.write(buf[:n]) != nil {
			f.endTunnel()
			return
		}
	}
}

// relayDown moves bytes from the upstream to the client.
func (f *flow) relayDown() {
	c, s := f.client, f.upstreamConn
	if f.is(downEnded) {
		f.endTunnelWhenBoth()
		return
	}
	for reads := 0; !c.conn.Congested(); reads++ {
		if reads == burst {
			s.later()
			return
		}
		buf := f.w.loop.Scratch()[:f.w.loop.Piece()]
		n, err := s.read(buf)
		if err != nil {
			f.relayPaused(err, downEnded)
			return
		}
		f.touchTunnel()
		f.w.shard.UpstreamReceived += uint64(n)
		if !f.tunnelWrite(buf[:n]) {
			return
		}
	}
}

// relayPaused deals with a read that brought nothing. ended is the flag of the side that was read;
// its end is passed on to the other.
func (f *flow) relayPaused(err error, ended flowFlags) {
	if pause(err) {
		return
	}
	if err != io.EOF {
		f.endTunnel()
		return
	}
	f.flags |= ended
	if ended == upEnded {
		f.upstreamConn.closeWrite()
	} else {
		f.client.closeWrite()
	}
	f.endTunnelWhenBoth()
}

// endTunnelWhenBoth ends a tunnel whose two sides have ended, once the upstream has been sent
// everything: its socket's last event tells. What waits for the client still goes out afterwards.
func (f *flow) endTunnelWhenBoth() {
	if f.is(upEnded) && f.is(downEnded) && f.upstreamConn.conn.Queued() == 0 {
		f.endTunnel()
	}
}

// endTunnel closes both sides. What the client has not taken yet still goes out.
func (f *flow) endTunnel() {
	c := f.client
	f.dropUpstream()
	f.endTry(upstream.Success, f.upstreamEnd-f.sentAt)
	f.account(exchange.Completed, reactor.Clock())
	c.flow = nil
	f.w.freeFlow(f)
	c.state = clientBusy
	c.lingerClose()
}

// closeWrite passes on that no more will come from the other side.
func (c *clientConn) closeWrite() {
	if c.tls != nil {
		c.tls.CloseWrite()
	}
	c.conn.CloseWrite()
}

func (s *upstreamConn) closeWrite() {
	if s.tls != nil {
		s.tls.CloseWrite()
	}
	s.conn.CloseWrite()
}
