package gateway

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"

	codec2 "plimsoll/internal/http2"
	codec "plimsoll/internal/http3"
)

// A head that could be read in two ways reaches no service, and ends its stream with
// H3_MESSAGE_ERROR (RFC 9114, section 4.1.2). The connection goes on.
func TestHazardHeadsOfHTTP3ThatCouldBeReadInTwoWays(t *testing.T) {
	t.Parallel()
	s := newService(t, answering(simple))
	b := serveH3(t, oneUpstream(s.address()))
	c := b.h3()
	get := "|:method|GET|:scheme|https|:authority|a|:path|/"
	for _, fields := range []string{
		get + "|connection|close", get + "|transfer-encoding|chunked", get + "|upgrade|h2c",
		get + "|keep-alive|5", get + "|proxy-connection|close", get + "|te|gzip",
		get + "|X-Upper|1", get + "|x y|1", get + "|x:y|1", get + "||1", get + "|x\r\ny|1", get + "|x\x00|1",
		get + "|x|a\r\nb: c", get + "|x|a\nb", get + "|x|a\x00", get + "|x| a", get + "|x|a ",
		get + "|content-length|5", get + "|content-length|1|content-length|1", get + "|content-length|+1",
		get + "|host|b", get + "|host|a|host|a", get + "|:path|/", get + "|:status|200",
		get + "|:method|GET", get + "|:scheme|https", get + "|:authority|a", get + "|x|1|:foo|1",
		"|:method|GET|:scheme|https|:path|/", "|:method|GET|:scheme|https|:authority||:path|/",
		"|:method|GET|:scheme|https|:authority|u@a|:path|/", "|:method|GET|:scheme|https|:authority|a/b|:path|/",
		"|:method|GET|:scheme|https|:authority|a", "|:method|GET|:authority|a|:path|/",
		"|:scheme|https|:authority|a|:path|/", "|:method|G T|:scheme|https|:authority|a|:path|/",
		"|:method|GET / HTTP/1.1\r\nx: y|:scheme|https|:authority|a|:path|/",
		"|:method|GET|:scheme|ftp|:authority|a|:path|/", "|:method|GET|:scheme|https|:authority|a|:path|",
		"|:method|GET|:scheme|https|:authority|a|:path|x", "|:method|GET|:scheme|https|:authority|a|:path|*",
		"|:method|GET|:scheme|https|:authority|a|:path|http://b/",
		"|:method|GET|:scheme|https|:authority|a|:path|/ HTTP/1.1\r\nx: y", "|x|1" + get,
		"|:protocol|websocket" + get,
	} {
		pairs := strings.Split(fields[1:], "|")
		st := c.stream().say(true, frame(codec.Headers, section(pairs...)))
		if code, ok := errH3(st.read()); !ok || code != uint64(codec.MessageError) {
			t.Errorf("%q ended with %#x, status %d", fields, code, st.status)
		}
	}
	c.get("/").answer()
	if s.saw() == "" || strings.Count(s.saw(), "HTTP/1.1") != 1 {
		t.Errorf("the service saw\n%s", s.saw())
	}
	if n := b.snapshot().RefusedHeads3[codec2.ConnectionField]; n != 6 {
		t.Errorf("%d heads were refused for fields of the connection", n)
	}
}

// A body that is not as long as its head says is never passed off for whole, nor is one with
// malformed trailers.
func TestHazardBodiesOfHTTP3ThatAreNotAsLongAsAnnounced(t *testing.T) {
	t.Parallel()
	s := newService(t, replying(echo))
	b := serveH3(t, oneUpstream(s.address()))
	c := b.h3()
	for name, frames := range map[string][]string{
		"shorter":             {frame(codec.Data, "ab")},
		"longer":              {frame(codec.Data, "abcd")},
		"longer later":        {frame(codec.Data, "abc"), frame(codec.Data, "d")},
		"a pseudo-field":      {frame(codec.Data, "abc"), frame(codec.Headers, section(":path", "/"))},
		"a connection field":  {frame(codec.Data, "abc"), frame(codec.Headers, section("connection", "close"))},
		"a good field behind": {frame(codec.Data, "abc"), frame(codec.Headers, section("connection", "close", "x", "1"))},
		"an upper-case name":  {frame(codec.Data, "abc"), frame(codec.Headers, section("X-Sum", "1"))},
		"a line break":        {frame(codec.Data, "abc"), frame(codec.Headers, section("x", "a\nb"))},
	} {
		st := c.stream()
		head := frame(codec.Headers, section(c.request("POST", "/", "content-length", "3")...))
		st.say(true, append([]string{head}, frames...)...)
		if code, ok := errH3(st.read()); !ok || code != uint64(codec.MessageError) {
			t.Errorf("%s: ended with %#x, status %d", name, code, st.status)
		}
	}
	c.get("/").answer()
	if strings.Contains(s.saw(), "POST") && strings.Contains(s.saw(), "\r\n\r\nabc") {
		t.Errorf("the service saw\n%s", s.saw())
	}
}

