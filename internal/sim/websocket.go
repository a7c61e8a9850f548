package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Some clients ask for a WebSocket, over HTTP/1.1 or as one of the streams of an HTTP/2 connection
// (RFC 8441). Both sides belong to the simulation (talker.go), so each frame that arrives can be
// compared with what the other side has sent.

// WebSocketPlan is the setup of the route for WebSockets. 0 means no limit.
type WebSocketPlan struct {
	Tunnel, Grace  time.Duration
	Ping, Lifetime time.Duration `json:",omitempty"`
	MaxMessage     int           `json:",omitempty"` // bytes
	Max            int           `json:",omitempty"` // simultaneously open
}

// SocketPlan is a request for a WebSocket.
type SocketPlan struct {
	Client, Service TalkPlan
	Early           bool `json:",omitempty"` // over HTTP/2 the client does not wait for the answer
}

// TalkPlan is what one side of a WebSocket sends, and how it leaves.
type TalkPlan struct {
	Messages int
	Longest  int           // longest message in bytes
	Pause    time.Duration // the longest time between messages
	Finale   string        // what it does after its messages, see finales
	Mute     bool          `json:",omitempty"` // it answers neither pings nor close frames
}

// finales are what a side does after its last message.
var finales = []string{
	"closes", // with a close frame, as it should
	"ends",   // its own direction, without a close frame
	"resets", // both directions
	"stays",  // and sends nothing more
	"breaks", // the rules: what follows are not frames
	"swells", // a client sends a message that is longer than the route allows
}

// socketPath is the route for WebSockets.
const socketPath = "/ws/"

// addWebSockets draws whether there is a route for WebSockets, and its users.
func (s *Scenario) addWebSockets(r *rand.Rand, mood float64) {
	if r.IntN(4) > 0 {
		return
	}
	p := &WebSocketPlan{
		Tunnel: between(r, 100*time.Millisecond, 3*time.Second), Grace: between(r, 0, 2*time.Second),
	}
	if s.Quiet {
		p.Tunnel, p.Grace = time.Minute, 20*time.Second
	}
	if r.IntN(2) == 0 {
		p.Ping = time.Duration(20+r.IntN(600)) * time.Millisecond
		if s.Quiet {
			p.Ping = 5 * time.Second
		}
	}
	if !s.Quiet && r.IntN(4) == 0 {
		p.Lifetime = between(r, 50*time.Millisecond, 2*time.Second)
	}
	if r.IntN(3) == 0 {
		p.MaxMessage = 1 + r.IntN(5000)
	}
	if !s.Quiet && r.IntN(6) == 0 {
		p.Max = 1 + r.IntN(8)
	}
	s.WebSockets = p
	for i := range s.Services {
		if h := s.Services[i].HTTP2; h != nil {
			h.Eager = false // it speaks HTTP/1.1 too
		}
	}
	for range 1 + r.IntN(8) {
		c := drawClient(r, mood/2, 2*time.Second)
		if s.Gateway.HTTP2[c.Listener] && r.IntN(3) > 0 {
			s.drawHTTP2(r, &c, mood/2)
		}
		s.Clients = append(s.Clients, c)
	}
	for range r.IntN(3) {
		what := []string{"reload", "upgrade"}[r.IntN(2)]
		s.Acts = append(s.Acts, Act{between(r, 100*time.Millisecond, 4*time.Second), what, r.IntN(1000)})
	}
	share := 0.1 + 0.5*r.Float64()
	for i := range s.Clients {
		c := &s.Clients[i]
		c.Requests = slices.Clone(c.Requests)
		for j := range c.Requests {
			q := &c.Requests[j]
			plain := q.Method == "GET" && q.Cached == nil && q.Spoiled == 0
			plain = plain && !q.Old && !q.Upgrade && !q.Close
			if plain && r.Float64() < share {
				*q = RequestPlan{Method: "GET", Path: socketPath, Body: -1, Reset: q.Reset, Class: q.Class,
					WebSocket: p.socket(r, mood, s.Quiet)}
			}
		}
	}
	if !s.Quiet && r.IntN(3) == 0 {
		s.fallSilent(r)
	}
}

