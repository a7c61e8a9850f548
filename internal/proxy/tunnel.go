package proxy

import (
	"io"

	"plimsoll/internal/exchange"
	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// A tunnel begins only after the upstream's 101. Until then bytes behind the request are the
// client's next request, because a refused upgrade leaves an ordinary connection (RFC 9110, section
// 7.8). Afterwards bytes are passed on in both directions. The end of a direction ends only that
// direction; the tunnel is over when both have ended, or nothing was passed on for too long. In a
// tunnel of WebSocket the frames are watched as well: see websocket.go.

// startTunnel passes on the 101, with what came behind it in buf[from:to], and then what has
// already come from the client.
func (f *flow) startTunnel(buf []byte, from, to int) {
	s := f.up.on()
	f.stage = stageTunnel
	f.flags = f.flags&^bodyWhole | closeClient
	f.MaxBody = 0 // what follows is not a body
	f.dropHeld()
	f.headDown = max(1, reactor.Clock()-f.w.loop.Now())
	f.stream.startTunnel()
	f.startWebSocket()
	if f.sendTunnelHead(buf, from, to) != nil {
		f.endTunnel()
		return
	}
	s.free() // not earlier: the request that gets the slot begins at once, and uses buf's memory
	f.relayUp()
	if f.stage == stageTunnel {
		f.relayDown()
	}
}

// sendTunnelHead passes on the 101, and what came behind it.
func (f *flow) sendTunnelHead(buf []byte, from, to int) error {
	ws := f.webSocket
	if ws == nil {
		f.touchTunnel()
		return f.stream.send(f, buf, from, to, withHead)
	}
	if err := f.stream.send(f, buf, from, from, withHead); err != nil {
		return err
	}
	ws.arm()
	return ws.passDown(buf, from, to)
}

func (f *flow) touchTunnel() {
	f.w.loop.SetTimer(&f.timer, f, f.w.loop.Now()+f.route.TunnelTimeout)
}

// relayUp moves bytes from the client to the upstream.
func (f *flow) relayUp() {
	s := f.up.on()
	for reads := 0; !f.is(bodyWhole) && !s.conn.Congested(); reads++ {
		if reads == burst {
			f.stream.later()
			return
		}
		data, err := f.nextUp(f.w.loop.Piece())
		if err != nil {
			if !pause(err) {
				f.endTunnel()
			}
			return
		}
		if f.passUp(data) != nil {
			f.endTunnel()
			return
		}
		if f.is(bodyWhole) {
			s.closeWrite()
			f.endTunnelWhenBoth()
			return
		}
	}
}

// relayDown moves bytes from the upstream to the client.
func (f *flow) relayDown() {
	s := f.up.on()
	if f.is(downEnded) {
		f.endTunnelWhenBoth()
		return
	}
	for reads := 0; !f.stream.congested(); reads++ {
		if reads == burst {
			s.later()
			return
		}
		buf := f.w.loop.Scratch()
		n, err := s.read(buf[scratchRoom:][:min(f.piece(), reactor.ScratchSize-scratchRoom)])
		if err == io.EOF {
			if f.webSocket != nil && f.webSocket.lastWord() != nil {
				f.endTunnel()
				return
			}
			f.flags |= downEnded
			if f.stream.send(f, nil, 0, 0, withEnd) != nil {
				f.endTunnel()
				return
			}
			f.endTunnelWhenBoth()
			return
		}
		if err != nil {
			if !pause(err) {
				f.endTunnel()
			}
			return
		}
		f.w.shard.UpstreamReceived += uint64(n)
		if f.passDown(buf, scratchRoom, scratchRoom+n) != nil {
			f.endTunnel()
			return
		}
	}
}

// passUp passes on what came from the client. An error means that the tunnel is over.
func (f *flow) passUp(data []byte) error {
	ws := f.webSocket
	if ws == nil {
		f.touchTunnel()
		if len(data) == 0 {
			return nil
		}
		return f.up.on().write(data)
	}
	if err := ws.passUp(data); err != nil || !f.is(bodyWhole) {
		return err
	}
	return ws.sendHeld()
}

// passDown passes on buf[from:to], which came from the upstream. The room in front of it may be
// overwritten. An error means that the tunnel is over.
func (f *flow) passDown(buf []byte, from, to int) error {
	if f.webSocket != nil {
		return f.webSocket.passDown(buf, from, to)
	}
	f.touchTunnel()
	return f.stream.send(f, buf, from, to, 0)
}

// endTunnelWhenBoth ends a tunnel if both directions have ended and the upstream's socket has taken
// everything. Otherwise it is called again at that socket's last event. What is queued for the
// client is still sent afterwards.
func (f *flow) endTunnelWhenBoth() {
	if f.is(bodyWhole) && f.is(downEnded) && f.up.on().conn.Queued() == 0 {
		f.endTunnel()
	}
}

// endTunnel closes both sides. What is queued for the client is still sent.
func (f *flow) endTunnel() {
	f.dropUpstream()
	f.endTry(upstream.Success, f.upstreamEnd-f.sentAt)
	f.account(exchange.Completed, reactor.Clock())
	f.stream.finish(f, true)
}

// toldToClose reports whether the client was sent the last close frame of a WebSocket, the
// service's or ours. Then the tunnel may end in order, however the service's connection ended. In
// HTTP/2 and HTTP/3 any other end that the service has not sent is a reset, so that a tunnel that
// was cut off cannot be taken to be whole (RFC 8441, section 5).
func (f *flow) toldToClose() bool {
	ws := f.webSocket
	return ws != nil && (ws.down.closed || ws.down.frames.Closed())
}

func (s *upstreamConn) closeWrite() {
	if s.tls != nil {
		s.tls.CloseWrite()
	}
	s.conn.CloseWrite()
}
