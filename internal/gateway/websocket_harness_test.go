package gateway

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/telemetry"
)

const (
	askUpgrade  = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	sawUpgrade  = "GET /chat HTTP/1.1\r\nHost: a\r\n" + forwardedFields + "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"
	switched    = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
	wasSwitched = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
)

// h2Socket is a stream of HTTP/2 that begins with an extended CONNECT, as the connection of a
// client of WebSocket over HTTP/1.1: it translates the handshake.
type h2Socket struct {
	net.Conn
	c     *h2
	st    *h2stream
	frame func() int // how long the next Data frame is
	asked []byte
	first []byte // the translated answer
	at    int    // of the stream's body
}

// webSocketOverH2 connects a client of HTTP/2 whose first stream will be a WebSocket.
func (i *instance) webSocketOverH2(frame func() int) *h2Socket {
	c := i.h2()
	return &h2Socket{Conn: c.Conn, c: c, frame: frame}
}

func (s *h2Socket) Write(p []byte) (int, error) {
	if s.st == nil {
		if s.asked = append(s.asked, p...); !bytes.HasSuffix(s.asked, []byte("\r\n\r\n")) {
			return len(p), nil
		}
		return len(p), s.startHandshake()
	}
	for rest := p; len(rest) > 0; {
		n := min(len(rest), s.frame())
		if !s.st.upload(rest[:n], n, false) {
			return len(p) - len(rest), net.ErrClosed
		}
		rest = rest[n:]
	}
	return len(p), nil
}

func (s *h2Socket) startHandshake() error {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(s.asked)))
	if err != nil {
		return err
	}
	s.st = s.c.stream(0)
	fields := []string{":protocol", "websocket"}
	fields = append(fields, s.c.request("CONNECT", r.RequestURI, "sec-websocket-version", "13")...)
	if offered := r.Header.Get("Sec-WebSocket-Extensions"); offered != "" {
		fields = append(fields, "sec-websocket-extensions", offered)
	}
	s.st.headers(s.c.encode(fields...), false)
	if err := s.waitFor(func() bool { return s.st.status != 0 }); err != nil {
		return err
	}
	if s.st.status != 200 {
		s.first = fmt.Appendf(nil, "HTTP/1.1 %d Refused\r\nConnection: close\r\n\r\n", s.st.status)
		return nil
	}
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	s.first = []byte(wasSwitched[:len(wasSwitched)-2] + "Sec-WebSocket-Accept: " +
		base64.StdEncoding.EncodeToString(sum[:]) + "\r\n")
	if agreed := s.st.fields.Get("Sec-WebSocket-Extensions"); agreed != "" {
		s.first = append(s.first, "Sec-WebSocket-Extensions: "+agreed+"\r\n"...)
	}
	s.first = append(s.first, "\r\n"...)
	return nil
}

var errReset = errors.New("the stream was reset")

// waitFor waits until a condition holds, which is asked under the client's lock, or nothing more
// can come.
func (s *h2Socket) waitFor(holds func() bool) error {
	deadline := time.After(patience)
	for {
		s.c.mu.Lock()
		ok, changed, over := holds(), s.c.changed, s.c.err
		switch {
		case s.st.ended: // a reset behind it says that the gateway needs no more
			over = io.EOF
		case s.st.reset:
			over = errReset
		}
		s.c.mu.Unlock()
		switch {
		case ok:
			return nil
		case over != nil:
			return over
		}
		select {
		case <-changed:
		case <-deadline:
			return errors.New("nothing came")
		}
	}
}

func (s *h2Socket) Read(p []byte) (int, error) {
	if len(s.first) > 0 {
		n := copy(p, s.first)
		s.first = s.first[n:]
		return n, nil
	}
	if err := s.waitFor(func() bool { return len(s.st.body) > s.at }); err != nil {
		return 0, err
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	n := copy(p, s.st.body[s.at:])
	s.at += n
	return n, nil
}

func (s *h2Socket) CloseWrite() error {
	s.st.data("", true)
	return nil
}

func (s *h2Socket) Close() error {
	s.c.leave()
	return nil
}

func (s *h2Socket) SetDeadline(time.Time) error      { return nil }
func (s *h2Socket) SetReadDeadline(time.Time) error  { return nil }
func (s *h2Socket) SetWriteDeadline(time.Time) error { return nil }

// overBoth runs a test for clients of HTTP/1.1 and of HTTP/2.
func overBoth(t *testing.T, test func(t *testing.T, dial func(*instance) *peer)) {
	for name, dial := range map[string]func(*instance) *peer{
		"HTTP/1.1": (*instance).dial,
		"HTTP/2": func(i *instance) *peer {
			s := i.webSocketOverH2(func() int { return 1 << 10 })
			return &peer{Conn: s, t: i.t, r: bufio.NewReader(s)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, dial)
		})
	}
}

