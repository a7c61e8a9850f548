package proxy

import (
	"crypto/rand"

	"plimsoll/internal/telemetry"
	"plimsoll/internal/websocket"
)

// The gateway closes a tunnel of WebSocket by sending each side a close frame, at the next boundary
// of frames in that direction. What the other side sends from then on is not passed on, and only
// searched for its own close frame. When both sides' close frames have come, or the grace time is
// over, the tunnel ends. If the client's frames are at fault (refuse), the client is sent its close
// frame only at the end.

// closeReasons are the texts in close frames, for people who look at them.
var closeReasons = [...]string{
	telemetry.ByDrain: "the gateway stops", telemetry.ByRemoval: "no longer served here",
	telemetry.ByIdle: "idle for too long", telemetry.ByLifetime: "open for long enough",
	telemetry.ByNoPong: "no answer to a ping", telemetry.ByTooBig: "message too big",
	telemetry.ByMalformed: "not a WebSocket frame",
}

// close begins to close the tunnel, unless it is closing already. An error means that it is over.
func (ws *webSocket) close(code uint16, by telemetry.Closer) error {
	if ws.closing {
		return nil
	}
	ws.begin(code, by)
	if ws.up.want && (ws.heldLen > 0 || ws.up.frames.AtBoundary()) {
		if err := ws.closeUp(); err != nil {
			return err
		}
	}
	if ws.down.want && ws.down.frames.AtBoundary() {
		return ws.insertDown()
	}
	return ws.over()
}

// begin notes that the tunnel is closing, and why.
func (ws *webSocket) begin(code uint16, by telemetry.Closer) {
	ws.closing, ws.wantPing = true, false
	ws.sends, ws.why = code, by
	// Nothing may follow the end of a direction, so no close frame either.
	ws.up.want = !ws.up.frames.Closed() && !ws.f.is(bodyWhole)
	ws.down.want = !ws.down.frames.Closed() && !ws.f.is(downEnded)
	if ws.closer == telemetry.ByNobody {
		ws.closer, ws.code = by, code
	}
	ws.endBy = ws.f.w.loop.Now() + ws.f.route.WebSocket.CloseGrace
	ws.arm()
}

// closeUp sends the upstream its close frame. It drops the held part of the client's frame.
func (ws *webSocket) closeUp() error {
	d := &ws.up
	d.want, d.closed, ws.heldLen = false, true, 0
	var key [4]byte
	rand.Read(key[:])
	return ws.f.up.on().write(
		websocket.AppendClose(ws.f.w.out[:0], ws.sends, closeReasons[ws.why], &key))
}

// lastWord sends the client a close frame when the tunnel ends, if it was not sent one before.
func (ws *webSocket) lastWord() error {
	d := &ws.down
	if !ws.closing || d.closed || !d.frames.AtBoundary() || ws.f.is(downEnded) {
		return nil
	}
	d.want = true
	return ws.insertDown()
}

// insertDown sends the client a close frame or a ping. The direction must be at a boundary of
// frames.
func (ws *webSocket) insertDown() error {
	d, f := &ws.down, ws.f
	out := f.w.out[:0]
	if d.want {
		d.want, d.closed = false, true
		out = websocket.AppendClose(out, ws.sends, closeReasons[ws.why], nil)
	} else {
		ws.pinged = f.w.loop.Now()
		ws.stats().Pings++
		out = websocket.AppendPing(out, ws.ping[:])
	}
	ws.wantPing = false
	if err := f.stream.send(f, out, 0, len(out), 0); err != nil {
		return err
	}
	return ws.over()
}

// over returns errTunnelOver once a tunnel that is closing has nothing more to wait for.
func (ws *webSocket) over() error {
	if up := &ws.up.frames; ws.closing && (up.Closed() || up.Broken()) && ws.down.frames.Closed() {
		return errTunnelOver
	}
	return nil
}

// arm sets the timer to the first time at which something is due.
func (ws *webSocket) arm() {
	f := ws.f
	w, now := f.w, f.w.loop.Now()
	at := ws.moved + f.route.TunnelTimeout
	switch life := f.route.WebSocket.Lifetime; {
	case ws.closing:
		at = ws.endBy
	case ws.leave != telemetry.ByNobody && !ws.plain:
		at = now
	default:
		if life > 0 {
			at = min(at, ws.began+life)
		}
		if ws.look > 0 && !ws.plain {
			at = min(at, ws.look)
		}
	}
	w.loop.SetTimer(&f.timer, f, max(at, now))
}

