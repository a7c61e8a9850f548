package gateway

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"plimsoll/internal/exchange"
	codec "plimsoll/internal/http2"
)

// h2violation is something that no connection survives.
type h2violation struct {
	name string
	code http2.ErrCode
	why  codec.Reason
	send func(f *http2.Framer) // stream 1 is open, 3 is over, and 5 is the next
}

func setting(id uint16, value uint32) func(*http2.Framer) {
	return func(f *http2.Framer) {
		f.WriteSettings(http2.Setting{ID: http2.SettingID(id),
			Val: value})
	}
}

func rawFrame(kind http2.FrameType, flags http2.Flags, stream uint32,
	payload string) func(*http2.Framer) {
	return func(f *http2.Framer) { f.WriteRawFrame(kind, flags, stream, []byte(payload)) }
}

// whole is the flags of Headers that stand alone.
const whole = http2.FlagHeadersEndHeaders | http2.FlagHeadersEndStream

// aRequest is a field block that needs no table.
const aRequest = "\x82\x86\x04\x05/echo\x01\x01a"

var h2violations = []h2violation{
	{"an even stream", protocolError, codec.EvenStream, rawFrame(http2.FrameHeaders, whole, 6,
		aRequest)},
	{"a lower stream than one before", protocolError, codec.IdleStream, func(f *http2.Framer) {
		rawFrame(http2.FrameHeaders, whole, 9, aRequest)(f)
		rawFrame(http2.FrameHeaders, whole, 7, aRequest)(f)
	}},
	{"a stream again", http2.ErrCodeStreamClosed, codec.ClosedStream,
		rawFrame(http2.FrameHeaders, whole, 3, aRequest)},
	{"Headers on stream 0", protocolError, codec.StreamZero,
		rawFrame(http2.FrameHeaders, whole, 0, aRequest)},
	{"DATA on stream 0", protocolError, codec.StreamZero, rawFrame(http2.FrameData, 0, 0, "x")},
	{"RST_STREAM on stream 0", protocolError, codec.StreamZero,
		rawFrame(http2.FrameRSTStream, 0, 0, "\x00\x00\x00\x08")},
	{"SETTINGS on a stream", protocolError, codec.NotStreamZero,
		rawFrame(http2.FrameSettings, 0, 1, "")},
	{"PING on a stream", protocolError, codec.NotStreamZero,
		rawFrame(http2.FramePing, 0, 1, "12345678")},
	{"GOAWAY on a stream", protocolError, codec.NotStreamZero,
		rawFrame(http2.FrameGoAway, 0, 1, "12345678")},
	{"DATA on a stream that has not begun", protocolError, codec.IdleStream,
		rawFrame(http2.FrameData, 0, 5, "x")},
	{"RST_STREAM on a stream that has not begun", protocolError, codec.IdleStream,
		rawFrame(http2.FrameRSTStream, 0, 5, "\x00\x00\x00\x08")},
	{"WINDOW_UPDATE on a stream that has not begun", protocolError, codec.IdleStream,
		rawFrame(http2.FrameWindowUpdate, 0, 5, "\x00\x00\x00\x01")},
	{"WINDOW_UPDATE of nothing on a stream that has not begun", protocolError, codec.IdleStream,
		rawFrame(http2.FrameWindowUpdate, 0, 5, "\x00\x00\x00\x00")},
	{"CONTINUATION of nothing", protocolError, codec.UnexpectedContinuation,
		rawFrame(http2.FrameContinuation, 4, 5, "")},
	{"CONTINUATION of another stream", protocolError, codec.MissingContinuation,
		func(f *http2.Framer) {
			rawFrame(http2.FrameHeaders, 1, 5, aRequest)(f)
			rawFrame(http2.FrameContinuation, 4, 7, "")(f)
		}},
	{"a PING in a field block", protocolError, codec.MissingContinuation, func(f *http2.Framer) {
		rawFrame(http2.FrameHeaders, 1, 5, aRequest)(f)
		f.WritePing(false, [8]byte{})
	}},
	{"PUSH_PROMISE", protocolError, codec.Pushed, rawFrame(http2.FramePushPromise, 4, 1,
		"\x00\x00\x00\x02")},
	{"padding beyond the frame", protocolError, codec.BadPadding,
		rawFrame(http2.FrameData, http2.FlagDataPadded, 1, "\x05abc")},
	{"padding beyond the fields", protocolError, codec.BadPadding,
		rawFrame(http2.FrameHeaders, whole|http2.FlagHeadersPadded, 5, "\x05\x82")},
	{"padding without a length", http2.ErrCodeFrameSize, codec.BadFrameSize,
		rawFrame(http2.FrameData, http2.FlagDataPadded, 1, "")},
	{"a frame that is too large", http2.ErrCodeFrameSize, codec.FrameTooLarge,
		rawFrame(http2.FrameData, 0, 1, strings.Repeat("x", 16385))},
	{"an unknown frame that is too large", http2.ErrCodeFrameSize, codec.FrameTooLarge,
		rawFrame(0xbe, 0, 1, strings.Repeat("x", 16385))},
	{"a short RST_STREAM", http2.ErrCodeFrameSize, codec.BadFrameSize,
		rawFrame(http2.FrameRSTStream, 0, 1, "\x00")},
	{"a short PING", http2.ErrCodeFrameSize, codec.BadFrameSize,
		rawFrame(http2.FramePing, 0, 0, "1234567")},
	{"a short GOAWAY", http2.ErrCodeFrameSize, codec.BadFrameSize,
		rawFrame(http2.FrameGoAway, 0, 0, "1234567")},
	{"a short WINDOW_UPDATE", http2.ErrCodeFrameSize, codec.BadFrameSize,
		rawFrame(http2.FrameWindowUpdate, 0, 0, "123")},
	{"SETTINGS of five bytes", http2.ErrCodeFrameSize, codec.BadFrameSize,
		rawFrame(http2.FrameSettings, 0, 0, "12345")},
	{"an acknowledgement with settings", http2.ErrCodeFrameSize, codec.BadFrameSize,
		rawFrame(http2.FrameSettings, 1, 0, "123456")},
	{"ENABLE_PUSH of 2", protocolError, codec.BadSetting, setting(2, 2)},
	{"a maximal frame that is too small", protocolError, codec.BadSetting, setting(5, 16383)},
	{"a maximal frame that is too large", protocolError, codec.BadSetting, setting(5, 1<<24)},
	{"a window that is too large", http2.ErrCodeFlowControl, codec.BadWindow, setting(4, 1<<31)},
	{"a window that overflows by SETTINGS", http2.ErrCodeFlowControl, codec.WindowOverflow,
		func(f *http2.Framer) {
			f.WriteWindowUpdate(1, 1<<30)
			setting(4, 1<<31-1)(f)
		}},
	{"the connection's window overflows", http2.ErrCodeFlowControl, codec.WindowOverflow,
		rawFrame(http2.FrameWindowUpdate, 0, 0, "\x7f\xff\xff\xff")},
	{"WINDOW_UPDATE of nothing", protocolError, codec.ZeroIncrement,
		rawFrame(http2.FrameWindowUpdate, 0, 0, "\x00\x00\x00\x00")},
	{"an index that no entry has", http2.ErrCodeCompression, codec.BadBlock,
		rawFrame(http2.FrameHeaders, whole, 5, "\xff\x80\x7f")},
	{"index 0", http2.ErrCodeCompression, codec.BadBlock, rawFrame(http2.FrameHeaders, whole, 5,
		"\x80")},
	{"a field that is cut off", http2.ErrCodeCompression, codec.BadBlock,
		rawFrame(http2.FrameHeaders, whole, 5, aRequest+"\x00\x05ab")},
	{"an integer that does not end", http2.ErrCodeCompression, codec.BadBlock,
		rawFrame(http2.FrameHeaders, whole, 5, strings.Repeat("\xff", 100))},
	{"a table that is too large", http2.ErrCodeCompression, codec.BadBlock,
		rawFrame(http2.FrameHeaders, whole, 5, "\x3f\xe2\x1f"+aRequest)},
	{"a bad block behind the end", http2.ErrCodeCompression, codec.BadBlock,
		rawFrame(http2.FrameHeaders, whole, 3, "\x80")},
	{"a bad Huffman code", http2.ErrCodeCompression, codec.BadBlock,
		rawFrame(http2.FrameHeaders, whole, 5, "\x00\x84\xff\xff\xff\xff\x01x")},
}

