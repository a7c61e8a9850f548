package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	codec3 "plimsoll/internal/http3"
)

// spoken is a protocol that clients speak.
type spoken struct {
	name              string
	http2, tls, http3 bool
}

var allSpoken = []spoken{
	{name: "HTTP/1.1"}, {name: "HTTP/1.1 over TLS", tls: true},
	{name: "HTTP/2", http2: true}, {name: "HTTP/2 over TLS", http2: true, tls: true},
	{name: "HTTP/3", http3: true, tls: true},
}

// serveSpoken runs a gateway whose clients may speak every protocol, as talk does. listener are further
// keys of its two listeners, each with a comma before it; rest is the rest of the configuration.
func serveSpoken(t *testing.T, listener, rest string) *bed {
	t.Helper()
	b := serveEnding(t, listener, rest)
	t.Cleanup(b.settled)
	return b
}

// serveEnding is serveSpoken for tests that end the gateway themselves.
func serveEnding(t *testing.T, listener, rest string) *bed {
	t.Helper()
	ca := newAuthority(t)
	return &bed{serve(t, spokenConfig(ca.issue(t, "a"), "127.0.0.1:0", "127.0.0.2:0", listener, rest)), ca}
}

// spokenConfig is the configuration of such a gateway, with the addresses of its listeners: of the one
// with TLS and of the plain one.
func spokenConfig(cert pair, secure, plain, listener, rest string) string {
	return fmt.Sprintf(`
loops: 1
listeners:
  - {address: %q, http2: true, http3: true, tls: {certificates: [{cert: %q, key: %q}]}%s}
  - {address: %q, http2: true%s}
%s
`, secure, cert.cert, cert.key, listener, plain, listener, rest)
}

// upload is a request whose body the test sends.
type upload struct {
	*call
	chunked bool
}

// open sends the head of a request whose body follows. Without a length it is not announced.
func (c *talker) open(method, path string, length int, fields ...string) *upload {
	c.t.Helper()
	if length >= 0 {
		fields = append(fields, "content-length", fmt.Sprint(length))
	}
	switch {
	case c.two != nil:
		return &upload{&call{method: method, two: c.two.open(method, path, fields...)}, false}
	case c.thr != nil:
		st := c.thr.stream().say(false, frame(codec3.Headers, section(c.thr.request(method, path, fields...)...)))
		return &upload{&call{method: method, thr: st}, false}
	}
	if length < 0 {
		fields = append(fields, "transfer-encoding", "chunked")
	}
	p := c.connect()
	p.send(method + " " + path + " HTTP/1.1\r\nHost: a\r\n" + fieldText(fields) + "\r\n")
	return &upload{&call{method: method, one: p, of: c}, length < 0}
}

// send sends some of the body, in one frame or chunk; end says that it is the last.
func (u *upload) send(data string, end bool) {
	switch {
	case u.two != nil:
		u.two.data(data, end)
	case u.thr != nil:
		u.thr.say(end, frame(codec3.Data, data))
	case u.chunked:
		text := fmt.Sprintf("%x\r\n%s\r\n", len(data), data)
		if end {
			text += "0\r\n\r\n"
		}
		io.WriteString(u.one, text) // the gateway may have answered, and closed, already
	default:
		io.WriteString(u.one, data)
	}
}

// post does a request with a body of a known length.
func (c *talker) post(method, path, body string, fields ...string) *got {
	c.t.Helper()
	u := c.open(method, path, len(body), fields...)
	u.send(body, true)
	g := u.read()
	if g.cut {
		c.t.Fatalf("%s: %s %s broke off: %v", c.p.name, method, path, g)
	}
	return g
}

// version is what the access log calls the protocol.
func (p spoken) version() string {
	switch {
	case p.http3:
		return "HTTP/3.0"
	case p.http2:
		return "HTTP/2.0"
	}
	return "HTTP/1.1"
}

// sessions makes clients of any protocol that ask again and again, as those of load do: they obey
// what the gateway says of the connection's end, and take anything but a 200 for a failure.
type sessions struct {
	p             spoken
	ca            *authority
	secure, plain string // the addresses of the listeners
}

// of are the sessions with a gateway.
func (b *bed) sessions(p spoken) *sessions {
	return &sessions{p, b.ca, b.address(0), b.address(1)}
}

// startLoad begins traffic: see startLoad.
func (s *sessions) startLoad(t *testing.T, clients int) *load {
	return startLoadOf(t, &load{session: s.session()}, clients)
}

