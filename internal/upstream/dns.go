package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"plimsoll/internal/crash"
)

const (
	lookupTimeout = 5 * time.Second
	// A TTL is believed within these bounds: zero would be a storm, and a day would outlive the
	// service.
	leastTTL = time.Second
	mostTTL  = 5 * time.Minute
	// staticTTL is for answers that carry none: /etc/hosts and the like.
	staticTTL = 30 * time.Second
	// mostRetry bounds the growing pause between lookups that fail.
	mostRetry = 30 * time.Second
)

// follow keeps the addresses of one configured name up to date. It calls first once, after its
// first lookup.
func (u *Upstream) follow(i int, first func()) {
	defer crash.Guard("in the resolution of an upstream's name")
	// Neither the host nor its place changes after New; what mu guards is what it resolved to.
	host := u.entries[i].addr.Host
	retry := leastTTL
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-u.ctx.Done():
			if first != nil {
				first()
			}
			return
		}
		limited, cancel := context.WithTimeout(u.ctx, lookupTimeout)
		addrs, ttl, err := u.lookup(limited, host)
		cancel()
		if err == nil && len(addrs) == 0 {
			err = errors.New("the name has no address")
		}
		if u.ctx.Err() == nil {
			u.resolved(i, u.env.Now(), addrs, err)
		}
		if first != nil {
			first()
			first = nil
		}
		if err != nil {
			timer.Reset(retry)
			retry = min(2*retry, mostRetry)
			continue
		}
		retry = leastTTL
		timer.Reset(min(max(ttl, leastTTL), mostTTL))
	}
}

// resolved takes an answer over. After a failure the last addresses stay: a name server that is
// down says nothing of the service.
func (u *Upstream) resolved(i int, now int64, addrs []netip.Addr, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	e := &u.entries[i]
	if err != nil {
		if e.err == nil {
			u.log.Warn("name not resolved: keeping the addresses it had", "host", e.addr.Host,
				"addresses", len(e.known), "error", err)
		}
		e.err = err
		return
	}
	if e.err != nil {
		u.log.Info("name resolved again", "host", e.addr.Host)
	}
	e.err, e.at = nil, now
	next := make([]netip.Addr, 0, len(addrs))
	for _, a := range addrs {
		next = append(next, a.Unmap())
	}
	// Sorted, because name servers rotate their answers, and an order that moves would move the
	// hash ring and the round.
	slices.SortFunc(next, netip.Addr.Compare)
	next = slices.Compact(next)
	if len(next) > maxNameAddresses {
		u.log.Warn("name has too many addresses: using the first", "host", e.addr.Host,
			"addresses", len(next), "used", maxNameAddresses)
		next = next[:maxNameAddresses]
	}
	if slices.Equal(next, e.known) {
		return
	}
	u.log.Info("addresses changed", "host", e.addr.Host, "were", e.known, "are", next)
	e.known = next
	u.rebuild(now)
}

// dnsLookup asks for a name's addresses and how long they hold. Go's resolver does the protocol
// (servers, search domains, /etc/hosts, truncation) but hides the TTLs, so they are read from the
// answers as they pass by.
type dnsLookup struct {
	server string // "host:port", or empty for the system's
}

func (d dnsLookup) lookup(ctx context.Context, host string) ([]netip.Addr, time.Duration, error) {
	seen := &ttls{}
	r := net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if d.server != "" {
				address = d.server
			}
			var dialer net.Dialer
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			// The resolver tells datagrams from streams by the type, so each needs a wrapper of its
			// own.
			if udp, ok := c.(*net.UDPConn); ok {
				return &datagrams{UDPConn: udp, seen: seen}, nil
			}
			return &stream{Conn: c, seen: seen}, nil
		},
	}
	addrs, err := r.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, 0, err
	}
	return routable(addrs), seen.least(), nil
}

// routable leaves out the addresses of a family that this machine has no route for, where a name
// has both: half the targets of a dual-stack name would fail in a network without IPv6. Connecting
// a datagram socket asks the kernel and sends nothing.
func routable(addrs []netip.Addr) []netip.Addr {
	var reached []netip.Addr
	for _, a := range addrs {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 9)))
		if err == nil {
			c.Close()
			reached = append(reached, a)
		}
	}
	if len(reached) == 0 {
		return addrs
	}
	return reached
}

// ttls keeps the least TTL of the answers to one lookup, whose questions run at the same time.
type ttls struct {
	mu    sync.Mutex
	some  bool
	value time.Duration
}

func (t *ttls) least() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.some {
		return staticTTL
	}
	return t.value
}

// read looks at one message. What does not parse is the resolver's to refuse.
func (t *ttls) read(message []byte) {
	var p dnsmessage.Parser
	h, err := p.Start(message)
	if err != nil || !h.Response || h.RCode != dnsmessage.RCodeSuccess || p.SkipAllQuestions() != nil {
		return
	}
	for {
		answer, err := p.AnswerHeader()
		if err != nil {
			return
		}
		ttl := time.Duration(answer.TTL) * time.Second
		t.mu.Lock()
		if !t.some || ttl < t.value {
			t.some, t.value = true, ttl
		}
		t.mu.Unlock()
		if p.SkipAnswer() != nil {
			return
		}
	}
}

// datagrams shows each message to ttls.
type datagrams struct {
	*net.UDPConn
	seen *ttls
}

func (c *datagrams) Read(b []byte) (int, error) {
	n, err := c.UDPConn.Read(b)
	if n > 0 {
		c.seen.read(b[:n])
	}
	return n, err
}

// stream shows each message of a TCP connection to ttls: two bytes of length, then the message (RFC
// 1035, 4.2.2).
type stream struct {
	net.Conn
	seen *ttls
	held []byte // at most 64 KB and two bytes, and what one read brought
}

func (c *stream) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.held = append(c.held, b[:n]...)
	for len(c.held) >= 2 {
		end := 2 + int(binary.BigEndian.Uint16(c.held))
		if len(c.held) < end {
			break
		}
		c.seen.read(c.held[2:end])
		c.held = c.held[end:]
	}
	return n, err
}