func TestHazardViolationsOfTheProtocol(t *testing.T) {
	g := attacked(t, "")
	b := g.beside()
	for _, v := range h2violations {
		t.Run(v.name, func(t *testing.T) {
			before := g.refusedH2(v.why)
			c := g.h2()
			c.open("POST", "/")
			c.ask("GET", "/echo").expect(200, "GET ")
			c.send(v.send)
			if last := c.expectGoAway(v.code); last.debug != v.why.Error() || last.last < 3 ||
				last.last > 9 {
				t.Errorf("GOAWAY says %q and %d, want %v", last.debug, last.last, v.why)
			}
			if n := g.refusedH2(v.why) - before; n != 1 {
				t.Errorf("%d refusals are counted for %v, want 1", n, v.why)
			}
			c.leave()
		})
	}
	b.unharmed()
}

func TestHazardConnectionsThatBeginWrong(t *testing.T) {
	g := attacked(t, "")
	b := g.beside()
	for name, v := range map[string]struct {
		bytes string
		code  http2.ErrCode
		why   codec.Reason
	}{
		"no SETTINGS": {codec.Preface + "\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678",
			protocolError, codec.NoSettings},
		"an acknowledgement first": {codec.Preface + "\x00\x00\x00\x04\x01\x00\x00\x00\x00",
			protocolError, codec.NoSettings},
		"a request first": {codec.Preface + "\x00\x00\x01\x01\x05\x00\x00\x00\x01\x82",
			protocolError, codec.NoSettings},
		"SETTINGS that are too large": {codec.Preface + "\x00\x40\x01\x04\x00\x00\x00\x00\x00",
			http2.ErrCodeFrameSize, codec.FrameTooLarge},
		"a request of HTTP/1.1 behind": {codec.Preface + "GET / HTTP/1.1\r\n\r\n", http2.ErrCodeFrameSize,
			codec.FrameTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			before := g.refusedH2(v.why)
			c := newH2(t, g.dial().Conn, "http")
			c.raw(v.bytes)
			c.expectGoAway(v.code)
			if n := g.refusedH2(v.why) - before; n != 1 {
				t.Errorf("%d refusals are counted for %v, want 1", n, v.why)
			}
			c.leave()
		})
	}
	b.unharmed()
}

