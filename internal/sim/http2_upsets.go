package sim

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"
)

// http2Vice is a way in which services misbehave with one request in HTTP/2.
type http2Vice struct {
	name  string
	apply func(st *servedStream, wait time.Duration)
}

// then makes an answer of one step.
func then(do func(st *servedStream)) func(*servedStream, time.Duration) {
	return func(st *servedStream, wait time.Duration) {
		st.say(step{wait, func() bool { do(st); return true }})
	}
}

// wrongly makes an answer whose step breaks a rule of the stream.
func wrongly(do func(st *servedStream)) func(*servedStream, time.Duration) {
	return then(func(st *servedStream) {
		st.odd = true
		do(st)
	})
}

// withHead makes an answer with wrong fields.
func withHead(ends bool, fields ...string) func(*servedStream, time.Duration) {
	return wrongly(func(st *servedStream) {
		st.head(200, ends, append([]string{"x-size", "0"}, fields...)...)
	})
}

// withFields makes an answer that consists of the fields.
func withFields(fields ...string) func(*servedStream, time.Duration) {
	return wrongly(func(st *servedStream) {
		var list []hpack.HeaderField
		for i := 0; i < len(fields); i += 2 {
			list = append(list, hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		st.fields(list, true)
	})
}

// codes are the codes for resetting streams, including an unknown one.
var codes = []int{noError, protocolError, 2, flowError, streamClosed, cancelled, 11, 13, 77}

func (st *servedStream) anyCode() int { return codes[st.rng.IntN(len(codes))] }

// part sends a head and a part of the body that it announces.
func (st *servedStream) part(announced int) {
	st.odd = st.odd || st.toHEAD()
	fields := []string{"x-size", strconv.Itoa(announced)}
	if st.rng.IntN(2) == 0 {
		fields = append(fields, "content-length", strconv.Itoa(announced))
	}
	st.head(200, false, fields...)
	st.content(noiseOf(st.token+"down").bytes(0, st.rng.IntN(announced)), false)()
}

// http2Vices are all vices.
var http2Vices = []http2Vice{
	{"a reset", then(func(st *servedStream) { st.resetWith(st.anyCode()) })},
	{"a refusal", then((*servedStream).refuse)},
	{"a refusal", then((*servedStream).refuse)},
	{"silence", func(*servedStream, time.Duration) {}},
	{"the connection's end", then(func(st *servedStream) { st.h.c.close() })},
	{"the connection's reset", then(func(st *servedStream) { st.h.c.reset() })},
	{"a late answer", func(st *servedStream, wait time.Duration) {
		st.respond(wait+time.Duration(st.rng.IntN(4))*time.Second, 200, 10)
	}},
	{"503", func(st *servedStream, wait time.Duration) { st.respond(wait, 503, 10) }},
	{"a reset behind the head", then(func(st *servedStream) {
		st.head(200, false, "x-size", "10")
		st.resetWith(st.anyCode())
	})},
	{"a reset in the body", then(func(st *servedStream) {
		st.part(100_000)
		st.resetWith(st.anyCode())
	})},
	{"a refusal in the body", then(func(st *servedStream) {
		st.part(100_000)
		st.resetWith(refusedStream)
	})},
	{"a reset behind the answer", then(func(st *servedStream) {
		st.head(200, true, "x-size", "0")
		st.resetWith(noError) // only matters if the request is incomplete
	})},
	{"a part of a body, and the connection's end", then(func(st *servedStream) {
		st.part(100_000)
		st.h.ends = true
	})},
	{"a part of a body, and no more", then(func(st *servedStream) { st.part(100_000) })},
	{"half a frame, and the connection's end", then(func(st *servedStream) {
		st.part(50_000)
		st.h.hostile, st.s.w.brokenHTTP2 = true, true
		st.h.out = append(st.h.out, 0, 0, 100, frameData, flagEnd)
		st.h.ends, st.h.doomed = true, true // later bytes would be its content
	})},
	{"a flood of interim answers", wrongly(func(st *servedStream) {
		for range 1 + st.rng.IntN(300) {
			st.head(103, false, "link", "</x>")
		}
	})},
	{"a long answer", func(st *servedStream, wait time.Duration) { st.respond(wait, 200, 3_000_000) }},
	{"a length that is too small", wrongly(func(st *servedStream) {
		// If the content comes in several frames, its first five bytes may have been forwarded as
		// the whole body.
		st.head(200, false, "x-size", "5", "content-length", "5")
		if !st.toHEAD() {
			st.content(noiseOf(st.token+"down").bytes(0, 10), true)()
		}
	})},
	{"a length that is too large", wrongly(func(st *servedStream) {
		st.head(200, false, "x-size", "100", "content-length", "100")
		if !st.toHEAD() {
			st.content(noiseOf(st.token+"down").bytes(0, 10), true)()
		}
	})},
	{"a length and no content", wrongly(func(st *servedStream) {
		st.head(200, true, "x-size", "100", "content-length", "100")
	})},
	{"content for a HEAD, or behind the end", wrongly(func(st *servedStream) {
		st.head(200, !st.toHEAD(), "x-size", "0")
		st.data([]byte("evil"), true)
	})},
	{"content before a head", wrongly(func(st *servedStream) { st.data([]byte("evil"), false) })},
	{"an end before a head", wrongly(func(st *servedStream) { st.data(nil, true) })},
	{"a second answer behind the end", wrongly(func(st *servedStream) {
		st.head(200, true, "x-size", "0")
		st.head(200, true, "x-size", "0", "x-evil", "yes")
	})},
	{"a second head", wrongly(func(st *servedStream) {
		st.head(200, false, "x-size", "0")
		st.head(200, false, "x-size", "0", "x-evil", "yes")
	})},
	{"trailers that end nothing", wrongly(func(st *servedStream) {
		st.head(200, false, "x-size", "0")
		st.fields([]hpack.HeaderField{{Name: "x-tail", Value: st.token}}, false)
	})},
	{"a pseudo-field in trailers", wrongly(func(st *servedStream) {
		st.head(200, false, "x-size", "0")
		st.fields([]hpack.HeaderField{{Name: ":status", Value: "200"}}, true)
	})},
	{"an interim answer that is the end", wrongly(func(st *servedStream) { st.head(103, true) })},
	{"a tunnel that nobody asked for", wrongly(func(st *servedStream) { st.head(101, false) })},
	{"no status", withFields("x-size", "0", "x-evil", "yes")},
	{"a status of letters", withFields(":status", "2oo")},
	{"a status of four digits", withFields(":status", "2000")},
	{"two statuses", withFields(":status", "200", ":status", "200")},
	{"a pseudo-field of requests", withFields(":status", "200", ":path", "/")},
	{"a status behind other fields", withFields("x-a", "1", ":status", "200")},
	{"a name in upper case", withHead(true, "X-A", "1")},
	{"a field of a connection", withHead(true, "connection", "close")},
	{"a coding of HTTP/1", withHead(true, "transfer-encoding", "chunked")},
	{"a line end in a value", withHead(true, "x-a", "1\r\nx-evil: yes")},
	{"two lengths", withHead(false, "content-length", "3", "content-length", "4")},
	{"a long head", then(func(st *servedStream) {
		long := strings.Repeat("x", 1+st.rng.IntN(100_000))
		st.odd = true
		if len(long) > 60_000 { // the gateway may consider it an attack
			st.h.hostile, st.s.w.brokenHTTP2 = true, true
		}
		st.head(200, true, "x-size", "0", "x-long", long)
	})},
	{"many fields", wrongly(func(st *servedStream) {
		fields := []string{"x-size", "0"}
		for i := range 300 {
			fields = append(fields, "x-"+strconv.Itoa(i), "1")
		}
		st.head(200, true, fields...)
	})},
	{"a window opened by nothing", wrongly(func(st *servedStream) {
		st.h.frame(frameWindow, 0, st.id, number(0))
	})},
	{"a window opened too far", wrongly(func(st *servedStream) {
		st.h.hostile, st.s.w.brokenHTTP2 = true, true // later growth breaks the connection
		st.h.frame(frameWindow, 0, st.id, number(math.MaxInt32))
		st.receive += math.MaxInt32
	})},
	{"more content than the stream's window allows", wrongly(func(st *servedStream) {
		st.head(200, false, "x-size", "1000000")
		text := noiseOf(st.token+"down").bytes(0, 1_000_000)
		for st.h.send > 11_000 && len(text) > 10_000 {
			st.data(text[:10_000], false)
			text = text[10_000:]
		}
	})},
}

// http2Upset is a forbidden action of a service on a connection, with its newest stream or without.
type http2Upset struct {
	name string
	harm harm
	do   func(h *http2ServiceConn, st *servedStream)
}

// upsetting sends one frame.
func upsetting(kind, flags byte, payload []byte) func(*http2ServiceConn, *servedStream) {
	return func(h *http2ServiceConn, _ *servedStream) { h.frame(kind, flags, 0, payload) }
}

// http2Upsets are all upsets.
var http2Upsets = []http2Upset{
	{"an answer to no request", ofConnection, func(h *http2ServiceConn, _ *servedStream) {
		h.frame(frameHeaders, flagEndHead|flagEnd, h.highest+200, []byte{0x88})
	}},
	{"content of no request", ofConnection, func(h *http2ServiceConn, _ *servedStream) {
		h.frame(frameData, 0, h.highest+200, []byte("x"))
	}},
	{"a stream of its own", ofConnection, func(h *http2ServiceConn, _ *servedStream) {
		h.frame(frameHeaders, flagEndHead|flagEnd, 2, []byte{0x88})
	}},
	{"a push", ofConnection, func(h *http2ServiceConn, st *servedStream) {
		h.frame(framePush, flagEndHead, st.id, append(number(2), 0x82))
	}},
	{"that pushes are wanted", ofConnection, upsetting(frameSettings, 0, appendSetting(nil, 2, 1))},
	{"a window above the limit", ofConnection, upsetting(frameSettings, 0, appendSetting(nil, 4, 1<<31))},
	{"small frames alone", ofConnection, upsetting(frameSettings, 0, appendSetting(nil, 5, 100))},
	{"a short setting", ofConnection, upsetting(frameSettings, 0, []byte{0, 4, 0})},
	{"a short PING", ofConnection, upsetting(framePing, 0, []byte("short"))},
	{"a short GOAWAY", ofConnection, upsetting(frameGoAway, 0, []byte("short"))},
	{"data of no stream", ofConnection, upsetting(frameData, 0, []byte("x"))},
	{"a reset of no stream", ofConnection, upsetting(frameReset, 0, number(cancelled))},
	{"a window opened by nothing", ofConnection, upsetting(frameWindow, 0, number(0))},
	{"a continuation of nothing", ofConnection, func(h *http2ServiceConn, st *servedStream) {
		h.frame(frameContinuation, flagEndHead, st.id, []byte{0x88})
	}},
	{"a field block that is interrupted", ofConnection, func(h *http2ServiceConn, st *servedStream) {
		h.frame(frameHeaders, 0, st.id, []byte{0x88})
		h.frame(framePing, 0, 0, make([]byte, 8))
	}},
	{"a field block that cannot be decoded", ofConnection, func(h *http2ServiceConn, st *servedStream) {
		h.frame(frameHeaders, flagEndHead|flagEnd, st.id, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0x0f})
	}},
	{"a frame that is too large", ofConnection, func(h *http2ServiceConn, st *servedStream) {
		h.frame(frameData, 0, st.id, make([]byte, usualFrame+1))
	}},
	{"a reset of a stream to come", ofConnection, func(h *http2ServiceConn, _ *servedStream) {
		h.frame(frameReset, 0, h.highest+200, number(cancelled))
	}},
	{"a window of a stream to come", ofConnection, func(h *http2ServiceConn, _ *servedStream) {
		h.frame(frameWindow, 0, h.highest+200, number(1))
	}},
	{"the connection's window opened too far", ofConnection, func(h *http2ServiceConn, _ *servedStream) {
		h.frame(frameWindow, 0, 0, number(math.MaxInt32))
		h.frame(frameWindow, 0, 0, number(math.MaxInt32))
	}},
	{"what is not a frame", ofConnection, func(h *http2ServiceConn, _ *servedStream) {
		h.out = append(h.out, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"...)
	}},
	// When the second GOAWAY arrives, requests excluded by the first may have gone elsewhere (RFC
	// 9113, section 6.8). So the first one's limit remains: a request above it that was on its way
	// counts as not sent.
	{"a last stream that grows", ofEither, func(h *http2ServiceConn, _ *servedStream) {
		h.leaving, h.limit = true, h.highest
		h.goAway(h.highest, noError)
		h.goAway(h.highest+100, noError)
	}},
	{"a flood of PINGs", ofEither, func(h *http2ServiceConn, _ *servedStream) {
		for range 5000 {
			h.frame(framePing, 0, 0, make([]byte, 8))
		}
	}},
	{"a flood of SETTINGS", ofEither, func(h *http2ServiceConn, _ *servedStream) {
		for range 3000 {
			h.frame(frameSettings, 0, 0, nil)
		}
	}},
	{"a flood of continuations", ofConnection, func(h *http2ServiceConn, st *servedStream) {
		h.frame(frameHeaders, 0, st.id, nil)
		for range 1000 {
			h.frame(frameContinuation, 0, st.id, nil)
		}
	}},
	{"a field block without end", ofEither, func(h *http2ServiceConn, st *servedStream) {
		h.frame(frameHeaders, 0, st.id, []byte{0x88})
	}},
}

// mustEnd checks that the gateway ends the connection, for the reason why.
func (h *http2ServiceConn) mustEnd(why string) {
	w := h.c.s.w
	w.kernel.After(lingering+w.slack(), func() {
		switch {
		case h.c.over || h.c.GivenUp() || len(h.out) > 0:
		case h.isTaken():
			h.mustEnd(why)
		default:
			w.violate("%s is not ended, although its service has done what must end it: %s", h.c.name, why)
		}
	})
}

// isTaken reports whether a client may still be reading an answer that was complete before the
// connection had to end. The gateway delivers such an answer, however slowly the client reads, and
// then ends the connection.
func (h *http2ServiceConn) isTaken() bool {
	return slices.ContainsFunc(h.order, func(st *servedStream) bool {
		q := st.asks()
		return st.said && !st.given && !q.answered && !q.by.done
	})
}
