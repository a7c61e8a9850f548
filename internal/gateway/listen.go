package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/http1"
	"plimsoll/internal/http2"
	"plimsoll/internal/policy/forwarded"
	"plimsoll/internal/proxy"
	"plimsoll/internal/quicio"
	"plimsoll/internal/reactor"
	"plimsoll/internal/tlsio"
)

// listener is an address that accepts clients, on every loop. It lives as long as its address is in
// the config; what else the config says of it may change under it.
type listener struct {
	address string
	bound   reactor.Address // the same with the port that was drawn for port 0
	// Bound sockets, at least one for each loop; -1 for one on which a loop could not listen.
	fds       []int
	acceptors []*proxy.Acceptor
	open      []*reactor.Listener // one for each of fds; written and used on their loops
	quota     *proxy.Quota
	udp       *udpSocket     // for HTTP/3, until quic has it; nil for none
	quic      *http3Endpoint // that accepts connections of HTTP/3; nil for none
	handing   *quicio.Pipe   // to a new process that may take quic's socket; nil for none
	announced bool           // clients were told of HTTP/3, by this process or the one before
	config    config.Listener
	tls       *listenerTLS
	accepting atomic.Bool // on every loop
}

// listenerTLS is what a listener's TLS needs beyond one config, and what ends with it.
type listenerTLS struct {
	store   *tlsio.Store
	tickets *tlsio.Tickets
	limiter *tlsio.HandshakeLimiter
	stop    context.CancelFunc // of the certificates' watch
}

// extensionBytes bounds the chunk extensions in one request body. Nobody uses them, so this is not
// configured.
const extensionBytes = 4 << 10

// compile makes what the data plane needs to know of a listener. before is the listener of the same
// address in the config before, or nil.
func (g *Gateway) compileListener(
	c config.Listener, before *listener,
) (*proxy.Listener, *listenerTLS, error) {
	if line, head := int(c.Limits.RequestLine), int(c.Limits.HeaderBytes); line+head > proxy.MaxHead {
		return nil, nil, fmt.Errorf("limits: request_line and header_bytes together are %d "+
			"bytes; a head may have %d at most: lower one of them",
			line+head, proxy.MaxHead)
	}
	trust, err := forwarded.NewTrust(c.TrustedProxies)
	if err != nil {
		return nil, nil, fmt.Errorf("trusted_proxies: %w", err)
	}
	if len(c.TrustedProxies) == 0 {
		trust = nil
	}
	p := &proxy.Listener{
		Name: c.Address, Trust: trust,
		Head: http1.Limits{Line: int(c.Limits.RequestLine), Head: int(c.Limits.HeaderBytes),
			Fields:    c.Limits.HeaderCount,
			Extension: extensionBytes},
		HeadTimeout: int64(c.Limits.HeadTimeout), IdleTimeout: int64(c.Limits.IdleTimeout),
		SendTimeout: int64(c.Limits.SendTimeout), PingAfter: int64(c.Limits.PingAfter),
		MinBodyRate: int64(c.Limits.MinBodyRate), MaxRequests: uint32(c.Limits.MaxRequests),
		OffersHTTP2: c.OffersHTTP2(),
		HTTP2: http2.Limits{
			Path: int(c.Limits.RequestLine), Fields: c.Limits.HeaderCount,
			Head: int(c.Limits.HeaderBytes) + c.Limits.HeaderCount*fieldOverhead,
		},
	}
	if c.TLS == nil {
		return p, nil, nil
	}
	t, err := g.compileTLS(c, p, before)
	if err != nil {
		return nil, nil, fmt.Errorf("tls: %w", err)
	}
	return p, t, nil
}

