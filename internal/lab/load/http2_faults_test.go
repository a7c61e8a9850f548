package load_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
)

func TestAfterGOAWAYWhatIsTakenEndsAndTheRestIsRefused(t *testing.T) {
	s := script(t, nil, func(n int64, p *peer) {
		if n > 1 {
			p.serveAll()
			return
		}
		for range 4 {
			p.head()
		}
		p.WriteGoAway(3, http2.ErrCodeNo, []byte("a rest"))
		p.ok(1)
		p.ok(3)
		p.drain()
	})
	o := over2(get(t, s.url()), 4)
	o.Arrivals = every(20, ms)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 18, measure.Refused: 2})
	contains(t, totals.Examples["refused"], "a rest")
	if totals.ConnectionsMade != 2 {
		t.Errorf("%d connections", totals.ConnectionsMade)
	}
}

func TestAGracefulGOAWAYLosesNothing(t *testing.T) {
	s := script(t, nil, func(n int64, p *peer) {
		for range 3 {
			if head := p.head(); head != nil {
				defer p.ok(head.StreamID)
			}
		}
		p.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil)
	})
	o := over2(get(t, s.url()), 3)
	o.Arrivals = every(30, ms)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 30})
	if totals.ConnectionsMade < 10 {
		t.Errorf("%d connections", totals.ConnectionsMade)
	}
}

func TestAnIdleConnectionThatGoesAwayIsRemadeSilently(t *testing.T) {
	arrivals, more := letting(1, 10)
	s := script(t, nil, func(_ int64, p *peer) {
		if head := p.head(); head != nil {
			p.ok(head.StreamID)
			p.WriteGoAway(head.StreamID, http2.ErrCodeNo, nil)
			p.drain() // until the generator has noticed
			more()
		}
	})
	o := over2(get(t, s.url()), 3)
	o.Arrivals = arrivals
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 10})
	if totals.ConnectionsMade < 10 {
		t.Errorf("%d connections", totals.ConnectionsMade)
	}
}

func TestAResetIsCountedAsWhatItSays(t *testing.T) {
	for code, kind := range map[http2.ErrCode]measure.Kind{
		http2.ErrCodeRefusedStream: measure.Refused, http2.ErrCodeInternal: measure.ConnectionLost, 0xabcd: measure.ConnectionLost,
	} {
		s := script(t, nil, func(_ int64, p *peer) {
			for head := p.head(); head != nil; head = p.head() {
				if head.StreamID == 1 {
					p.headers(1, false, ":status", "200")
					p.WriteRSTStream(1, code)
				} else {
					p.ok(head.StreamID)
				}
			}
		})
		o := over2(get(t, s.url()), 3)
		o.Arrivals = every(10, ms)
		totals, _ := run(t, o)
		want(t, totals, map[measure.Kind]uint64{measure.OK: 9, kind: 1})
		if totals.ConnectionsMade != 1 {
			t.Errorf("%v: %d connections", code, totals.ConnectionsMade)
		}
		name := map[http2.ErrCode]string{http2.ErrCodeRefusedStream: "REFUSED_STREAM",
			http2.ErrCodeInternal: "INTERNAL_ERROR", 0xabcd: "0xabcd"}[code]
		contains(t, totals.Examples[kind.String()], name)
	}
}

func TestAConnectionThatEndsLosesItsStreams(t *testing.T) {
	s := script(t, nil, func(n int64, p *peer) {
		if n > 1 {
			p.serveAll()
			return
		}
		p.head()
		p.head()
		p.headers(1, false, ":status", "200")
	})
	o := over2(get(t, s.url()), 2)
	o.Arrivals = every(10, ms)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 8, measure.ConnectionLost: 2})
}

// An answer that arrives together with SETTINGS precedes the sending of the request, even if the
// request has begun by then.
func TestAnAnswerToWhatWasNotSentIsBadHTTP(t *testing.T) {
	s := accept(t, func(_ int64, c net.Conn) {
		var early bytes.Buffer
		p := &peer{Framer: http2.NewFramer(&early, c), c: c}
		p.WriteSettings()
		p.ok(1)
		c.Write(early.Bytes())
		io.Copy(io.Discard, c)
	})
	o := over2(get(t, s.url()), 1)
	o.Arrivals = every(5, ms)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.BadHTTP: 5})
	contains(t, totals.Examples["bad_http"], "idle_stream")
}

