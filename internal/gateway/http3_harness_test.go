package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"

	codec "plimsoll/internal/http3"
)

// h3 is a client's connection of HTTP/3, on quic-go's streams: its frames are written here and not
// by the gateway's codec, so that it can say what no sound client says.
type h3 struct {
	*quic.Conn
	t       *testing.T
	control *quic.SendStream
}

// h3stream is a request of such a client.
type h3stream struct {
	*quic.Stream
	t        *testing.T
	interims []int
	hints    []http.Header
	status   int
	fields   http.Header
	body     []byte
	trailers http.Header
}

// frame makes a frame.
func frame(t codec.FrameType, payload string) string {
	b := quicvarint.Append(nil, uint64(t))
	b = quicvarint.Append(b, uint64(len(payload)))
	return string(b) + payload
}

// section makes a field section of names and values.
func section(pairs ...string) string {
	var b bytes.Buffer
	e := qpack.NewEncoder(&b)
	for i := 0; i < len(pairs); i += 2 {
		e.WriteField(qpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return b.String()
}

// withH3 makes the first listener of a configuration one of TLS that offers HTTP/3.
func withH3(yaml string, cert pair) string {
	return strings.Replace(yaml, `"127.0.0.1:0"`, fmt.Sprintf(
		`"127.0.0.1:0", http3: true, tls: {certificates: [{cert: %q, key: %q}]}`, cert.cert, cert.key), 1)
}

// serveH3 runs a gateway of which the first listener offers HTTP/3.
func serveH3(t *testing.T, yaml string) *bed {
	t.Helper()
	ca := newAuthority(t)
	return &bed{serve(t, withH3(yaml, ca.issue(t, "a"))), ca}
}

func (b *bed) tls() *tls.Config {
	return &tls.Config{RootCAs: b.ca.pool, ServerName: "a", NextProtos: []string{"h3"}}
}

// dialH3 connects a client that has said nothing.
func (i *instance) dialH3(cfg *tls.Config, q *quic.Config) *h3 {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := quic.DialAddr(ctx, i.address(0), cfg, q)
	if err != nil {
		i.t.Fatalf("dial: %v", err)
	}
	i.t.Cleanup(func() { c.CloseWithError(0x100, "") })
	return &h3{Conn: c, t: i.t}
}

// h3 connects a client that has said what a client must say.
func (b *bed) h3() *h3 {
	b.t.Helper()
	c := b.dialH3(b.tls(), nil)
	c.greet()
	return c
}

// h3From connects a client of an address of its own, that has said what a client must say.
func (b *bed) h3From(address string) *h3 {
	b.t.Helper()
	from := &quic.Transport{Conn: udpOn(b.t, address)}
	b.t.Cleanup(func() { from.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := from.Dial(ctx, dialAddr(b.t, b.address(0)), b.tls(), nil)
	if err != nil {
		b.t.Fatalf("dial from %s: %v", address, err)
	}
	b.t.Cleanup(func() { conn.CloseWithError(0x100, "") }) // its transport tells nobody
	c := &h3{Conn: conn, t: b.t}
	c.greet()
	return c
}

// greet opens the control stream.
func (c *h3) greet() {
	c.t.Helper()
	c.control = c.uni(codec.ControlStream)
	c.control.Write([]byte(frame(codec.Settings, "")))
}

// uni opens a unidirectional stream.
func (c *h3) uni(t codec.StreamType) *quic.SendStream {
	c.t.Helper()
	s, err := c.OpenUniStream()
	if err != nil {
		c.t.Fatal(err)
	}
	s.Write(quicvarint.Append(nil, uint64(t)))
	return s
}

// stream begins a request.
func (c *h3) stream() *h3stream {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	q, err := c.OpenStreamSync(ctx)
	if err != nil {
		c.t.Fatalf("open a stream: %v", err)
	}
	q.SetDeadline(time.Now().Add(patience))
	return &h3stream{Stream: q, t: c.t}
}

// request are the pseudo-fields of a request, and fields behind them.
func (c *h3) request(method, path string, pairs ...string) []string {
	return append([]string{":method", method, ":scheme", "https", ":authority", "a", ":path", path}, pairs...)
}

// say writes frames, and the stream's end where end is set.
func (s *h3stream) say(end bool, frames ...string) *h3stream {
	s.Write([]byte(strings.Join(frames, "")))
	if end {
		s.Close()
	}
	return s
}

// get sends a GET.
func (c *h3) get(path string, pairs ...string) *h3stream {
	return c.stream().say(true, frame(codec.Headers, section(c.request("GET", path, pairs...)...)))
}

// errH3 is how a stream or a connection ended: by which code.
func errH3(err error) (code uint64, ok bool) {
	if e, is := errors.AsType[*quic.StreamError](err); is {
		return uint64(e.ErrorCode), true
	}
	if e, is := errors.AsType[*quic.ApplicationError](err); is {
		return uint64(e.ErrorCode), true
	}
	return 0, false
}

// answer reads the response to its end.
func (s *h3stream) answer() {
	s.t.Helper()
	if err := s.read(); err != nil {
		s.t.Fatalf("read a response: %v", err)
	}
}

// read reads the response, and says how it ended where it did not end well.
func (s *h3stream) read() error {
	for {
		if err := s.frame(); err == io.EOF && s.status > 0 {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// frame reads a frame of the response.
func (s *h3stream) frame() error {
	r := quicvarint.NewReader(s.Stream)
	kind, err := quicvarint.Read(r)
	if err != nil {
		return err
	}
	n, err := quicvarint.Read(r)
	if err != nil {
		return err
	}
	payload := make([]byte, n)
	if read, err := io.ReadFull(r, payload); err != nil {
		s.body = append(s.body, payload[:read]...)
		return fmt.Errorf("in a frame: %w", err)
	}
	switch codec.FrameType(kind) {
	case codec.Data:
		s.body = append(s.body, payload...)
	case codec.Headers:
		return s.section(payload)
	default:
		return fmt.Errorf("a frame of type %d came", kind)
	}
	return nil
}

// section takes a field section of a response.
func (s *h3stream) section(payload []byte) error {
	next := qpack.NewDecoder().Decode(payload)
	fields, status := http.Header{}, 0
	for {
		f, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		switch {
		case f.Name == ":status":
			status, _ = strconv.Atoi(f.Value)
		case f.Name != strings.ToLower(f.Name) || strings.HasPrefix(f.Name, ":"):
			return fmt.Errorf("the field %q came", f.Name)
		default:
			fields.Add(f.Name, f.Value)
		}
	}
	switch {
	case status >= 200:
		s.status, s.fields = status, fields
	case status > 0:
		s.interims, s.hints = append(s.interims, status), append(s.hints, fields)
	default:
		s.trailers = fields
	}
	return nil
}

// endedBy waits until the gateway ends the connection, and says with which code.
func (c *h3) endedBy() uint64 {
	c.t.Helper()
	select {
	case <-c.Context().Done():
		code, _ := errH3(context.Cause(c.Context()))
		return code
	case <-time.After(patience):
		c.t.Fatal("the connection does not end")
		return 0
	}
}

// udpOn is a socket of a client's.
func udpOn(t *testing.T, host string) net.PacketConn {
	t.Helper()
	c, err := net.ListenPacket("udp4", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func dialAddr(t *testing.T, address string) net.Addr {
	t.Helper()
	a, err := net.ResolveUDPAddr("udp4", address)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
