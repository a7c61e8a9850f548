package gateway

import (
	"net"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer answers every question for an IPv4 address with the same addresses, which hold for no
// time at all, or with a failure.
type nameServer struct {
	conn      net.PacketConn
	mu        sync.Mutex
	addresses []string // none for a failure
}

func newNameServer(t *testing.T, addresses ...string) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{conn: conn, addresses: addresses}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serve()
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return s
}

func (s *nameServer) address() string { return s.conn.LocalAddr().String() }

// set changes the answer.
func (s *nameServer) set(addresses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses = addresses
}

func (s *nameServer) serve() {
	b := make([]byte, 2048)
	for {
		n, from, err := s.conn.ReadFrom(b)
		if err != nil {
			return
		}
		if answer := s.answer(b[:n]); answer != nil {
			s.conn.WriteTo(answer, from)
		}
	}
}

func (s *nameServer) answer(question []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	m.Response, m.Additionals = true, nil
	if len(s.addresses) == 0 {
		m.RCode = dnsmessage.RCodeNameError
	}
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		for _, a := range s.addresses {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
			})
		}
	}
	packed, err := m.Pack()
	if err != nil {
		return nil
	}
	return packed
}