// socket draws what each side sends over a WebSocket.
func (p *WebSocketPlan) socket(r *rand.Rand, mood float64, quiet bool) *SocketPlan {
	return &SocketPlan{
		Client: p.talk(r, mood, quiet), Service: p.talk(r, mood, quiet), Early: r.IntN(3) == 0,
	}
}

// fallSilent makes clients send and receive little, like subscribers to rare events.
func (s *Scenario) fallSilent(r *rand.Rand) {
	s.WebSockets.Tunnel = between(r, 100*time.Millisecond, 700*time.Millisecond)
	s.requests(r, 0.5, func(q *RequestPlan) {
		if q.WebSocket == nil {
			return
		}
		for _, t := range []*TalkPlan{&q.WebSocket.Client, &q.WebSocket.Service} {
			t.Messages, t.Finale = r.IntN(3), "stays"
		}
	})
}

func (p *WebSocketPlan) talk(r *rand.Rand, mood float64, quiet bool) TalkPlan {
	t := TalkPlan{
		Messages: r.IntN(1 + r.IntN(20)), Longest: r.IntN(1 + r.IntN(1+r.IntN(80_000))),
		Pause: between(r, 0, 100*time.Millisecond), Finale: "closes",
	}
	if r.IntN(2) == 0 {
		t.Pause = time.Duration(r.IntN(int(time.Second)))
	}
	switch {
	case r.IntN(5) == 0:
		t.Finale = "ends"
	case !quiet && r.Float64() < mood+0.3:
		t.Finale = finales[r.IntN(len(finales))]
		t.Mute = r.IntN(4) == 0
		if r.IntN(4) == 0 {
			t.Pause = between(r, 0, 2*p.Tunnel)
		}
	}
	if p.MaxMessage > 0 {
		t.Longest = min(t.Longest, p.MaxMessage-1)
	}
	return t
}

// webSocketUpstream writes the upstream of the route for WebSockets.
func (s *Scenario) webSocketUpstream(b *strings.Builder, g GatewayPlan) {
	if s.WebSockets == nil {
		return
	}
	var list []string
	for _, p := range s.Services {
		list = append(list, fmt.Sprintf("%q", p.Address))
	}
	fmt.Fprintf(b, "  w:\n    targets: [%s]\n    health: {passive: {disabled: true}}\n    "+
		"retry: {attempts: %d}\n    pool: {max_connections: %d, max_pending: 100, "+
		"pending_timeout: %v, connect_timeout: %v, idle_timeout: 900ms, max_requests: %d}\n",
		strings.Join(list, ", "), g.Attempts, mostSockets, g.Pending, g.Connect, g.MaxRequests)
	if g.UpstreamTLS {
		b.WriteString("    tls: {insecure_skip_verify: true}\n")
	}
}

// mostSockets is the limit of the WebSocket upstream's connections to a target.
const mostSockets = 1000

// webSocketRoute writes the route for WebSockets. Some reloads remove it, which closes them.
func (s *Scenario) webSocketRoute(times string, removed bool) string {
	p := s.WebSockets
	if p == nil || removed {
		return ""
	}
	times = strings.Replace(times, fmt.Sprintf("tunnel_timeout: %v", s.Gateway.Tunnel),
		fmt.Sprintf("tunnel_timeout: %v", p.Tunnel), 1)
	return fmt.Sprintf("  - {match: \"%s{token}\", upstream: w, %s, websocket: {close_grace: %v, "+
		"ping_interval: %v, lifetime: %v, max_message: %dB, max: %d}}\n", socketPath, times, p.Grace,
		p.Ping, p.Lifetime, p.MaxMessage, p.Max)
}

// rest is how long the connection of a client with a WebSocket may stand still. A client that does
// not read does not see what its service still sends.
func (q *request) rest(c *client, g GatewayPlan) time.Duration {
	p := c.w.scenario.WebSockets
	longest := p.Tunnel + p.Grace + 3*g.Send + q.WebSocket.Client.Pause
	if c.stuck {
		service := q.WebSocket.Service
		longest += time.Duration(service.Messages+1) * service.Pause
	}
	return longest
}

