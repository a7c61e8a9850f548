package gateway

import (
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	codec "plimsoll/internal/http3"
)

// Any status of success tells a client of HTTP/2 or HTTP/3 that its WebSocket is open (RFC 8441,
// section 5), where HTTP/1.1 has 101 for that.
func TestASuccessOtherThan101OpensNoWebSocket(t *testing.T) {
	t.Parallel()
	s := newService(t, answering(okResponse))
	b := serveH3(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}}
routes: [{match: /chat, upstream: s}, {match: /own, respond: {body: ok}}]
`)
	two, three := b.h2TLS(b.ca), b.h3()
	for path, want := range map[string]struct {
		status int
		reason string
	}{
		"/chat": {502, "upstream_bad"},
		"/own":  {501, "bad_request"},
	} {
		st := two.stream(0)
		st.headers(two.encode(append([]string{":protocol", "websocket"}, two.request("CONNECT", path)...)...), false)
		if status, body := st.answer(); status != want.status || !strings.Contains(body, want.reason) {
			t.Errorf("over HTTP/2 %s got %d %q, want %d %s", path, status, body, want.status, want.reason)
		}
		q := three.stream()
		fields := append([]string{":protocol", "websocket"}, three.request("CONNECT", path)...)
		q.say(false, frame(codec.Headers, section(fields...)))
		if q.answer(); q.status != want.status || !strings.Contains(string(q.body), want.reason) {
			t.Errorf("over HTTP/3 %s got %d %q, want %d %s", path, q.status, q.body, want.status, want.reason)
		}
		two.ask("GET", path).expect(200, "ok") // else it is what it is
	}
}

// What is cut off must not pass for whole: a service's reset becomes one.
func TestAWebSocketThatItsServiceResetsIsReset(t *testing.T) {
	t.Parallel()
	cut := make(chan struct{}, 2)
	s := newService(t, func(c *serviceConn, _ int) {
		if c.head() != "" && c.write(switched+"half a fra") {
			<-cut
			c.Conn.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
	})
	b := serveH3(t, oneUpstream(s.address()))
	c := b.h2TLS(b.ca)
	st := c.stream(0)
	st.headers(c.encode(append([]string{":protocol", "websocket"}, c.request("CONNECT", "/")...)...), false)
	c.wait("the service's words", func() bool { return string(st.body) == "half a fra" })
	cut <- struct{}{}
	st.expectReset(http2.ErrCodeCancel)
	if st.ended {
		t.Error("it ended in order before")
	}
	three := b.h3()
	q := three.stream()
	fields := append([]string{":protocol", "websocket"}, three.request("CONNECT", "/")...)
	q.say(false, frame(codec.Headers, section(fields...)))
	for len(q.body) == 0 {
		if err := q.frame(); err != nil {
			t.Fatal(err)
		}
	}
	cut <- struct{}{}
	code, _ := errH3(q.frame())
	if code != uint64(codec.RequestCancelled) {
		t.Errorf("over HTTP/3 it ended with %#x", code)
	}
}

// A side that has ended its direction still gets what the other one says, and a close frame where
// the gateway closes. Into the direction that has ended nothing is put.
func TestACloseFrameGoesOnlyWhereADirectionIsOpen(t *testing.T) {
	overBoth(t, func(t *testing.T, dial func(*instance) *peer) {
		s := newSockets(t, dial, ", websocket: {close_grace: 10m}", "")
		removed := strings.Replace(s.yaml(""), "name: chat", "name: other", 1)

		client, service := s.open()
		client.Conn.(interface{ CloseWrite() error }).CloseWrite()
		service.expectEnd()
		silent, ended := s.open()
		ended.Conn.(*net.TCPConn).CloseWrite()
		silent.expectEnd()
		s.mustReload(removed)

		client.expectClose(1001)
		service.send(unmasked(0x88, closeFrame(1001)))
		service.Close()
		client.expectEnd()
		ended.expectClose(1001)
		silent.send(masked(0x88, closeFrame(1001)))
		if h, is := silent.Conn.(*h2Socket); is {
			h.c.ask("GET", "/").expect(200, "here")
			if n := h.st.got(); n > 0 {
				t.Errorf("%d bytes follow the end of the stream", n)
			}
		} else if b, err := io.ReadAll(silent.r); len(b) > 0 {
			t.Errorf("%q and %v follow the end", b, err)
		}
		silent.Close()
		client.Close()
	})
}