// Violations of HTTP/2 that end one stream, or the connection with both streams.
func TestWhatBreaksTheRulesIsBadHTTP(t *testing.T) {
	for _, c := range []struct {
		name  string
		lost  uint64 // of the two streams
		wrong func(p *peer, id uint32)
	}{
		{"no status", 1, func(p *peer, id uint32) { p.headers(id, true, "x", "y") }},
		{"upper case", 1, func(p *peer, id uint32) { p.headers(id, true, ":status", "200", "X", "y") }},
		{"connection", 1, func(p *peer, id uint32) { p.headers(id, true, ":status", "200", "connection", "close") }},
		{"status 101", 1, func(p *peer, id uint32) { p.headers(id, false, ":status", "101") }},
		{"1xx without end", 1, func(p *peer, id uint32) {
			for range 40 {
				p.headers(id, false, ":status", "103")
			}
		}},
		{"too short", 1, func(p *peer, id uint32) {
			p.headers(id, false, ":status", "200", "content-length", "3")
			p.WriteData(id, true, []byte("ab"))
		}},
		{"too long", 1, func(p *peer, id uint32) {
			p.headers(id, false, ":status", "200", "content-length", "3")
			p.WriteData(id, false, []byte("abcd"))
		}},
		{"too short, with trailers", 1, func(p *peer, id uint32) {
			p.headers(id, false, ":status", "200", "content-length", "3")
			p.headers(id, true, "a", "b")
		}},
		{"a body before the head", 1, func(p *peer, id uint32) { p.WriteData(id, true, []byte("ab")) }},
		{"a second head", 1, func(p *peer, id uint32) {
			p.headers(id, false, ":status", "200")
			p.headers(id, false, ":status", "200")
		}},
		{"a head that is too large", 1, func(p *peer, id uint32) {
			b := block(":status", "200", "a", strings.Repeat("x", 80000))
			p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b[:16000], EndStream: true})
			for b = b[16000:]; len(b) > 16000; b = b[16000:] {
				p.WriteContinuation(id, false, b[:16000])
			}
			p.WriteContinuation(id, true, b)
		}},
		{"a window update by 0", 1, func(p *peer, id uint32) {
			p.WriteRawFrame(http2.FrameWindowUpdate, 0, id, make([]byte, 4))
		}},
		{"a stream's window too large", 1, func(p *peer, id uint32) { p.WriteWindowUpdate(id, 1<<31-1) }},
		{"the window too large", 2, func(p *peer, id uint32) { p.WriteWindowUpdate(0, 1<<31-1) }},
		{"a setting", 2, func(p *peer, id uint32) {
			p.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 3})
		}},
		{"a block", 2, func(p *peer, id uint32) {
			p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0xff, 0xff, 0xff}, EndHeaders: true})
		}},
		{"a block without end", 2, func(p *peer, id uint32) {
			p.WriteHeaders(http2.HeadersFrameParam{StreamID: id})
			for range 20 {
				if p.WriteContinuation(id, false, make([]byte, 10000)) != nil {
					return
				}
			}
		}},
		{"a push", 2, func(p *peer, id uint32) {
			p.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, EndHeaders: true})
		}},
		{"a stream that has not begun", 2, func(p *peer, id uint32) { p.ok(id + 1000) }},
		{"a frame that is too large", 2, func(p *peer, id uint32) {
			p.WriteRawFrame(http2.FrameData, 0, id, make([]byte, 20000))
		}},
		{"something else", 2, func(p *peer, id uint32) { io.WriteString(p.c, "HTTP/1.1 200 OK\r\n\r\n") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := script(t, nil, func(n int64, p *peer) {
				if n > 1 {
					p.serveAll()
					return
				}
				p.AllowIllegalWrites = true
				p.head()
				p.head()
				c.wrong(p, 3)
				if c.lost == 1 {
					p.ok(1)
					p.serveAll()
					return
				}
				if p.await(http2.FrameGoAway) {
					p.drain()
				}
			})
			o := over2(get(t, s.url()), 2)
			o.Arrivals = every(10, ms)
			totals, _ := run(t, o)
			want(t, totals, map[measure.Kind]uint64{measure.OK: 10 - c.lost, measure.BadHTTP: c.lost})
			if made := totals.ConnectionsMade; made != c.lost {
				t.Errorf("%d connections", made)
			}
		})
	}
}

