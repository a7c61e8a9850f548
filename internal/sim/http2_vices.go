package sim

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// http2Spoilers are ways to malform a request's head, like spoilers for HTTP/1.
var http2Spoilers = []struct {
	name    string
	refused bool
	apply   func(list []hpack.HeaderField) []hpack.HeaderField
}{
	{"two lengths", true, adding("content-length", "3", "content-length", "4")},
	{"a field of a connection", true, adding("connection", "close")},
	{"a coding of HTTP/1", true, adding("transfer-encoding", "chunked")},
	{"a name in upper case", true, adding("X-A", "1")},
	{"a line end in a value", true, adding("x-a", "1\r\nx-b: 2")},
	{"a space around a value", true, adding("x-a", " 1")},
	{"a pseudo-field behind others", true, adding("x-a", "1", ":scheme", "http")},
	{"an unknown pseudo-field", true, func(list []hpack.HeaderField) []hpack.HeaderField {
		return append([]hpack.HeaderField{{Name: ":what", Value: "1"}}, list...)
	}},
	{"no path", true, func(list []hpack.HeaderField) []hpack.HeaderField {
		return append(list[:3:3], list[4:]...)
	}},
	{"two methods", true, func(list []hpack.HeaderField) []hpack.HeaderField {
		return append([]hpack.HeaderField{list[0]}, list...)
	}},
	{"another host", true, adding("host", "evil.test")},
	{"many fields", true, func(list []hpack.HeaderField) []hpack.HeaderField {
		for i := range 200 {
			list = append(list, hpack.HeaderField{Name: "x-" + strconv.Itoa(i), Value: "1"})
		}
		return list
	}},
	{"a long head", true, adding("x-long", strings.Repeat("x", 40_000))},
	{"long cookies", false, adding("cookie", longCookie, "cookie", longCookie)},
	{"claims of its own", false, adding("x-forwarded-for", claimed, "x_real_ip", claimed)},
	{"an escape above the root", false, func(list []hpack.HeaderField) []hpack.HeaderField {
		list[3].Value = "/%2e%2e/.." + list[3].Value
		return list
	}},
}

// longCookie is so long that a head has room for two of them and almost nothing else.
var longCookie = strings.Repeat("x", 17_500)

func adding(pairs ...string) func([]hpack.HeaderField) []hpack.HeaderField {
	return func(list []hpack.HeaderField) []hpack.HeaderField {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
		}
		return list
	}
}

// harm is what an act may end.
type harm uint8

const (
	ofStream     harm = iota // only the newest stream
	ofConnection             // the connection must end
	ofEither                 // the connection may end
)

// http2Act is a forbidden action of a client, with its newest stream or without.
type http2Act struct {
	name string
	harm harm
	do   func(h *http2Conn, st *http2Stream)
}

