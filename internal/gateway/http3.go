package gateway

import (
	"fmt"
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
	turn atomic.Uint32 // which loop is the next one's
}

// http3Endpoints are all of a gateway, those too that accept no more and wait for the connections
// that they have.
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

// close ends them all, and what connections they have.
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

// bindUDP makes the socket for HTTP/3 of a listener that is bound to an address.
func (g *Gateway) bindUDP(name string, bound reactor.Address) (*quicio.Socket, error) {
	s, err := quicio.Bind(bound.IP)
	if err != nil {
		return nil, fmt.Errorf("http3 of %s: %w; free the UDP port, or remove http3", name, err)
	}
	return s, nil
}

// altSvcAge is for how long clients remember where HTTP/3 is.
const altSvcAge = 24 * time.Hour

// altSvc is what responses over TCP say of HTTP/3; nil for nothing.
func altSvc(c config.Listener, bound reactor.Address) []byte {
	switch {
	case !c.HTTP3 || c.AltSvc == config.AltSvcOff:
		return nil
	case c.AltSvc != "":
		return []byte(c.AltSvc)
	}
	return fmt.Appendf(nil, `%s=":%d"; ma=%d`, http3.ALPN, bound.IP.Port(), int(altSvcAge.Seconds()))
}

// putHTTP3 makes a listener accept HTTP/3, changes how it does, or ends it, as the config says.
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
	e := &http3Endpoint{}
	var err error
	e.Endpoint, err = quicio.Listen(quicio.Options{
		Socket: l.udp,
		Serve: func(q *quic.Conn) {
			proxy.ServeHTTP3(l.acceptors[int(e.turn.Add(1))%len(l.acceptors)], q)
		},
	}, settings)
	l.udp = nil
	if err != nil {
		return fmt.Errorf("http3 of %s: %w", l.address, err)
	}
	l.quic = e
	g.quic.add(e)
	return nil
}

// closeHTTP3 has a listener accept no more connections of HTTP/3. Those that there are end after what
// they are at, and the socket with the last of them.
func (g *Gateway) closeHTTP3(l *listener) {
	e := l.quic
	if e == nil {
		return
	}
	l.quic = nil
	for i, loop := range g.loops {
		g.call(loop, func() { g.workers[i].LeaveHTTP3(l.acceptors[i]) })
	}
	go func() {
		e.Finish()
		g.quic.remove(e)
	}()
}