func TestHazardSlowHeadsOfHTTP2(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	g := attacked(t, "head_timeout: 1s, idle_timeout: 1h")
	b := g.beside()
	quiet := g.h2() // which may be so
	quiet.served()
	timeout := func(c *h2) {
		t.Helper()
		if last := c.expectGoAway(http2.ErrCodeSettingsTimeout); last.debug != "head_timeout" {
			t.Errorf("GOAWAY says %q", last.debug)
		}
		c.leave()
	}
	half := g.dial()
	half.send(codec.Preface[:12])
	silent := newH2(t, g.dial().Conn, "http")
	silent.raw(codec.Preface)
	begun := newH2(t, g.dial().Conn, "http")
	begun.raw(codec.Preface + "\x00\x00\x06\x04")
	head := func(first bool) *h2 {
		c := g.h2()
		c.served()
		if !first {
			c.ask("GET", "/echo").expect(200, "GET ")
			c.open("POST", "/")
		}
		c.send(rawFrame(http2.FrameHeaders, http2.FlagHeadersEndStream, 5, aRequest))
		return c
	}
	unended, later, trickling := head(true), head(false), head(false)
	over := make(chan struct{})
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for range 15 {
			select {
			case <-tick.C:
				trickling.send(rawFrame(http2.FrameContinuation, 0, 5, "\x00\x01x\x01y"))
			case <-over:
				return
			}
		}
	}()
	half.expectFailureEnd(408, "head_timeout")
	half.Close()
	for _, c := range []*h2{silent, begun, unended, later, trickling} {
		timeout(c)
	}
	close(over)
	quiet.ask("GET", "/echo").expect(200, "GET ")
	quiet.leave()
	b.unharmed()
	g.expectRefusedH2(codec.HeadTimeout, 5)
	if n := g.reasons(exchange.HeadTimeout); n != 1 {
		t.Errorf("%d heads of HTTP/1.1 took too long, want 1", n)
	}
}

