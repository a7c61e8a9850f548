package gateway

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	codec "plimsoll/internal/http2"
	"plimsoll/internal/telemetry"
)

// twoServices is a gateway on one loop with a service for everything and another one for /other.
func twoServices(s, other *service, more string) string {
	return withH2(`
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["` + s.address() + `"]}, other: {targets: ["` + other.address() + `"]}}
routes: [{match: /, upstream: s` + more + `}, {match: /other, upstream: other` + more + `}]
`)
}

func TestAStreamWhoseConsumerTakesNothingStopsNoSibling(t *testing.T) {
	const size = 2 << 20
	s, other := bigService(t, size), newService(t, replying(echo))
	g := serveClean(t, twoServices(s, other, ""))
	c := g.thriftyH2(1000)
	c.send(func(f *http2.Framer) { f.WriteWindowUpdate(0, 1<<30) })
	var stalled []*h2stream
	for range 20 {
		stalled = append(stalled, c.ask("GET", "/"))
	}
	for _, st := range stalled {
		c.wait("the window to be filled", func() bool { return len(st.body) == 1000 })
	}
	for i := range 50 {
		st := c.open("POST", "/other")
		st.data(fmt.Sprint(i), true)
		st.expect(200, fmt.Sprint("POST ", i))
	}
	if n := stalled[0].got(); n != 1000 {
		t.Errorf("%d bytes came for a window of 1000", n)
	}
	// And one of them goes on by itself.
	stalled[7].allow(size)
	stalled[7].expect(200, string(noise(size)))
	c.leave()
}

func TestAnUploadThatItsUpstreamDoesNotReadStopsNoSibling(t *testing.T) {
	release := make(chan struct{})
	s := newService(t, func(c *serviceConn, _ int) {
		c.head()
		<-release
	})
	t.Cleanup(func() { close(release) })
	other := newService(t, replying(func(r *http.Request, body string) string {
		return echo(r,
			fmt.Sprint(len(body)))
	}))
	g := serveClean(t, twoServices(s, other, ", hold_body: 0B"))
	c := g.h2()
	c.served()
	var stuck []*h2stream
	for range 3 {
		st := c.open("POST", "/")
		stuck = append(stuck, st)
		go st.upload(noise(30<<20), 16<<10, true)
	}
	stalls(t, "the uploads", func() (sum int64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, st := range stuck {
			sum += int64(st.window)
		}
		return sum
	})
	for range 5 {
		st := c.open("POST", "/other")
		if !st.upload(noise(1<<20), 16<<10, true) {
			t.Fatal("a sibling's upload ended early")
		}
		st.expect(200, "POST 1048576")
		c.ask("GET", "/other").expect(200, "GET 0")
	}
	for _, st := range stuck {
		st.close(http2.ErrCodeCancel)
	}
	c.leave()
}

// Both directions of many streams at once, in frames of odd sizes.
func TestLargeBodiesGoBothWaysAtOnce(t *testing.T) {
	body := noise(large)
	s := newService(t, func(c *serviceConn, _ int) {
		for {
			r, err := http.ReadRequest(c.R)
			if err != nil || !c.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") {
				return
			}
			buf := make([]byte, 33_333)
			for err == nil {
				var n int
				n, err = r.Body.Read(buf)
				if n > 0 && !c.write(fmt.Sprintf("%x\r\n%s\r\n", n, buf[:n])) {
					return
				}
			}
			if err != io.EOF || !c.write("0\r\nX-Sum: 1\r\n\r\n") {
				return
			}
		}
	})
	ca := newAuthority(t)
	cert := ca.issue(t, "a")
	for _, p := range allSpoken {
		if !p.http2 {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			g := serveClean(t, (&likeCase{}).config(p, s.address(), "", cert))
			c := g.clientOf(p, ca)
			frame, body := 9999, body
			if p.tls {
				frame, body = 16<<10, body[:3<<20]
			}
			st, small := c.open("PUT", "/", "te", "trailers"), c.ask("GET", "/")
			if !st.upload(body, frame, true) {
				t.Errorf("the upload ended early: %v, %v, %v", st.code, c.err, c.goAways)
			}
			status, got := st.answer()
			if status != 200 || !bytes.Equal([]byte(got), body) || st.trailers.Get("X-Sum") != "1" {
				t.Errorf("got %d, %d bytes of %d and %v", status, len(got), len(body), st.trailers)
			}
			small.expect(200, "")
			c.leave()
		})
	}
}