// What breaks the connection's rules ends the connection, with the code that RFC 9114 has for it.
func TestHazardFramesOfHTTP3OutOfPlace(t *testing.T) {
	t.Parallel()
	s := newService(t, answering(simple))
	b := serveH3(t, oneUpstream(s.address()))
	request := func(frames ...string) func(*h3) {
		return func(c *h3) {
			c.greet()
			c.stream().say(true, frames...)
		}
	}
	head := frame(codec.Headers, section((&h3{}).request("POST", "/")...))
	control := func(frames ...string) func(*h3) {
		return func(c *h3) { c.uni(codec.ControlStream).Write([]byte(strings.Join(frames, ""))) }
	}
	settings := func(pairs ...uint64) string {
		var b []byte
		for _, v := range pairs {
			b = quicvarint.Append(b, v)
		}
		return frame(codec.Settings, string(b))
	}
	for _, c := range []struct {
		name string
		do   func(*h3)
		code codec.Code
	}{
		{"data before a head", request(frame(codec.Data, "x")), codec.FrameUnexpected},
		{"data behind trailers", request(head, head, frame(codec.Data, "x")), codec.FrameUnexpected},
		{"a third head", request(head, head, head), codec.FrameUnexpected},
		{"settings in a request", request(settings()), codec.FrameUnexpected},
		{"a push", request(head, frame(codec.PushPromise, "\x00")), codec.FrameUnexpected},
		{"a frame of HTTP/2", request(head, frame(0x2, "12345")), codec.FrameUnexpected},
		{"half a head", request(head[:len(head)-1]), codec.FrameError},
		{"half a frame's length", request(head + "\x00\x40"), codec.FrameError},
		{"a field section that nobody can decode", request(frame(codec.Headers, "\x00\x00\xff\xff\xff")),
			codec.DecompressionFailed},
		{"a dynamic table that there is not", request(frame(codec.Headers, "\x02\x00\x80")), codec.DecompressionFailed},
		{"too much of unknown types", request(head, frame(0x21, strings.Repeat("x", 70_000))), codec.ExcessiveLoad},
		{"too many of unknown types", request(head, strings.Repeat(frame(0x21, ""), 20_000)), codec.ExcessiveLoad},
		{"no settings", control(frame(codec.GoAway, "\x00")), codec.MissingSettings},
		{"settings twice", control(settings(), settings()), codec.FrameUnexpected},
		{"a setting twice", control(settings(6, 1, 6, 1)), codec.SettingsError},
		{"a setting of HTTP/2", control(settings(4, 1)), codec.SettingsError},
		{"half a setting", control(frame(codec.Settings, "\x06")), codec.FrameError},
		{"settings without an end", control("\x04\x80\x10\x00\x00" + strings.Repeat("x", 9000)), codec.ExcessiveLoad},
		{"data on the control stream", control(settings(), frame(codec.Data, "x")), codec.FrameUnexpected},
		{"a push that is cancelled", control(settings(), frame(codec.CancelPush, "\x00")), codec.IDError},
		{"a MAX_PUSH_ID that shrinks", control(settings(), frame(codec.MaxPushID, "\x05"),
			frame(codec.MaxPushID, "\x04")), codec.IDError},
		{"a GOAWAY that grows", control(settings(), frame(codec.GoAway, "\x04"), frame(codec.GoAway, "\x08")),
			codec.IDError},
		{"two control streams", func(c *h3) { c.greet(); c.greet() }, codec.StreamCreationError},
		{"a push stream", func(c *h3) { c.greet(); c.uni(codec.PushStream) }, codec.StreamCreationError},
		{"the control stream's end", func(c *h3) { c.greet(); c.control.Close() }, codec.ClosedCriticalStream},
		{"an entry for the dynamic table", func(c *h3) { c.greet(); c.uni(codec.EncoderStream).Write([]byte{0xc0, 1, 'x'}) },
			codec.EncoderStreamError},
		{"a greater dynamic table", func(c *h3) { c.greet(); c.uni(codec.EncoderStream).Write([]byte{0x3f, 1}) },
			codec.EncoderStreamError},
		{"an acknowledged section", func(c *h3) { c.greet(); c.uni(codec.DecoderStream).Write([]byte{0x80}) },
			codec.DecoderStreamError},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := b.dialH3(b.tls(), nil)
			client.t = t
			c.do(client)
			if code := client.endedBy(); code != uint64(c.code) {
				t.Errorf("ended with %#x, want %#x", code, c.code)
			}
		})
	}
	b.h3().get("/").answer()
}