// session is the function that does requests on one connection: many, or one.
func (s *sessions) session() func(l *load, keep bool) error {
	switch {
	case s.p.http3:
		return s.overHTTP3
	case s.p.http2:
		return s.overHTTP2
	}
	return func(l *load, keep bool) error {
		c, err := s.dial("http/1.1")
		if err != nil {
			return err
		}
		defer c.Close()
		return l.ask(c, bufio.NewReader(c), keep)
	}
}

// dial connects, with TLS where the protocol has it.
func (s *sessions) dial(alpn string) (net.Conn, error) {
	address := s.plain
	if s.p.tls {
		address = s.secure
	}
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(patience))
	if !s.p.tls {
		return c, nil
	}
	secure := tls.Client(c, s.tls(alpn))
	if err := secure.Handshake(); err != nil {
		c.Close()
		return nil, fmt.Errorf("the handshake: %w", err)
	}
	return secure, nil
}

func (s *sessions) tls(alpn string) *tls.Config {
	return &tls.Config{RootCAs: s.ca.pool, ServerName: "a", NextProtos: []string{alpn}}
}

// overHTTP2 asks with a client as others use it: what GOAWAY says was not begun it sends again on
// another connection, and nothing else. It asks with four streams at once.
func (s *sessions) overHTTP2(l *load, keep bool) error {
	var opened dialed
	defer opened.close()
	dial := func(context.Context, string, string) (net.Conn, error) { return opened.add(s.dial("h2")) }
	transport := &http.Transport{DialContext: dial, DialTLSContext: dial, Protocols: new(http.Protocols)}
	defer transport.CloseIdleConnections()
	url := "http://a/"
	if s.p.tls {
		url = "https://a/"
		transport.Protocols.SetHTTP2(true)
	} else {
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	failed := make(chan error, 4)
	for range cap(failed) {
		go func() {
			var err error
			for err == nil && !l.over() {
				if err = askHTTP2(transport, url); err == nil {
					l.done.Add(1)
				}
				if !keep {
					break
				}
			}
			failed <- err
		}()
	}
	var all error
	for range cap(failed) {
		all = errors.Join(all, <-failed)
	}
	return all
}

// dialed are the connections of a client. A transport forgets, and never closes, what it dialed for
// a request that another connection has done.
type dialed struct {
	mu    sync.Mutex
	conns []net.Conn
	over  bool
}

func (d *dialed) add(c net.Conn, err error) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case d.over:
		c.Close()
	}
	d.conns = append(d.conns, c)
	return c, nil
}

func (d *dialed) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	for _, c := range d.conns {
		c.Close()
	}
}

func askHTTP2(transport *http.Transport, url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != 200 || answer.ProtoMajor != 2 {
		return fmt.Errorf("%s %s", answer.Proto, answer.Status)
	}
	return nil
}

// overHTTP3 asks on a connection until the gateway rejects a request, or ends the connection in good
// order: then the request was not begun, and another connection may carry it.
func (s *sessions) overHTTP3(l *load, keep bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	q, err := quic.DialAddr(ctx, s.secure, s.tls("h3"), nil)
	if err != nil {
		// A socket of UDP that nobody reads does not refuse: nothing comes back.
		refused, told := errors.AsType[*quic.TransportError](err)
		_, silent := errors.AsType[*quic.IdleTimeoutError](err)
		if silent || told && refused.ErrorCode == quic.ConnectionRefused {
			return fmt.Errorf("the connection was refused: %w", err)
		}
		return err
	}
	defer q.CloseWithError(0x100, "")
	c := &h3{Conn: q, t: l.t}
	if c.control, err = q.OpenUniStream(); err != nil {
		return err
	}
	c.control.Write([]byte("\x00" + frame(codec3.Settings, "")))
	for !l.over() {
		stream, err := q.OpenStreamSync(ctx)
		if err == nil {
			stream.SetDeadline(time.Now().Add(patience))
			st := (&h3stream{Stream: stream, t: l.t}).say(true, frame(codec3.Headers, section(c.request("GET", "/")...)))
			if err = st.read(); err == nil && st.status != 200 {
				err = fmt.Errorf("status %d", st.status)
			}
			if st.status != 0 && err != nil {
				return err // it was begun
			}
		}
		code, ended := errH3(err)
		switch {
		case ended && (code == uint64(codec3.RequestRejected) || code == uint64(codec3.NoError)):
			return nil
		case err != nil:
			return err
		}
		if l.done.Add(1); !keep {
			return nil
		}
	}
	return nil
}
