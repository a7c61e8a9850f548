package proxy

import (
	"crypto/rand"
	"errors"

	"plimsoll/internal/head"
	"plimsoll/internal/http1"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/websocket"
)

// A tunnel of WebSocket is watched: its messages are counted, and where its frames begin and end is
// known, so that the gateway can put control frames of its own in between. Those are pings for the
// client, whose answers it keeps to itself, and the two close frames by which it ends a tunnel.
//
// Bytes that are not frames are carried as those of any other tunnel, unless they are the client's and
// the route bounds its messages: then they end it.
//
// The invariant: what a side is sent is always whole frames, in the order in which the other side
// sent them, up to a close frame and nothing behind it. A frame of our own goes out where the
// direction's watcher stands at a boundary. What of a frame may turn out not to go on (its header
// while messages are bounded, a pong that may answer our ping) is held until that is known: 14 bytes
// at most.

// WebSocket is what a route says of its tunnels of WebSocket. Times are in nanoseconds.
type WebSocket struct {
	PingInterval int64  // silence of the client after which it is sent a ping; 0 for never
	Lifetime     int64  // of a tunnel, 0 for no bound
	CloseGrace   int64  // from our close frames until the end
	MaxMessage   uint64 // bytes of a client's message, 0 for no bound
}

// webSocket is what a tunnel of WebSocket has besides its exchange. It is made when the tunnel begins,
// and belongs to its loop.
type webSocket struct {
	f          *flow
	next, prev *webSocket // in the worker's list
	up, down   direction
	held       [websocket.MaxHeader]byte // bytes of up's frame that are not sent on yet
	ping       [pingBytes]byte           // the payload of our pings

	began  int64
	moved  int64 // when a byte last went on, either way
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

// direction is one of a tunnel's two.
type direction struct {
	frames  websocket.Watcher
	want    bool // a close frame of ours goes out at the next boundary
	closed  bool // it did: nothing follows it
	counted uint64
}

// pingBytes is the length of our pings' payload. It must not be more than a watcher keeps, nor make
// their answers longer than held.
const pingBytes = websocket.Beginning

// errTunnelOver says that both sides have sent their close frames: a tunnel that is closing ends.
var errTunnelOver = errors.New("proxy: both sides of the WebSocket have closed")

var (
	protocolWebSocket = []byte("websocket")
	extensionsName    = []byte("Sec-WebSocket-Extensions")
)

// isWebSocket says whether a value of Upgrade asks for, or agrees to, WebSocket alone or among others.
func isWebSocket(upgrade []byte) bool {
	protocol, rest := http1.NextProtocol(upgrade)
	for ; protocol != nil; protocol, rest = http1.NextProtocol(rest) {
		if head.EqualFold(protocol, protocolWebSocket) {
			return true
		}
	}
	return false
}

// startWebSocket makes a tunnel that begins one of WebSocket, where that is what was agreed on.
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

// stats are this loop's counters of the route's WebSockets.
func (ws *webSocket) stats() *telemetry.WebSocketStats {
	return &ws.f.w.shard.Route(ws.f.route.Stat).WebSocket
}

// passUp sends on what came from the client.
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

// framesUp looks at the frames in what came from the client, and sends on what stands in front of
// what it deals with itself. What goes on of the rest begins at from.
func (ws *webSocket) framesUp(data []byte) (from int, err error) {
	d := &ws.up
	most := ws.f.route.WebSocket.MaxMessage
	start := 0               // of the frame, in data
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

// hold keeps a frame's beginning that may not go on, and sends on what stands in front of it.
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

// isOurs says that the client's frame, as far as it is there, is the answer to our ping.
func (ws *webSocket) isOurs() bool {
	return ws.pinged > 0 && !ws.up.frames.InHeader() && ws.up.frames.Matches(websocket.Pong, ws.ping[:])
}

// refuse closes the tunnel because of a frame of the client's, of which nothing goes on. It sends what
// stands in front of it. The client is left to the upstream, which may have answers to what came
// before, and answers the close frame with its own: lastWord says what happens where it does not.
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

// passDown sends on what came from the upstream: buf[from:to], with room in front that may be
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

// skip follows frames that do not go on, for the close frame among them.
func (d *direction) skip(data []byte) {
	for len(data) > 0 {
		data = data[d.frames.Next(data):]
	}
}

// note counts what has gone by.
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
	if ws.closing { // in one direction at least nobody can be told
		return errTunnelOver
	}
	if ws.bounds() { // what is held goes on once it is known to be within the bound
		return nil
	}
	return ws.sendHeld()
}

// bounds says that the client's messages are bounded. Then its frames are followed whatever the
// upstream sends, and bytes of its own that are not frames end the tunnel.
func (ws *webSocket) bounds() bool { return ws.f.route.WebSocket.MaxMessage > 0 }
