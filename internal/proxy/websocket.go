package proxy

import (
	"crypto/rand"
	"errors"

	"plimsoll/internal/head"
	"plimsoll/internal/http1"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/websocket"
)

// The gateway watches the frames in a tunnel of WebSocket. It counts messages, and knows where
// frames begin and end, so that it can insert control frames of its own: pings for the client,
// whose answers it does not pass on, and the two close frames by which it ends a tunnel.
//
// Bytes that are not frames are passed on as in any other tunnel. But if they come from the client
// and the route bounds its messages, they end the tunnel.
//
// The invariant: each side is sent only whole frames, in the order in which the other side sent
// them, up to a close frame and nothing behind it. A frame of the gateway is inserted where the
// watcher of the direction is at a boundary. The part of a frame that may turn out not to be passed
// on (its header while messages are bounded, a pong that may answer the gateway's ping) is held
// until that is known: 14 bytes at most.

// WebSocket holds a route's settings for its tunnels of WebSocket. Times are in nanoseconds.
type WebSocket struct {
	PingInterval int64  // silence of the client after which it is sent a ping; 0 for never
	Lifetime     int64  // of a tunnel, 0 for no bound
	CloseGrace   int64  // from our close frames until the end
	MaxMessage   uint64 // bytes of a client's message, 0 for no bound
}

// webSocket is the state of a tunnel of WebSocket. It is made when the tunnel begins, and belongs
// to the loop of its exchange.
type webSocket struct {
	f          *flow
	next, prev *webSocket // in the worker's list
	up, down   direction
	held       [websocket.MaxHeader]byte // bytes of up's frame that are not sent on yet
	ping       [pingBytes]byte           // the payload of our pings

	began  int64
	moved  int64 // when a byte was last passed on, in either direction
	heard  int64 // when a byte last came from the client
	pinged int64 // when the last ping went out; 0 for none
	look   int64 // when the client's silence is looked at next; 0 for never
	endBy  int64 // when the tunnel ends, once it is closing

	leave   telemetry.Closer // why the tunnel is to be closed when its timer is due
	why     telemetry.Closer // why it is closing
	sends   uint16           // the code of our close frames
	closer  telemetry.Closer // whose close frame was the first
	code    uint16           // its code
	heldLen uint8

	closing  bool // our close frames are on their way
	wantPing bool // a ping goes out at the next boundary
	plain    bool // the bytes are not frames
}

// direction is the state of one of a tunnel's two directions.
type direction struct {
	frames  websocket.Watcher
	want    bool   // a close frame of ours is to be sent at the next boundary
	closed  bool   // it was sent: nothing follows it
	counted uint64 // how many of the messages were added to the route's counts
}

// pingBytes is the length of the payload of our pings. It must not be more than a watcher keeps,
// and the answers must fit into held.
const pingBytes = websocket.Beginning

// errTunnelOver ends a tunnel that is closing, once both sides have sent their close frames, or the
// bytes of one are not frames.
var errTunnelOver = errors.New("proxy: both sides of the WebSocket have closed")

var (
	protocolWebSocket = []byte("websocket")
	extensionsName    = []byte("Sec-WebSocket-Extensions")
)

// isWebSocket reports whether the value of an Upgrade field names WebSocket, alone or among others.
func isWebSocket(upgrade []byte) bool {
	protocol, rest := http1.NextProtocol(upgrade)
	for ; protocol != nil; protocol, rest = http1.NextProtocol(rest) {
		if head.EqualFold(protocol, protocolWebSocket) {
			return true
		}
	}
	return false
}

// startWebSocket makes a tunnel that begins one of WebSocket, if the two sides have agreed on that.
func (f *flow) startWebSocket() {
	if !head.EqualFold(f.res.Upgrade, protocolWebSocket) {
		return
	}
	w, now := f.w, f.w.loop.Now()
	ws := &webSocket{f: f, began: now, moved: now, heard: now}
	agreed := f.res.Fields.Find(extensionsName) != nil
	ws.up.frames.Start(true, agreed)
	ws.down.frames.Start(false, agreed)
	if every := f.route.WebSocket.PingInterval; every > 0 {
		rand.Read(ws.ping[:])
		ws.look = now + every
	}
	f.webSocket = ws
	ws.next, ws.prev = w.webSockets.next, &w.webSockets
	ws.next.prev, ws.prev.next = ws, ws
	ws.stats().Opened++
	switch {
	case w.draining:
		ws.leave = telemetry.ByDrain
	case f.origin.acceptor.Closed || f.losesHTTP3() || f.view != w.view && !w.view.has(f.route.Name):
		ws.leave = telemetry.ByRemoval
	}
}

// stats returns this loop's counters for the route's WebSockets.
func (ws *webSocket) stats() *telemetry.WebSocketStats {
	return &ws.f.w.shard.Route(ws.f.route.Stat).WebSocket
}

// passUp passes on what came from the client.
func (ws *webSocket) passUp(data []byte) error {
	ws.heard = ws.f.w.loop.Now()
	switch d := &ws.up; {
	case ws.plain && !ws.bounds():
		return ws.sendUp(data)
	case d.closed:
		d.skip(data)
		ws.note(d, telemetry.ByClient)
		return ws.over()
	}
	from, err := ws.framesUp(data)
	if err == nil && from < len(data) {
		err = ws.sendUp(data[from:])
	}
	if err != nil {
		return err
	}
	ws.note(&ws.up, telemetry.ByClient)
	return ws.over()
}