// bigService is a service whose answers have many bytes.
func bigService(t *testing.T, n int) *service {
	return newService(t, answering(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", n,
		noise(n))))
}

func TestHazardZeroWindows(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	const streams = 100
	for name, attack := range map[string]func(c *h2) (stalled int){
		"of streams": func(c *h2) int {
			for range streams {
				c.ask("GET", "/")
			}
			return streams
		},
		"of the connection": func(c *h2) int {
			c.send(setting(4, 1<<20))
			for range streams {
				c.ask("GET", "/")
			}
			return streams
		},
		"that open by a byte now and then": func(c *h2) int {
			for range streams {
				st := c.ask("GET", "/")
				for range 9 {
					st.allow(1)
				}
			}
			return streams
		},
		"that shrink below zero": func(c *h2) int {
			c.send(setting(4, 100))
			for range streams {
				c.ask("GET", "/")
			}
			c.served()
			c.send(setting(4, 0))
			return streams
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := bigService(t, 300<<10)
			g := serveClean(t, withBeside(t, h2Upstream(s.address(), "send_timeout: 1s")))
			b := g.beside()
			c := g.thriftyH2(0)
			n := attack(c)
			peak := int64(0)
			eventually(t, "the streams to be reset", func() bool {
				peak = max(peak, g.buffered())
				return g.snapshot().SlowStreams == uint64(n)
			})
			if most := int64(streams * 80 << 10); peak > most {
				t.Errorf("%d bytes are held for streams that take nothing, want at most %d", peak, most)
			}
			c.served()
			c.mu.Lock()
			for id, st := range c.streams {
				if !st.reset || st.code != http2.ErrCodeCancel || st.ended {
					t.Errorf("stream %d: reset %v with %v, ended %v", id, st.reset, st.code, st.ended)
				}
			}
			c.mu.Unlock()
			if n := g.reasons(exchange.ClientSlow); n != streams {
				t.Errorf("%d exchanges ended because of a slow client, want %d", n, streams)
			}
			// The connection is as good as before.
			c.send(func(f *http2.Framer) { f.WriteWindowUpdate(0, 1<<20) })
			st := c.ask("GET", "/")
			st.allow(1 << 20)
			st.expect(200, string(noise(300<<10)))
			c.leave()
			b.unharmed()
		})
	}
}

func TestHazardMoreStreamsThanAllowed(t *testing.T) {
	g := attacked(t, "")
	b := g.beside()
	c := g.h2()
	c.served()
	allowed := int(c.settings[http2.SettingMaxConcurrentStreams])
	if allowed < 100 {
		t.Fatalf("%d streams are allowed", allowed)
	}
	var open []*h2stream
	for range allowed {
		open = append(open, c.ask("GET", "/"))
	}
	const more = 20
	for range more {
		c.ask("GET", "/echo").expectReset(http2.ErrCodeRefusedStream)
	}
	for _, st := range open[:2] {
		st.close(http2.ErrCodeCancel)
	}
	c.ask("GET", "/echo", "x", "y").expect(200, "GET ")
	b.unharmed()
	g.expectRefusedH2(codec.StreamRefused, more)
	if n := g.snapshot().HTTP2Resets; n != 2 {
		t.Errorf("%d resets by the client are counted, want 2", n)
	}
	c.leave()
}

