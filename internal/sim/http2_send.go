package sim

import (
	"encoding/binary"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// ahead is how many bytes of frames a client composes beyond what it has sent.
const ahead = 32 << 10

// mostNoise bounds the frames of one connection that change nothing: the gateway may consider more
// of them a flood.
const mostNoise = 80

// frame appends a frame to what the client sends.
func (h *http2Conn) frame(kind, flags byte, stream uint32, payload []byte) {
	c := h.c
	c.out = appendFrame(c.out, kind, flags, stream, payload)
	h.frames++
}

func appendFrame(out []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	out = append(out, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	return append(binary.BigEndian.AppendUint32(out, stream), payload...)
}

func appendSetting(list []byte, id uint16, value int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(list, id), uint32(value))
}

func number(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// compose makes frames of what can be sent now.
func (h *http2Conn) compose() {
	c := h.c
	if h.composed { // it is already composing
		return
	}
	h.composed = true
	for len(c.out)-c.sent < ahead && !c.stuck && !c.done && !h.doomed && h.composeOne() {
		h.composeBeside()
	}
	h.composed = false
	h.push()
	h.leaveIfDone()
}

// push schedules the sending of what was composed.
func (h *http2Conn) push() {
	c := h.c
	c.given = len(c.out)
	if c.sent < c.given && !h.due && !c.done && !c.stuck {
		h.due = true
		c.w.kernel.After(0, func() {
			h.due = false
			c.send()
		})
	}
}

// composeOne begins or continues a request. It returns false if there was none.
func (h *http2Conn) composeOne() bool {
	c := h.c
	var ready []*http2Stream
	for _, st := range h.streams {
		if !st.closed && !st.said && !st.waits && h.mayGoOn(st) {
			ready = append(ready, st)
		}
	}
	begins := !h.leaving && h.next < len(c.requests) && h.open < h.plan.Streams &&
		(h.greeted || c.requests[h.next].WebSocket == nil) // SETTINGS must allow WebSockets
	switch {
	case begins && (len(ready) == 0 || c.rng.IntN(2) == 0):
		q := c.requests[h.next]
		h.next++
		h.ask(q)
	case len(ready) > 0:
		h.goOn(ready[c.rng.IntN(len(ready))])
	default:
		return false
	}
	return true
}

// mayGoOn reports whether more of the stream's body, or its end, can be sent.
func (h *http2Conn) mayGoOn(st *http2Stream) bool {
	left := st.left()
	if st.talk != nil && left == 0 {
		return st.talk.ended
	}
	if st.q.Halts && left <= st.q.Body/2 {
		return false
	}
	return left == 0 || min(st.send, h.send) > 0
}

// ask begins a request.
func (h *http2Conn) ask(q *request) {
	c := h.c
	h.last += uint32(1 + 2*c.rng.IntN(2)*c.rng.IntN(2))
	if h.last&1 == 0 {
		h.last++
	}
	st := &http2Stream{
		q: q, id: h.last, send: h.theirs, receive: int64(h.initial), cut: -1,
		unopened: max(0, usualWindow-h.initial), waits: q.Waits && q.Body > 0,
	}
	st.answer.c = c
	h.streams = append(h.streams, st)
	h.open++
	if q.WebSocket != nil {
		h.prepareTalk(st)
	}
	ends := q.Body < 0 && st.talk == nil || q.Body == 0 && !q.Torn && !q.Trailers && c.rng.IntN(2) == 0
	at := len(c.out) + 1
	h.marks = append(h.marks, mark{at, func() {
		if !st.closed {
			c.asked = append(c.asked, q)
			q.since = c.w.kernel.Clock()
		}
	}})
	q.odd = h.hostile
	h.head(st.id, h.encode(h.requestFields(st)), ends)
	if ends {
		h.sayAll(st)
	}
	switch q.Reset {
	case "head":
		h.resetStream(st)
	case "answer":
		st.cut = 0
	case "content":
		st.cut = 1 + c.rng.IntN(1+c.rng.IntN(50_000))
	}
	h.openLater()
}

// sayAll records that all of the request is in frames.
func (h *http2Conn) sayAll(st *http2Stream) {
	c := h.c
	st.said = true
	h.onceSent(func() {
		st.whole = true
		if st.answered {
			h.close(st)
		}
	})
	if st.q.Reset == "asked" || st.q.Reset == "body" {
		c.w.kernel.After(between(c.rng, 0, c.w.scenario.Gateway.Timeout/4), func() {
			h.resetStream(st)
			h.push()
		})
	}
}

// requestFields returns the fields of a request's head.
func (h *http2Conn) requestFields(st *http2Stream) []hpack.HeaderField {
	c, q := h.c, st.q
	target := q.target()
	if q.Query {
		target += "?page=2&next=/a/c0r0"
	}
	scheme := "http"
	if c.speaksTLS() {
		scheme = "https"
	}
	list := []hpack.HeaderField{
		{Name: ":method", Value: q.Method}, {Name: ":scheme", Value: scheme},
		{Name: ":authority", Value: "shop.test"}, {Name: ":path", Value: target},
	}
	if st.talk != nil {
		list[0].Value = "CONNECT"
		list = append(list, hpack.HeaderField{Name: ":protocol", Value: "websocket"})
	}
	add := func(name, value string) {
		list = append(list, hpack.HeaderField{Name: name, Value: value, Sensitive: c.rng.IntN(8) == 0})
	}
	if q.Trailers {
		add("te", "trailers")
		add("trailer", "x-sum")
	}
	if q.Cached != nil {
		for _, line := range q.Cached.Fields {
			name, value, _ := strings.Cut(line, ": ")
			add(name, value)
		}
	}
	if q.Class != "" {
		add("x-class", q.Class)
		add("x_class", "P0")
	}
	if q.Left != "" {
		add("x-left", q.Left)
	}
	if q.Expect {
		add("expect", "100-continue")
	}
	if q.Body >= 0 {
		add("x-size", strconv.Itoa(q.Body))
		if !q.Chunked {
			add("content-length", strconv.Itoa(q.Body))
		}
	}
	if c.rng.IntN(4) == 0 {
		add("cookie", "a=1")
		add("cookie", "b=2")
	}
	if q.Spoiled > 0 {
		list = http2Spoilers[(q.Spoiled-1)%len(http2Spoilers)].apply(list)
	}
	return list
}

// encode makes a field block.
func (h *http2Conn) encode(list []hpack.HeaderField) []byte {
	if h.c.rng.IntN(20) == 0 {
		h.encoder.SetMaxDynamicTableSize(uint32(h.c.rng.IntN(usualTable + 1)))
	}
	h.blocks.Reset()
	for _, f := range list {
		h.encoder.WriteField(f)
	}
	return append([]byte(nil), h.blocks.Bytes()...)
}

// head sends a field block in one or more frames.
func (h *http2Conn) head(id uint32, block []byte, ends bool) {
	c := h.c
	flags := byte(0)
	if ends {
		flags = flagEnd
	}
	var before, pad []byte
	if h.plan.Padded && c.rng.IntN(2) == 0 {
		n := c.rng.IntN(256)
		flags |= flagPadded
		before, pad = []byte{byte(n)}, make([]byte, n)
	}
	if h.selfish || c.rng.IntN(8) == 0 {
		on := c.rng.IntN(3) * 2
		if h.selfish {
			on = int(id)
		}
		flags |= flagPriority
		before = append(before, append(number(on), byte(c.rng.IntN(256)))...)
	}
	room := usualFrame - len(before) - len(pad)
	n := len(block)
	if n > room || c.rng.IntN(4) == 0 {
		n = min(room, c.rng.IntN(1+min(n, h.plan.Frame)))
	}
	first := append(append(before, block[:n]...), pad...)
	block = block[n:]
	if len(block) == 0 {
		flags |= flagEndHead
	}
	h.frame(frameHeaders, flags, id, first)
	for pieces := 0; len(block) > 0; pieces++ {
		n = min(len(block), usualFrame)
		if pieces < 5 {
			n = min(n, 1+c.rng.IntN(n))
		}
		flags = 0
		if n == len(block) {
			flags = flagEndHead
		}
		h.frame(frameContinuation, flags, id, block[:n])
		block = block[n:]
	}
}

// goOn sends a part of a stream's body, or its end.
func (h *http2Conn) goOn(st *http2Stream) {
	c, q := h.c, st.q
	left := st.left()
	if q.Halts {
		left -= q.Body / 2
	}
	if q.Reset == "body" && st.talk == nil && 2*left <= q.Body {
		h.resetStream(st)
		return
	}
	if left == 0 {
		h.endBody(st)
		return
	}
	n := int(min(int64(left), int64(1+c.rng.IntN(h.plan.Frame)), st.send, h.send, usualFrame))
	content := st.content(n)
	flags := byte(0)
	if room := int(min(st.send, h.send, usualFrame)) - n - 1; h.plan.Padded && room >= 0 {
		pad := c.rng.IntN(1 + min(room, 255))
		content = append(append([]byte{byte(pad)}, content...), make([]byte, pad)...)
		flags = flagPadded
	}
	st.at += n
	last := st.left() == 0 && (st.talk == nil || st.talk.ended) && !q.Torn && !q.Trailers && c.rng.IntN(4) > 0
	if last {
		flags |= flagEnd
	}
	st.send -= int64(len(content))
	h.send -= int64(len(content))
	h.frame(frameData, flags, st.id, content)
	if last {
		h.sayAll(st)
	}
}

// endBody ends a request whose body has been sent.
func (h *http2Conn) endBody(st *http2Stream) {
	switch q := st.q; {
	case q.Torn:
		h.resetStream(st)
	case q.Trailers:
		h.head(st.id, h.encode([]hpack.HeaderField{{Name: "x-sum", Value: q.token}}), true)
		h.sayAll(st)
	default:
		h.frame(frameData, flagEnd, st.id, nil)
		h.sayAll(st)
	}
}

// resetStream resets a stream. The PING after it shows when the gateway must know of the reset.
func (h *http2Conn) resetStream(st *http2Stream) {
	c := h.c
	if st.reset || st.given || st.closed || c.stuck || c.done || h.doomed {
		return
	}
	st.reset, st.said = true, true
	if st.talk != nil {
		st.talk.gone = true
	}
	codes := []int{noError, cancelled, protocolError, 77}
	h.frame(frameReset, 0, st.id, number(codes[c.rng.IntN(len(codes))]))
	h.pingThen(func() { st.known = true })
	h.onceSent(func() { h.close(st) })
}

// pingThen sends a PING and calls then at its acknowledgement.
func (h *http2Conn) pingThen(then func()) {
	p := &ping{done: then}
	binary.BigEndian.PutUint64(p.data[:], h.c.rng.Uint64())
	h.pings = append(h.pings, p)
	h.frame(framePing, 0, 0, p.data[:])
	h.onceSent(func() { p.sent = true })
}

// composeBeside occasionally sends frames that belong to no request.
func (h *http2Conn) composeBeside() {
	c := h.c
	if h.noise < mostNoise && c.rng.Float64() < h.plan.Fuss {
		h.noise++
		h.fuss()
	}
	if h.noise < mostNoise && c.rng.Float64() < h.plan.Resize {
		h.noise += mostNoise / 10
		h.resize()
	}
	if h.plan.GoAway > 0 && h.frames >= h.plan.GoAway && !h.leaving {
		h.leaving = true
		h.frame(frameGoAway, 0, 0, append(number(0), number(noError)...))
	}
	if h.act != nil && h.frames >= h.plan.ActAt {
		h.misbehave()
	}
}

// fuss sends a frame that changes nothing.
func (h *http2Conn) fuss() {
	c := h.c
	id := h.last
	switch c.rng.IntN(4) {
	case 0:
		h.pingThen(func() {})
	case 1: // for any stream, even one that is over or has not begun
		id = 1 + 2*uint32(c.rng.IntN(int(h.last)+2))
		h.frame(framePriority, 0, id, append(number(0), byte(c.rng.IntN(256))))
	case 2:
		h.frame(byte(0x20+c.rng.IntN(100)), byte(c.rng.IntN(256)), id, make([]byte, c.rng.IntN(300)))
	case 3:
		if st := h.stream(id); st != nil && !st.said && !st.closed {
			h.frame(frameData, 0, id, nil)
		}
	}
}

// resize changes INITIAL_WINDOW_SIZE, and with it the windows of all streams.
func (h *http2Conn) resize() {
	value := h.c.rng.IntN(1 + h.c.rng.IntN(1<<18))
	ch := &change{by: value - h.initial, last: h.last}
	h.initial = value
	for _, st := range h.streams {
		if !st.closed && ch.by < 0 {
			st.unopened -= ch.by
		}
	}
	h.settings = append(h.settings, ch)
	h.frame(frameSettings, 0, 0, appendSetting(nil, 4, value))
	h.noteSettings()
	h.openLater()
}

// noteSettings is called after composing SETTINGS. The gateway may use what they allow as soon as
// it can have seen them, and must respect what they forbid once it has acknowledged them.
func (h *http2Conn) noteSettings() {
	ch := h.settings[len(h.settings)-1]
	h.onceSent(func() {
		ch.sent = true
		if ch.by > 0 {
			h.shift(ch)
		}
	})
}

// shift moves the windows of the streams that a change affects.
func (h *http2Conn) shift(ch *change) {
	for _, st := range h.streams {
		if st.id <= ch.last {
			h.opens(&st.receive, ch.by)
		}
	}
}

// opens opens a window. The gateway may have waited for it.
func (h *http2Conn) opens(window *int64, by int) {
	if *window <= 0 {
		h.c.rested = h.c.w.kernel.Clock()
	}
	*window += int64(by)
}

// openLater schedules an opening of windows.
func (h *http2Conn) openLater() {
	c := h.c
	if h.opening || c.done || c.stuck || h.unopened == 0 && !h.anyUnopened() {
		return
	}
	h.opening = true
	c.w.kernel.After(between(c.rng, 0, h.plan.Wait), func() {
		h.opening = false
		if c.done || c.stuck || h.doomed {
			return
		}
		h.openWindows()
		h.push()
	})
}

func (h *http2Conn) anyUnopened() bool {
	for _, st := range h.streams {
		if !st.closed && !st.answered && st.unopened > 0 {
			return true
		}
	}
	return false
}

// openWindows opens windows by the bytes read, or at first by a part of them.
func (h *http2Conn) openWindows() {
	left := false
	part := func(n int) int {
		if h.plan.Step > 0 && h.steps < 60 {
			h.steps++
			n = min(n, 1+h.c.rng.IntN(h.plan.Step))
		}
		return n
	}
	if h.unopened > 0 {
		n := part(h.unopened)
		h.unopened -= n
		h.openConnection(n)
		left = h.unopened > 0
	}
	for _, st := range h.streams {
		if st.closed || st.answered || st.unopened == 0 {
			continue
		}
		n := part(st.unopened)
		st.unopened -= n
		h.frame(frameWindow, 0, st.id, number(n))
		h.onceSent(func() { h.opens(&st.receive, n) })
		left = left || st.unopened > 0
	}
	if left {
		h.openLater()
	}
}

func (h *http2Conn) openConnection(n int) {
	h.frame(frameWindow, 0, 0, number(n))
	h.onceSent(func() { h.opens(&h.receive, n) })
}