// beginTalk is called with a service's 101, in HTTP/1.1.
func (c *client) beginTalk(q *request, h *messageHead) {
	if q.WebSocket == nil {
		return
	}
	t := q.talk
	t.peer = q.talkers[h.number("x-try")]
	t.send = func(p []byte) {
		c.out = append(c.out, p...)
		if waits := c.sent < c.given; !waits {
			c.w.kernel.After(0, c.send)
		}
		c.given = len(c.out)
	}
	t.finish = func() { c.w.kernel.After(0, c.send) }
	t.abort = func() { c.finish("resets its WebSocket", c.Reset) }
	c.talk = t
}

// endTalk ends the client's direction of the WebSocket.
func (c *client) endTalk() {
	c.w.trace("%s ends its direction of the WebSocket", c.name)
	c.CloseWrite()
}

// prepareTalk is called when a stream that asks for a WebSocket begins.
func (h *http2Conn) prepareTalk(st *http2Stream) {
	c := h.c
	if !h.connects {
		c.w.violate("%s is not offered extended CONNECT", c.name)
	}
	t := st.q.talk
	t.http2 = true
	t.send = func([]byte) { h.compose() }
	t.finish = func() { h.compose() }
	t.abort = func() { h.resetStream(st) }
	st.talk = t
	if st.q.WebSocket.Early {
		c.w.kernel.After(0, t.start)
	}
}

// beginTalk is called with the head of the answer to such a stream.
func (h *http2Conn) beginTalk(st *http2Stream, m *messageHead) {
	t := st.talk
	if st.own || st.status != 200 {
		t.gone = true
		return
	}
	st.q.answered, st.q.status = true, 101 // the status in the access log
	try := m.number("x-try")
	if try < 0 {
		h.c.w.violate("%s is answered 200 and has no WebSocket", st.q.token)
		return
	}
	t.peer = st.q.talkers[try]
	if !st.q.WebSocket.Early {
		h.c.w.kernel.After(0, t.start)
	}
}

// tookTalkEnd handles the end of the service's direction.
func (h *http2Conn) tookTalkEnd(st *http2Stream) error {
	if err := st.hearEnd(false); err != nil {
		return err
	}
	if st.whole {
		h.close(st)
	}
	return nil
}

// hears reports whether received data belongs to a WebSocket.
func (st *http2Stream) hears() bool { return st.talk != nil && st.talk.peer != nil }

func (st *http2Stream) hearEnd(reset bool) error {
	if !st.hears() {
		return nil
	}
	return st.talk.hearEnd(reset)
}

// left is the number of bytes of the request that are not in frames yet.
func (st *http2Stream) left() int {
	if st.talk != nil {
		return len(st.talk.said) - st.at
	}
	return max(0, st.q.Body) - st.at
}

// content returns the next n bytes of the request.
func (st *http2Stream) content(n int) []byte {
	if st.talk != nil {
		return slices.Clone(st.talk.said[st.at : st.at+n])
	}
	return noiseOf(st.q.token+"up").bytes(st.at, n)
}

// beginTalk begins the service's side of a WebSocket.
func (c *serviceConn) beginTalk(wait time.Duration) {
	q := c.asks()
	t := &talker{
		w: c.s.w, name: fmt.Sprintf("%s (%s)", c.name, q.token), plan: q.WebSocket.Service, rng: c.rng,
		peer:    q.talk,
		alive:   func() bool { return !c.over },
		send:    func(p []byte) { c.Write(p) },
		abort:   c.reset,
		unreset: strings.HasPrefix(c.s.plan.Address, "unix:"),
	}
	t.finish = func() {
		c.CloseWrite()
		if t.peerEnded {
			c.close()
		}
	}
	answer := fmt.Sprintf("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n"+
		"Upgrade: websocket\r\nX-Token: %s\r\nX-Try: %d\r\n\r\n", c.token, len(q.talkers))
	q.talkers = append(q.talkers, t)
	c.say(part{wait, []byte(answer), func() {
		c.tunnel, c.talk = true, t
		t.start()
	}})
}

// heardEnd handles the end of the client's direction.
func (c *serviceConn) heardEnd(reset bool) {
	t := c.talk
	if err := t.hearEnd(reset); err != nil {
		c.s.w.violate("%v", err)
	}
	if reset || t.ended || t.gone {
		t.gone = true
		c.close()
	}
}
