package gateway

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	codec "plimsoll/internal/http2"
)

// A WebSocket over HTTP/2 is a stream (RFC 8441). The service speaks HTTP/1.1: it is asked for an
// upgrade, and afterwards bytes go both ways, and each side's end.
func TestAWebSocketOverHTTP2ReachesAServiceOfHTTP1(t *testing.T) {
	t.Parallel()
	asked := make(chan *http.Request, 1)
	s := newService(t, func(c *serviceConn, _ int) {
		r, _, ok := c.request()
		if !ok {
			return
		}
		asked <- r
		c.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" +
			"Sec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: chat\r\n\r\nhello, ")
		said := make([]byte, 5)
		if _, err := io.ReadFull(c.R, said); err != nil {
			return
		}
		c.write("you said " + string(said))
		c.drain() // up to the client's end
		c.write("; bye")
	})
	g := serve(t, withH2(oneUpstream(s.address())))
	c := g.h2()
	st := c.stream(0)
	fields := c.request("CONNECT", "/chat?room=1", "sec-websocket-version", "13", "origin", "http://a")
	st.headers(c.encode(append([]string{":protocol", "websocket"}, fields...)...), false)
	st.data("a", false) // it need not wait for the answer
	r := <-asked
	if r.Method != "GET" || r.RequestURI != "/chat?room=1" || r.Header.Get("Upgrade") != "websocket" ||
		r.Header.Get("Sec-Websocket-Version") != "13" || len(r.Header.Get("Sec-Websocket-Key")) != 24 {
		t.Errorf("the service was asked %s %s with %v", r.Method, r.RequestURI, r.Header)
	}
	st.data("bcde", false)
	c.wait("the service's words", func() bool { return string(st.body) == "hello, you said abcde" })
	if st.status != 200 || st.fields.Get("Sec-Websocket-Protocol") != "chat" ||
		st.fields.Get("Sec-Websocket-Accept") != "" || st.fields.Get("Content-Length") != "" {
		t.Errorf("the answer's head is %d %v", st.status, st.fields)
	}
	st.data("", true)
	st.expect(200, "hello, you said abcde; bye")
	c.ask("GET", "/after") // which finds no service: the stream's end is not the connection's
}

func TestAServiceThatRefusesAWebSocketOverHTTP2IsHeard(t *testing.T) {
	t.Parallel()
	s := newService(t, replying(func(r *http.Request, _ string) string {
		return "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"
	}))
	g := serve(t, withH2(oneUpstream(s.address())))
	c := g.h2()
	st := c.stream(0)
	st.headers(c.encode(append([]string{":protocol", "websocket"}, c.request("CONNECT", "/")...)...), false)
	st.expect(403, "no")
	c.ask("GET", "/").expect(403, "no")
}

func TestAnotherProtocolThanWebSocketIsNotImplemented(t *testing.T) {
	t.Parallel()
	s := newService(t, replying(func(*http.Request, string) string { return okResponse }))
	g := serve(t, withH2(oneUpstream(s.address())))
	c := g.h2()
	st := c.stream(0)
	st.headers(c.encode(append([]string{":protocol", "connect-udp"}, c.request("CONNECT", "/")...)...), false)
	if status, body := st.answer(); status != 501 || !strings.Contains(body, "bad_request") {
		t.Errorf("got %d %q", status, body)
	}
	plain := c.stream(0)
	plain.headers(c.encode(":method", "CONNECT", ":authority", "a:1"), false)
	if status, _ := plain.answer(); status != 405 {
		t.Errorf("CONNECT to a host got %d", status)
	}
	g.expectRefusedH2(codec.Connect, 1)
	if saw := s.saw(); saw != "" {
		t.Errorf("the service saw %q", saw)
	}
}

// A client that leaves in the middle of a WebSocket takes nothing but its stream along.
func TestAResetEndsAWebSocketOverHTTP2(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	s := newService(t, func(c *serviceConn, _ int) {
		if _, _, ok := c.request(); ok {
			c.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello")
			c.drain()
			close(gone)
		}
	})
	g := serve(t, withH2(oneUpstream(s.address())))
	c := g.h2()
	st := c.stream(0)
	st.headers(c.encode(append([]string{":protocol", "websocket"}, c.request("CONNECT", "/")...)...), false)
	c.wait("the greeting", func() bool { return string(st.body) == "hello" })
	st.close(http2.ErrCodeCancel)
	<-gone
}

// Behind the service's end nothing waits for the connection's window any more. A client that goes on
// in its own direction, while other streams use the window up, is not one that reads too slowly.
func TestAWebSocketWhoseServiceHasEndedIsNotSlow(t *testing.T) {
	t.Parallel()
	said := make(chan string, 1)
	s := newService(t, func(c *serviceConn, _ int) {
		r, _, ok := c.request()
		if !ok {
			return
		}
		if r.Header.Get("Upgrade") == "" {
			c.write("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + string(noise(100_000)))
			return
		}
		c.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x05hello")
		c.Conn.(*net.TCPConn).CloseWrite()
		rest, _ := io.ReadAll(c.R)
		said <- string(rest)
	})
	g := serve(t, strings.Replace(h2Upstream(s.address(), "send_timeout: 1s"), "upstream: s",
		"upstream: s, websocket: {ping_interval: 10ms}", 1))
	c := g.thriftyH2(1 << 20)
	st := c.stream(0)
	st.headers(c.encode(append([]string{":protocol", "websocket"}, c.request("CONNECT", "/")...)...), false)
	c.wait("the service's end", func() bool { return st.ended })
	for range 2 { // each takes send_timeout, the first with what the connection's window has left
		c.ask("GET", "/").expectReset(http2.ErrCodeCancel)
	}
	st.data("still here", true)
	if got := <-said; got != "still here" {
		t.Errorf("the service was told %q", got)
	}
	if st.reset && st.code != http2.ErrCodeNo {
		t.Errorf("the WebSocket was reset with %v", st.code)
	}
}
