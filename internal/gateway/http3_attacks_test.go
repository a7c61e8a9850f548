package gateway

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/quic-go/quic-go"

	codec "plimsoll/internal/http3"
)

// What costs the gateway and serves no request has a budget, as over HTTP/2. A client beside the
// one that exceeds it is served.
func TestHazardFloodsOverHTTP3(t *testing.T) {
	t.Parallel()
	s := newService(t, answering(simple))
	b := serveH3(t, oneUpstream(s.address()))
	ask := func(text string) func(*h3) error {
		return func(c *h3) error {
			q, err := c.OpenStreamSync(c.Context())
			if err == nil {
				q.Write([]byte(text))
				q.CancelRead(0x10c)
			}
			return err
		}
	}
	uni := func(text string) func(*h3) error {
		return func(c *h3) error {
			q, err := c.OpenUniStreamSync(c.Context())
			if err == nil {
				q.Write([]byte(text))
				q.Close()
			}
			return err
		}
	}
	trailers := func(c *h3) error { // they come when the request is under way
		q, err := c.OpenStreamSync(c.Context())
		if err == nil {
			q.Write([]byte(frame(codec.Headers, section(c.request("POST", "/")...)) +
				frame(codec.Data, strings.Repeat("x", 17<<10)) + "\x01\x80\x10\x00\x00"))
			io.Copy(io.Discard, q)
		}
		return err
	}
	long := frame(codec.Headers, section((&h3{}).request("GET", "/"+strings.Repeat("x", 9000))...))
	for name, c := range map[string]struct {
		does func(*h3) error
		why  codec.Reason
	}{
		"heads that are too long":            {ask("\x01\x80\x10\x00\x00"), codec.TooManyFaults},
		"paths that are too long":            {ask(long), codec.TooManyFaults},
		"trailers that are too long":         {trailers, codec.TooManyFaults},
		"streams that end without a head":    {func(c *h3) error { return endless(c) }, codec.TooManyFaults},
		"streams of unknown types":           {uni("\x21whatever"), codec.TooMuchUnknown},
		"streams that do not say their type": {uni(""), codec.TooMuchUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			before := b.snapshot().RefusedHTTP3[c.why]
			client := b.h3()
			client.t = t
			for range 5000 {
				if c.does(client) != nil {
					break
				}
			}
			if code := client.endedBy(); code != uint64(codec.ExcessiveLoad) {
				t.Errorf("ended with %#x", code)
			}
			if n := b.snapshot().RefusedHTTP3[c.why] - before; n != 1 {
				t.Errorf("%d connections were ended for %v", n, c.why)
			}
			b.h3().get("/").answer()
		})
	}
	eventually(t, "nothing is left", func() bool { return b.snapshot().Active == 0 })
}

// What came of a body with the head of a request that is not served is given back, however the
// connection ends: otherwise the bound would be reached for good.
func TestHazardRequestsOfHTTP3ThatAreNotServedHoldNothing(t *testing.T) {
	t.Parallel()
	s := newService(t, answering(simple))
	b, cfg := earlyBed(t, strings.Replace(oneUpstream(s.address()), `"127.0.0.1:0"`, `"127.0.0.1:0", early_data: true`, 1))
	held := func(of string) {
		t.Helper()
		eventually(t, "nothing is held of "+of, func() bool {
			return b.snapshot().Active == 0 && b.shared.HTTP3Held.Load() == 0
		})
	}
	post := frame(codec.Headers, section((&h3{}).request("POST", "/")...)) + frame(codec.Data, "x")
	early, _ := b.resume(cfg)
	early.stream().say(false, post)
	eventually(t, "early data is taken", func() bool { return b.shared.HTTP3Held.Load() > 0 })
	early.CloseWithError(0x100, "")
	held("a request whose client goes away before the handshake is complete")

	c := b.h3()
	malformed := frame(codec.Headers, section("X-Upper", "case")) + frame(codec.Data, "x")
	for range 5000 {
		q, err := c.OpenStreamSync(c.Context())
		if err != nil {
			break
		}
		q.Write([]byte(malformed))
		q.CancelRead(0x10c)
	}
	if code := c.endedBy(); code != uint64(codec.ExcessiveLoad) {
		t.Errorf("malformed requests ended their connection with %#x", code)
	}
	held("malformed requests")
}

