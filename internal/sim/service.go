package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"plimsoll/internal/sim/kernel"
)

// service is an upstream target. Its answer to a request depends only on the seed and the request's
// token.
type service struct {
	kernel.Service
	w     *world
	plan  ServicePlan
	conns int
	open  []*serviceConn
}

// serviceConn is the service's end of a gateway's connection.
type serviceConn struct {
	line
	arrival  // the request in progress, in HTTP/1.1
	name     string
	r        reader
	first    []byte            // received bytes, until the protocol is known
	knows    bool              // the protocol is known
	http2    *http2ServiceConn // nil unless it speaks HTTP/2
	requests int               // requests received
	begun    bool              // an answer to the request in progress has been chosen
	sending  bool              // parts of it are still to come
	late     bool              // it must not read any more
	resting  bool              // it will continue to read by itself
	pace     *rand.Rand
	over     bool
	tunnel   bool
	talk     *talker // of a WebSocket; otherwise nil
}

func newService(w *world, plan ServicePlan) *service {
	s := &service{w: w, plan: plan}
	s.Accept = func(e *kernel.Endpoint) {
		s.conns++
		c := &serviceConn{
			line: e, arrival: arrival{s: s}, name: fmt.Sprintf("connection %d at %s", s.conns, plan.Address),
			pace: w.scenario.stream(ofPaces, hashOf(plan.Address)<<20|uint64(s.conns)),
		}
		e.Name = c.name
		s.admit(c)
		c.r = reader{requests: true, onHead: c.onHead, onBody: c.goesOn, onEnd: c.onEnd}
		w.upstreamConns++
		if plan.Window > 0 {
			e.Buffers(plan.Window, 1<<30)
		}
		e.Changed = c.changed
		if w.scenario.Gateway.UpstreamTLS {
			var protocols []string
			if plan.HTTP2 != nil {
				protocols = []string{"h2", "http/1.1"}
			}
			c.line = secureServer(w, e, c.changed, protocols...)
		} else if plan.HTTP2 != nil && plan.HTTP2.Eager {
			c.http2 = newHTTP2ServiceConn(c)
			c.http2.greet()
		}
		c.changed()
	}
	return s
}

// admit checks the gateway's limit of connections: for each upstream that has the target, by
// address and by name. A reload makes further upstreams; the connections of old ones end with their
// last exchanges.
func (s *service) admit(c *serviceConn) {
	s.open = slices.DeleteFunc(s.open, func(c *serviceConn) bool { return c.over || c.GivenUp() })
	s.open = append(s.open, c)
	most := 3 * s.w.scenario.Gateway.MaxConnections
	if s.w.scenario.Gateway.Protocols != [3]string{} { // each loop has at least one
		most = max(most, 3*s.w.scenario.Loops)
	}
	if s.w.scenario.Gateway.Named {
		most *= 2
	}
	if s.w.scenario.WebSockets != nil {
		most += 3 * mostSockets
	}
	if !s.w.replaced && len(s.open) > most {
		s.w.violate("%s has %d connections, the pools' bounds allow %d", s.plan.Address,
			len(s.open), most)
	}
}

// idle reports whether no request is in progress.
func (c *serviceConn) idle() bool {
	if c.http2 != nil {
		return c.http2.open == 0
	}
	return c.head == nil && !c.sending && !c.tunnel
}

// restart ends the idle connections, like a service that is restarted. A connection with an answer
// in progress stays: if only the connection's end marks the end of the answer, nobody could see
// that it was cut off.
func (s *service) restart() {
	for _, c := range slices.Clone(s.open) {
		if c.idle() {
			c.close()
		}
	}
}

func (c *serviceConn) changed() {
	w := c.s.w
	if c.over {
		return
	}
	for !c.late && !c.resting {
		most := 1 << 20
		plan := c.s.plan
		if plan.Sip > 0 {
			most = plan.Sip
		}
		p := c.Read(most)
		if len(p) == 0 {
			break
		}
		if len(p) == plan.Sip {
			c.resting = true
			w.kernel.After(between(c.pace, 0, plan.Rest), func() { c.resting = false; c.changed() })
		}
		if !c.knows {
			p = c.findsOut(p)
		}
		var err error
		switch {
		case c.talk != nil && c.tunnel:
			err = c.talk.hear(p)
		case c.tunnel:
			c.Write(p)
		case c.http2 != nil:
			err = c.http2.take(p)
		case len(p) > 0:
			err = c.r.feed(p)
		}
		if err != nil {
			w.violate("%s got what is not a request of its own: %v", c.name, err)
			return
		}
		if c.over {
			return
		}
	}
	if ended, reset := c.Ended(); ended && !c.resting {
		if c.talk != nil && c.tunnel {
			c.heardEnd(reset)
			return
		}
		if c.tunnel {
			c.CloseWrite()
		}
		c.end(c.Close)
	}
}