// expire is called when the tunnel's timer is due.
func (ws *webSocket) expire(now int64) {
	f := ws.f
	over := false
	switch life := f.route.WebSocket.Lifetime; {
	case ws.closing:
		if over = now >= ws.endBy; over {
			ws.lastWord()
		}
	case ws.leave != telemetry.ByNobody && !ws.plain:
		over = ws.close(websocket.GoingAway, ws.leave) != nil
	case life > 0 && now >= ws.began+life:
		over = ws.plain || ws.close(websocket.GoingAway, telemetry.ByLifetime) != nil
		ws.endedBy(telemetry.ByLifetime)
	case now >= ws.moved+f.route.TunnelTimeout:
		if f.stream.congested() { // the client does not read, so the tunnel may not be idle
			ws.moved = now - f.route.TunnelTimeout + min(f.route.TunnelTimeout, f.route.StreamTimeout)
			break
		}
		over = ws.plain || ws.close(websocket.GoingAway, telemetry.ByIdle) != nil
		ws.endedBy(telemetry.ByIdle)
	case ws.look > 0 && now >= ws.look && !ws.plain:
		over = ws.lookAtSilence(now) != nil
	}
	if over {
		f.endTunnel()
		return
	}
	ws.arm()
}

// endedBy notes why a tunnel that cannot be closed by frames has ended.
func (ws *webSocket) endedBy(by telemetry.Closer) {
	if ws.closer == telemetry.ByNobody {
		ws.closer, ws.code = by, websocket.Abnormal
	}
}

// lookAtSilence sends a ping to a client that has been silent for PingInterval, and closes the
// tunnel if it has been silent for as long since the last ping. It does nothing while either side
// does not take what it is sent: then the client's bytes are not read, or ours do not reach it.
func (ws *webSocket) lookAtSilence(now int64) error {
	f := ws.f
	every := f.route.WebSocket.PingInterval
	since := max(ws.heard, ws.pinged)
	switch {
	case f.stream.congested() || f.up.on().conn.Congested() || ws.down.frames.Closed() ||
		f.is(downEnded):
		ws.look = now + every
		return nil
	case now < since+every:
		ws.look = since + every
		return nil
	case ws.pinged > ws.heard:
		return ws.close(websocket.GoingAway, telemetry.ByNoPong)
	}
	ws.look = now + every
	if !ws.down.frames.AtBoundary() {
		ws.wantPing = true
		return nil
	}
	return ws.insertDown()
}

// Tunnels are closed a few at a time, leaveAtOnce in every leaveStep nanoseconds, so that the loop
// serves others in between.
const (
	leaveAtOnce = 64
	leaveStep   = int64(5e6)
)

// leaveTunnels closes the tunnels of WebSocket whose flow satisfies which. by says why.
func (w *Worker) leaveTunnels(by telemetry.Closer, which func(*flow) bool) {
	n := int64(0)
	for ws := w.webSockets.next; ws != &w.webSockets; ws = ws.next {
		if ws.leave != telemetry.ByNobody || ws.closing || ws.plain || !which(ws.f) {
			continue
		}
		ws.leave = by
		w.loop.SetTimer(&ws.f.timer, ws.f, w.loop.Now()+n/leaveAtOnce*leaveStep)
		n++
	}
}

// Leave closes the tunnels of WebSocket of a listener that is no longer in the config.
func (a *Acceptor) Leave() {
	a.Worker.leaveTunnels(telemetry.ByRemoval, func(f *flow) bool { return f.origin.acceptor == a })
}

// has reports whether the snapshot has a route with this name.
func (v *view) has(name string) bool {
	if v.names == nil {
		v.names = make(map[string]bool, len(v.Routes))
		for i := range v.Routes {
			v.names[v.Routes[i].Name] = true
		}
	}
	return v.names[name]
}

// forget removes the tunnel from the worker's list, and counts its end.
func (ws *webSocket) forget() {
	ws.next.prev, ws.prev.next = ws.prev, ws.next
	ws.stats().Closed[ws.closer]++
}

// describe returns what the access log says about a tunnel.
func (ws *webSocket) describe() (in, out uint64, code uint16, by string) {
	if code = ws.code; ws.closer == telemetry.ByNobody {
		code = websocket.Abnormal
	}
	return ws.up.frames.Messages, ws.down.frames.Messages, code, ws.closer.String()
}