// Padding takes room in the windows, which comes back as that of the data does.
func TestAnUploadThatIsMostlyPaddingGoesOn(t *testing.T) {
	s := newService(t, replying(func(r *http.Request, body string) string {
		return echo(r,
			fmt.Sprint(len(body)))
	}))
	g := serveClean(t, h2Upstream(s.address(), ""))
	c := g.h2()
	c.served()
	st, pad := c.open("PUT", "/"), make([]byte, 255)
	const frames, data, length = 2000, 100, 100 + 256
	for i := range frames {
		c.wait("room for a frame", func() bool { return st.window >= length && c.window >= length })
		c.mu.Lock()
		st.window -= length
		c.window -= length
		c.mu.Unlock()
		c.send(func(f *http2.Framer) {
			f.WriteDataPadded(st.id, i == frames-1, make([]byte, data), pad)
		})
	}
	st.expect(200, fmt.Sprint("PUT ", frames*data))
	c.leave()
}

// clientOf connects a client of HTTP/2 as p says.
func (i *instance) clientOf(p spoken, ca *authority) *h2 {
	i.t.Helper()
	if p.tls {
		return i.h2TLS(ca)
	}
	return i.h2()
}

func TestLargeResponsesOfEveryFraming(t *testing.T) {
	body := noise(large)
	for name, response := range map[string]string{
		"with a length": fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", large,
			body),
		"in chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
			string(inChunks(body)),
		"to the connection's end":   "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + string(body),
		"of the gateway's own, 1MB": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, want := newService(t, closing(response)), string(body)
			yaml := h2Upstream(s.address(), "")
			if response == "" {
				want = strings.Repeat("0123456789abcdef", 1<<16)
				yaml = withH2("listeners: [{address: \"127.0.0.1:0\"}]\nroutes: [{match: /, respond: {body: " +
					"\"" + want + "\"}}]\n")
			}
			g := serveClean(t, yaml)
			c := g.h2()
			c.ask("GET", "/").expect(200, want)
			c.leave()
		})
	}
}

func TestAResponseThatBreaksOffIsReset(t *testing.T) {
	for name, c := range map[string]struct {
		response string
		code     http2.ErrCode
	}{
		"with a length": {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", http2.ErrCodeInternal},
		"in chunks": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
			http2.ErrCodeInternal},
		"in bad chunks": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nx\r\n",
			http2.ErrCodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			s, other := newService(t, closing(c.response)), newService(t, replying(echo))
			g := serveClean(t, twoServices(s, other, ""))
			client := g.h2()
			st := client.ask("GET", "/")
			client.wait("an end", func() bool { return st.reset || st.ended })
			if st.ended && st.status != 502 || st.reset && st.code != c.code {
				t.Errorf("got %d, ended %v, reset %v with %v", st.status, st.ended, st.reset, st.code)
			}
			client.ask("GET", "/other").expect(200, "GET ")
			client.leave()
		})
	}
}