// The reset that is one too many is of a stream like others, and what it held goes with it.
func TestHazardOneResetTooManyWhileResponsesOfHTTP3Wait(t *testing.T) {
	t.Parallel()
	large := "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + strings.Repeat("x", 1_000_000)
	s := newService(t, func(c *serviceConn, _ int) {
		for head := c.head(); head != ""; head = c.head() {
			if strings.HasPrefix(head, "GET /large") {
				c.write(large)
			}
		}
	})
	b := serveH3(t, oneUpstream(s.address()))
	c := b.dialH3(b.tls(), &quic.Config{InitialStreamReceiveWindow: 1000, MaxStreamReceiveWindow: 1000})
	c.greet()
	begin := func(path string) *quic.Stream {
		q, err := c.OpenStreamSync(c.Context())
		if err == nil {
			q.Write([]byte(frame(codec.Headers, section(c.request("GET", path)...))))
			q.Close()
		}
		return q
	}
	reset := func(q *quic.Stream) {
		if q != nil {
			q.CancelRead(0x10c)
		}
	}
	for range 100 {
		for range 300 {
			reset(begin("/"))
		}
		var large []*quic.Stream
		for range 60 {
			large = append(large, begin("/large"))
		}
		eventually(t, "responses wait", func() bool {
			return b.shared.HTTP3Held.Load() > 20*50_000 || c.Context().Err() != nil
		})
		for _, q := range large {
			reset(q)
		}
		if c.Context().Err() != nil {
			break
		}
	}
	if code := c.endedBy(); code != uint64(codec.ExcessiveLoad) {
		t.Errorf("ended with %#x", code)
	}
	eventually(t, "nothing is held", func() bool {
		return b.snapshot().Active == 0 && b.shared.HTTP3Held.Load() == 0
	})
}

// endless begins a request and ends it at once.
func endless(c *h3) error {
	q, err := c.OpenStreamSync(c.Context())
	if err == nil {
		q.Close()
		q.CancelRead(0x10c)
	}
	return err
}

// What all streams hold is bounded: beyond it new requests are refused, whoever sends them, until
// some of it is given back.
func TestHazardStreamsOfHTTP3ThatHoldMemory(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *serviceConn, _ int) {
		for head := c.head(); head != ""; head = c.head() {
			if !strings.HasPrefix(head, "GET /large") {
				c.write(simple)
				continue
			}
			c.write("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + strings.Repeat("x", 1_000_000))
		}
	})
	b := serveH3(t, oneUpstream(s.address()))
	const most, streams = 200_000, 20
	b.shared.HTTP3Most.Store(most)
	for name, hold := range map[string]func(*h3){
		"half heads": func(c *h3) {
			c.stream().say(false, frame(codec.Headers, section(c.request("GET", "/")...))[:5])
		},
		"half bodies": func(c *h3) {
			head := frame(codec.Headers, section(c.request("POST", "/", "content-length", "100")...))
			c.stream().say(false, head, frame(codec.Data, "x"))
		},
		"responses that nobody reads": func(c *h3) { c.get("/large") },
	} {
		c := b.h3()
		for range streams {
			hold(c)
		}
		other := b.h3()
		eventually(t, "a request beside "+name+" is refused", func() bool {
			// A request that has ended since may still have held a buffer when the streams came: then
			// some were refused because of it, and the others hold less than the bound.
			hold(c)
			st := other.get("/")
			st.answer()
			return st.status == 503 && strings.Contains(string(st.body), "instance_overloaded")
		})
		// Each may have been let in at the bound with what one read brings.
		if n := b.shared.HTTP3Held.Load(); n > most+streams*(128<<10) {
			t.Errorf("%s: %d bytes are held", name, n)
		}
		c.CloseWithError(0x100, "")
		eventually(t, "what was held is given back", func() bool { return b.shared.HTTP3Held.Load() == 0 })
		st := other.get("/")
		if st.answer(); st.status != 200 {
			t.Errorf("afterwards a request got %d", st.status)
		}
	}
	if b.snapshot().RefusedHTTP3[codec.Overloaded] < 3 {
		t.Error("the refusals are not counted")
	}
}

// No method that may change something goes on before the handshake is complete, however its request
// says it.
func TestHazardEarlyDataThatMayChangeSomething(t *testing.T) {
	t.Parallel()
	saw := make(chan string, 10)
	s := newService(t, replying(func(r *http.Request, _ string) string {
		saw <- r.Method + strings.Join(r.Header["Early-Data"], ",")
		return simple
	}))
	b, cfg := earlyBed(t, strings.Replace(oneUpstream(s.address()), `"127.0.0.1:0"`, `"127.0.0.1:0", early_data: true`, 1))
	<-saw
	c, hear := b.resume(cfg)
	want := []string{"DELETE", "GET", "PATCH", "POST", "PUT"}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		c.stream().say(true, frame(codec.Headers, section(c.request(method, "/")...)))
	}
	c.stream().say(false, frame(codec.Headers, section(append([]string{":protocol", "websocket"},
		c.request("CONNECT", "/")...)...)))
	c.stream().say(true, frame(codec.Headers, section(append([]string{":method", "GET"},
		c.request("POST", "/")...)...))) // malformed, and no GET
	c.get("/safe")
	if got := <-saw; got != "GET1" {
		t.Errorf("before the handshake was complete the service saw %q", got)
	}
	hear()
	var got []string
	for range want {
		got = append(got, <-saw)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("afterwards it saw %q, want %q", got, want)
	}
}