// sockets is a gateway with one route, and a service that accepts WebSockets and leaves them to the
// test.
type sockets struct {
	*instance
	service *service
	dial    func(*instance) *peer
	come    chan *peer
}

// newSockets runs the gateway, with further keys of the route.
func newSockets(t *testing.T, dial func(*instance) *peer, route, more string) *sockets {
	t.Helper()
	s := &sockets{dial: dial, come: make(chan *peer, 16)}
	over := make(chan struct{})
	s.service = newService(t, func(c *serviceConn, _ int) {
		if c.head() != "" && c.write(switched) {
			c.SetDeadline(time.Now().Add(patience))
			s.come <- &peer{Conn: c.Conn, t: t, r: c.R}
			<-over
		}
	})
	s.instance = serve(t, s.yaml(route)+more)
	t.Cleanup(func() {
		if s.State() == Serving { // after a drain nothing can be asked
			s.settled()
		}
	})
	t.Cleanup(func() { close(over) })
	return s
}

func (s *sockets) yaml(route string) string {
	return withH2(`
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["` + s.service.address() + `"]}}
routes: [{match: /chat, name: chat, upstream: s` + route + `}, {match: /, respond: {body: here}}]
`)
}

// open makes a WebSocket: the client's end and the service's.
func (s *sockets) open() (client, service *peer) {
	s.t.Helper()
	client = s.dial(s.instance)
	client.send(askUpgrade)
	client.skipHead()
	return client, <-s.come
}

// skipHead reads the head of a 101.
func (p *peer) skipHead() {
	p.t.Helper()
	for line := ""; line != "\r\n"; {
		var err error
		line, err = p.r.ReadString('\n')
		if err != nil || strings.HasPrefix(line, "HTTP/") && !strings.HasPrefix(line, "HTTP/1.1 101 ") {
			p.t.Fatalf("the handshake got %q and %v", line, err)
		}
	}
}

// counts are the route's counters.
func (s *sockets) counts() telemetry.WebSocketStats {
	for _, r := range s.snapshot().Routes {
		if r.Name == "chat" {
			return r.WebSocket
		}
	}
	return telemetry.WebSocketStats{}
}

// expectClosed waits until a tunnel has ended, closed by whom.
func (s *sockets) expectClosed(by telemetry.Closer) {
	s.t.Helper()
	eventually(s.t, "the WebSocket to be closed by "+by.String(), func() bool {
		return s.counts().Closed[by] == 1
	})
}

// maskKey is the key of the frames below, which client sends.
const maskKey = "\x11\x22\x33\x44"

func masked(first byte, payload string) string {
	b := []byte(payload)
	for i := range b {
		b[i] ^= maskKey[i%4]
	}
	return frameHead(first, 0x80, len(b)) + maskKey + string(b)
}

func unmasked(first byte, payload string) string {
	return frameHead(first, 0, len(payload)) + payload
}

func frameHead(first, mask byte, n int) string {
	switch {
	case n < 126:
		return string([]byte{first, mask | byte(n)})
	case n < 1<<16:
		return string([]byte{first, mask | 126, byte(n >> 8), byte(n)})
	}
	return string([]byte{first, mask | 127, 0, 0, 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// expectFrame reads one frame, unmasks it, and returns its first byte and its payload.
func (p *peer) expectFrame() (first byte, payload string) {
	p.t.Helper()
	head := make([]byte, 2)
	if _, err := io.ReadFull(p.r, head); err != nil {
		p.t.Fatalf("waited for a frame: %v", err)
	}
	n := int(head[1] & 0x7f)
	if n > 125 {
		p.t.Fatalf("a frame of more than 125 bytes: %x", head)
	}
	key := make([]byte, int(head[1]>>7)*4)
	io.ReadFull(p.r, key)
	b := make([]byte, n)
	if _, err := io.ReadFull(p.r, b); err != nil {
		p.t.Fatalf("waited for a frame's payload: %v", err)
	}
	for i := range b {
		if len(key) > 0 {
			b[i] ^= key[i%4]
		}
	}
	return head[0], string(b)
}

// expectClose reads a close frame with a code.
func (p *peer) expectClose(code int) {
	p.t.Helper()
	first, payload := p.expectFrame()
	if first != 0x88 || len(payload) < 2 || int(payload[0])<<8|int(payload[1]) != code {
		p.t.Fatalf("got the frame %x %q, want a close frame with %d", first, payload, code)
	}
}

// closeFrame is the payload of a close frame.
func closeFrame(code int) string { return string([]byte{byte(code >> 8), byte(code)}) }