// findsOut collects a connection's first bytes, and returns them once they show the protocol.
func (c *serviceConn) findsOut(p []byte) []byte {
	p = append(c.first, p...)
	if c.first = p; len(p) < len("PRI") {
		return nil
	}
	c.first, c.knows = nil, true
	isHTTP2 := string(p[:3]) == "PRI"
	if tls, ok := c.line.(*secure); ok && isHTTP2 != (tls.protocol() == "h2") {
		c.s.w.violate("%s begins with %q, agreed was %q", c.name, p[:3], tls.protocol())
	}
	switch {
	case isHTTP2 && c.s.plan.HTTP2 == nil:
		c.s.w.brokenHTTP2 = true
		c.Write([]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
		c.close()
		return nil
	case isHTTP2 && c.http2 == nil:
		c.http2 = newHTTP2ServiceConn(c)
		c.http2.greet()
	}
	return p
}

// end closes the connection in the given manner.
func (c *serviceConn) end(how func()) {
	if !c.over {
		c.over = true
		c.s.w.upstreamConns--
		how()
	}
}

func (c *serviceConn) onHead(h *messageHead) error {
	if c.begun && c.sending || c.head != nil {
		return errors.New("a request comes before the answer to the one before is whole")
	}
	c.begun, c.sending = false, false
	c.s.w.trace("%s gets %s", c.name, h.first)
	if err := c.startsWith(h, false); err != nil {
		return err
	}
	if err := c.countRequest(); err != nil {
		return err
	}
	if c.isHasty() {
		c.answer() // before it has the body
	} else if h.value("expect") != "" {
		switch c.rng.IntN(4) {
		case 0: // it does not know Expect
		case 1:
			c.answer()
		default:
			c.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
		}
	}
	return nil
}

// countRequest checks the limit of requests on the connection.
func (c *serviceConn) countRequest() error {
	w := c.s.w
	most := w.scenario.Gateway.MaxRequests
	if c.requests++; most > 0 && c.requests > most && !w.replaced {
		return fmt.Errorf("%d requests come over it, max_requests is %d", c.requests, most)
	}
	return nil
}

func (c *serviceConn) onEnd(trailers map[string]string) error {
	if err := c.isOver(trailers); err != nil {
		return err
	}
	if !c.begun {
		c.answer()
	} else if !c.sending {
		c.head = nil
	}
	return nil
}

// part is a piece of an answer.
type part struct {
	wait  time.Duration
	bytes []byte
	then  func()
}

// say sends the parts of an answer, one after another.
func (c *serviceConn) say(parts ...part) {
	c.sending = true
	c.next(parts)
}

func (c *serviceConn) next(parts []part) {
	if len(parts) == 0 {
		c.sending = false
		if c.whole {
			c.head = nil
		}
		return
	}
	p := parts[0]
	c.s.w.kernel.After(p.wait, func() {
		if c.over {
			return
		}
		if len(p.bytes) > 0 {
			c.s.w.trace("%s says %.60q, %d bytes", c.name, p.bytes, len(p.bytes))
		}
		c.Write(p.bytes)
		if len(parts) == 1 {
			c.isSaid()
		}
		if p.then != nil {
			p.then()
		}
		if !c.over {
			c.next(parts[1:])
		}
	})
}

func (c *serviceConn) close() { c.end(c.Close) }

// closeBehind closes the connection after a last answer. If it closed while the request's content
// is on its way, there would be a reset, which could destroy the answer (RFC 9112, section 9.6). So
// in quiet scenarios the service reads on until the gateway closes.
func (c *serviceConn) closeBehind() {
	if c.s.w.scenario.Quiet && !c.whole {
		c.CloseWrite()
		return
	}
	c.close()
}

func (c *serviceConn) reset() { c.end(c.Reset) }

// answer decides how to answer the request.
func (c *serviceConn) answer() {
	r := c.rng
	c.begun = true
	wait := between(r, 0, c.s.plan.Slow)
	if c.head.value("upgrade") != "" {
		c.upgrade(wait)
		return
	}
	if behind := c.s.plan.Behind; behind > 0 && r.Float64() < behind {
		c.s.w.asked[c.token].vicious = true
		behindFullRead(c, wait)
		return
	}
	if r.Float64() < c.s.plan.Vices {
		c.s.w.asked[c.token].vicious = true
		v := vices[r.IntN(len(vices))]
		c.s.w.trace("%s is to get %s", c.token, v.name)
		v.apply(c, wait)
		return
	}
	status, size := c.draws()
	c.respond(wait, status, size, r.IntN(12) == 0)
}

// respond sends a good answer.
func (c *serviceConn) respond(wait time.Duration, status, size int, last bool) {
	r := c.rng
	var parts []part
	if r.IntN(12) == 0 && c.head.words[2] == "HTTP/1.1" {
		for range 1 + r.IntN(3) {
			parts = append(parts, part{between(r, 0, time.Millisecond), []byte(hints), nil})
		}
	}
	head := fmt.Sprintf("HTTP/1.1 %d Fine\r\nX-Token: %s\r\nX-Size: %d\r\n", status, c.token, size)
	if last {
		head += "Connection: close\r\n"
	}
	body := noiseOf(c.token + "down")
	bodiless := c.toHEAD() || status == 204 || status == 304
	var end func()
	if last {
		end = c.closeBehind
	}
	switch kind := r.IntN(6); {
	case bodiless:
		if status == 200 && c.toHEAD() {
			head += fmt.Sprintf("Content-Length: %d\r\n", size)
		}
		parts = append(parts, part{wait, []byte(head + "\r\n"), end})
	case kind == 0 && last: // until the end
		parts = append(parts, part{wait, []byte(head + "\r\n"), nil})
		parts = append(parts, c.cut(body.bytes(0, size), end)...)
	case kind <= 2:
		tail := r.IntN(2) == 0
		if tail {
			head += "X-Ends: tail\r\n"
		}
		head += "Transfer-Encoding: chunked\r\n\r\n"
		text := make([]byte, 0, size+400)
		for at := 0; at < size; {
			n := 1 + r.IntN(size-at)
			text = body.append(fmt.Appendf(text, "%x\r\n", n), at, n)
			text = append(text, "\r\n"...)
			at += n
		}
		text = append(text, "0\r\n"...)
		if tail {
			text = fmt.Appendf(text, "X-Tail: %s\r\n", c.token)
		}
		parts = append(parts, part{wait, []byte(head), nil})
		parts = append(parts, c.cut(append(text, "\r\n"...), end)...)
	default:
		head += fmt.Sprintf("Content-Length: %d\r\n\r\n", size)
		if r.IntN(2) == 0 || size == 0 {
			text := append(make([]byte, 0, len(head)+size), head...)
			parts = append(parts, part{wait, body.append(text, 0, size), end})
			break
		}
		parts = append(parts, part{wait, []byte(head), nil})
		parts = append(parts, c.cut(body.bytes(0, size), end)...)
	}
	c.say(parts...)
}

// cut divides a text into pieces.
func (c *serviceConn) cut(text []byte, end func()) (parts []part) {
	pause := between(c.rng, 0, c.s.plan.Slow)
	pieces := 1 + c.rng.IntN(5)
	for i := range pieces {
		from, to := i*len(text)/pieces, (i+1)*len(text)/pieces
		p := part{between(c.rng, 0, pause), text[from:to], nil}
		if i == pieces-1 {
			p.then = end
		}
		parts = append(parts, p)
	}
	return parts
}

// upgrade begins a tunnel in which it echoes what it gets.
func (c *serviceConn) upgrade(wait time.Duration) {
	if c.rng.Float64() < c.s.plan.Vices {
		c.asks().vicious = true
		c.respond(wait, 200, c.rng.IntN(1000), false)
		return
	}
	if c.asks().WebSocket != nil {
		c.beginTalk(wait)
		return
	}
	answer := fmt.Sprintf("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n"+
		"Upgrade: raw-noise\r\nX-Token: %s\r\n\r\n", c.token)
	c.say(part{wait, []byte(answer), func() {
		c.tunnel = true
		if rest := c.r.held; len(rest) > 0 {
			c.Write(rest)
			c.r.held = nil
		}
	}})
}
