package gateway

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"plimsoll/internal/config"
	"plimsoll/internal/http3"
	"plimsoll/internal/proxy"
	"plimsoll/internal/quicio"
	"plimsoll/internal/reactor"
)

// http3Endpoint is where a listener accepts connections of HTTP/3.
type http3Endpoint struct {
	*quicio.Endpoint
	turn  atomic.Uint32 // which loop gets the next connection
	bound netip.AddrPort
	// Under the lock of http3Endpoints:
	leaving bool // accepts no more connections
	given   bool // its socket has been given to another endpoint or process
}

// udpSocket is a socket for HTTP/3 that has no endpoint yet.
type udpSocket struct {
	*quicio.Socket
	from *http3Endpoint // that still reads it; nil for none of this process
	pipe *quicio.Pipe   // to from
}

// http3Endpoints are all endpoints of a gateway, including those that accept no more connections
// and wait for the end of their existing ones.
type http3Endpoints struct {
	mu   sync.Mutex
	open map[*http3Endpoint]bool
}

func (s *http3Endpoints) add(e *http3Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*http3Endpoint]bool{}
	}
	s.open[e] = true
}

func (s *http3Endpoints) remove(e *http3Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, e)
}

// close closes all endpoints and their connections.
func (s *http3Endpoints) close() {
	s.mu.Lock()
	var all []*http3Endpoint
	for e := range s.open {
		all = append(all, e)
	}
	s.mu.Unlock()
	for _, e := range all {
		e.Close()
	}
}

// handshakes is how many handshakes are under way at all endpoints.
func (s *http3Endpoints) handshakes() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.open {
		n += e.Stats().Handshakes
	}
	return n
}

// leave records that an endpoint accepts no more connections.
func (s *http3Endpoints) leave(e *http3Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.leaving = true
}

// give lets another process or endpoint read an endpoint's socket.
func (s *http3Endpoints) give(e *http3Endpoint, pipe *quicio.Pipe) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.given = true
	e.TakenOver(pipe)
}

// leaves returns the endpoint that accepts no more connections but still has the socket of an
// address, or nil.
func (s *http3Endpoints) leaves(bound netip.AddrPort) *http3Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.open {
		if e.leaving && !e.given && e.bound == bound {
			return e
		}
	}
	return nil
}

// udpPrefix is the prefix of the names of UDP sockets among those that a process hands over.
const udpPrefix = "udp:"

// bindUDP makes the socket for HTTP/3 of a listener that is bound to an address.
//
// The previous process may have handed it over, or an endpoint of this process that ends with its
// last connection may still have it.
func (g *Gateway) bindUDP(name string, bound reactor.Address) (s *udpSocket, err error) {
	s = &udpSocket{}
	if fds := g.inherited.take(udpPrefix + name); len(fds) == 2 {
		s.Socket, err = quicio.Inherit(fds[0], fds[1])
	} else if s.from = g.quic.leaves(bound.IP); s.from != nil {
		var socket, end int
		if socket, end, s.pipe, err = s.from.Successor(); err == nil {
			s.Socket, err = quicio.Inherit(socket, end)
		}
	} else {
		s.Socket, err = quicio.Bind(bound.IP)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("http3 of %s: %w; free the UDP port, or remove http3", name, err)
	}
	return s, nil
}

// Close closes the socket, which no endpoint has begun to read.
func (s *udpSocket) Close() {
	if s.pipe != nil {
		s.pipe.Close()
	}
	if s.Socket != nil {
		s.Socket.Close()
	}
}

// altSvcAge is for how long clients remember the address of HTTP/3.
const altSvcAge = 24 * time.Hour

// altSvcClear makes clients forget the address of HTTP/3 (RFC 7838, section 3).
var altSvcClear = []byte("clear")