// framesUp looks at the frames in what came from the client. It sends on what comes before a frame
// that it deals with itself. The caller must send on data[from:].
func (ws *webSocket) framesUp(data []byte) (from int, err error) {
	d := &ws.up
	most := ws.f.route.WebSocket.MaxMessage
	start := 0               // where the present frame begins in data
	whole := ws.heldLen != 0 // nothing of the frame has been sent on
	for at := 0; at < len(data); {
		if d.frames.AtBoundary() {
			start, whole = at, true
		}
		at += d.frames.Next(data[at:])
		ended := d.frames.AtBoundary() || d.frames.Closed()
		switch {
		case d.frames.Broken() && !ws.bounds():
			return from, ws.unframe()
		case d.frames.Broken():
			return ws.refuse(data[from:start], len(data), websocket.ProtocolError, telemetry.ByMalformed)
		case most > 0 && d.frames.Message() > most && !d.frames.InHeader():
			d.skip(data[at:])
			return ws.refuse(data[from:start], len(data), websocket.TooBig, telemetry.ByTooBig)
		case ended && whole && ws.isOurs():
			if err := ws.sendUp(data[from:start]); err != nil {
				return from, err
			}
			from, ws.heldLen = at, 0
		case ended:
			if err := ws.sendHeld(); err != nil {
				return from, err
			}
			whole = false
		}
		if d.want && d.frames.AtBoundary() {
			if err := ws.sendUp(data[from:at]); err != nil {
				return from, err
			}
			d.skip(data[at:])
			return len(data), ws.closeUp()
		}
	}
	return ws.hold(data, from, start, whole)
}

// hold keeps the beginning of a frame that may not be passed on, and sends on what comes before it.
func (ws *webSocket) hold(data []byte, from, start int, whole bool) (int, error) {
	d := &ws.up
	mayBeRefused := d.frames.InHeader() && (ws.f.route.WebSocket.MaxMessage > 0 || ws.pinged > 0)
	if whole && !d.frames.AtBoundary() && (mayBeRefused || ws.isOurs()) {
		if err := ws.sendUp(data[from:start]); err != nil {
			return from, err
		}
		ws.heldLen += uint8(copy(ws.held[ws.heldLen:], data[start:]))
		return len(data), nil
	}
	return from, ws.sendHeld()
}

// isOurs reports whether the client's frame, as far as it has come, is the answer to our ping.
func (ws *webSocket) isOurs() bool {
	return ws.pinged > 0 && !ws.up.frames.InHeader() && ws.up.frames.Matches(websocket.Pong, ws.ping[:])
}

// refuse closes the tunnel because of a frame of the client, of which nothing is passed on. It
// sends on what came before the frame, and then a close frame. The upstream may have answers to
// what came before, and answers the close frame with its own, which closes the tunnel for the
// client: for what happens if it does not, see lastWord.
func (ws *webSocket) refuse(before []byte, all int, code uint16, by telemetry.Closer) (int, error) {
	ws.heldLen = 0
	if err := ws.sendUp(before); err != nil {
		return all, err
	}
	if !ws.closing {
		ws.begin(code, by)
		ws.down.want = false
	}
	return all, ws.closeUp()
}

// sendHeld sends on what was held.
func (ws *webSocket) sendHeld() error {
	n := ws.heldLen
	ws.heldLen = 0
	return ws.sendUp(ws.held[:n])
}

func (ws *webSocket) sendUp(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	ws.moved = ws.f.w.loop.Now()
	return ws.f.up.on().write(data)
}

// passDown passes on buf[from:to], which came from the upstream. The room in front of it may be
// overwritten.
func (ws *webSocket) passDown(buf []byte, from, to int) error {
	d := &ws.down
	if d.closed {
		d.skip(buf[from:to])
		ws.note(d, telemetry.ByUpstream)
		return ws.over()
	}
	ws.moved = ws.f.w.loop.Now()
	for at := from; at < to && !ws.plain; {
		at += d.frames.Next(buf[at:to])
		switch {
		case d.frames.Broken():
			if err := ws.unframe(); err != nil {
				return err
			}
		case (d.want || ws.wantPing) && d.frames.AtBoundary():
			if err := ws.f.stream.send(ws.f, buf, from, at, 0); err != nil {
				return err
			}
			if from = at; d.want {
				d.skip(buf[at:to])
				from, at = to, to // nothing follows a close frame
			}
			if err := ws.insertDown(); err != nil {
				return err
			}
		}
	}
	if from < to {
		if err := ws.f.stream.send(ws.f, buf, from, to, 0); err != nil {
			return err
		}
	}
	ws.note(d, telemetry.ByUpstream)
	return ws.over()
}

// skip follows frames that are not passed on, to find the close frame among them.
func (d *direction) skip(data []byte) {
	for len(data) > 0 {
		data = data[d.frames.Next(data):]
	}
}

// note counts the messages of a direction, and notes which side closed first.
func (ws *webSocket) note(d *direction, by telemetry.Closer) {
	if n := d.frames.Messages - d.counted; n > 0 {
		d.counted += n
		if d == &ws.up {
			ws.stats().In += n
		} else {
			ws.stats().Out += n
		}
	}
	if d.frames.Closed() && ws.closer == telemetry.ByNobody {
		ws.closer, ws.code = by, d.frames.Code()
	}
}

// unframe makes the tunnel one of plain bytes: what came is not RFC 6455.
func (ws *webSocket) unframe() error {
	if ws.plain {
		return nil
	}
	ws.plain = true
	ws.stats().Unframed++
	if ws.closing { // no close frame can be sent in this direction
		return errTunnelOver
	}
	if ws.bounds() { // what is held is sent once it is known to be within the bound
		return nil
	}
	return ws.sendHeld()
}

// bounds reports whether the client's messages are bounded. Then the client's frames are followed
// even if the upstream does not send frames, and bytes of the client that are not frames end the
// tunnel.
func (ws *webSocket) bounds() bool { return ws.f.route.WebSocket.MaxMessage > 0 }
