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
	// TTLs are limited to these bounds: one of zero would cause a storm of lookups, and one of a
	// day may outlive the service.
	leastTTL = time.Second
	mostTTL  = 5 * time.Minute
	// staticTTL is the TTL of answers that carry none, such as those from /etc/hosts.
	staticTTL = 30 * time.Second
	// mostRetry bounds the pause between lookups that fail, which doubles each time.
	mostRetry = 30 * time.Second
)

// follow keeps the addresses of the configured name at the index i up to date. It calls first once,
// after its first lookup. It returns when the upstream is closed.
func (u *Upstream) follow(i int, first func()) {
	defer crash.Guard("in the resolution of an upstream's name")
	// Neither the host nor its index changes after New. mu guards only what it resolved to.
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

// resolved takes over the result of a lookup. After a failure the last addresses stay in use: a
// name server that is down says nothing about the service.
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
	// Sort them: name servers rotate their answers, and a changing order would change the hash ring
	// and the order of the round robin.
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

// dnsLookup looks up the addresses of a name and how long they hold. Go's resolver does the
// protocol (servers, search domains, /etc/hosts, truncation) but hides the TTLs, so its connections
// are wrapped, and the TTLs read from the answers that pass through.
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
			// The resolver tells datagrams from streams by the type of the connection, so each
			// needs a wrapper type of its own.
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

// routable returns the addresses to which this machine has a route, or all of them if it has none.
// Otherwise half the targets of a dual-stack name would fail in a network without IPv6. Connecting
// a datagram socket asks the kernel for a route and sends nothing.
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

// ttls keeps the least TTL of the answers to one lookup. A mutex guards it, because the queries of
// a lookup run concurrently.
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

// read takes the TTLs from one message. It ignores what does not parse: the resolver refuses that.
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
	held []byte // at most 64 KB and two bytes, plus what one Read returned
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