// altSvc is the value of Alt-Svc in responses over TCP; nil for none. Clients that were told of
// HTTP/3 would go on trying it for altSvcAge, so a listener that no longer has HTTP/3 sends "clear"
// as long as it lives.
func (l *listener) altSvc(c config.Listener) []byte {
	switch {
	case !c.HTTP3 && l.announced:
		return altSvcClear
	case !c.HTTP3 || c.AltSvc == config.AltSvcOff:
		return nil
	}
	l.announced = true
	if c.AltSvc != "" {
		return []byte(c.AltSvc)
	}
	return fmt.Appendf(nil, `%s=":%d"; ma=%d`, http3.ALPN, l.bound.IP.Port(), int(altSvcAge.Seconds()))
}

// putHTTP3 starts, changes or ends HTTP/3 on a listener, as the config says.
func (g *Gateway) putHTTP3(l *listener, p *proxy.Listener, c config.Listener) error {
	if !c.HTTP3 || g.simulated() {
		g.closeHTTP3(l)
		return nil
	}
	cfg := p.TLS.Clone()
	cfg.NextProtos = []string{http3.ALPN}
	settings := quicio.Settings{
		TLS: cfg, EarlyData: c.EarlyData, Handshake: time.Duration(c.TLS.HandshakeTimeout),
		MaxHandshakes: c.TLS.MaxHandshakes,
	}
	if l.quic != nil {
		l.quic.Update(settings)
		return nil
	}
	e := &http3Endpoint{bound: l.bound.IP}
	from, pipe := l.udp.from, l.udp.pipe
	var err error
	e.Endpoint, err = quicio.Listen(quicio.Options{
		Socket: l.udp.Socket,
		Serve: func(q *quic.Conn) {
			proxy.ServeHTTP3(l.acceptors[int(e.turn.Add(1))%len(l.acceptors)], q)
		},
	}, settings)
	l.udp = nil
	if err != nil {
		if pipe != nil {
			pipe.Close()
		}
		return fmt.Errorf("http3 of %s: %w", l.address, err)
	}
	l.quic = e
	g.quic.add(e)
	if got := e.Shortage(); got > 0 {
		g.log.Warn("the kernel limits what waits to be read over UDP: raise net.core.rmem_max",
			"listener", l.address,
			"bytes", got, "command", "sysctl -w net.core.rmem_max=7500000")
	}
	if from != nil {
		g.quic.give(from, pipe)
	}
	return nil
}

// closeHTTP3 makes a listener accept no more HTTP/3 connections. The existing connections end after
// their requests under way, and the socket is closed with the last of them. In a drain the socket
// stays open until the process ends, so that new clients are refused at once instead of having to
// time out.
func (g *Gateway) closeHTTP3(l *listener) {
	e := l.quic
	if e == nil {
		return
	}
	l.quic = nil
	g.quic.leave(e)
	e.Refuse()
	for i, loop := range g.loops {
		g.call(loop, func() { g.workers[i].LeaveHTTP3(l.acceptors[i]) })
	}
	if g.State() == Draining {
		return
	}
	go func() {
		e.Finish()
		g.quic.remove(e)
	}()
}

// handoverHTTP3 returns a listener's part of handover for its UDP socket: the files of the socket
// and of a pipe, and the text that describes them. first is the descriptor number of the first file
// in the new process.
func (g *Gateway) handoverHTTP3(l *listener, first int) (files []*os.File, part string, err error) {
	socket, end, pipe, err := l.quic.Successor()
	if err != nil {
		return nil, "", err
	}
	if l.handing != nil {
		l.handing.Close() // left by an upgrade that failed
	}
	l.handing = pipe
	name := udpPrefix + l.address
	files = []*os.File{os.NewFile(uintptr(socket), name), os.NewFile(uintptr(end), name)}
	return files, name + "=" + strconv.Itoa(first) + "," + strconv.Itoa(first+1), nil
}

// giveHTTP3 lets the process that took over read a listener's UDP socket, if it took the socket.
func (g *Gateway) giveHTTP3(l *listener, next *successor) {
	pipe := l.handing
	l.handing = nil
	switch {
	case pipe == nil:
	case l.quic != nil && next.has(udpPrefix+l.address):
		g.quic.give(l.quic, pipe)
	default:
		pipe.Close()
	}
}