// A control stream that is reset ends the connection, as one that ends does. A reset discards what
// the gateway has not read yet, and then nobody knows which type the stream had: so the client waits
// for the answer to its GOAWAY. The connection stays open because of the request under way.
func TestHazardAControlStreamOfHTTP3ThatIsReset(t *testing.T) {
	t.Parallel()
	held := newGate(t)
	s := newService(t, held.script)
	b := serveH3(t, oneUpstream(s.address()))
	c := b.h3()
	c.get("/")
	held.next(t)
	c.control.Write([]byte(frame(codec.GoAway, "\x00")))
	said := controlFrames(c)
	if f := <-said; f.kind != codec.Settings {
		t.Fatalf("the first frame is %d", f.kind)
	}
	if f := <-said; f.kind != codec.GoAway || f.id != 4 {
		t.Fatalf("the second frame is %+v", f)
	}
	c.control.CancelWrite(0x100)
	if code := c.endedBy(); code != uint64(codec.ClosedCriticalStream) {
		t.Errorf("ended with %#x", code)
	}
}

// What a peer may send although nobody knows it is passed over.
func TestWhatIsUnknownInHTTP3IsPassedOver(t *testing.T) {
	t.Parallel()
	s := newService(t, replying(echo))
	b := serveH3(t, oneUpstream(s.address()))
	c := b.dialH3(b.tls(), nil)
	c.control = c.uni(codec.ControlStream)
	c.control.Write([]byte(frame(codec.Settings, "\x21\x05") + frame(0x21, "grease") + frame(codec.MaxPushID, "\x05") +
		frame(0xf0700, "\x00u=1")))
	c.uni(0x21).Write([]byte("whatever"))
	c.uni(codec.EncoderStream).Write([]byte{0x20})
	c.uni(codec.DecoderStream).Write([]byte{0x40, 0x7f, 0x80, 0x01})
	grease := frame(0x40*0x1f+0x21, "any bytes")
	st := c.stream().say(true, grease, frame(codec.Headers, section(c.request("POST", "/", "priority", "u=0, i")...)),
		grease, frame(codec.Data, ""), frame(codec.Data, "ab"), grease, frame(codec.Data, "c"), grease)
	st.answer()
	if string(st.body) != "POST abc" {
		t.Errorf("got %d %q", st.status, st.body)
	}
}

// Clients that reset what they ask for, again and again, are told to go; the same number from one
// who lets most requests end is served.
func TestHazardRapidResetOverHTTP3(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *serviceConn, _ int) { c.drain() })
	b := serveH3(t, oneUpstream(s.address()))
	c := b.h3()
	head := frame(codec.Headers, section(c.request("GET", "/")...))
	for range 3000 {
		q, err := c.OpenStreamSync(c.Context())
		if err != nil {
			break
		}
		q.Write([]byte(head))
		q.CancelWrite(0x10c)
		q.CancelRead(0x10c)
	}
	if code := c.endedBy(); code != uint64(codec.ExcessiveLoad) {
		t.Errorf("ended with %#x", code)
	}
	sum := b.snapshot()
	if sum.RefusedHTTP3[codec.TooManyResets] != 1 || sum.HTTP3Resets < 1000 {
		t.Errorf("%d resets, %d connections ended for them", sum.HTTP3Resets, sum.RefusedHTTP3[codec.TooManyResets])
	}
	eventually(t, "nothing is left", func() bool { return b.snapshot().Active == 0 })
}

// Whatever byte a client stops at, by a reset, a stop or silence, the exchange goes and nothing
// stays.
func TestHazardClientsOfHTTP3ThatStopAnywhere(t *testing.T) {
	t.Parallel()
	s := newService(t, replying(func(_ *http.Request, body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", 2*len(body), body+body)
	}))
	b := serveH3(t, "loops: 2\n"+oneUpstream(s.address()))
	t.Cleanup(b.settled)
	draw := rand.New(rand.NewPCG(1, 2))
	body := strings.Repeat("x", 40_000)
	for range 12 {
		c := b.h3()
		whole := frame(codec.Headers, section(c.request("POST", "/", "content-length", "40000")...)) +
			frame(codec.Data, body[:30_000]) + frame(codec.Data, body[30_000:])
		for range 25 {
			st := c.stream()
			st.Write([]byte(whole[:draw.IntN(len(whole)+1)]))
			for _, act := range draw.Perm(4)[:1+draw.IntN(3)] {
				switch act {
				case 0:
					st.CancelWrite(quic.StreamErrorCode(draw.Uint32()))
				case 1:
					st.CancelRead(quic.StreamErrorCode(draw.Uint32()))
				case 2:
					st.SetReadDeadline(time.Now().Add(time.Duration(draw.IntN(3)) * time.Millisecond))
					io.ReadFull(st, make([]byte, draw.IntN(2000)))
				case 3: // says nothing more
				}
			}
		}
		st := c.stream().say(true, whole)
		st.answer()
		if st.status != 200 || len(st.body) != 80_000 {
			t.Fatalf("a request beside them got %d and %d bytes", st.status, len(st.body))
		}
		c.CloseWithError(quic.ApplicationErrorCode(draw.Uint32()), "")
	}
	var app *quic.ApplicationError
	if err := b.h3().get("/").read(); errors.As(err, &app) {
		t.Error(err)
	}
	eventually(t, "nothing is held", func() bool { return b.shared.HTTP3Held.Load() == 0 })
}