// An answer may come before the request is whole: nobody needs the rest.
func TestAnEarlyAnswerEndsTheStreamAndNotTheConnection(t *testing.T) {
	s := newService(t, func(c *serviceConn, _ int) {
		c.head()
		c.write("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
		c.drain()
	})
	other := newService(t, replying(echo))
	g := serveClean(t, twoServices(s, other, ", hold_body: 0B, max_body: 1MB"))
	c := g.h2()
	for _, early := range []struct {
		fields []string
		path   string
		status int
		body   string
	}{
		{nil, "/", 403, "no"},
		{[]string{"content-length", "100000000"}, "/other", 413,
			"413 Content Too Large (body_too_large)\n"},
		{nil, "/other/", 403, "no"},
	} {
		st := c.open("POST", early.path, early.fields...)
		st.data("abc", false)
		if status, body := st.answer(); status != early.status ||
			!strings.HasPrefix(body, early.body[:2]) {
			t.Errorf("%s got %d %q", early.path, status, body)
		}
		st.expectReset(http2.ErrCodeNo)
		// What was on its way is passed over, and its room given back.
		for range 4 {
			st.data(strings.Repeat("x", 10_000), false)
		}
		c.ask("GET", "/other").expect(200, "GET ")
	}
	if n := c.goAways; len(n) != 0 {
		t.Errorf("the connection ends: %v", n)
	}
	c.leave()
}

func TestTheClientIsToldToSendItsBody(t *testing.T) {
	s := deciding(t, goAhead)
	g := serveClean(t, streamed(h2Upstream(s.address(), "")))
	c := g.h2()
	for range 2 {
		st := c.open("POST", "/", "content-length", "3", "expect", "100-continue")
		c.wait("100", func() bool { return len(st.interims) == 1 })
		if st.interims[0] != 100 {
			t.Errorf("got %d", st.interims[0])
		}
		st.data("abc", true)
		st.expect(201, "")
	}
	if want := strings.Repeat("Content-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
		2); strings.Count(s.saw(), want[:len(want)/2]) != 2 {
		t.Errorf("the upstream saw %q", s.saw())
	}
	c.leave()
}

func TestAMirrorGetsRequestsOfHTTP2(t *testing.T) {
	s, m := newService(t, replying(echo)), newService(t, replying(echo))
	g := serveClean(t, withH2(`
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}, m: {targets: ["`+m.address()+`"]}}
routes: [{match: /, upstream: s, mirror: {upstream: m}}]
`))
	c := g.h2()
	c.ask("GET", "/").expect(200, "GET ")
	for _, length := range []string{"", "6"} {
		var more []string
		if length != "" {
			more = []string{"content-length", length}
		}
		st := c.open("POST", "/", more...)
		st.data("abc", false)
		c.served()
		st.data("def", true)
		st.expect(200, "POST abcdef")
	}
	eventually(t, "the copies", func() bool {
		return g.snapshot().MirrorsSent == 3 &&
			m.saw() == s.saw()
	})
	c.leave()
}

// A request that met a stale connection is sent again, whole, however its body came in frames.
func TestARequestThatIsSentAgainLosesNothing(t *testing.T) {
	for _, frame := range []int{10_000, 16 << 10, 1 << 10} {
		t.Run(fmt.Sprint("frames of ", frame), func(t *testing.T) {
			body := noise(200_000)
			s := newService(t, func(c *serviceConn, n int) {
				for first := true; ; first = false {
					if n == 1 && !first { // the first connection breaks with its second request
						c.head()
						return
					}
					r, got, ok := c.request()
					if !ok {
						return
					}
					c.write(echo(r, fmt.Sprint(len(got), got == string(body))))
				}
			})
			g := serveClean(t, h2Upstream(s.address(), ""))
			c := g.h2()
			c.ask("GET", "/").expect(200, "GET 0 false")
			st := c.open("PUT", "/")
			const held, first = 60_000, 70_000 // a frame lies across what may be held
			if !st.upload(body[:held], frame, false) {
				t.Fatal("the upload ended early")
			}
			c.served()
			st.upload(body[held:first], first-held, false)
			eventually(t, "a second connection, or an answer", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return s.connections() == 2 || st.ended
			})
			st.upload(body[first:], frame, true)
			if status, got := st.answer(); status == 200 && got != "PUT 200000 true" || status != 200 &&
				status != 502 {
				t.Errorf("got %d %q: the upstream was given a part for the whole", status, got)
			}
			c.leave()
		})
	}
}

// What comes of a body while a second try waits for its connection has room.
func TestABodyThatComesDuringASecondTryHasRoom(t *testing.T) {
	const length, piece = 128 << 10, 16 << 10
	breakOff, broken := make(chan bool), make(chan bool)
	s := newService(t, func(c *serviceConn, n int) {
		if n > 1 {
			if r, body, ok := c.request(); ok {
				c.write(echo(r, fmt.Sprint(len(body))))
			}
			return
		}
		c.head()
		io.CopyN(io.Discard, c.R, 3*piece)
		<-breakOff
		c.Conn.Close()
		close(broken)
	})
	g := serveClean(t, withH2(`
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"], retry: {attempts: 2, on: [connect, reset]}}}
routes: [{match: /, upstream: s, hold_body: 0B}]
`))
	c := g.h2()
	c.served()
	st, data := c.stream(0), strings.Repeat("x", piece)
	block := c.encode(c.request("PUT", "/", "content-length", fmt.Sprint(length))...)
	// Three pieces are there before the first connection is.
	c.send(func(f *http2.Framer) {
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: st.id, BlockFragment: block, EndHeaders: true})
		for range 3 {
			f.WriteData(st.id, false, []byte(data))
		}
	})
	// Four more are there in the turn in which that connection breaks.
	eventually(t, "the beginning at the service", func() bool { return len(s.saw()) > 3*piece })
	if !g.Call(0, func() {
		close(breakOff)
		<-broken
		c.now(func(f *http2.Framer) {
			for range 4 {
				f.WriteData(st.id, false, []byte(data))
			}
		})
	}) {
		t.Fatal("the loop does not answer")
	}
	c.mu.Lock()
	st.window -= 7 * piece
	c.window -= 7 * piece
	c.mu.Unlock()
	st.upload([]byte(data), piece, true)
	if status, body := st.answer(); status == 200 && body != fmt.Sprint("PUT ", length) ||
		status != 200 && status != 502 {
		t.Errorf("got %d %q", status, body)
	}
	c.served()
	c.leave()
}

