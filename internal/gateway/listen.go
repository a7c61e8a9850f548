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

// listener is an address on which every loop accepts clients. It lives as long as its address is in
// the config. A reload may change its other settings.
type listener struct {
	address string
	bound   reactor.Address // the address with the port chosen by the kernel for port 0
	// Bound sockets, at least one for each loop; -1 for one on which a loop could not listen.
	fds       []int
	acceptors []*proxy.Acceptor
	open      []*reactor.Listener // one for each of fds; written and used on their loops
	quota     *proxy.Quota
	udp       *udpSocket     // for HTTP/3, until quic has it; nil for none
	quic      *http3Endpoint // that accepts connections of HTTP/3; nil for none
	handing   *quicio.Pipe   // to a new process that may take quic's socket; nil for none
	announced bool           // clients were told of HTTP/3, by this process or the previous one
	config    config.Listener
	tls       *listenerTLS
	accepting atomic.Bool // it accepts on every loop
}

// listenerTLS is the state of a listener's TLS that is not part of a tls.Config, and what ends with
// it.
type listenerTLS struct {
	store   *tlsio.Store
	tickets *tlsio.Tickets
	limiter *tlsio.HandshakeLimiter
	stop    context.CancelFunc // of the certificates' watch
}

// extensionBytes is the most bytes of chunk extensions in one request body. They are not used in
// practice, so this is not configurable.
const extensionBytes = 4 << 10

// compileListener makes what the data plane needs to know about a listener. before is the listener
// of the same address in the previous config, or nil.
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

// protocols are the protocols of a TLS listener, the preferred one first.
func protocols(c config.Listener) []string {
	if c.OffersHTTP2() {
		return []string{"h2", "http/1.1"}
	}
	return []string{"http/1.1"}
}

// carryOver takes over what has not changed: clients' tickets stay valid over a reload, and
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

// watchCertificates watches the files of a listener's certificates.
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

// bind makes the sockets of a listener: those that the previous process handed over, and new ones
// until each loop has its own. The first new one must find the port unused by other programs,
// unless one of our own listeners, or the previous process, has it.
//
// HTTP/3 has the UDP port of the same number. If the kernel chooses the TCP port, that UDP port may
// be in use; then bind tries again with another port.
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

// portDraws is how many ports are tried until one is free for both TCP and UDP.
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
		// The port for port 0 is chosen once; every loop then uses it.
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

// sharesPort reports whether sockets of this gateway, or of the previous process, may be bound to
// the same port.
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

// putListener gives the loops what is new about a listener: how it treats clients from now on and,
// the first time, its sockets. All loops get the settings before any gets a socket, because loops
// hand new connections to each other.
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
					l.fds[k] = -1 // it is closed, and its number may soon be reused
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

// closeListener stops accepting. keep says that another process goes on with the same sockets.
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

// warnBacklog logs a warning if the kernel limits the accept queue to less than the config asks
// for.
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
