package upstream

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer answers for names over UDP and TCP on one loopback port.
type nameServer struct {
	t       *testing.T
	address string
	udp     net.PacketConn
	tcp     net.Listener
	wg      sync.WaitGroup

	mu    sync.Mutex
	names map[string]zone
}

type zone struct {
	v4, v6   []string
	ttl      uint32
	overTCP  bool // over UDP the answer is cut off
	fails    bool
	alias    string
	aliasTTL uint32
}

func newNameServer(t *testing.T, names map[string]zone) *nameServer {
	t.Helper()
	s := &nameServer{t: t, names: names}
	var err error
	if s.tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.address = s.tcp.Addr().String()
	if s.udp, err = net.ListenPacket("udp", s.address); err != nil {
		t.Fatal(err)
	}
	s.wg.Go(s.serveUDP)
	s.wg.Go(s.serveTCP)
	t.Cleanup(func() { s.udp.Close(); s.tcp.Close(); s.wg.Wait() })
	return s
}

func (s *nameServer) serveUDP() {
	b := make([]byte, 2048)
	for {
		n, from, err := s.udp.ReadFrom(b)
		if err != nil {
			return
		}
		_, _ = s.udp.WriteTo(s.answer(b[:n], false), from)
	}
}

func (s *nameServer) serveTCP() {
	for {
		c, err := s.tcp.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() {
			defer c.Close()
			var length [2]byte
			for {
				if _, err := io.ReadFull(c, length[:]); err != nil {
					return
				}
				q := make([]byte, binary.BigEndian.Uint16(length[:]))
				if _, err := io.ReadFull(c, q); err != nil {
					return
				}
				a := s.answer(q, true)
				_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(a))), a...))
			}
		})
	}
}

func (s *nameServer) answer(query []byte, tcp bool) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		s.t.Error(err)
		return nil
	}
	q, err := p.Question()
	if err != nil {
		s.t.Error(err)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	z, known := s.names[q.Name.String()]
	h = dnsmessage.Header{ID: h.ID, Response: true, RecursionAvailable: true, RecursionDesired: true}
	switch {
	case !known:
		h.RCode = dnsmessage.RCodeNameError
	case z.fails:
		h.RCode = dnsmessage.RCodeServerFailure
	case z.overTCP && !tcp:
		h.Truncated = true
	}
	b := dnsmessage.NewBuilder(nil, h)
	_ = b.StartQuestions()
	_ = b.Question(q)
	_ = b.StartAnswers()
	if known && !h.Truncated && !z.fails {
		name := q.Name
		if z.alias != "" {
			to := dnsmessage.MustNewName(z.alias)
			_ = b.CNAMEResource(dnsmessage.ResourceHeader{Name: name, Class: q.Class, TTL: z.aliasTTL}, dnsmessage.CNAMEResource{CNAME: to})
			name = to
		}
		rh := dnsmessage.ResourceHeader{Name: name, Class: q.Class, TTL: z.ttl}
		if q.Type == dnsmessage.TypeA {
			for _, a := range z.v4 {
				_ = b.AResource(rh, dnsmessage.AResource{A: netip.MustParseAddr(a).As4()})
			}
		} else if q.Type == dnsmessage.TypeAAAA {
			for _, a := range z.v6 {
				_ = b.AAAAResource(rh, dnsmessage.AAAAResource{AAAA: netip.MustParseAddr(a).As16()})
			}
		}
	}
	m, err := b.Finish()
	if err != nil {
		s.t.Error(err)
	}
	return m
}

func TestLookupsLearnTheTTL(t *testing.T) {
	many := make([]string, 60)
	for i := range many {
		many[i] = netip.AddrFrom4([4]byte{127, 0, 1, byte(i)}).String()
	}
	s := newNameServer(t, map[string]zone{
		"one.test.":   {v4: []string{"127.0.0.1"}, ttl: 17},
		"many.test.":  {v4: many, ttl: 42, overTCP: true},
		"alias.test.": {v4: []string{"127.0.0.7"}, ttl: 60, alias: "real.test.", aliasTTL: 5},
		"v6.test.":    {v6: []string{"::1"}, ttl: 9},
		"fails.test.": {fails: true},
		"empty.test.": {},
	})
	for name, want := range map[string]struct {
		addrs int
		ttl   time.Duration
	}{
		"one.test":   {1, 17 * time.Second},
		"many.test":  {60, 42 * time.Second},
		"alias.test": {1, 5 * time.Second},
		"v6.test":    {1, 9 * time.Second},
		"fails.test": {}, "empty.test": {}, "unknown.test": {},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		addrs, ttl, err := dnsLookup{server: s.address}.lookup(ctx, name+".")
		cancel()
		if len(addrs) != want.addrs || ttl != want.ttl || (err == nil) != (want.addrs > 0) {
			t.Errorf("%s: %d addresses for %v, error %v; want %d for %v", name, len(addrs), ttl, err, want.addrs, want.ttl)
		}
	}
}

func TestANameOfTheHostsFileNeedsNoTTL(t *testing.T) {
	s := newNameServer(t, nil)
	addrs, ttl, err := dnsLookup{server: s.address}.lookup(t.Context(), "localhost")
	if err != nil || ttl != staticTTL {
		t.Fatalf("%v for %v, error %v", addrs, ttl, err)
	}
	if !slices.ContainsFunc(addrs, netip.Addr.IsLoopback) {
		t.Errorf("localhost is %v", addrs)
	}
}

func TestAddressesOfANameBecomeTargets(t *testing.T) {
	s := newNameServer(t, map[string]zone{"users.test.": {v4: []string{"127.0.0.2", "127.0.0.1"}, ttl: 60}})
	w := newWorld(t, 1)
	e := w.env()
	e.Resolver = s.address
	u, err := New("users", DefaultOptions("users.test.:8080"), e)
	if err != nil {
		t.Fatal(err)
	}
	u.Start()
	defer u.Close()
	st := u.Status()
	if len(st.Targets) != 2 || st.Targets[0].Address != "127.0.0.1:8080" || st.Targets[1].Address != "127.0.0.2:8080" {
		t.Fatalf("the targets are %+v", st.Targets)
	}
	if a := u.set.Load().targets[0].Address(); a.Authority() != "users.test.:8080" {
		t.Errorf("its authority is %q", a.Authority())
	}
}

func TestAnUpstreamWhoseNamesDoNotResolveStillStarts(t *testing.T) {
	s := newNameServer(t, nil)
	w := newWorld(t, 1)
	e := w.env()
	e.Resolver = s.address
	u, err := New("users", DefaultOptions("nowhere.test.:80"), e)
	if err != nil {
		t.Fatal(err)
	}
	u.Start()
	defer u.Close()
	if m, why := u.Local(0).Pick(w.now, 0, nil); m != nil || why != NoTargets {
		t.Errorf("Pick says %v, %v", m, why)
	}
	if names := u.Status().Names; len(names) != 1 || names[0].Host != "nowhere.test." || names[0].Error == "" {
		t.Errorf("the status of its names is %+v", names)
	}
}