// Requests of one connection wait for each other at a full pool. When the connection ends, each
// that gives its place up lets the next one try, which may end at once too.
func TestHazardAConnectionWhoseStreamsWaitForEachOtherEnds(t *testing.T) {
	for name, end := range map[string]func(c *h2){
		"by its client": func(c *h2) { c.leave() },
		"by a violation": func(c *h2) {
			c.send(rawFrame(http2.FramePing, 0, 1, "12345678"))
			c.expectGoAway(protocolError)
			c.leave()
		},
		"by a client's RST": func(c *h2) {
			c.send(rawFrame(http2.FrameRSTStream, 0, 1,
				"\x00\x00\x00\x08"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, gone := vanishingService(t)
			c := g.h2()
			for range 30 {
				c.ask("GET", "/")
			}
			c.served()
			eventually(t, "the requests to wait", func() bool { return g.waiting("s") == 29 })
			gone()
			end(c)
			if name == "by a client's RST" {
				c.wait("answers", func() bool { return c.streams[3].ended && c.streams[59].ended })
				c.leave()
			}
			g.settled()
		})
	}
}

func TestRequestsBeyondTheConnectionsLastStreamAreRefused(t *testing.T) {
	s := newService(t, replying(echo))
	g := serveClean(t, h2Upstream(s.address(), ""))
	c := g.h2()
	open := c.open("POST", "/")
	c.served()
	c.send(func(f *http2.Framer) { f.WriteGoAway(0, http2.ErrCodeNo, []byte("bye")) })
	c.wait("GOAWAY", func() bool { return len(c.goAways) == 1 })
	late := c.ask("GET", "/")
	late.expectReset(http2.ErrCodeRefusedStream)
	open.data("abc", true)
	open.expect(200, "POST abc")
	if last := c.expectGoAway(http2.ErrCodeNo); last.last != open.id {
		t.Errorf("GOAWAY says that %d was the last stream", last.last)
	}
	g.expectRefusedH2(codec.StreamRefused, 1)
	c.leave()
}

// A client that changes its mind in the middle of two responses gets the other one.
func TestWhatAClientAsksForFirstComesFirst(t *testing.T) {
	const size = 4 << 20
	s := bigService(t, size)
	g := serveClean(t, h2Upstream(s.address(), "send_timeout: 1m"))
	c := g.thriftyH2(1 << 30)
	filler := c.ask("GET", "/")
	c.wait("the connection's window to be filled", func() bool { return len(filler.body) == 65535 })
	filler.close(http2.ErrCodeCancel)
	document, image := c.ask("GET", "/", "priority", "u=1"), c.ask("GET", "/", "priority", "u=5, i")
	c.wait("both heads", func() bool { return document.status == 200 && image.status == 200 })
	// take opens the window in steps, so that the service can keep up, and says how much of what
	// came is the document's.
	take := func() float64 {
		const step, steps = 16 << 10, 50
		before := document.got()
		for range steps {
			all := document.got() + image.got() + step
			c.send(func(f *http2.Framer) { f.WriteWindowUpdate(0, step) })
			c.wait("what the window allows", func() bool { return len(document.body)+len(image.body) == all })
		}
		return float64(document.got()-before) / (step * steps)
	}
	if share := take(); share < 0.6 {
		t.Errorf("%.0f %% of the first are the urgent document's", 100*share)
	}
	c.send(func(f *http2.Framer) {
		f.WriteRawFrame(http2.FramePriorityUpdate, 0, 0, append([]byte{0, 0, 0, 5}, "u=0"...))
	})
	if share := take(); share > 0.4 {
		t.Errorf("%.0f %% are the document's after the image has become more urgent", 100*share)
	}
	c.send(func(f *http2.Framer) { f.WriteWindowUpdate(0, 1<<30) })
	document.expect(200, string(noise(size)))
	image.expect(200, string(noise(size)))
	c.leave()
}

func TestHeavyConnectionsAreVisible(t *testing.T) {
	release := make(chan struct{})
	s := newService(t, func(c *serviceConn, _ int) {
		c.head()
		<-release
	})
	t.Cleanup(func() { close(release) })
	g := serveClean(t, h2Upstream(s.address(), "send_timeout: 1m"))
	shows := func(connections, streams, heaviest int64) {
		t.Helper()
		want := telemetry.HTTP2Now{Connections: connections, Streams: streams, Heaviest: heaviest}
		eventually(t, fmt.Sprintf("%+v", want), func() bool { return g.snapshot().Loops[0].HTTP2 == want })
	}
	shows(0, 0, 0)
	heavy, light, idle := g.h2(), g.h2(), g.h2()
	for range 7 {
		heavy.ask("GET", "/")
	}
	st := light.ask("GET", "/")
	idle.served()
	shows(3, 8, 7)
	if now := g.Connections(); !slices.ContainsFunc(now.Oldest,
		func(c ClientStatus) bool { return c.Streams == 7 }) {
		t.Errorf("no connection is shown with 7 streams: %+v", now.Oldest)
	}
	st.close(http2.ErrCodeCancel)
	shows(3, 7, 7)
	heavy.leave()
	shows(2, 0, 0)
	light.leave()
	idle.leave()
	shows(0, 0, 0)
}