func TestATargetThatDoesNotSpeakHTTP2IsAnError(t *testing.T) {
	http1, _ := secure(t)
	without := tlsServer(t, nil)
	only1 := tlsServer(t, []string{"http/1.1"})
	plain := serve(t, send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"))
	old := accept(t, func(_ int64, c net.Conn) {
		c.Read(make([]byte, 1))
		io.WriteString(c, "HTTP/1.1 505 HTTP Version Not Supported\r\n\r\n")
	})
	ends := accept(t, func(_ int64, c net.Conn) { c.Read(make([]byte, 1<<10)) })
	mute := accept(t, func(_ int64, c net.Conn) { io.Copy(io.Discard, c) })
	for _, c := range []struct{ url, text string }{
		{http1.URL, `chose "http/1.1" and not HTTP/2`},
		{only1, `chose "http/1.1" and not HTTP/2`},
		{without, "chose no protocol (ALPN)"},
		{old.url(), "answers in HTTP/1.1"},
		{ends.url(), "does it speak HTTP/2 here?"},
		{plain.url(), "HTTP/2"},
		{mute.url(), "no SETTINGS"},
	} {
		o := over2(get(t, c.url), 5)
		if strings.HasPrefix(c.url, "https") {
			o.Target = target(t, c.url, load.TLSOptions{Insecure: true})
		}
		if o.Duration = time.Second; c.url == mute.url() {
			o.Timeout = 200 * time.Millisecond
		}
		_, err := load.Run(t.Context(), o)
		if err == nil {
			t.Errorf("%s: no error", c.text)
			continue
		}
		contains(t, err.Error(), c.text)
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("an error of several lines: %v", err)
		}
	}
	o := over2(get(t, plain.url()), 1<<20)
	if _, err := load.Run(t.Context(), o); err == nil {
		t.Error("a million streams are taken")
	} else {
		contains(t, err.Error(), "too many")
	}
}

// tlsServer does handshakes and offers these protocols.
func tlsServer(t *testing.T, protocols []string) (url string) {
	t.Helper()
	from, _ := secure(t)
	cfg := &tls.Config{Certificates: from.TLS.Certificates, NextProtos: protocols}
	s := accept(t, func(_ int64, c net.Conn) {
		inner := tls.Server(c, cfg)
		if inner.Handshake() == nil {
			io.Copy(io.Discard, inner)
		}
	})
	return "https://" + s.address + "/"
}

func TestStreamsThatAreAllowedLaterAreUsed(t *testing.T) {
	settings := []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 1}}
	s := script(t, settings, func(_ int64, p *peer) {
		p.head()
		p.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 3})
		second, third := p.head(), p.head()
		if second == nil || third == nil {
			t.Error("the connection ended")
			return
		}
		p.ok(1)
		p.ok(second.StreamID)
		p.ok(third.StreamID)
		p.serveAll()
	})
	o := over2(get(t, s.url()), 10)
	o.Arrivals = every(10, ms/10)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 10})
	if totals.Peak != 3 || totals.Streams != 1 {
		t.Errorf("%d at once, %d streams", totals.Peak, totals.Streams)
	}
}

func TestAnAnswerBeforeTheWholeRequestEndsTheStream(t *testing.T) {
	resets := make(chan http2.ErrCode, 10)
	s := script(t, nil, func(_ int64, p *peer) {
		for f := p.next(); f != nil; f = p.next() {
			switch f := f.(type) {
			case *http2.MetaHeadersFrame:
				p.headers(f.StreamID, true, ":status", "413")
			case *http2.RSTStreamFrame:
				resets <- f.ErrCode
			}
		}
	})
	o := over2(get(t, s.url()), 1)
	o.Script, o.Arrivals = post(t, o, 1_000_000), every(1, ms)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.BadStatus: 1})
	if totals.BytesOut > 100_000 {
		t.Errorf("%d bytes were sent, and the window had 64 KB", totals.BytesOut)
	}
}

func TestATargetThatIsClosedByAnErrorOfItsOwnIsQuoted(t *testing.T) {
	s := script(t, nil, func(n int64, p *peer) {
		if p.head() != nil && n == 1 {
			p.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, []byte("too_many_pings"))
			return
		}
		p.ok(1)
		p.serveAll()
	})
	o := over2(get(t, s.url()), 1)
	o.Arrivals = every(5, ms)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 4, measure.Refused: 1})
	contains(t, totals.Examples["refused"], `ENHANCE_YOUR_CALM, "too_many_pings"`)
}
