package tlsio_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"testing"

	"plimsoll/internal/tlsio"
)

// traffic is how many bytes a handshake of the site takes each way, seen from the server.
func traffic(t *testing.T, s *site, client *tls.Config) (in, out int) {
	const plenty = 1 << 30
	p, near, far := connect(tlsio.NewLoop(), true, s.server, client, func(k *socket) { k.inMax, k.outMax = plenty, plenty })
	if near != nil || far != nil {
		t.Fatal(near, far)
	}
	return plenty - p.sock.inMax, plenty - p.sock.outMax
}

// stages are byte counts at which a handshake of total bytes is stopped.
func stages(total int) []int {
	s := []int{0, 1, 4, 5, 6}
	for n := 50; n < total; n += 97 {
		s = append(s, n)
	}
	// The length of an ECDSA signature varies by a few bytes.
	return append(s, total-12)
}

// stall runs a handshake that stops after the given bytes in or out (-1 for no stop), and ends it
// by f.
func stall(s *site, client *tls.Config, in, out int, f func(p *pair)) error {
	sock, link := newLink()
	sock.inMax, sock.outMax = in, out
	p := &pair{sock: sock, link: link, conn: tlsio.NewServer(sock, s.server, tlsio.NewLoop()), far: tls.Client(link, client)}
	sock.rx.tell, sock.wake = p.conn.Wake, p.conn.Wake
	far := make(chan error, 1)
	go func() { far <- p.far.Handshake() }()
	near := make(chan error, 1)
	go func() { near <- p.conn.Handshake() }()
	var err error
	select {
	case <-sock.stuck:
		f(p)
		err = <-near
	case err = <-near:
		err = fmt.Errorf("ended before its stage: %w", err)
	}
	link.Close()
	<-far
	return err
}

func TestAbortEndsTheHandshakeAtEveryStage(t *testing.T) {
	s := newSite(t)
	versions(t, func(t *testing.T, v uint16) {
		client := s.capped(v)
		in, out := traffic(t, s, client)
		abort := func(p *pair) { p.conn.Abort() }
		for _, n := range stages(in) {
			if err := stall(s, client, n, -1, abort); err != tlsio.ErrAborted {
				t.Errorf("after %d of %d bytes received: %v", n, in, err)
			}
		}
		for _, n := range stages(out) {
			if err := stall(s, client, -1, n, abort); err != tlsio.ErrAborted {
				t.Errorf("after %d of %d bytes sent: %v", n, out, err)
			}
		}
	})
}

func TestAbortBeforeTheHandshake(t *testing.T) {
	s := newSite(t)
	sock, _ := newLink()
	c := tlsio.NewServer(sock, s.server, tlsio.NewLoop())
	c.Abort()
	if err := c.Handshake(); err != tlsio.ErrAborted {
		t.Fatal(err)
	}
}

func TestPeerThatVanishesEndsTheHandshakeAtEveryStage(t *testing.T) {
	s := newSite(t)
	versions(t, func(t *testing.T, v uint16) {
		client := s.capped(v)
		in, _ := traffic(t, s, client)
		for _, n := range stages(in) {
			err := stall(s, client, n, -1, func(p *pair) {
				p.sock.cut.Store(true)
				p.conn.Wake()
			})
			if err == nil || errors.Is(err, tlsio.ErrAborted) {
				t.Errorf("after %d of %d bytes: %v", n, in, err)
			}
		}
	})
}