func (g *Gateway) compileTLS(c config.Listener, p *proxy.Listener, before *listener) (*listenerTLS, error) {
	pairs := make([]tlsio.Pair, len(c.TLS.Certificates))
	for i, cert := range c.TLS.Certificates {
		pairs[i] = tlsio.Pair{Cert: cert.Cert, Key: cert.Key}
	}
	store, err := tlsio.NewStore(pairs)
	if err != nil {
		return nil, err
	}
	t := &listenerTLS{store: store}
	if *c.TLS.SessionTickets {
		t.tickets = tlsio.NewTickets(time.Duration(c.TLS.TicketRotation), reactor.Clock())
	}
	t.limiter = tlsio.NewHandshakeLimiter(c.TLS.MaxHandshakes, c.TLS.MaxHandshakes)
	if before != nil && before.tls != nil {
		t.carryOver(c.TLS, before)
	}
	p.TLS, err = tlsio.ServerConfig(tlsio.ServerOptions{
		Store: store, MinVersion: c.TLS.MinVersion, ClientAuth: c.TLS.ClientAuth, ClientCA: c.TLS.ClientCA,
		ALPN: protocols(c), Tickets: t.tickets,
	})
	if err != nil {
		return nil, err
	}
	p.Handshake, p.Limiter = int64(c.TLS.HandshakeTimeout), t.limiter
	return t, nil
}

// fieldOverhead is what HTTP/2 adds for each field when it says how large a head may be (RFC 9113,
// section 6.5.2).
const fieldOverhead = 32

// protocols are what a TLS listener speaks, the preferred first.
func protocols(c config.Listener) []string {
	if c.OffersHTTP2() {
		return []string{"h2", "http/1.1"}
	}
	return []string{"http/1.1"}
}

// carryOver takes over what did not change: tickets that clients hold stay good over a reload, and
// handshakes under way count towards the bound.
func (t *listenerTLS) carryOver(c *config.ListenerTLS, before *listener) {
	was := before.config.TLS
	if t.tickets != nil && before.tls.tickets != nil && was.TicketRotation == c.TicketRotation {
		t.tickets = before.tls.tickets
	}
	if was.MaxHandshakes == c.MaxHandshakes {
		t.limiter = before.tls.limiter
	}
}

// watch follows the files of a listener's certificates.
func (g *Gateway) watchCertificates(address string, t *listenerTLS) {
	ctx, cancel := context.WithCancel(context.Background())
	t.stop = cancel
	if g.simulated() {
		return
	}
	go t.store.Watch(ctx, time.Minute, func(err error) {
		if err != nil {
			g.log.Error("certificates were not read again; the old ones go on", "listener", address,
				"error", err)
			return
		}
		g.log.Info("certificates were read again", "listener", address)
	})
}

// bind makes the sockets of a listener: those that the process before this one handed over, and new
// ones until each loop has its own. The very first must find the port free of other programs,
// unless one of our own listeners, or the process before, has it.
//
// HTTP/3 has the UDP port of the same number. One that the kernel draws may be taken there; then
// another is drawn.
func (g *Gateway) bind(c config.Listener) (*listener, error) {
	for tries := 1; ; tries++ {
		l, err := g.bindTCP(c)
		if err != nil || !c.HTTP3 || g.simulated() {
			return l, err
		}
		if l.udp, err = g.bindUDP(c.Address, l.bound); err == nil {
			return l, nil
		}
		l.closeSockets()
		if !strings.HasSuffix(c.Address, ":0") || tries == portDraws {
			return nil, err
		}
	}
}

// portDraws is how many ports are drawn until one is free for both TCP and UDP.
const portDraws = 16

func (g *Gateway) bindTCP(c config.Listener) (*listener, error) {
	l := &listener{address: c.Address, quota: &proxy.Quota{}, config: c,
		announced: len(g.inherited.fds[udpPrefix+c.Address]) > 0}
	address, err := listenAddress(c.Address)
	if err != nil {
		return nil, err
	}
	l.fds = g.inherited.take(c.Address)
	listen := reactor.BindFirst
	if g.sharesPort(address) {
		listen = reactor.BindListener
	}
	for len(l.fds) < len(g.loops) {
		fd, err := listen(address, c.Backlog)
		listen = reactor.BindListener
		if err != nil {
			l.closeSockets()
			return nil, err
		}
		l.fds = append(l.fds, fd)
		// Port 0 is drawn once, then every loop has the same.
		if address, err = reactor.LocalAddress(fd); err != nil {
			l.closeSockets()
			return nil, err
		}
	}
	l.bound = address
	l.open = make([]*reactor.Listener, len(l.fds))
	for i := range g.loops {
		l.acceptors = append(l.acceptors, &proxy.Acceptor{Worker: g.workers[i]})
	}
	for _, a := range l.acceptors {
		a.Peers = l.acceptors
	}
	g.warnBacklog(c)
	return l, nil
}

