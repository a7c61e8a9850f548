package sim

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"plimsoll/internal/sim/kernel"
)

// line is an actor's connection: an end of one, or TLS on top of it.
type line interface {
	Read(most int) []byte
	Waiting() int
	Ended() (ended, reset bool)
	Write(p []byte) int
	Whole()
	CloseWrite()
	Close()
	Reset()
	GivenUp() bool
	PeerSent() int64
}

// secure is TLS on an end of a connection. Its handshake and its reading run on a goroutine,
// because crypto/tls blocks; the actor uses it like the end itself.
type secure struct {
	*kernel.Endpoint
	conn    *tls.Conn
	changed func() // informs the actor, through the kernel's agenda
	more    chan struct{}
	quit    chan struct{}

	mu     sync.Mutex
	in     []byte
	queued []byte // written before the end of the handshake
	ready  bool
	ended  bool
	broken bool
	over   bool
}

// secureClient makes an actor's end speak TLS as a client. changed replaces Endpoint.Changed. The
// client offers the given protocols.
func secureClient(w *world, e *kernel.Endpoint, changed func(), protocols ...string) *secure {
	return newSecure(w, e, changed, func(c net.Conn) *tls.Conn {
		return tls.Client(c, &tls.Config{
			InsecureSkipVerify: true, ServerName: "shop.test", NextProtos: protocols,
		})
	})
}

// secureServer is secureClient for a service.
func secureServer(
	w *world, e *kernel.Endpoint, changed func(), protocols ...string,
) *secure {
	return newSecure(w, e, changed, func(c net.Conn) *tls.Conn {
		return tls.Server(c, &tls.Config{
			Certificates: []tls.Certificate{w.certificate}, NextProtos: protocols,
		})
	})
}

// protocol is the result of ALPN; "" for none. The handshake must be over.
func (s *secure) protocol() string { return s.conn.ConnectionState().NegotiatedProtocol }

func newSecure(
	w *world, e *kernel.Endpoint, changed func(), wrap func(net.Conn) *tls.Conn,
) *secure {
	s := &secure{
		Endpoint: e, changed: func() { w.kernel.After(0, changed) },
		more: make(chan struct{}, 1), quit: make(chan struct{}),
	}
	s.conn = wrap(wire{s})
	e.Changed = s.poke
	w.secured = append(w.secured, s)
	go s.run()
	return s
}

// poke tells the goroutine that something has arrived.
func (s *secure) poke() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

func (s *secure) run() {
	err := s.conn.Handshake()
	if err == nil {
		err = s.begin()
	}
	buf := make([]byte, 16<<10)
	for err == nil {
		var n int
		n, err = s.conn.Read(buf)
		s.mu.Lock()
		s.in = append(s.in, buf[:n]...)
		s.mu.Unlock()
		s.changed()
	}
	s.mu.Lock()
	s.ended, s.broken = true, err != io.EOF
	s.mu.Unlock()
	s.changed()
}

// begin sends what waited for the handshake.
func (s *secure) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = true
	_, err := s.conn.Write(s.queued)
	s.queued = nil
	return err
}

// Read implements line.
func (s *secure) Read(most int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(most, len(s.in))
	p := s.in[:n:n]
	s.in = s.in[n:]
	return p
}

// Waiting implements line.
func (s *secure) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.in)
}

// Ended implements line.
func (s *secure) Ended() (ended, reset bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended && len(s.in) == 0, s.broken
}

// Write implements line.
func (s *secure) Write(p []byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready {
		s.queued = append(s.queued, p...)
	} else if !s.over {
		s.conn.Write(p) // reading will find a failure
	}
	return len(p)
}

// CloseWrite implements line.
func (s *secure) CloseWrite() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready {
		s.conn.CloseWrite()
	}
	s.Endpoint.CloseWrite()
}

// Close implements line. It sends a close_notify first (RFC 8446, section 6.1). Otherwise the peer
// would think that the data was cut off.
func (s *secure) Close() {
	s.end(func() {
		if s.ready {
			s.conn.CloseWrite()
		}
		s.Endpoint.Close()
	})
}

// Reset implements line.
func (s *secure) Reset() { s.end(s.Endpoint.Reset) }

func (s *secure) end(how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.over = true
		how()
		close(s.quit)
	}
}

// wire is the connection under crypto/tls.
type wire struct{ *secure }

func (w wire) Read(p []byte) (int, error) {
	for {
		if b := w.Endpoint.Read(len(p)); len(b) > 0 {
			return copy(p, b), nil
		}
		if ended, reset := w.Endpoint.Ended(); reset {
			return 0, errors.New("reset")
		} else if ended {
			return 0, io.EOF
		}
		select {
		case <-w.more:
		case <-w.quit:
			return 0, net.ErrClosed
		}
	}
}

// Write copies p, because crypto/tls reuses its buffers.
func (w wire) Write(p []byte) (int, error) { return w.Endpoint.Write(bytes.Clone(p)), nil }

func (w wire) Close() error                     { return nil }
func (w wire) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (w wire) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (w wire) SetDeadline(time.Time) error      { return nil }
func (w wire) SetReadDeadline(time.Time) error  { return nil }
func (w wire) SetWriteDeadline(time.Time) error { return nil }

// certify makes the certificate of gateways and services, in the configuration's folder. A bubble's
// time begins in the year 2000.
func (w *world) certify() error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "shop.test"}, DNSNames: []string{"shop.test"},
		NotBefore: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:  time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	w.certificate = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
	for file, block := range map[string]*pem.Block{
		"site.pem": {Type: "CERTIFICATE", Bytes: der},
		"site.key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		text := pem.EncodeToMemory(block)
		if err := os.WriteFile(filepath.Join(w.dir, file), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