// http2Acts are all acts.
var http2Acts = []http2Act{
	{"a window of a stream opened by nothing", ofStream, func(h *http2Conn, st *http2Stream) {
		h.frame(frameWindow, 0, st.id, number(0))
	}},
	{"a window of a stream opened too far", ofStream, func(h *http2Conn, st *http2Stream) {
		h.frame(frameWindow, 0, st.id, number(math.MaxInt32))
		h.frame(frameWindow, 0, st.id, number(math.MaxInt32))
		st.receive += math.MaxInt32
	}},
	{"a stream that depends on itself", ofStream, func(h *http2Conn, st *http2Stream) {
		h.frame(framePriority, 0, st.id, append(number(int(st.id)), 1))
	}},
	{"requests that depend on themselves", ofStream, func(h *http2Conn, _ *http2Stream) {
		h.selfish = true
		h.askMore(5, RequestPlan{Method: "GET", Path: "/a/", Body: -1})
		h.selfish = false
	}},
	{"a short priority", ofStream, func(h *http2Conn, st *http2Stream) {
		h.frame(framePriority, 0, st.id, []byte{1, 2})
	}},
	{"data behind the end", ofStream, func(h *http2Conn, st *http2Stream) {
		if !st.said {
			h.frame(frameReset, 0, st.id, number(cancelled))
		}
		h.frame(frameData, flagEnd, st.id, nil)
	}},
	{"trailers that end nothing", ofEither, func(h *http2Conn, st *http2Stream) {
		h.head(st.id, h.encode([]hpack.HeaderField{{Name: "x-sum", Value: "1"}}), false)
	}},
	{"a pseudo-field in trailers", ofEither, func(h *http2Conn, st *http2Stream) {
		h.head(st.id, h.encode([]hpack.HeaderField{{Name: ":path", Value: "/"}}), true)
	}},
	{"more streams than allowed", ofEither, func(h *http2Conn, _ *http2Stream) {
		h.askMore(200, RequestPlan{Method: "POST", Path: "/a/", Body: 10, Halts: true})
	}},
	{"a frame that is too large", ofConnection, func(h *http2Conn, st *http2Stream) {
		h.frame(frameData, 0, st.id, make([]byte, usualFrame+1))
	}},
	{"data of no stream", ofConnection, func(h *http2Conn, _ *http2Stream) {
		h.frame(frameData, 0, 0, []byte("x"))
	}},
	{"a stream of the gateway's", ofConnection, func(h *http2Conn, _ *http2Stream) {
		h.frame(frameHeaders, flagEndHead|flagEnd, 2, []byte{0x82})
	}},
	{"settings of a stream", ofConnection, func(h *http2Conn, st *http2Stream) {
		h.frame(frameSettings, 0, st.id, nil)
	}},
	{"a short setting", ofConnection, func(h *http2Conn, _ *http2Stream) {
		h.frame(frameSettings, 0, 0, []byte{0, 4, 0})
	}},
	{"a window above the limit", ofConnection, func(h *http2Conn, _ *http2Stream) {
		h.frame(frameSettings, 0, 0, appendSetting(nil, 4, 1<<31))
	}},
	{"a push", ofConnection, func(h *http2Conn, st *http2Stream) {
		h.frame(framePush, flagEndHead, st.id, append(number(2), 0x82))
	}},
	{"a continuation of nothing", ofConnection, func(h *http2Conn, st *http2Stream) {
		h.frame(frameContinuation, flagEndHead, st.id, []byte{0x82})
	}},
	{"a field block that is interrupted", ofConnection, func(h *http2Conn, st *http2Stream) {
		h.frame(frameHeaders, 0, h.last+2, []byte{0x82})
		h.frame(frameData, 0, st.id, []byte("x"))
	}},
	{"a field block that cannot be decoded", ofConnection, func(h *http2Conn, _ *http2Stream) {
		h.frame(frameHeaders, flagEndHead|flagEnd, h.last+2, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0x0f})
	}},
	{"a window of a stream to come", ofConnection, func(h *http2Conn, _ *http2Stream) {
		h.frame(frameWindow, 0, h.last+2, number(1))
	}},
	{"a reset of a stream to come", ofConnection, func(h *http2Conn, _ *http2Stream) {
		h.frame(frameReset, 0, h.last+2, number(cancelled))
	}},
	{"the connection's window opened too far", ofConnection, func(h *http2Conn, _ *http2Stream) {
		h.frame(frameWindow, 0, 0, number(math.MaxInt32))
		h.frame(frameWindow, 0, 0, number(math.MaxInt32))
		h.receive += math.MaxInt32
	}},
	{"a short PING", ofConnection, func(h *http2Conn, _ *http2Stream) {
		h.frame(framePing, 0, 0, []byte("short"))
	}},
	{"what is not a frame", ofConnection, func(h *http2Conn, _ *http2Stream) {
		h.c.out = append(h.c.out, "GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n"...)
	}},
	{"more data than the windows allow", ofEither, func(h *http2Conn, st *http2Stream) {
		for range 40 {
			content := noiseOf(st.q.token+"up").bytes(st.at, usualFrame)
			st.at += usualFrame
			h.frame(frameData, 0, st.id, content)
		}
	}},
	{"a flood of PINGs", ofConnection, flood(1500, framePing, 0, make([]byte, 8))},
	{"a flood of SETTINGS", ofConnection, flood(1000, frameSettings, 0, nil)},
	{"a flood of empty data", ofConnection, func(h *http2Conn, st *http2Stream) {
		for range 1000 {
			h.frame(frameData, 0, st.id, nil)
		}
	}},
	{"a flood of resets", ofEither, func(h *http2Conn, _ *http2Stream) {
		h.askMore(1200, RequestPlan{Method: "GET", Path: "/a/", Body: -1, Reset: "head"})
	}},
	{"a flood of continuations", ofConnection, func(h *http2Conn, _ *http2Stream) {
		h.frame(frameHeaders, 0, h.last+2, nil)
		for range 100 {
			h.frame(frameContinuation, 0, h.last+2, nil)
		}
	}},
	{"a field block without end", ofConnection, func(h *http2Conn, _ *http2Stream) {
		h.frame(frameHeaders, 0, h.last+2, binary.BigEndian.AppendUint16(nil, 0x8284))
	}},
}

func flood(times int, kind, flags byte, payload []byte) func(*http2Conn, *http2Stream) {
	return func(h *http2Conn, _ *http2Stream) {
		for range times {
			h.frame(kind, flags, 0, payload)
		}
	}
}

// askMore begins many requests, regardless of others in progress.
func (h *http2Conn) askMore(times int, p RequestPlan) {
	for range times {
		p.Number = 1000 + len(h.streams)
		q := h.c.newRequest(p.Number, p)
		q.framed = true
		h.ask(q)
	}
}

// misbehave does the client's forbidden action once, as soon as there is a stream for it.
func (h *http2Conn) misbehave() {
	if len(h.streams) == 0 {
		return
	}
	a := h.act
	h.act = nil
	h.c.w.trace("%s does what it may not: %s", h.c.name, a.name)
	st := h.streams[len(h.streams)-1]
	st.odd, st.q.odd = true, true
	if st.talk != nil {
		st.talk.spoilt = true
	}
	if a.harm != ofStream {
		h.hostile = true
		for _, other := range h.streams {
			other.q.odd = true
		}
	}
	before := len(h.streams)
	a.do(h, st)
	for _, other := range h.streams[before:] {
		other.odd, other.q.odd = true, true
	}
	st.said = true
	h.doomed = a.harm == ofConnection
	// If the stream was over, the gateway may ignore the action.
	h.onceSent(func() {
		h.resetStream(st)
		h.push()
	})
}