// sharesPort says whether sockets of this gateway, or of the process before it, may be bound to the
// same port.
func (g *Gateway) sharesPort(address reactor.Address) bool {
	if g.inherited.any {
		return true
	}
	for _, l := range g.listeners {
		if l.bound.IP.Port() == address.IP.Port() {
			return true
		}
	}
	return false
}

func (l *listener) closeSockets() {
	for _, fd := range l.fds {
		reactor.Socket{FD: fd}.Close()
	}
	if l.udp != nil {
		l.udp.Close()
		l.udp = nil
	}
}

// listenAddress reads an address that may have no host: then it means every address of the machine,
// IPv4 and IPv6.
func listenAddress(text string) (reactor.Address, error) {
	if strings.HasPrefix(text, ":") {
		text = "[::]" + text
	}
	if host, port, ok := strings.Cut(text, ":"); ok && host == "localhost" {
		text = "127.0.0.1:" + port
	}
	a, err := reactor.ParseAddress(text)
	if err != nil {
		return a, fmt.Errorf("listen: %w", err)
	}
	if a.Path == "" && a.IP.Addr() == netip.IPv6Unspecified() && !ipv6Available() {
		a.IP = netip.AddrPortFrom(netip.IPv4Unspecified(), a.IP.Port())
	}
	return a, nil
}

func ipv6Available() bool {
	_, err := os.Stat("/proc/sys/net/ipv6")
	return err == nil || runtime.GOOS != "linux"
}

// putListener has the loops take what is new of a listener: how it treats clients from now on and,
// the first time, its sockets. All know the first before any has the second, because a loop hands
// fresh connections to others.
func (g *Gateway) putListener(l *listener, p *proxy.Listener, c config.Listener, t *listenerTLS,
	first bool) error {
	if l.tls != nil && l.tls.stop != nil {
		l.tls.stop()
	}
	l.config, l.tls = c, t
	if t != nil {
		g.watchCertificates(l.address, t)
	}
	l.quota.Limit(c.Limits.MaxConnections, c.Limits.MaxConnectionsPerAddress)
	p.Quota = l.quota
	p.HTTP3, p.AltSvc = c.HTTP3, l.altSvc(c)
	for i, loop := range g.loops {
		g.call(loop, func() { l.acceptors[i].Listener = p })
	}
	var failed []error
	if err := g.putHTTP3(l, p, c); err != nil {
		failed = append(failed, err)
	}
	if !first {
		return errors.Join(failed...)
	}
	for i, loop := range g.loops {
		g.call(loop, func() {
			for k := i; k < len(l.fds); k += len(g.loops) {
				ln, err := loop.Listen(l.fds[k], l.acceptors[i])
				if err != nil {
					l.fds[k] = -1 // it is closed, and its number may soon be another's
					failed = append(failed, fmt.Errorf("listen on %s: %w", l.address, err))
					continue
				}
				l.open[k] = ln
			}
		})
	}
	l.accepting.Store(failed == nil)
	return errors.Join(failed...)
}

// sockets are the sockets that the loops listen on.
func (l *listener) sockets() []int {
	return slices.DeleteFunc(slices.Clone(l.fds), func(fd int) bool { return fd < 0 })
}

// closeListener stops accepting. With keep another process goes on with the same sockets.
func (g *Gateway) closeListener(l *listener, keep bool) {
	l.accepting.Store(false)
	if l.tls != nil && l.tls.stop != nil {
		l.tls.stop()
	}
	for i, loop := range g.loops {
		g.call(loop, func() {
			l.acceptors[i].Closed = true
			l.acceptors[i].Leave()
			for k := i; k < len(l.fds); k += len(g.loops) {
				if l.open[k] != nil {
					l.open[k].Close(keep)
				}
			}
		})
	}
	g.closeHTTP3(l)
}

// warnBacklog says so when the kernel cuts the accept queue that the config asks for.
func (g *Gateway) warnBacklog(c config.Listener) {
	text, err := os.ReadFile("/proc/sys/net/core/somaxconn")
	if err != nil {
		return
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err == nil && most < c.Backlog {
		g.log.Warn("the kernel cuts the accept queue: raise net.core.somaxconn", "listener",
			c.Address, "backlog", c.Backlog,
			"somaxconn", most, "command", fmt.Sprintf("sysctl -w net.core.somaxconn=%d", c.Backlog))
	}
}