// nobody is a gateway whose only service never accepts, so that no body is taken.
func nobody(t *testing.T) *instance {
	_, path := full(t)
	return serveClean(t, withBeside(t, "loops: 1"+streamed(withH2(unixUpstream(path, "10m")))))
}

func TestHazardDataBeyondTheWindows(t *testing.T) {
	piece := strings.Repeat("x", 16<<10)
	t.Run("of a stream", func(t *testing.T) {
		g := nobody(t)
		b := g.beside()
		c := g.h2()
		c.served()
		st, sibling := c.open("POST", "/"), c.open("POST", "/")
		for range st.window / len(piece) {
			st.data(piece, false)
		}
		c.served()
		if st.reset || st.window != 0 {
			t.Fatalf("the window is %d, and the stream is reset: %v", st.window, st.reset)
		}
		st.data("x", false)
		st.expectReset(http2.ErrCodeFlowControl)
		sibling.data(piece, false)
		c.served()
		if sibling.reset {
			t.Error("its sibling is reset too")
		}
		g.expectRefusedH2(codec.WindowExceeded, 1)
		c.leave()
		b.unharmed()
	})
	t.Run("of the connection", func(t *testing.T) {
		g := nobody(t)
		b := g.beside()
		c := g.h2()
		c.served()
		sent := 0
		for c.window > 0 {
			st := c.open("POST", "/")
			for range 4 {
				n := min(len(piece), c.window)
				st.data(piece[:n], false)
				sent += n
			}
			c.served() // what it gives back has come
		}
		if sent < 4<<20 || sent > 4<<20+256<<10 {
			t.Errorf("the client may send %d bytes that nobody takes", sent)
		}
		if n := int(g.buffered()); n < sent || n > sent+1<<20 {
			t.Errorf("%d bytes of buffers hold bodies of %d", n, sent)
		}
		c.open("POST", "/").data("x", false)
		c.expectGoAway(http2.ErrCodeFlowControl)
		g.expectRefusedH2(codec.WindowExceeded, 1)
		c.leave()
		b.unharmed()
	})
}

// What a client may not see of HTTP/2 where it is not offered.
func TestAListenerWithoutHTTP2RefusesItClearly(t *testing.T) {
	s := newService(t, answering(okResponse))
	g := serveClean(t, oneUpstream(s.address()))
	p := g.dial()
	p.send(codec.Preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	p.expectFailureEnd(505, "bad_request")
	// Nor can anybody change to it from HTTP/1.1, here or where it is offered.
	for _, yaml := range []string{oneUpstream(s.address()), withH2(oneUpstream(s.address()))} {
		p := serveClean(t, yaml).dial()
		p.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: " +
			"h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
		if r, body := p.response("GET"); r.StatusCode != 200 || body != "ok" {
			t.Errorf("got %d %q", r.StatusCode, body)
		}
		if strings.Contains(strings.ToLower(s.saw()), "upgrade") || strings.Contains(s.saw(), "HTTP2") {
			t.Errorf("the upstream saw %q", s.saw())
		}
		p.Close()
	}
}

func TestRequestsOfHTTP1AreServedBesideHTTP2(t *testing.T) {
	s := newService(t, replying(echo))
	g := serveClean(t, withH2(oneUpstream(s.address())))
	for _, method := range []string{"P", "PRI", "PRIX", "POST",
		"GET"} { // some begin as the preface does
		p := g.dial()
		request := method + " / HTTP/1.1\r\nHost: a\r\n\r\n"
		for i := range len(request) {
			p.send(request[i : i+1])
		}
		if r, body := p.response(method); r.StatusCode != 200 || body != method+" " {
			t.Errorf("%s: got %d %q", method, r.StatusCode, body)
		}
		p.Close()
	}
	c := newH2(t, g.dial().Conn, "http")
	for _, b := range codec.Preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" {
		c.raw(string(b))
	}
	c.ask("GET", "/").expect(200, "GET ")
	p := g.dial()
	p.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\rX")
	p.expectFailureEnd(505, "bad_request")
	if _, err := p.r.ReadByte(); err != io.EOF {
		t.Error(err)
	}
	p.Close()
	c.leave()
}
